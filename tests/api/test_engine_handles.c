/* labels: unit threads parallel resume */
/* The optimizer and the scheduler that an engine hands out: what they say, what setting them does to the updates, on
 * any layout of ranks, and what of it a checkpoint keeps. */
#include <math.h>

#include "client_runs.h"

/* ---- a run in which a client has its hands on both ---- */

typedef struct handled handled;
typedef void hand_fn(tx_engine *e, const handled *r);

struct handled {
    int n, pp;
    const char *flags, *load, *save;
    tx_engine_args client;
    hand_fn *before_each, *at_first, *at_last;
    int until;
    double loss[STEPS], norm[STEPS], lr[STEPS];
};

static tx_status handle_rank(tx_world *world, void *user)
{
    handled *r = user;
    tx_config *cfg = NULL;
    char flags[4096];
    reader data = { .e = NULL };
    tx_status st;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags,
             "--micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --threads 1 --seed 3 --world-size %d "
             "--pipeline-model-parallel-size %d %s",
             r->n, r->pp ? r->pp : 1, r->flags ? r->flags : "");
    TX_GOTO(tx_config_parse_string(&cfg, "engine", flags));
    tx_engine_args args = r->client;
    args.size = sizeof args;
    args.config = cfg;
    args.model = &model;
    args.world = world;
    TX_GOTO(tx_engine_initialize(&data.e, &args));
    if (r->load) TX_GOTO(tx_engine_load_checkpoint(data.e, r->load, NULL, NULL, NULL));
    if (r->at_first) r->at_first(data.e, r);
    while (tx_engine_iteration(data.e) < (r->until ? r->until : STEPS)) {
        int64_t i = tx_engine_iteration(data.e);
        if (r->before_each) r->before_each(data.e, r);
        double lr = tx_engine_lr(data.e);
        TX_GOTO(iteration(data.e, &data, false));
        if (tx_engine_global_rank(data.e)) continue;
        r->lr[i] = lr;
        r->loss[i] = tx_engine_loss(data.e);
        r->norm[i] = tx_engine_grad_norm(data.e);
    }
    if (r->at_last) r->at_last(data.e, r);
    st = r->save ? tx_engine_save_checkpoint(data.e, r->save, NULL, NULL) : TX_OK;
out:
    tx_engine_destroy(data.e);
    tx_config_free(cfg);
    return st;
}

static handled handle(handled r)
{
    if (tx_world_threads(r.n, handle_rank, &r)) fail_msg("%s: %s", r.flags ? r.flags : "", tx_last_error());
    return r;
}

static void assert_same_losses(const handled *a, const handled *b, int from)
{
    for (int i = from; i < STEPS; i++) {
        assert_true(a->loss[i] == b->loss[i]);
        assert_true(a->norm[i] == b->norm[i]);
    }
}

/* ---- the optimizer ---- */

static const tx_param_group factors[] = { { "*.bias", 0.5, 0 }, { "mlp.*", 2, 3 } };
static const tx_param_group plain[] = { { "*.bias", 1, 1 }, { "mlp.*", 1, 1 } };

static void groups_say_what_they_have(tx_engine *e, const handled *r)
{
    (void)r;
    tx_optimizer *o = tx_engine_optimizer(e);
    tx_optimizer_group g;
    static const double scale[3] = { 0.5, 2, 1 }, decay[3] = { 0, 3, 1 };
    assert_string_equal(tx_optimizer_name(o), "adam");
    assert_int_equal(tx_optimizer_n_groups(o), 3);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(tx_optimizer_group_at(o, i, &g));
        if (i < 2)
            assert_string_equal(g.pattern, factors[i].pattern);
        else
            assert_null(g.pattern);
        assert_true(g.lr == 1e-2 * scale[i] && g.weight_decay == 0.1 * decay[i]);
        assert_true(g.betas[0] == 0.8 && g.betas[1] == 0.99 && g.eps == 1e-8 && g.momentum == 0.9);
    }
    ASSERT_FAILS(tx_optimizer_group_at(o, 3, &g), TX_ERR_ARG, "there is no parameter group 3 of 3");
    ASSERT_FAILS(tx_optimizer_set_lr(o, -1, 1), TX_ERR_ARG, "there is no parameter group -1 of 3");
    ASSERT_FAILS(tx_optimizer_set_lr(o, 0, NAN), TX_ERR_ARG, "nan is no learning rate");
    ASSERT_FAILS(tx_optimizer_set_weight_decay(o, 0, -1), TX_ERR_ARG, "-1 is no weight decay");
    ASSERT_FAILS(tx_optimizer_set_betas(o, 0.9, 1), TX_ERR_ARG, "betas are at least 0 and less than 1, not 0.9 and 1");
    ASSERT_FAILS(tx_optimizer_set_momentum(o, 1.5), TX_ERR_ARG, "momentum is at least 0 and less than 1, not 1.5");
    ASSERT_FAILS(tx_optimizer_load_state(o, "[]"), TX_ERR_FORMAT, "is no JSON object");
    ASSERT_FAILS(tx_optimizer_load_state(o, "{\"betas\": [0.9, 0.9]}"), TX_ERR_FORMAT, "not of this run's 3 parameter");
    ASSERT_OK(tx_optimizer_group_at(o, 0, &g));
    assert_true(g.lr == 5e-3 && g.betas[0] == 0.8);
}

static void a_group_is_asked(void **state)
{
    (void)state;
    handle((handled){ .n = 1,
                      .flags = "--adam-beta1 0.8 --adam-beta2 0.99 --weight-decay 0.1",
                      .client = { .group = factors, .n_groups = 2 },
                      .at_first = groups_say_what_they_have });
}

static void lion_has_its_own_numbers(tx_engine *e, const handled *r)
{
    (void)r;
    tx_optimizer_group g;
    assert_string_equal(tx_optimizer_name(tx_engine_optimizer(e)), "lion");
    ASSERT_OK(tx_optimizer_group_at(tx_engine_optimizer(e), 0, &g));
    assert_true(g.betas[0] == 0.95 && g.betas[1] == 0.5 && g.eps == 0);
}

static void adagrad_has_its_own_numbers(tx_engine *e, const handled *r)
{
    (void)r;
    tx_optimizer_group g;
    assert_string_equal(tx_optimizer_name(tx_engine_optimizer(e)), "adagrad");
    ASSERT_OK(tx_optimizer_group_at(tx_engine_optimizer(e), 0, &g));
    assert_true(g.betas[0] == 0 && g.betas[1] == 0 && g.eps == 1e-4);
}

/* Betas of Lion that are set, are those of its updates. */
static void set_lions_betas(tx_engine *e, const handled *r)
{
    (void)r;
    ASSERT_OK(tx_optimizer_set_betas(tx_engine_optimizer(e), 0.8, 0.7));
}

static void other_optimizers_are_asked(void **state)
{
    (void)state;
    handle((handled){ .n = 1, .flags = "--optimizer lion --lion-beta2 0.5", .at_first = lion_has_its_own_numbers });
    handle((handled){
        .n = 1, .flags = "--optimizer adagrad --adagrad-eps 1e-4", .at_first = adagrad_has_its_own_numbers });
    handled options = handle((handled){ .n = 1, .flags = "--optimizer lion --lion-beta1 0.8 --lion-beta2 0.7" });
    handled set = handle((handled){ .n = 1, .flags = "--optimizer lion", .at_first = set_lions_betas });
    assert_same_losses(&options, &set, 0);
    handled left = handle((handled){ .n = 1, .flags = "--optimizer lion" });
    assert_true(left.loss[STEPS - 1] != set.loss[STEPS - 1]);
}

/* What the factors say, set by hand; and betas that are other options'. */
static void set_as_factors(tx_engine *e, const handled *r)
{
    (void)r;
    tx_optimizer *o = tx_engine_optimizer(e);
    double lr = tx_lr_scheduler_lr(tx_engine_lr_scheduler(e));
    ASSERT_OK(tx_optimizer_set_lr(o, 0, 0.5 * lr));
    ASSERT_OK(tx_optimizer_set_lr(o, 1, 2 * lr));
}

static void set_for_good(tx_engine *e, const handled *r)
{
    (void)r;
    tx_optimizer *o = tx_engine_optimizer(e);
    ASSERT_OK(tx_optimizer_set_weight_decay(o, 0, 0));
    ASSERT_OK(tx_optimizer_set_weight_decay(o, 1, 3 * 0.1));
    ASSERT_OK(tx_optimizer_set_betas(o, 0.8, 0.99));
    ASSERT_OK(tx_optimizer_set_momentum(o, 0.5));
}

static void what_is_set_is_in_the_updates(void **state)
{
    (void)state;
    static const struct {
        int n, pp;
        const char *more;
    } layout[] = { { 1, 1, "" },       { 2, 1, "--zero-stage 1" }, { 2, 1, "--zero-stage 2 --offload-optimizer cpu" },
                   { 2, 1, GATHERED }, { 2, 2, "--bf16" },         { 1, 1, "--optimizer sgd" } };
    const tx_engine_args with = { .group = factors, .n_groups = 2 }, without = { .group = plain, .n_groups = 2 };
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        char options[512], set[256];
        snprintf(set, sizeof set, "--weight-decay 0.1 --lr-decay-style cosine --train-iters 8 %s", layout[i].more);
        snprintf(options, sizeof options, "%s --adam-beta1 0.8 --adam-beta2 0.99 --sgd-momentum 0.5", set);
        handled by_options =
            handle((handled){ .n = layout[i].n, .pp = layout[i].pp, .flags = options, .client = with });
        handled by_hand = handle((handled){ .n = layout[i].n,
                                            .pp = layout[i].pp,
                                            .flags = set,
                                            .client = without,
                                            .at_first = set_for_good,
                                            .before_each = set_as_factors });
        assert_same_losses(&by_options, &by_hand, 0);
        handled neither = handle((handled){ .n = layout[i].n, .pp = layout[i].pp, .flags = set, .client = without });
        assert_true(neither.loss[STEPS - 1] != by_hand.loss[STEPS - 1]);
    }
}

/* Saved with the checkpoint: who loads it need not set anything again. */
static void checkpoints_keep_what_is_set(void **state)
{
    (void)state;
    const tx_engine_args client = { .group = plain, .n_groups = 2 };
    static const char *const layout[] = { "", GATHERED };
    for (int i = 0; i < 2; i++) {
        const char *dir = in_scratch("set%d", i);
        handled whole = handle((handled){ .n = 2, .flags = layout[i], .client = client, .at_first = set_for_good });
        handle((handled){
            .n = 2, .flags = layout[i], .client = client, .at_first = set_for_good, .until = 3, .save = dir });
        handled rest = handle((handled){ .n = 2, .flags = layout[i], .client = client, .load = dir });
        assert_same_losses(&rest, &whole, 3);
        handled other = { .n = 2, .flags = layout[i], .load = dir };
        ASSERT_FAILS(tx_world_threads(2, handle_rank, &other), TX_ERR_FORMAT, "not of this run's 1 parameter groups");
    }
}

static void states_go_round(tx_engine *e, const handled *r)
{
    tx_optimizer *o = tx_engine_optimizer(e);
    tx_optimizer_group before[3], after;
    char *state;
    set_for_good(e, r);
    ASSERT_OK(tx_optimizer_set_lr(o, 2, 0.125));
    ASSERT_OK(tx_optimizer_state(o, &state));
    for (int i = 0; i < 3; i++) ASSERT_OK(tx_optimizer_group_at(o, i, &before[i]));
    ASSERT_OK(tx_optimizer_set_betas(o, 0.1, 0.2));
    ASSERT_OK(tx_optimizer_set_momentum(o, 0));
    for (int i = 0; i < 3; i++) ASSERT_OK(tx_optimizer_set_lr(o, i, 1));
    for (int i = 0; i < 3; i++) ASSERT_OK(tx_optimizer_set_weight_decay(o, i, 1));
    ASSERT_OK(tx_optimizer_load_state(o, state));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(tx_optimizer_group_at(o, i, &after));
        assert_memory_equal(&before[i], &after, sizeof after);
    }
    assert_true(after.lr == 0.125);
    tx_text_free(state);
}

static void a_state_is_given_and_taken(void **state)
{
    (void)state;
    handle((handled){ .n = 1, .client = { .group = plain, .n_groups = 2 }, .at_first = states_go_round });
}

/* ---- the scheduler ---- */

static double falling(void *user, int64_t n)
{
    (void)user;
    return 1 / (double)(1 + n);
}

typedef struct expected {
    const char *name, *state;
    int64_t first, each;
    double lr_after_3;
} expected;

static void scheduler_steps(tx_engine *e, const handled *r)
{
    tx_lr_scheduler *s = tx_engine_lr_scheduler(e);
    const expected *want = r->client.lr_user;
    char *state;
    assert_string_equal(tx_lr_scheduler_name(s), want->name);
    assert_int_equal(tx_lr_scheduler_last_step(s), want->first + STEPS * want->each);
    assert_int_equal(tx_optimizer_steps(tx_engine_optimizer(e)), STEPS);
    ASSERT_FAILS(tx_lr_scheduler_load_state(s, "{}"), TX_ERR_FORMAT, "the ");
    ASSERT_FAILS(tx_lr_scheduler_load_state(s, "3"), TX_ERR_FORMAT, "no JSON object");
    ASSERT_FAILS(tx_lr_scheduler_step(s, 0), TX_ERR_ARG, "a scheduler steps by 1 or more, not 0");
    ASSERT_OK(tx_lr_scheduler_state(s, &state));
    assert_string_equal(state, want->state);
    double lr = tx_lr_scheduler_lr(s);
    assert_true(lr == tx_engine_lr(e));
    ASSERT_OK(tx_lr_scheduler_step(s, 3 * want->each));
    assert_int_equal(tx_lr_scheduler_last_step(s), want->first + (STEPS + 3) * want->each);
    ASSERT_NEAR(tx_engine_lr(e), want->lr_after_3, 1e-12, want->name);
    ASSERT_OK(tx_lr_scheduler_load_state(s, state));
    assert_true(tx_engine_lr(e) == lr);
    tx_text_free(state);
}

static void schedulers_step_and_go_back(void **state)
{
    (void)state;
    const expected warmup = { "WarmupLR", "{\"last_batch_iteration\":5}", -1, 1, 1e-2 * log(9) / log(20) };
    const expected own = { "client", "{\"last_batch_iteration\":5}", -1, 1, 1 / 10.0 };
    const expected megatron = { "OptimizerParamScheduler", "{\"num_steps\":48,\"num_tokens\":40,\"warmup_tokens\":0}",
                                0, 8, 1e-2 * (1 - 9 / 12.0) };
    handle((handled){ .n = 1,
                      .flags = "--lr-schedule WarmupLR --warmup-num-steps 20",
                      .at_last = scheduler_steps,
                      .client = { .lr_user = (void *)&warmup } });
    handle((handled){ .n = 1, .at_last = scheduler_steps, .client = { .lr = falling, .lr_user = (void *)&own } });
    handle((handled){ .n = 1,
                      .flags = "--lr-decay-style linear --train-iters 12",
                      .at_last = scheduler_steps,
                      .client = { .lr_user = (void *)&megatron } });
}

static void step_by_two(tx_engine *e, const handled *r)
{
    (void)r;
    ASSERT_OK(tx_lr_scheduler_step(tx_engine_lr_scheduler(e), 1));
}

/* A client that moves it besides, saved and taken up. */
static void a_checkpoint_keeps_steps_by_hand(void **state)
{
    (void)state;
    static const char *const kind[] = { "--lr-schedule LRRangeTest --lr-range-test-step-size 3",
                                        "--lr-decay-style linear --train-iters 12 --use-checkpoint-lr-scheduler", "" };
    for (int i = 0; i < 3; i++) {
        const tx_engine_args client = { .lr = i == 2 ? falling : NULL };
        const char *dir = in_scratch("steps%d", i);
        handled r = { .n = 2, .flags = kind[i], .client = client, .before_each = step_by_two };
        handled whole = handle(r);
        r.until = 3;
        r.save = dir;
        handle(r);
        r.until = 0;
        r.save = NULL;
        r.load = dir;
        handled rest = handle(r);
        assert_same_losses(&rest, &whole, 3);
        for (int k = 3; k < STEPS; k++) assert_true(rest.lr[k] == whole.lr[k]);
    }
}

/* ---- numbers ---- */

static void numbers(tx_engine *e, const handled *r)
{
    int dp = r->n / r->pp;
    assert_int_equal(tx_engine_gradient_accumulation_steps(e), 4 / dp);
    assert_int_equal(tx_engine_global_samples(e), 8 * STEPS);
    assert_int_equal(tx_engine_tensor_parallel_rank(e), 0);
    assert_int_equal(tx_engine_tensor_parallel_size(e), 1);
    assert_int_equal(tx_engine_pipeline_parallel_size(e), r->pp);
    assert_int_equal(tx_engine_pipeline_parallel_rank(e), tx_engine_global_rank(e) / dp);
    assert_true(tx_engine_was_step_applied(e));
}

static void an_engine_says_where_it_is(void **state)
{
    (void)state;
    handle((handled){ .n = 1, .pp = 1, .at_last = numbers });
    handle((handled){ .n = 4, .pp = 2, .at_last = numbers });
}

/* A scale that is too high at first: the update is not applied. */
static void a_skipped_step_was_not_applied(void **state)
{
    (void)state;
    tx_config *cfg;
    reader r = { .e = NULL };
    int applied = 0;
    ASSERT_OK(tx_config_parse_string(&cfg, "engine",
                                     "--micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --fp16 "
                                     "--initial-loss-scale 4194304 --hysteresis 1 --world-size 1"));
    ASSERT_OK(tx_engine_initialize(
        &r.e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &model }));
    assert_false(tx_engine_was_step_applied(r.e));
    for (int i = 0; i < STEPS; i++) {
        double loss;
        const void *batch;
        int64_t skipped = tx_engine_skipped_steps(r.e);
        r.first = 4 * i;
        for (int k = 0; k < 4; k++) {
            ASSERT_OK(read_batch(&r, k, &batch));
            ASSERT_OK(tx_engine_forward(r.e, batch, &loss));
            ASSERT_FAILS(tx_engine_zero_grad(r.e), TX_ERR_STATE, "not between forward and step");
            ASSERT_OK(tx_engine_backward(r.e));
            assert_false(tx_engine_was_step_applied(r.e));
            ASSERT_OK(tx_engine_step(r.e));
            assert_true(tx_engine_was_step_applied(r.e) == (k == 3 && tx_engine_skipped_steps(r.e) == skipped));
        }
        applied += tx_engine_was_step_applied(r.e);
        assert_int_equal(tx_optimizer_steps(tx_engine_optimizer(r.e)), applied);
    }
    assert_in_range(applied, 1, STEPS - 1);
    tx_engine_destroy(r.e);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_group_is_asked),
        SCRATCH_TEST(other_optimizers_are_asked),
        SCRATCH_TEST(what_is_set_is_in_the_updates),
        SCRATCH_TEST(checkpoints_keep_what_is_set),
        SCRATCH_TEST(a_state_is_given_and_taken),
        SCRATCH_TEST(schedulers_step_and_go_back),
        SCRATCH_TEST(a_checkpoint_keeps_steps_by_hand),
        SCRATCH_TEST(an_engine_says_where_it_is),
        SCRATCH_TEST(a_skipped_step_was_not_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
