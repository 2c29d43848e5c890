/* labels: unit parallel resume threads */
/* A client's own model behind the engine: every layout, stage, precision and recomputation comes to the losses of one
 * rank. */
#include "client_runs.h"

/* ---- tests ---- */

static void every_layout_is_one_rank(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        double bound;
    } type[] = { { "", 2e-6 }, { "--bf16", 1e-2 }, { "--fp16 --initial-loss-scale 256", 1e-3 } };
    for (int k = 0; k < 3; k++) {
        job one = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = type[k].flags });
        assert_true(one.loss[STEPS - 1] < one.loss[0] || k);
        for (int stage = 0; stage < 4; stage++)
            for (int n = 2; n <= 4; n += 2) {
                char flags[256];
                snprintf(flags, sizeof flags, "%s --zero-stage %d %s", type[k].flags, stage,
                         stage == 3 ? GATHERED : "");
                job many = run((job){ .n = n, .tp = 1, .pp = 1, .flags = flags });
                same(&many, &one, 0, type[k].bound);
            }
        static const int layout[][3] = { { 2, 2, 1 }, { 2, 1, 2 }, { 4, 1, 4 }, { 3, 1, 3 }, { 4, 2, 2 }, { 4, 1, 2 } };
        for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
            job many = run((job){ .n = layout[i][0], .tp = layout[i][1], .pp = layout[i][2], .flags = type[k].flags });
            same(&many, &one, 0, type[k].bound);
        }
    }
}

/* What is computed again changes no bit. */
static void layers_are_computed_again(void **state)
{
    (void)state;
    static const char *const how[] = {
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 3",
        "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
        "--checkpoint-activations --checkpoint-num-layers 2 --checkpoint-in-cpu",
        "--checkpoint-activations --checkpoint-in-cpu",
    };
    static const job layout[] = {
        { .n = 1, .tp = 1, .pp = 1, .flags = "" },
        { .n = 2, .tp = 2, .pp = 1, .flags = "--partition-activations" },
        { .n = 2, .tp = 1, .pp = 2, .flags = "" },
        { .n = 2, .tp = 1, .pp = 1, .flags = "--zero-stage 3" },
        { .n = 2, .tp = 1, .pp = 1, .flags = GATHERED },
        { .n = 4, .tp = 1, .pp = 2, .flags = GATHERED },
    };
    for (size_t l = 0; l < sizeof layout / sizeof *layout; l++) {
        job at = layout[l], kept;
        at.flags = strstr(at.flags, "partition") ? "" : at.flags;
        kept = run(at);
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            char flags[256];
            snprintf(flags, sizeof flags, "%s %s", how[i], layout[l].flags);
            at.flags = flags;
            job again = run(at);
            for (int k = 0; k < STEPS; k++)
                if (again.loss[k] != kept.loss[k] || again.norm[k] != kept.norm[k])
                    fail_msg("%d x %d, %s: loss %d is %.17g, not %.17g; norm %.17g, not %.17g", at.tp, at.pp, flags, k,
                             again.loss[k], kept.loss[k], again.norm[k], kept.norm[k]);
        }
    }
}

static void checkpoints_go_to_any_layout(void **state)
{
    (void)state;
    job one = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "" });
    run((job){ .n = 4, .tp = 2, .pp = 1, .flags = "--zero-stage 3", .until = 3, .save = in_scratch("ck") });
    job alone = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "", .load = in_scratch("ck") });
    same(&alone, &one, 3, 2e-6);
    job pipe = run((job){ .n = 4, .tp = 1, .pp = 4, .flags = "", .load = in_scratch("ck") });
    same(&pipe, &one, 3, 2e-6);
    run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "", .until = 3, .save = in_scratch("own") });
    job resumed = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "", .load = in_scratch("own") });
    assert_memory_equal(resumed.loss + 3, one.loss + 3, 3 * sizeof *one.loss);
}

/* DeepSpeed's words for it are the flags. */
static void checkpointing_is_configured(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_checkpointing how = { .size = sizeof how, .num_layers = 2, .checkpoint_in_cpu = true };
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", FLAGS));
    ASSERT_OK(tx_checkpointing_configure(cfg, &how));
    tx_engine *e;
    job same_flags = run((job){
        .n = 1, .tp = 1, .pp = 1, .flags = "--checkpoint-activations --checkpoint-num-layers 2 --checkpoint-in-cpu" });
    ASSERT_OK(
        tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &model }));
    reader r = { .e = e };
    ASSERT_OK(iteration(e, &r, true));
    assert_true(tx_engine_loss(e) == same_flags.loss[0] && tx_engine_grad_norm(e) == same_flags.norm[0]);
    tx_engine_destroy(e);
    how = (tx_checkpointing){ .size = sizeof how, .contiguous_checkpointing = true, .num_checkpoints = 2 };
    ASSERT_FAILS(tx_checkpointing_configure(cfg, &how), TX_ERR_ARG, "contigious-checkpointing");
    how = (tx_checkpointing){ .size = 8 };
    ASSERT_FAILS(tx_checkpointing_configure(cfg, &how), TX_ERR_ARG, "tx_checkpointing");
    tx_config_free(cfg);
}

/* The client's own grid: the same model in the same bits, on other ranks. */
static void ranks_have_places_of_the_clients(void **state)
{
    (void)state;
    static const int layout[][3] = { { 4, 2, 1 }, { 4, 1, 2 }, { 4, 2, 2 }, { 4, 1, 1 } };
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        job at = { .n = layout[i][0], .tp = layout[i][1], .pp = layout[i][2], .flags = "--zero-stage 1" };
        job plain = run(at);
        at.turned = 1;
        at.until = 3;
        at.save = in_scratch("turned%zu", i);
        job turned = run(at);
        assert_memory_equal(turned.loss, plain.loss, 3 * sizeof *plain.loss);
        job back = { .n = at.n, .tp = at.tp, .pp = at.pp, .flags = at.flags, .load = at.save };
        back = run(back);
        assert_memory_equal(back.loss + 3, plain.loss + 3, 3 * sizeof *plain.loss);
        assert_memory_equal(back.norm + 3, plain.norm + 3, 3 * sizeof *plain.norm);
    }
    job twice = { .n = 4, .tp = 1, .pp = 1, .flags = "", .until = STEPS, .turned = 2 };
    ASSERT_FAILS(tx_world_threads(4, rank_of, &twice), TX_ERR_ARG, "ranks 0 and 1 both say they are tensor 0");
    twice.turned = 3;
    ASSERT_FAILS(tx_world_threads(4, rank_of, &twice), TX_ERR_ARG, "set it to sizeof(tx_rank_place)");
}

/* The same by an op, which a GPU has, too. */
static tx_status add_twice(tx_ctx *c, tx_tensor y, tx_tensor x)
{
    tx_tensor from = tx_tensor3(x.data, x.dtype, 1, x.dim[0], x.dim[1]);
    TX_RUN(c, dropout_add_fwd, .y = tx_tensor3(y.data, y.dtype, 1, y.dim[0], y.dim[1]), .x = from, .residual = from);
    return TX_OK;
}

static tx_status add_twice_forward(tx_ctx *c, const tx_layer_call *k)
{
    return add_twice(c, k->y, k->x);
}

static tx_status add_twice_backward(tx_ctx *c, const tx_layer_call *k)
{
    return add_twice(c, k->dx, k->dy);
}

/* Of ops alone it runs on a GPU as well: its inputs, losses and what layers push are there. */
static void ops_alone_run_on_a_gpu(void **state)
{
    (void)state;
    const char *module = getenv("TX_GPU_MODULE_32");
    tx_layer on_gpu[N_LAYERS];
    tx_client_model m = model;
    if (!module || !strcmp(module, "none")) skip();
    memcpy(on_gpu, layers, sizeof on_gpu);
    on_gpu[1].forward = add_twice_forward;
    on_gpu[1].backward = add_twice_backward;
    m.layer = on_gpu;
    m.host_only = false;
    setenv("TX_GPU_MODULE", module, 1);
    static const char *const how[] = { "", "--bf16", "--checkpoint-activations --checkpoint-in-cpu" };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char flags[256];
        double bound = strstr(how[i], "bf16") ? 1e-2 : 2e-6;
        job host = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = how[i] });
        snprintf(flags, sizeof flags, "%s --device gpu", how[i]);
        job gpu = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = flags, .model = &m });
        same(&gpu, &host, 0, bound);
        snprintf(flags, sizeof flags, "%s --device gpu --zero-stage 2", how[i]);
        job two = run((job){ .n = 2, .tp = 1, .pp = 1, .flags = flags, .model = &m });
        same(&two, &host, 0, bound);
    }
    unsetenv("TX_GPU_MODULE");
}

/* ---- training data ---- */

enum { N_SAMPLES = 12 };

typedef struct samples {
    tx_training_data data;
    int seen[N_SAMPLES];
} samples;

/* Sample i is row i % B of micro-batch i / B. */
static tx_status collate(void *user, const int64_t *sample, int64_t n, const tx_tensor *input)
{
    samples *s = user;
    float *x = input[0].data, all[B * N_IN];
    int32_t *label = input[1].data, labels[B];
    assert_true(n == B && tx_numel(input[0]) == B * N_IN && tx_numel(input[1]) == B);
    for (int64_t j = 0; j < n; j++) {
        make_batch(all, labels, sample[j] / B);
        memcpy(x + j * N_IN, all + sample[j] % B * N_IN, N_IN * sizeof *x);
        label[j] = labels[sample[j] % B];
        if (sample[j] < N_SAMPLES) s->seen[sample[j]]++;
    }
    return TX_OK;
}

static tx_engine *with_data(tx_config **cfg, samples *s)
{
    tx_engine *e;
    s->data = (tx_training_data){ .size = sizeof s->data,
                                  .n_samples = s->data.n_samples,
                                  .in_order = s->data.in_order,
                                  .collate = collate,
                                  .user = s };
    ASSERT_OK(tx_config_parse_string(cfg, "engine", FLAGS));
    ASSERT_OK(tx_engine_initialize(
        &e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = *cfg, .model = &model, .data = &s->data }));
    return e;
}

static void samples_are_dealt_in_order(void **state)
{
    (void)state;
    tx_config *cfg;
    samples s = { .data = { .n_samples = 1000, .in_order = true } };
    job plain = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "" });
    tx_engine *e = with_data(&cfg, &s);
    for (int i = 0; i < STEPS; i++) {
        double loss;
        if (i % 2) {
            ASSERT_OK(tx_engine_train_batch(e, NULL, NULL, &loss));
        } else {
            for (int k = 0; k < 4; k++) {
                ASSERT_OK(tx_engine_forward(e, NULL, &loss));
                ASSERT_OK(tx_engine_backward(e));
                ASSERT_OK(tx_engine_step(e));
            }
        }
        assert_true(tx_engine_loss(e) == plain.loss[i]);
    }
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* 8 samples an iteration: three are two epochs of 12, which a resumed run goes on with. */
static void an_epoch_has_every_sample_once(void **state)
{
    (void)state;
    tx_config *cfg;
    double loss;
    samples s = { .data = { .n_samples = N_SAMPLES } };
    tx_engine *e = with_data(&cfg, &s);
    ASSERT_OK(tx_engine_train_batch(e, NULL, NULL, &loss));
    ASSERT_OK(tx_engine_save_checkpoint(e, in_scratch("epoch"), NULL, NULL));
    tx_engine_destroy(e);
    tx_config_free(cfg);
    e = with_data(&cfg, &s);
    ASSERT_OK(tx_engine_load_checkpoint(e, in_scratch("epoch"), NULL, NULL, NULL));
    for (int i = 0; i < 2; i++) ASSERT_OK(tx_engine_train_batch(e, NULL, NULL, &loss));
    for (int i = 0; i < N_SAMPLES; i++) assert_int_equal(s.seen[i], 2);
    ASSERT_FAILS(tx_engine_eval_batch(e, 4, NULL, NULL, &loss), TX_ERR_ARG, "needs a function");
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void data_that_are_missing_are_told(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e;
    double loss;
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", FLAGS));
    tx_engine_args args = { .size = sizeof args, .config = cfg, .model = &model };
    ASSERT_OK(tx_engine_initialize(&e, &args));
    ASSERT_FAILS(tx_engine_forward(e, NULL, &loss), TX_ERR_STATE, "needs tx_engine_args.data");
    ASSERT_FAILS(tx_engine_train_batch(e, NULL, NULL, &loss), TX_ERR_STATE, "needs tx_engine_args.data");
    tx_engine_destroy(e);
    tx_training_data none = { .size = sizeof none, .collate = collate };
    args.data = &none;
    ASSERT_FAILS(tx_engine_initialize(&e, &args), TX_ERR_ARG, "training data need samples");
    tx_config_free(cfg);
}

/* ---- what cannot be ---- */

static tx_status start(const tx_client_model *m, const char *more)
{
    tx_config *cfg;
    tx_engine *e = NULL;
    char flags[512];
    snprintf(flags, sizeof flags, FLAGS "%s", more);
    TX_TRY(tx_config_parse_string(&cfg, "engine", flags));
    tx_status st =
        tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = m });
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    tx_client_model m = model;
    tx_layer l[N_LAYERS];
    tx_param_spec p[2];
    char too_long[300] = { 0 };
    memset(too_long, 'x', sizeof too_long - 1);
#define REFUSED(change, words)                          \
    do {                                                \
        m = model;                                      \
        m.layer = l;                                    \
        memcpy(l, layers, sizeof l);                    \
        memcpy(p, embed_params, sizeof p);              \
        l[0].param = p;                                 \
        change;                                         \
        ASSERT_FAILS(start(&m, ""), TX_ERR_ARG, words); \
    } while (0)
    REFUSED(m.name = NULL, "needs a name");
    REFUSED(m.n_layers = 0, "has no layers");
    REFUSED(m.n_inputs = 9, "0 to 8 are possible");
    REFUSED(m.input[1].dim[0] = 0, "dimension 0 is 0");
    REFUSED(m.input[0].dtype = (tx_dtype)99, "input 0 of the model test is of a type that there is not");
    REFUSED(m.input[0].dim[0] = (int64_t)1 << 60, "an input of test has about 1e+18 numbers");
    REFUSED(m.losses_per_sample = -1, "-1 losses");
    REFUSED(m.initial = NULL, "embed.weight is TX_INIT_OWN");
    REFUSED(l[1].name = "embed", "layers 0 and 1 of the model test are both called embed");
    REFUSED(l[2].backward = NULL, "layer mlp has no backward");
    REFUSED(l[1].n_dims = 0, "the output of twice has 0 dimensions");
    REFUSED(l[0].param = NULL, "names none");
    REFUSED(p[1].name = "weight", "two parameters weight");
    REFUSED(p[0].dim[0] = 0, "embed.weight cannot be of 0 x 6");
    REFUSED(p[0].dim[0] = (int64_t)1 << 60, "embed.weight cannot be of 1152921504606846976 x 6");
    REFUSED(l[1].name = "", "layer 1 of the model test has no name");
    REFUSED(p[1].name = NULL, "a parameter of layer embed has no name");
    REFUSED(p[1].name = too_long, "a name has at most");
    REFUSED(p[0].init = (tx_init)9, "embed.weight: init, decay or division is none that there is");
    REFUSED(p[0].division = (tx_division)9, "embed.weight: init, decay or division is none that there is");
    REFUSED(p[1].division = TX_COLUMNS, "embed.bias: 0 columns are not divisible by the tensor-parallel size 1");
    REFUSED(for (int i = 0; i < N_LAYERS; i++) l[i].n_params = 0, "the model test has no parameters");
    ASSERT_FAILS(start(&model, "--memory-limit 1KiB"), TX_ERR_NOMEM, "a higher --zero-stage or recomputed layers");
    ASSERT_FAILS(start(&model, "--dump-step 1 out"), TX_ERR_UNSUPPORTED, "--dump-step is for GPT and BERT alone");
    ASSERT_FAILS(start(&model, "--device gpu"), TX_ERR_UNSUPPORTED, "the model test computes on the host alone");
}

/* ---- random numbers that are drawn in turn ---- */

static void a_forward_that_is_run_again_draws_the_same(void **state)
{
    (void)state;
    tx_random_tracker t, kept;
    tx_rng a, b;
    uint64_t first, again;
    tx_model_parallel_seed(&t, 42, 3);
    ASSERT_OK(tx_random_take(&t, "default-rng", 10, &a, &first));
    assert_int_equal(first, 0);
    kept = t;
    ASSERT_OK(tx_random_take(&t, "default-rng", 5, &a, &first));
    t = kept;
    ASSERT_OK(tx_random_take(&t, "default-rng", 5, &b, &again));
    assert_int_equal(first, 10);
    assert_true(first == again && tx_rng_uniform(&a, first) == tx_rng_uniform(&b, again));
    ASSERT_OK(tx_random_take(&t, "model-parallel-rng", 1, &b, &again));
    assert_true(b.seed == 42 + 2718 + 3 && again == 0);
    ASSERT_FAILS(tx_random_take(&t, "another", 1, &b, &again), TX_ERR_NOTFOUND, "no random state another");
    ASSERT_FAILS(tx_random_add(&t, "default-rng", 1), TX_ERR_ARG, "already");
    ASSERT_FAILS(tx_random_add(&t, "", 1), TX_ERR_ARG, "1 to 31 characters");
    for (char name[] = "a"; t.n < TX_RANDOM_MAX_STATES; name[0]++) ASSERT_OK(tx_random_add(&t, name, 1));
    ASSERT_FAILS(tx_random_add(&t, "more", 1), TX_ERR_ARG, "as many as there can be");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_one_rank),
        cmocka_unit_test(layers_are_computed_again),
        cmocka_unit_test(checkpoints_go_to_any_layout),
        cmocka_unit_test(checkpointing_is_configured),
        cmocka_unit_test(ranks_have_places_of_the_clients),
        cmocka_unit_test(samples_are_dealt_in_order),
        cmocka_unit_test(an_epoch_has_every_sample_once),
        cmocka_unit_test(data_that_are_missing_are_told),
        cmocka_unit_test(ops_alone_run_on_a_gpu),
        cmocka_unit_test(what_cannot_be_is_told),
        cmocka_unit_test(a_forward_that_is_run_again_draws_the_same),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
