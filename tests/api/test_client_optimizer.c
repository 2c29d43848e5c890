/* labels: unit threads parallel resume */
/* A client's optimizer, schedule and parameter groups: the same arithmetic as the options' gives the same bits, on one
 * rank and on several, resumed and offloaded; groups change what they name and nothing else. */
#include <math.h>
#include <omp.h>

#include "engine_test.h"

/* ---- optimizers with the arithmetic of the options' ---- */

static tx_status sgd_step(void *user, const tx_optimizer_update *u)
{
    (void)user;
    float scale = (float)u->grad_scale, rate = (float)u->lr, decay = (float)u->weight_decay;
    float *m = u->state[0];
    for (int64_t i = 0; i < u->numel; i++) {
        m[i] = 0.9f * m[i] + (u->grad[i] * scale + decay * u->value[i]);
        u->value[i] -= rate * m[i];
    }
    return TX_OK;
}

static tx_status adam_step(void *user, const tx_optimizer_update *u)
{
    (void)user;
    double correct1 = 1 - pow(0.9, (double)u->step), correct2 = 1 - pow(0.999, (double)u->step);
    float *m = u->state[0], *v = u->state[1];
    for (int64_t i = 0; i < u->numel; i++) {
        double g = u->grad[i] * u->grad_scale;
        m[i] = (float)(0.9 * m[i] + (1 - 0.9) * g);
        v[i] = (float)(0.999 * v[i] + (1 - 0.999) * g * g);
        double by = m[i] / correct1 / (sqrt(v[i] / correct2) + 1e-8);
        u->value[i] = (float)(u->value[i] - u->lr * (by + u->weight_decay * u->value[i]));
    }
    return TX_OK;
}

/* Without state. */
static tx_status plain_step(void *user, const tx_optimizer_update *u)
{
    (void)user;
    for (int64_t i = 0; i < u->numel; i++) u->value[i] -= (float)(u->lr * u->grad_scale * u->grad[i]);
    return TX_OK;
}

#define OPTIMIZER .size = sizeof(tx_client_optimizer)
static const tx_client_optimizer own_sgd = { OPTIMIZER, .name = "own sgd", .n_state = 1, .state_name = { "speed" },
                                             .step = sgd_step };
static const tx_client_optimizer own_adam = { OPTIMIZER, .name = "own adam", .n_state = 2,
                                              .state_name = { "mean", "square" }, .step = adam_step };
static const tx_client_optimizer own_plain = { OPTIMIZER, .name = "plain", .step = plain_step };

/* ---- a run ---- */

enum { STEPS = 6 };

typedef struct job {
    int n;
    const char *flags, *load, *save;
    tx_engine_args args; /* what the client brings */
    int until;
    double loss[STEPS], lr[STEPS];
} job;

static tx_status train_rank(tx_engine *e, job *j)
{
    int32_t rows[B * (S + 1)];
    while (tx_engine_iteration(e) < j->until) {
        int64_t i = tx_engine_iteration(e), data = tx_engine_data_parallel_size(e);
        double lr = tx_engine_lr(e), loss;
        for (int64_t k = 0; k < 4 / data; k++) {
            batch(rows, 4 * i + k * data + tx_engine_data_parallel_rank(e));
            TX_TRY(tx_engine_forward(e, rows, &loss));
            TX_TRY(tx_engine_backward(e));
            TX_TRY(tx_engine_step(e));
        }
        if (!tx_engine_global_rank(e)) j->loss[i] = tx_engine_loss(e), j->lr[i] = lr;
    }
    return j->save ? tx_engine_save_checkpoint(e, j->save, NULL, NULL) : TX_OK;
}

static tx_status rank_of(tx_world *world, void *user)
{
    job *j = user;
    char flags[4096];
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    tx_status st;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags, "%s --global-batch-size 8 --backend cpu --threads 1 --world-size %d %s", FLAGS, j->n,
             j->flags);
    TX_GOTO(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    tx_engine_args args = j->args;
    args.size = sizeof args;
    args.config = cfg;
    args.vocab_size = 509;
    args.world = world;
    TX_GOTO(tx_engine_initialize(&e, &args));
    if (j->load) TX_GOTO(tx_engine_load_checkpoint(e, j->load, NULL, NULL, NULL));
    st = train_rank(e, j);
out:
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

static job run(job j)
{
    if (!j.until) j.until = STEPS;
    if (tx_world_threads(j.n, rank_of, &j)) fail_msg("%d ranks, %s: %s", j.n, j.flags, tx_last_error());
    return j;
}

static void same(const job *a, const job *b, int from, double bound)
{
    for (int i = from; i < STEPS; i++) ASSERT_NEAR(a->loss[i], b->loss[i], bound * b->loss[i], a->flags);
}

/* ---- tests ---- */

static void the_same_arithmetic_gives_the_same_losses(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        const tx_client_optimizer *own;
    } pair[] = { { "--optimizer sgd", &own_sgd }, { "--optimizer adam", &own_adam } };
    for (int k = 0; k < 2; k++) {
        job options = run((job){ .n = 1, .flags = pair[k].option });
        job one = run((job){ .n = 1, .flags = "", .args = { .optimizer = pair[k].own } });
        same(&one, &options, 0, 1e-6);
        for (int stage = 0; stage < 4; stage++) {
            char flags[128];
            snprintf(flags, sizeof flags, "--zero-stage %d %s", stage, stage ? "--offload-optimizer cpu" : "");
            job two = run((job){ .n = 2, .flags = flags, .args = { .optimizer = pair[k].own } });
            same(&two, &one, 0, 1e-6);
        }
    }
}

static void bf16_and_no_state(void **state)
{
    (void)state;
    job options = run((job){ .n = 1, .flags = "--bf16 --optimizer sgd" });
    job own = run((job){ .n = 1, .flags = "--bf16", .args = { .optimizer = &own_sgd } });
    same(&own, &options, 0, 1e-4);
    options = run((job){ .n = 1, .flags = "--optimizer sgd --sgd-momentum 0 --weight-decay 0" });
    for (int stage = 0; stage < 4; stage++) {
        char flags[128];
        snprintf(flags, sizeof flags, "--zero-stage %d %s", stage, stage ? "--offload-optimizer cpu" : "");
        own = run((job){ .n = 2, .flags = flags, .args = { .optimizer = &own_plain } });
        same(&own, &options, 0, 1e-6);
    }
}

/* It sees them in fp32, a stretch after the other. */
static void gradients_of_two_bytes(void **state)
{
    (void)state;
    static const char half[] = "--bf16 --grad-dtype bf16";
    char flags[128];
    snprintf(flags, sizeof flags, "%s --optimizer sgd", half);
    job options = run((job){ .n = 1, .flags = flags });
    for (int stage = 0; stage < 4; stage++) {
        snprintf(flags, sizeof flags, "%s --zero-stage %d %s", half, stage, stage ? "--offload-optimizer cpu" : "");
        job own = run((job){ .n = stage ? 2 : 1, .flags = flags, .args = { .optimizer = &own_sgd } });
        same(&own, &options, 0, 1e-4);
    }
}

static double cosine(void *user, int64_t n)
{
    (void)user;
    return n < 2 ? 5e-4 * (double)n : 1e-4 + 9e-4 * (cos(acos(-1) * (double)(n - 2) / 8) + 1) / 2;
}

static void a_run_resumes_with_state_and_schedule_of_its_own(void **state)
{
    (void)state;
    const tx_engine_args mine = { .optimizer = &own_adam, .lr = cosine };
    job options = run((job){ .n = 1, .flags = "" });
    job whole = run((job){ .n = 1, .flags = "", .args = mine });
    for (int i = 0; i < STEPS; i++) ASSERT_NEAR(whole.lr[i], options.lr[i], 1e-15, "lr");
    run((job){ .n = 1, .flags = "", .args = mine, .until = 3, .save = in_scratch("own") });
    job rest = run((job){ .n = 1, .flags = "--lr 2e-3", .args = mine, .load = in_scratch("own") });
    for (int i = 3; i < STEPS; i++) {
        assert_true(rest.loss[i] == whole.loss[i]);
        assert_true(rest.lr[i] == whole.lr[i]);
    }
    job other = { .n = 1, .flags = "", .load = in_scratch("own"), .until = STEPS };
    ASSERT_FAILS(tx_world_threads(1, rank_of, &other), TX_ERR_NOTFOUND, "another optimizer");
}

static double no_number(void *user, int64_t n)
{
    return n == 3 ? *(double *)user : 1e-3;
}

static void a_learning_rate_is_a_number(void **state)
{
    (void)state;
    static const double bad[] = { NAN, INFINITY, -1e-3 };
    for (int i = 0; i < 3; i++) {
        double user = bad[i];
        job j = { .n = 1, .flags = "", .args = { .lr = no_number, .lr_user = &user }, .until = STEPS };
        ASSERT_FAILS(tx_world_threads(1, rank_of, &j), TX_ERR_ARG, "the schedule's learning rate is ");
        assert_true(j.lr[2] == 1e-3 && j.lr[3] == 0);
    }
    tx_config *cfg;
    tx_engine *e;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS "--world-size 1 --lr-warmup-fraction 0"));
    ASSERT_OK(tx_engine_create(&e, cfg, 509));
    double usual = tx_engine_lr(e);
    for (int i = 0; i < 3; i++) ASSERT_FAILS(tx_engine_set_lr(e, bad[i]), TX_ERR_ARG, "is no learning rate");
    assert_true(tx_engine_lr(e) == usual);
    ASSERT_OK(tx_engine_set_lr(e, usual / 2));
    assert_true(tx_engine_lr(e) == usual / 2);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* The weights of a parameter, of an engine of one rank that has made an update with this group. */
static void weights_of(const tx_param_group *group, const char *name, float *x, int64_t n)
{
    tx_config *cfg;
    tx_engine *e;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt",
                                     FLAGS "--optimizer sgd --lr-warmup-fraction 0 --clip-grad 0 --world-size 1"));
    const tx_engine_args args = {
        .size = sizeof args, .config = cfg, .vocab_size = 509, .group = group, .n_groups = group != NULL
    };
    ASSERT_OK(tx_engine_initialize(&e, &args));
    const tx_param *p = tx_params_find(&e->trainer->model->params, name);
    train(e, x[0] == 0 ? 0 : 1, NULL);
    assert_true(p && p->numel >= n);
    memcpy(x, p->weight->value.data, (size_t)n * sizeof *x);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void groups_scale_what_they_name(void **state)
{
    (void)state;
    enum { N = 48 };
    static const char name[] = "encoder.layers.1.mlp.dense_4h_to_h.bias"; /* begins at 0, does not decay */
    static const tx_param_group frozen = { "*.layers.1.*", 0, 1 }, twice = { "*_4h_to_h.bias", 2, 1 };
    float usual[N] = { 1 }, still[N] = { 1 }, far[N] = { 1 }, start[N] = { 0 };
    weights_of(NULL, name, start, N);
    weights_of(NULL, name, usual, N);
    weights_of(&frozen, name, still, N);
    weights_of(&twice, name, far, N);
    for (int i = 0; i < N; i++) {
        assert_true(start[i] == 0 && still[i] == 0 && usual[i] != 0);
        ASSERT_NEAR(far[i], 2 * usual[i], 1e-6 * fabs(usual[i]), name);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    tx_client_optimizer o[6];
    for (int i = 0; i < 6; i++) o[i] = own_adam;
    o[0].size--;
    o[1].name = NULL;
    o[2].n_state = 3;
    o[3].state_name[1] = NULL;
    o[4].step = NULL;
    o[5].state_name[1] = "mean";
    for (int i = 0; i < 6; i++) {
        job j = { .n = 1, .flags = "", .args = { .optimizer = &o[i] } };
        assert_int_equal(tx_world_threads(1, rank_of, &j), TX_ERR_ARG);
    }
    static const tx_param_group bad[] = { { NULL, 1, 1 }, { "*", -1, 1 }, { "*", 1, NAN }, { "nothing", 1, 1 } };
    for (int i = 0; i < 4; i++) {
        job j = { .n = 1, .flags = "", .args = { .group = &bad[i], .n_groups = 1 } };
        assert_int_equal(tx_world_threads(1, rank_of, &j), TX_ERR_ARG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_arithmetic_gives_the_same_losses),
        cmocka_unit_test(bf16_and_no_state),
        cmocka_unit_test(gradients_of_two_bytes),
        SCRATCH_TEST(a_run_resumes_with_state_and_schedule_of_its_own),
        cmocka_unit_test(a_learning_rate_is_a_number),
        cmocka_unit_test(groups_scale_what_they_name),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
