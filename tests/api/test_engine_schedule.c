/* labels: unit threads parallel resume */
/* The JSON's scheduler in a client's own loop: it gives each update its learning rate and momentum, on any layout of
 * ranks; an update that is skipped does not move it; checkpoints keep where it stands. */
#include <math.h>

#include "client_runs.h"

static const char warmup[] = "{\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 6, \"warmup_num_steps\": "
                             "3, \"warmup_max_lr\": 0.02, \"warmup_type\": \"linear\"}}";
/* DeepSpeed's formula written down once more: what each update has. */
static const double warmup_lr[STEPS] = { 0, 0, 0.02 / 3, 2 * 0.02 / 3, 0.02, 2 * 0.02 / 3 };

/* Flags with a file that has this scheduler. */
static const char *flags_of(const char *scheduler, const char *more)
{
    static char flags[4][2048];
    static int next;
    char json[1024];
    char *out = flags[next = (next + 1) % 4];
    snprintf(json, sizeof json, "{\"scheduler\": %s}", scheduler);
    write_text(in_scratch("ds%d.json", next), json);
    snprintf(out, sizeof *flags, "--deepspeed_config %s %s", in_scratch("ds%d.json", next), more);
    return out;
}

/* The rates that the job's updates have, in the place of its norms. */
typedef struct rates {
    job j;
    tx_engine_args client;
    double lr[STEPS], beta1[STEPS];
    int64_t skipped;
} rates;

static tx_status rates_of_rank(tx_world *world, void *user)
{
    rates *r = user;
    tx_config *cfg = NULL;
    char flags[4096];
    reader data = { .e = NULL };
    tx_status st;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags, FLAGS "--world-size %d --pipeline-model-parallel-size %d %s", r->j.n, r->j.pp,
             r->j.flags);
    TX_GOTO(tx_config_parse_string(&cfg, "engine", flags));
    tx_engine_args args = r->client;
    args.size = sizeof args;
    args.config = cfg;
    args.model = &model;
    args.world = world;
    TX_GOTO(tx_engine_initialize(&data.e, &args));
    if (r->j.load) TX_GOTO(tx_engine_load_checkpoint(data.e, r->j.load, NULL, NULL, NULL));
    while (tx_engine_iteration(data.e) < r->j.until) {
        int64_t i = tx_engine_iteration(data.e);
        double lr = tx_engine_lr(data.e);
        TX_GOTO(iteration(data.e, &data, false));
        if (tx_engine_global_rank(data.e)) continue;
        r->lr[i] = lr;
        r->j.loss[i] = tx_engine_loss(data.e);
        r->j.norm[i] = tx_engine_grad_norm(data.e);
        r->skipped = tx_engine_skipped_steps(data.e);
    }
    st = r->j.save ? tx_engine_save_checkpoint(data.e, r->j.save, NULL, NULL) : TX_OK;
out:
    tx_engine_destroy(data.e);
    tx_config_free(cfg);
    return st;
}

static tx_status try_rates(rates *r)
{
    if (!r->j.until) r->j.until = STEPS;
    if (!r->j.pp) r->j.pp = 1;
    return tx_world_threads(r->j.n, rates_of_rank, r);
}

static rates run_rates(rates r)
{
    if (try_rates(&r)) fail_msg("%s: %s", r.j.flags, tx_last_error());
    return r;
}

static void each_update_has_its_rate(void **state)
{
    (void)state;
    static const struct {
        int n, pp;
        const char *more;
    } layout[] = { { 1, 1, "" }, { 2, 1, "--zero-stage 1" }, { 2, 1, "--zero-stage 2" }, { 2, 1, GATHERED },
                   { 2, 2, "" }, { 4, 2, "--zero-stage 1" } };
    rates one = { .lr = { 0 } };
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        rates r = run_rates(
            (rates){ .j = { .n = layout[i].n, .pp = layout[i].pp, .flags = flags_of(warmup, layout[i].more) } });
        for (int k = 0; k < STEPS; k++) ASSERT_NEAR(r.lr[k], warmup_lr[k], 1e-15, layout[i].more);
        if (!i) one = r;
        for (int k = 0; k < STEPS; k++) ASSERT_NEAR(r.j.loss[k], one.j.loss[k], 1e-5, layout[i].more);
    }
    /* the rates count: with 0 the weights of the first two updates stay, so a run by the flags goes another way */
    rates flags = run_rates((rates){ .j = { .n = 1, .flags = "" } });
    assert_true(flags.j.loss[3] != one.j.loss[3]);
}

/* Each kind, saved in its middle and taken up by other ranks of the same number: the same bits. */
static void a_run_that_goes_on_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        warmup,
        "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 4}}",
        "{\"type\": \"WarmupCosineLR\", \"params\": {\"warmup_num_steps\": 2, \"total_num_steps\": 5}}",
        "{\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_step_size\": 2}}",
        "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-3, \"cycle_max_lr\": 1e-2, "
        "\"cycle_first_step_size\": 2, \"decay_step_size\": 1, \"decay_lr_rate\": 1, \"decay_mom_rate\": 0.01}}",
    };
    static const char *const layout[] = { "", "--zero-stage 2", GATHERED };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *flags = flags_of(kinds[i], layout[i % 3]), *dir = in_scratch("%zu", i);
        rates whole = run_rates((rates){ .j = { .n = 2, .flags = flags } });
        run_rates((rates){ .j = { .n = 2, .flags = flags, .until = 3, .save = dir } });
        rates rest = run_rates((rates){ .j = { .n = 2, .flags = flags, .load = dir } });
        for (int k = 3; k < STEPS; k++) {
            assert_true(rest.lr[k] == whole.lr[k]);
            assert_true(rest.j.loss[k] == whole.j.loss[k]);
            assert_true(rest.j.norm[k] == whole.j.norm[k]);
        }
    }
}

/* OneCycle's momentum is in the update: without it the losses are others, with SGD there is none. */
static void momentum_goes_with_the_cycle(void **state)
{
    (void)state;
#define CYCLE                                                                                \
    "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-3, \"cycle_max_lr\": 1e-2, " \
    "\"cycle_first_step_size\": 2"
    const char *on = flags_of(CYCLE "}}", ""), *off = flags_of(CYCLE ", \"cycle_momentum\": false}}", "");
    rates with = run_rates((rates){ .j = { .n = 1, .flags = on } });
    rates without = run_rates((rates){ .j = { .n = 1, .flags = off } });
    for (int k = 0; k < STEPS; k++) assert_true(with.lr[k] == without.lr[k]);
    assert_true(with.j.loss[STEPS - 1] != without.j.loss[STEPS - 1]);
    on = flags_of(CYCLE "}}", "--optimizer sgd");
    off = flags_of(CYCLE ", \"cycle_momentum\": false}}", "--optimizer sgd");
    with = run_rates((rates){ .j = { .n = 1, .flags = on } });
    without = run_rates((rates){ .j = { .n = 1, .flags = off } });
    for (int k = 0; k < STEPS; k++) assert_true(with.j.loss[k] == without.j.loss[k]);
    rates wild = { .j = { .n = 1, .flags = flags_of(CYCLE ", \"decay_step_size\": 1, \"decay_mom_rate\": 1}}", "") } };
    assert_int_equal(try_rates(&wild), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "the schedule's momentum is 1.8");
}

/* fp16: the scale is too high at first. */
static void a_skipped_update_does_not_move_it(void **state)
{
    (void)state;
    const char *flags = flags_of(warmup, "--fp16 --initial-loss-scale 1048576 --hysteresis 1 --zero-stage 1");
    rates r = run_rates((rates){ .j = { .n = 2, .flags = flags } });
    assert_in_range(r.skipped, 1, STEPS - 2);
    for (int64_t k = 0; k < r.skipped; k++) assert_true(r.lr[k] == 0);
    for (int64_t k = r.skipped; k < STEPS; k++) ASSERT_NEAR(r.lr[k], warmup_lr[k - r.skipped], 1e-15, "behind skips");
}

static double by_the_client(void *user, int64_t n)
{
    (void)user;
    return 1e-3 * (double)(n + 1);
}

/* As with DeepSpeed a scheduler that the client brings comes before the file's. */
static void the_clients_comes_first(void **state)
{
    (void)state;
    const tx_engine_args client = { .lr = by_the_client };
    rates r = run_rates((rates){ .j = { .n = 1, .flags = flags_of(warmup, "") }, .client = client });
    for (int k = 0; k < STEPS; k++) assert_true(r.lr[k] == 1e-3 * (k + 1));
}

static void another_schedule_is_not_taken_up_silently(void **state)
{
    (void)state;
    const char *dir = in_scratch("run");
    run_rates((rates){ .j = { .n = 1, .flags = flags_of(warmup, ""), .until = 3, .save = dir } });
    rates other = { .j = { .n = 1, .flags = flags_of("{\"type\": \"WarmupLR\"}", ""), .load = dir } };
    assert_int_equal(try_rates(&other), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(),
                    "the scheduler: the run's is WarmupLR, the checkpoint's WarmupDecayLR; give --over");
    other = (rates){ .j = { .n = 1, .flags = "", .load = dir } };
    assert_int_equal(try_rates(&other), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "the run's is none of DeepSpeed's");
    rates theirs =
        run_rates((rates){ .j = { .n = 1,
                                  .flags = flags_of("{\"type\": \"WarmupLR\"}", "--use-checkpoint-opt_param-scheduler"),
                                  .load = dir } });
    for (int k = 3; k < STEPS; k++) ASSERT_NEAR(theirs.lr[k], warmup_lr[k], 1e-15, "the checkpoint's");
    rates own = run_rates((rates){ .j = { .n = 1,
                                          .flags = flags_of("{\"type\": \"LRRangeTest\", \"params\": "
                                                            "{\"lr_range_test_step_size\": 1}}",
                                                            "--override-opt_param-scheduler"),
                                          .load = dir } });
    for (int k = 3; k < STEPS; k++) ASSERT_NEAR(own.lr[k], 1e-3 * (1 + k), 1e-15, "the run's");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(each_update_has_its_rate),     SCRATCH_TEST(a_run_that_goes_on_has_the_same_bits),
        SCRATCH_TEST(momentum_goes_with_the_cycle), SCRATCH_TEST(a_skipped_update_does_not_move_it),
        SCRATCH_TEST(the_clients_comes_first),      SCRATCH_TEST(another_schedule_is_not_taken_up_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
