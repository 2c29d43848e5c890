/* labels: unit parallel resume threads */
/* Parameters of a client's model that are tied to those of a layer in front: one set of numbers, whose gradient is the
 * sum of what each layer has of it, in every layout, stage and precision. */
#include "client_runs.h"

#include "api/engine_internal.h"

/* What a has is in three layers: a2 has its first matrix, b, which a pipeline has on its last stage, both and nothing
 * of its own. */
static const tx_param_spec a_params[] = {
    { .name = "in", .dim = { INNER, WIDE }, .init = TX_INIT_OWN, .decay = TX_DECAY, .division = TX_ROWS },
    { .name = "out", .dim = { WIDE, INNER }, .init = TX_INIT_OWN, .decay = TX_DECAY, .division = TX_COLUMNS },
};
static const tx_param_spec a2_params[] = {
    { .name = "in", .dim = { INNER, WIDE }, .tied = "a.in" },
    { .name = "out", .dim = { WIDE, INNER }, .init = TX_INIT_OWN, .decay = TX_DECAY, .division = TX_COLUMNS },
};
static const tx_param_spec b_params[] = {
    { .name = "in", .dim = { INNER, WIDE }, .tied = "a.in" },
    { .name = "out", .dim = { WIDE, INNER }, .tied = "a.out" },
};
static const tx_param_spec wide_head_params[] = {
    { .name = "weight", .dim = { N_CLASSES, WIDE }, .init = TX_INIT_OWN, .decay = TX_DECAY },
    { .name = "bias", .dim = { N_CLASSES }, .init = TX_INIT_ONE },
};

static const tx_layer tied_layers[] = {
    LAYER("embed", embed_params, 2, embed, linear_saved, .n_dims = 1, .dim = { WIDE }),
    LAYER("a", a_params, 2, mlp, mlp_saved, .n_dims = 1, .dim = { WIDE }),
    LAYER("a2", a2_params, 2, mlp, mlp_saved, .n_dims = 1, .dim = { WIDE }),
    LAYER("twice", NULL, 0, twice, char, .n_dims = 1, .dim = { WIDE }),
    LAYER("again", NULL, 0, twice, char, .n_dims = 1, .dim = { WIDE }),
    LAYER("more", NULL, 0, twice, char, .n_dims = 1, .dim = { WIDE }),
    LAYER("b", b_params, 2, mlp, mlp_saved, .n_dims = 1, .dim = { WIDE }),
    LAYER("head", wide_head_params, 2, head, head_saved, .n_dims = 0),
};
enum { N_TIED = sizeof tied_layers / sizeof *tied_layers };

/* Of a parameter's own name, whatever its layer is. */
static void same_initial(void *user, const char *name, int64_t first, int64_t n, float *x)
{
    initial(user, strrchr(name, '.'), first, n, x);
}

static const tx_client_model tied = {
    .size = sizeof tied,
    .name = "tied",
    .input = { { TX_F32, 1, { N_IN } }, { TX_I32, 1, { 1 } } },
    .n_inputs = 2,
    .layer = tied_layers,
    .n_layers = N_TIED,
    .host_only = true,
    .initial = same_initial,
    .user = (void *)&initial,
};

/* The same without ties, which begins with the same numbers. */
static void untie(tx_client_model *m, tx_layer *l, tx_param_spec (*p)[2])
{
    static const int from[] = { 2, 6 };
    *m = tied;
    m->layer = l;
    memcpy(l, tied_layers, sizeof tied_layers);
    for (int i = 0; i < 2; i++) {
        memcpy(p[i], a_params, sizeof a_params);
        l[from[i]].param = p[i];
    }
}

/* ---- the gradient ---- */

enum { NUMEL = INNER * WIDE };

/* The weights of a parameter, moved by an update that is the gradient itself.   @steps 0: as they begin */
static void moved(const tx_client_model *m, const char *name, int steps, float *x)
{
    tx_config *cfg;
    tx_engine *e;
    ASSERT_OK(tx_config_parse_string(&cfg, "engine",
                                     "--micro-batch-size 2 --global-batch-size 8 --train-iters 6 --lr 1 --threads 1 "
                                     "--lr-decay-style constant --optimizer sgd --sgd-momentum 0 --weight-decay 0 "
                                     "--clip-grad 0 --seed 3 --world-size 1"));
    ASSERT_OK(tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = m }));
    reader r = { .e = e };
    for (int i = 0; i < steps; i++) ASSERT_OK(iteration(e, &r, false));
    const tx_param *p = tx_params_find(&e->trainer->model->params, name);
    assert_true(p && p->numel == NUMEL);
    memcpy(x, p->weight->value.data, NUMEL * sizeof *x);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void gradients_are_summed(void **state)
{
    (void)state;
    static const struct {
        const char *name, *of[3];
    } sums[] = { { "a.in", { "a.in", "a2.in", "b.in" } },
                 { "a.out", { "a.out", "b.out", NULL } },
                 { "a2.out", { "a2.out", NULL } } };
    tx_client_model free;
    tx_layer l[N_TIED];
    tx_param_spec p[2][2];
    untie(&free, l, p);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        float start[NUMEL], end[NUMEL], part[NUMEL];
        double sum[NUMEL] = { 0 }, most = 0;
        moved(&tied, sums[i].name, 0, start);
        moved(&tied, sums[i].name, 1, end);
        for (int k = 0; k < 3 && sums[i].of[k]; k++) {
            moved(&free, sums[i].of[k], 1, part);
            for (int j = 0; j < NUMEL; j++) sum[j] += part[j] - start[j];
        }
        for (int j = 0; j < NUMEL; j++) {
            ASSERT_NEAR(end[j] - start[j], sum[j], 1e-6, sums[i].name);
            if (fabs(sum[j]) > most) most = fabs(sum[j]);
        }
        assert_true(most > 1e-3);
    }
}

/* ---- layouts ---- */

static void every_layout_is_one_rank(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        double bound;
    } type[] = { { "", 2e-6 }, { "--bf16", 1e-2 }, { "--fp16 --initial-loss-scale 256", 1e-3 } };
    static const int layout[][3] = { { 2, 1, 1 }, { 4, 1, 1 }, { 2, 2, 1 }, { 2, 1, 2 },
                                     { 3, 1, 3 }, { 4, 2, 2 }, { 4, 1, 2 } };
    for (int k = 0; k < 3; k++) {
        job one = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = type[k].flags, .model = &tied });
        assert_true(one.loss[STEPS - 1] < one.loss[0] || k);
        for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
            for (int stage = 0; stage < 4; stage++) {
                char flags[256];
                const int *at = layout[i];
                if (k && stage % 2 != (int)i % 2) continue; /* half of them for half precision */
                snprintf(flags, sizeof flags, "%s --zero-stage %d %s", type[k].flags, stage,
                         stage == 3 ? GATHERED : "");
                job many = run((job){ .n = at[0], .tp = at[1], .pp = at[2], .flags = flags, .model = &tied });
                same(&many, &one, 0, type[k].bound);
            }
    }
}

static void layers_are_computed_again(void **state)
{
    (void)state;
    static const char *const how[] = { "--checkpoint-activations", "--checkpoint-activations --checkpoint-num-layers 3",
                                       "--checkpoint-activations --checkpoint-in-cpu" };
    static const job layout[] = { { .n = 1, .tp = 1, .pp = 1, .flags = "" },
                                  { .n = 2, .tp = 1, .pp = 1, .flags = GATHERED },
                                  { .n = 2, .tp = 1, .pp = 1, .flags = "--zero-stage 2 --offload-optimizer cpu" },
                                  { .n = 4, .tp = 1, .pp = 2, .flags = GATHERED } };
    for (size_t l = 0; l < sizeof layout / sizeof *layout; l++) {
        job at = layout[l];
        at.model = &tied;
        job kept = run(at);
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            char flags[256];
            snprintf(flags, sizeof flags, "%s %s", how[i], layout[l].flags);
            at.flags = flags;
            job again = run(at);
            assert_memory_equal(again.loss, kept.loss, sizeof kept.loss);
            assert_memory_equal(again.norm, kept.norm, sizeof kept.norm);
        }
    }
}

/* A checkpoint has the numbers once, under the first one's name. */
static void checkpoints_go_to_any_layout(void **state)
{
    (void)state;
    const job alone = { .n = 1, .tp = 1, .pp = 1, .flags = "", .model = &tied };
    static const job from[] = { { .n = 1, .tp = 1, .pp = 1, .flags = "" },
                                { .n = 4, .tp = 1, .pp = 2, .flags = "--zero-stage 1" },
                                { .n = 4, .tp = 2, .pp = 2, .flags = "--zero-stage 2" },
                                { .n = 2, .tp = 1, .pp = 1, .flags = GATHERED } };
    enum { N = sizeof from / sizeof *from };
    job one = run(alone);
    for (int i = 0; i < N; i++) {
        job first = from[i], rest = from[(i + 1) % N];
        first.model = rest.model = &tied;
        first.until = 3;
        first.save = rest.load = in_scratch("ck%d", i);
        run(first);
        job resumed = run(rest);
        same(&resumed, &one, 3, 2e-6);
    }
}

/* ---- what cannot be ---- */

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    tx_client_model m = tied;
    tx_layer l[N_TIED];
    tx_param_spec p[2];
    static const struct {
        const char *tie;
        int64_t columns;
        const char *words;
    } bad[] = {
        { "head.weight", WIDE, "b.in is tied to head.weight, which no layer in front has" },
        { "b.out", WIDE, "b.in is tied to b.out, which no layer in front has" },
        { "a", WIDE, "which no layer in front has" },
        { "a2.in", WIDE, "b.in is tied to a2.in, which is tied itself: tie it to a.in" },
        { "a.in", WIDE + 1, "b.in of 12 x 9 is tied to a.in of 12 x 8" },
    };
    m.layer = l;
    memcpy(l, tied_layers, sizeof l);
    memcpy(p, b_params, sizeof p);
    l[6].param = p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p[0].tied = bad[i].tie;
        p[0].dim[1] = bad[i].columns;
        job j = { .n = 1, .tp = 1, .pp = 1, .flags = "", .until = STEPS, .model = &m };
        ASSERT_FAILS(tx_world_threads(1, rank_of, &j), TX_ERR_ARG, bad[i].words);
    }
    job far = { .n = 8, .tp = 1, .pp = 8, .flags = "--global-batch-size 8", .until = STEPS, .model = &tied };
    ASSERT_FAILS(tx_world_threads(8, rank_of, &far), TX_ERR_UNSUPPORTED,
                 "a2.in on pipeline stage 2 is tied to a.in on stage 1: both have to be on one stage, or on the first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_summed),      cmocka_unit_test(every_layout_is_one_rank),
        cmocka_unit_test(layers_are_computed_again), SCRATCH_TEST(checkpoints_go_to_any_layout),
        cmocka_unit_test(what_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
