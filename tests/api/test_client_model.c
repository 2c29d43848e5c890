/* labels: unit parallel resume threads */
/* A client's own model behind the engine: four layers of its own, one without parameters and one whose matrices tensor
 * ranks divide. Every layout, stage, precision and recomputation comes to the losses of one rank. */
#include <omp.h>

#include "support.h"

#include "triax/engine.h"

enum { N_IN = 6, WIDE = 8, INNER = 12, MIDDLE = 4, N_CLASSES = 3, B = 2, STEPS = 6 };

/* ---- layers ---- */

typedef struct linear_saved {
    tx_tensor x, dropped;
} linear_saved;

/* y = drop(x Wᵀ + b), x of the input. */
static tx_status embed_forward(tx_ctx *c, const tx_layer_call *k)
{
    linear_saved *s = k->saved;
    tx_dropout mask = tx_layer_dropout(k, "out", 0.2, 1);
    s->x = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_IN });
    TX_RUN(c, cast, .y = s->x, .x = k->input[0]);
    TX_RUN(c, gemm, .c = k->y, .a = s->x, .b = k->weight[0].value, .bias = k->weight[1].value, .trans_b = true);
    tx_tensor y = tx_tensor3(k->y.data, k->dtype, 1, k->b, WIDE);
    TX_RUN(c, dropout_add_fwd, .y = y, .x = y, .mask = mask);
    return TX_OK;
}

static tx_status embed_backward(tx_ctx *c, const tx_layer_call *k)
{
    const linear_saved *s = k->saved;
    tx_tensor d = tx_ctx_push(c, k->dtype, 3, (int64_t[]){ 1, k->b, WIDE });
    tx_tensor dy = tx_tensor3(k->dy.data, k->dtype, 1, k->b, WIDE);
    TX_RUN(c, dropout_add_bwd, .dx = d, .dy = dy, .mask = tx_layer_dropout(k, "out", 0.2, 1));
    TX_RUN(c, gemm, .c = k->weight[0].grad, .a = tx_as_rows(d), .b = s->x, .trans_a = true, .accumulate = true);
    TX_RUN(c, col_sum, .y = k->weight[1].grad, .x = tx_as_rows(d));
    return TX_OK;
}

/* A kernel of the client's own: y = 2 x. */
static tx_status twice(tx_ctx *c, tx_tensor y, tx_tensor x)
{
    size_t mark = tx_ctx_mark(c);
    tx_tensor wide = tx_ctx_push(c, TX_F32, x.n_dims, x.dim);
    float *v = wide.data;
    TX_RUN(c, cast, .y = wide, .x = x);
    for (int64_t i = 0; i < tx_numel(x) && !tx_ctx_is_dry(c); i++) v[i] *= 2;
    TX_RUN(c, cast, .y = y, .x = wide);
    tx_ctx_pop(c, mark);
    return TX_OK;
}

static tx_status twice_forward(tx_ctx *c, const tx_layer_call *k)
{
    return twice(c, k->y, k->x);
}

static tx_status twice_backward(tx_ctx *c, const tx_layer_call *k)
{
    return twice(c, k->dx, k->dy);
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

/* y = Σ over the tensor ranks of W2 tanh(W1 x): rows of W1 and columns of W2 are divided. */
typedef struct mlp_saved {
    tx_tensor z, a;
} mlp_saved;

static tx_status mlp_forward(tx_ctx *c, const tx_layer_call *k)
{
    mlp_saved *s = k->saved;
    int64_t here = INNER / tx_ctx_tensor_size(c);
    s->z = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, here });
    s->a = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, here });
    TX_RUN(c, gemm, .c = s->z, .a = k->x, .b = k->weight[0].value, .trans_b = true);
    TX_RUN(c, activation_fwd, .y = s->a, .x = s->z, .kind = TX_TANH);
    TX_RUN(c, gemm, .c = tx_as_rows(k->y), .a = s->a, .b = k->weight[1].value, .trans_b = true);
    return tx_ctx_tensor_sum(c, k->y);
}

static tx_status mlp_backward(tx_ctx *c, const tx_layer_call *k)
{
    const mlp_saved *s = k->saved;
    tx_tensor d = tx_ctx_push(c, k->dtype, 2, s->z.dim);
    TX_RUN(c, gemm, .c = k->weight[1].grad, .a = tx_as_rows(k->dy), .b = s->a, .trans_a = true, .accumulate = true);
    TX_RUN(c, gemm, .c = d, .a = tx_as_rows(k->dy), .b = k->weight[1].value);
    TX_RUN(c, activation_bwd, .dx = d, .dy = d, .x = s->z, .kind = TX_TANH);
    TX_RUN(c, gemm, .c = k->weight[0].grad, .a = d, .b = k->x, .trans_a = true, .accumulate = true);
    TX_RUN(c, gemm, .c = k->dx, .a = d, .b = k->weight[0].value);
    return tx_ctx_tensor_sum(c, k->dx);
}

/* The loss, and in forward already the gradient of the logits. */
typedef struct head_saved {
    tx_tensor dz;
} head_saved;

static tx_status head_forward(tx_ctx *c, const tx_layer_call *k)
{
    head_saved *s = k->saved;
    tx_tensor none = { 0 };
    s->dz = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_CLASSES });
    tx_tensor z = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_CLASSES });
    TX_RUN(c, gemm, .c = z, .a = tx_as_rows(k->x), .b = k->weight[0].value, .bias = k->weight[1].value,
           .trans_b = true);
    TX_RUN(c, cross_entropy, .loss = tx_slice1(k->loss, 0, k->b), .z = z, .dz = k->train ? s->dz : none,
           .y = tx_slice1(k->input[1], 0, k->b), .weight = k->train ? tx_slice1(k->loss_weight, 0, k->b) : none,
           .n_valid = N_CLASSES);
    return TX_OK;
}

static tx_status head_backward(tx_ctx *c, const tx_layer_call *k)
{
    const head_saved *s = k->saved;
    TX_RUN(c, gemm, .c = k->weight[0].grad, .a = s->dz, .b = tx_as_rows(k->x), .trans_a = true, .accumulate = true);
    TX_RUN(c, col_sum, .y = k->weight[1].grad, .x = s->dz);
    TX_RUN(c, gemm, .c = tx_as_rows(k->dx), .a = s->dz, .b = k->weight[0].value);
    return TX_OK;
}

/* ---- the model ---- */

static void initial(void *user, const char *name, int64_t first, int64_t n, float *x)
{
    const tx_rng rng = { .seed = 5, .stream = tx_rng_stream(name) };
    assert_ptr_equal(user, &initial);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(0.6 * tx_rng_uniform(&rng, (uint64_t)(first + i)) - 0.3);
}

static const tx_param_spec embed_params[] = {
    { .name = "weight", .dim = { WIDE, N_IN }, .init = TX_INIT_OWN, .decay = TX_DECAY },
    { .name = "bias", .dim = { WIDE } },
};
static const tx_param_spec mlp_params[] = {
    { .name = "in",
      .dim = { INNER, WIDE },
      .init = TX_INIT_NORMAL,
      .std = 0.3,
      .decay = TX_DECAY,
      .division = TX_ROWS },
    { .name = "out", .dim = { MIDDLE, INNER }, .init = TX_INIT_OWN, .decay = TX_DECAY, .division = TX_COLUMNS },
};
static const tx_param_spec head_params[] = {
    { .name = "weight", .dim = { N_CLASSES, MIDDLE }, .init = TX_INIT_OWN, .decay = TX_DECAY },
    { .name = "bias", .dim = { N_CLASSES }, .init = TX_INIT_ONE },
};

#define LAYER(name_, params, n, function, type, ...)                                                                   \
    {                                                                                                                  \
        .name = name_, .param = params, .n_params = n, .forward = function##_forward, .backward = function##_backward, \
        .saved_size = sizeof(type), __VA_ARGS__                                                                        \
    }
static const tx_layer layers[] = {
    LAYER("embed", embed_params, 2, embed, linear_saved, .n_dims = 1, .dim = { WIDE }),
    LAYER("twice", NULL, 0, twice, char, .n_dims = 1, .dim = { WIDE }),
    LAYER("mlp", mlp_params, 2, mlp, mlp_saved, .n_dims = 2, .dim = { 1, MIDDLE }),
    LAYER("head", head_params, 2, head, head_saved, .n_dims = 0),
};
enum { N_LAYERS = sizeof layers / sizeof *layers };

static const tx_client_model model = {
    .size = sizeof model,
    .name = "test",
    .input = { { TX_F32, 1, { N_IN } }, { TX_I32, 1, { 1 } } },
    .n_inputs = 2,
    .layer = layers,
    .n_layers = N_LAYERS,
    .host_only = true,
    .initial = initial,
    .user = (void *)&initial,
};

/* ---- a run ---- */

#define GATHERED "--zero-stage 3 --zero-param-persistence-threshold 0 " /* nothing is too small for that */

/* Micro-batch number i of the data: classes that a linear function of the numbers decides. */
static void make_batch(float *x, int32_t *label, int64_t i)
{
    const tx_rng rng = { .seed = 9, .stream = (uint32_t)i };
    for (int j = 0; j < B; j++) {
        double sum = 0;
        for (int k = 0; k < N_IN; k++) {
            x[j * N_IN + k] = (float)tx_rng_normal(&rng, (uint64_t)(j * N_IN + k));
            sum += (k % 2 ? 1 : -1) * x[j * N_IN + k];
        }
        label[j] = sum < -1 ? 0 : sum < 1 ? 1 : 2;
    }
}

typedef struct job {
    int n, tp, pp;
    const char *flags;
    int until; /* 0: STEPS */
    const char *save, *load;
    const tx_client_model *model; /* NULL: the one above */
    int turned;                   /* 1: ranks have places of their own, in another order; 2: two have the same */
    double loss[STEPS], norm[STEPS], scored;
} job;

typedef struct reader {
    tx_engine *e;
    int64_t first;
    float x[B * N_IN];
    int32_t label[B];
    const void *input[2];
} reader;

static tx_status read_batch(void *user, int64_t micro, const void **batch)
{
    reader *r = user;
    make_batch(r->x, r->label,
               r->first + micro * tx_engine_data_parallel_size(r->e) + tx_engine_data_parallel_rank(r->e));
    r->input[0] = r->x;
    r->input[1] = r->label;
    *batch = r->input;
    return TX_OK;
}

/* The global batch is 4 micro-batches. */
static tx_status iteration(tx_engine *e, reader *r, bool by_hand)
{
    double loss;
    const void *batch;
    r->first = 4 * tx_engine_iteration(e);
    if (!by_hand) return tx_engine_train_batch(e, read_batch, r, &loss);
    for (int64_t k = 0; k < 4 / tx_engine_data_parallel_size(e); k++) {
        TX_TRY(read_batch(r, k, &batch));
        TX_TRY(tx_engine_forward(e, batch, &loss));
        TX_TRY(tx_engine_backward(e));
        TX_TRY(tx_engine_step(e));
    }
    return TX_OK;
}

static tx_status train_rank(tx_engine *e, job *j, reader *r)
{
    bool writes = tx_engine_global_rank(e) == 0;
    double scored;
    if (j->load) TX_TRY(tx_engine_load_checkpoint(e, j->load, NULL, NULL, NULL));
    while (tx_engine_iteration(e) < j->until) {
        int64_t i = tx_engine_iteration(e);
        TX_TRY(iteration(e, r, j->pp == 1 && i % 2));
        if (writes) j->loss[i] = tx_engine_loss(e), j->norm[i] = tx_engine_grad_norm(e);
    }
    r->first = 1000;
    TX_TRY(tx_engine_eval_batch(e, 7, read_batch, r, &scored));
    if (writes) j->scored = scored;
    return j->save ? tx_engine_save_checkpoint(e, j->save, NULL, NULL) : TX_OK;
}

#define COMMAND "engine"
#define FLAGS                                                                                                   \
    "--micro-batch-size 2 --global-batch-size 8 --train-iters 6 --lr 1e-2 --lr-decay-style cosine --threads 1 " \
    "--clip-grad 0.5 --seed 3 "

static tx_status rank_of(tx_world *world, void *user)
{
    job *j = user;
    char flags[2048];
    tx_config *cfg = NULL;
    reader r = { .e = NULL };
    tx_status st;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags,
             FLAGS "--world-size %d --tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s", j->n, j->tp,
             j->pp, j->flags);
    int at = j->turned == 2 ? 0 : (3 * tx_world_rank(world) + 1) % j->n, dp = j->n / j->tp / j->pp;
    const tx_rank_place place = { .tensor = at % j->tp, .data = at / j->tp % dp, .pipeline = at / j->tp / dp };
    TX_GOTO(tx_config_parse_string(&cfg, COMMAND, flags));
    const tx_engine_args args = { .size = sizeof args,
                                  .config = cfg,
                                  .model = j->model ? j->model : &model,
                                  .world = world,
                                  .place = j->turned ? &place : NULL };
    TX_GOTO(tx_engine_initialize(&r.e, &args));
    assert_int_equal(tx_engine_train_micro_batch_size(r.e), B);
    assert_int_equal(tx_engine_train_batch_size(r.e), 4 * B);
    TX_GOTO(train_rank(r.e, j, &r));
out:
    tx_engine_destroy(r.e);
    tx_config_free(cfg);
    return st;
}

static job run(job j)
{
    j.until = j.until ? j.until : STEPS;
    tx_status st = tx_world_threads(j.n, rank_of, &j);
    if (st) fail_msg("%d ranks, %d x %d, %s: %s", j.n, j.tp, j.pp, j.flags, tx_last_error());
    return j;
}

/* From iteration `from` on. */
static void same(const job *a, const job *b, int from, double bound)
{
    for (int i = from; i < STEPS; i++) {
        ASSERT_NEAR(a->loss[i], b->loss[i], bound * b->loss[i], a->flags);
        ASSERT_NEAR(a->norm[i], b->norm[i], 20 * bound * b->norm[i], a->flags);
    }
    ASSERT_NEAR(a->scored, b->scored, bound * b->scored, a->flags);
}

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
    ASSERT_OK(tx_config_parse_string(&cfg, COMMAND, FLAGS));
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
    ASSERT_OK(tx_config_parse_string(cfg, COMMAND, FLAGS));
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
    ASSERT_OK(tx_config_parse_string(&cfg, COMMAND, FLAGS));
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
    TX_TRY(tx_config_parse_string(&cfg, COMMAND, flags));
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
    REFUSED(m.losses_per_sample = -1, "-1 losses");
    REFUSED(m.initial = NULL, "embed.weight is TX_INIT_OWN");
    REFUSED(l[1].name = "embed", "layers 0 and 1 of the model test are both called embed");
    REFUSED(l[2].backward = NULL, "layer mlp has no backward");
    REFUSED(l[1].n_dims = 0, "the output of twice has 0 dimensions");
    REFUSED(l[0].param = NULL, "names none");
    REFUSED(p[1].name = "weight", "two parameters weight");
    REFUSED(p[0].dim[0] = 0, "embed.weight cannot be of 0 x 6");
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
