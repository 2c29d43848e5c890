/* client_runs.h - a client's own model of four layers, one without parameters and one whose matrices tensor ranks
 * divide, and runs of it on ranks that are threads. */
#ifndef TX_TESTS_CLIENT_RUNS_H
#define TX_TESTS_CLIENT_RUNS_H

#include "engine_jobs.h"

enum { N_IN = 6, WIDE = 8, INNER = 12, MIDDLE = 4, N_CLASSES = 3, B = 2 };

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

static inline tx_status train_rank(tx_engine *e, job *j, reader *r)
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

#define FLAGS                                                                                                   \
    "--micro-batch-size 2 --global-batch-size 8 --train-iters 6 --lr 1e-2 --lr-decay-style cosine --threads 1 " \
    "--clip-grad 0.5 --seed 3 "

static inline tx_status rank_of(tx_world *world, void *user)
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
    const tx_rank_place place = { .size = j->turned == 3 ? 0 : sizeof place,
                                  .tensor = at % j->tp,
                                  .pipeline = at / j->tp / dp,
                                  .data = at / j->tp % dp };
    TX_GOTO(tx_config_parse_string(&cfg, "engine", flags));
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

#endif
