/* char_lm_engine.c - trains the same character transformer with triax's engine: an embedding, blocks and a head as
 * layers of their own, so that ZeRO-3, pipelines and activation checkpointing work on them. The attention kernel is
 * char_lm_model.c's; the rest is triax's ops.
 *
 *      cc char_lm_engine.c char_lm_model.c $(pkg-config --cflags --libs triax) -lm -o char_lm_engine
 *      ./char_lm_engine --steps 200
 *      mpirun -n 4 ./char_lm_engine --steps 200 --pipeline-model-parallel-size 2 --zero-stage 1
 * --checkpoint-activations
 *
 *  --folder reads the newest checkpoint there is, and with --every n writes one after every n steps. All other options
 * are the engine's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "char_lm_model.h"
#include "triax/engine.h"

/* ---- arguments ---- */

typedef struct options {
    int64_t steps, every;
    const char *folder;
    tx_config *engine;
} options;

/* Our options and the engine's in one command line; before it what the plain loop has. */
static tx_status parse(options *o, int argc, char **argv)
{
    static const char plain[] = "--micro-batch-size 4 --global-batch-size 16 --lr 3e-3 --weight-decay 0 --clip-grad 0 "
                                "--adam-beta2 0.999";
    const tx_argument own[] = {
        { "steps", TX_ARGUMENT_INT, &o->steps, "N", "Updates in all." },
        { "folder", TX_ARGUMENT_TEXT, &o->folder, "DIR", "Where checkpoints are; the newest is read." },
        { "every", TX_ARGUMENT_INT, &o->every, "N", "Steps between checkpoints; 0: none is written." },
        { 0 },
    };
    char *help;
    if (argc == 2 && !strcmp(argv[1], "--help") && !tx_arguments_help(&help, "engine", own)) {
        fputs(help, stdout);
        exit(0);
    }
    return tx_add_config_arguments(&o->engine, "engine", own, argc - 1, argv + 1, plain);
}

/* ---- what layers share ---- */

#define TRY(call)                            \
    do {                                     \
        tx_status try_status_ = (call);      \
        if (try_status_) return try_status_; \
    } while (0)

/* [rows, n] of the run's type */
static tx_tensor values(tx_ctx *c, const tx_layer_call *k, int64_t n)
{
    return tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b * LENGTH, n });
}

static tx_tensor floats(tx_ctx *c, int64_t rows, int64_t n)
{
    return tx_ctx_push(c, TX_F32, 2, (int64_t[]){ rows, n });
}

/* [rows, HIDDEN] as the ops take what goes from layer to layer */
static tx_tensor as_stream(const tx_layer_call *k, tx_tensor x)
{
    return tx_tensor3(x.data, x.dtype, k->b, LENGTH, HIDDEN);
}

/* y = x + residual */
static tx_status add(tx_ctx *c, const tx_layer_call *k, tx_tensor y, tx_tensor x, tx_tensor residual)
{
    TX_RUN(c, add, .y = as_stream(k, y), .a = as_stream(k, x), .b = as_stream(k, residual));
    return TX_OK;
}

/* y = x wᵀ + b, of parameters `w` and `w` + 1 of the layer */
static tx_status linear_fwd(tx_ctx *c, const tx_layer_call *k, int w, tx_tensor y, tx_tensor x)
{
    TX_RUN(c, gemm, .c = y, .a = x, .b = k->weight[w].value, .bias = k->weight[w + 1].value, .trans_b = true);
    return TX_OK;
}

static tx_status linear_bwd(tx_ctx *c, const tx_layer_call *k, int w, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    TX_RUN(c, gemm, .c = k->weight[w].grad, .a = dy, .b = x, .trans_a = true, .accumulate = true);
    TX_RUN(c, col_sum, .y = k->weight[w + 1].grad, .x = dy);
    TX_RUN(c, gemm, .c = dx, .a = dy, .b = k->weight[w].value);
    return TX_OK;
}

typedef struct norm_saved {
    tx_tensor y, mean, rs;
} norm_saved;

static tx_status norm_fwd(tx_ctx *c, const tx_layer_call *k, int w, norm_saved *s, tx_tensor x)
{
    int64_t rows = k->b * LENGTH;
    s->y = values(c, k, HIDDEN);
    s->mean = tx_ctx_push(c, TX_F32, 1, &rows);
    s->rs = tx_ctx_push(c, TX_F32, 1, &rows);
    TX_RUN(c, layernorm_fwd, .y = s->y, .mu = s->mean, .rs = s->rs, .x = x, .gamma = k->weight[w].value,
           .beta = k->weight[w + 1].value, .eps = EPSILON);
    return TX_OK;
}

/* dx = residual's gradient, if there is one, + the norm's */
static tx_status norm_bwd(tx_ctx *c, const tx_layer_call *k, int w, const norm_saved *s, tx_tensor dx, tx_tensor dy,
                          tx_tensor x, tx_tensor residual)
{
    TX_RUN(c, layernorm_bwd, .dx = dx, .dgamma = k->weight[w].grad, .dbeta = k->weight[w + 1].grad, .dy = dy, .x = x,
           .dres = residual, .gamma = k->weight[w].value, .mu = s->mean, .rs = s->rs);
    return TX_OK;
}

/* ---- the embedding ---- */

typedef struct embedding_saved {
    tx_tensor position; /* [b, LENGTH] i32 */
} embedding_saved;

static tx_status embedding_forward(tx_ctx *c, const tx_layer_call *k)
{
    embedding_saved *s = k->saved;
    s->position = tx_ctx_push(c, TX_I32, 2, (int64_t[]){ k->b, LENGTH });
    int32_t *at = s->position.data;
    for (int64_t i = 0; i < k->b * LENGTH && !tx_ctx_is_dry(c); i++) at[i] = (int32_t)(i % LENGTH);
    TX_RUN(c, embedding_fwd, .y = k->y, .token = k->input[0], .position = s->position, .word = k->weight[WORD].value,
           .pos = k->weight[POSITION].value);
    return TX_OK;
}

static tx_status embedding_backward(tx_ctx *c, const tx_layer_call *k)
{
    const embedding_saved *s = k->saved;
    TX_RUN(c, embedding_bwd, .dword = k->weight[WORD].grad, .dpos = k->weight[POSITION].grad, .dy = k->dy,
           .token = k->input[0], .position = s->position);
    return TX_OK;
}

/* ---- a block: x1 = x + out(attention(qkv(norm1 x))),  y = x1 + down(gelu(up(norm2 x1))) ---- */

typedef struct block_saved {
    norm_saved norm1, norm2;
    tx_tensor qkv, p; /* fp32, which the attention kernel computes in */
    tx_tensor o, x1, up, gelu;
} block_saved;

/* The kernel of our own between two casts. */
static tx_status attention_fwd(tx_ctx *c, const tx_layer_call *k, block_saved *s)
{
    int64_t rows = k->b * LENGTH;
    s->qkv = floats(c, rows, 3 * HIDDEN);
    s->p = floats(c, k->b * HEADS * LENGTH, LENGTH);
    s->o = values(c, k, HIDDEN);
    size_t mark = tx_ctx_mark(c);
    tx_tensor qkv = values(c, k, 3 * HIDDEN), o = floats(c, rows, HIDDEN);
    TRY(linear_fwd(c, k, QKV_W, qkv, s->norm1.y));
    TX_RUN(c, cast, .y = s->qkv, .x = qkv);
    if (!tx_ctx_is_dry(c)) char_lm_attention_fwd(o.data, s->p.data, s->qkv.data, k->b);
    TX_RUN(c, cast, .y = s->o, .x = o);
    tx_ctx_pop(c, mark);
    return TX_OK;
}

/* @d_norm gradient of norm1's result   @d_o of attention's */
static tx_status attention_bwd(tx_ctx *c, const tx_layer_call *k, const block_saved *s, tx_tensor d_norm, tx_tensor d_o)
{
    int64_t rows = k->b * LENGTH;
    tx_tensor from = floats(c, rows, HIDDEN), to = floats(c, rows, 3 * HIDDEN), dqkv = values(c, k, 3 * HIDDEN);
    TX_RUN(c, cast, .y = from, .x = d_o);
    if (!tx_ctx_is_dry(c)) char_lm_attention_bwd(to.data, from.data, s->p.data, s->qkv.data, k->b);
    TX_RUN(c, cast, .y = dqkv, .x = to);
    return linear_bwd(c, k, QKV_W, d_norm, dqkv, s->norm1.y);
}

static tx_status block_forward(tx_ctx *c, const tx_layer_call *k)
{
    block_saved *s = k->saved;
    tx_tensor x = tx_as_rows(k->x), y = tx_as_rows(k->y);
    TRY(norm_fwd(c, k, LN1_W, &s->norm1, x));
    TRY(attention_fwd(c, k, s));
    s->x1 = values(c, k, HIDDEN);
    TRY(linear_fwd(c, k, OUT_W, s->x1, s->o));
    TRY(add(c, k, s->x1, s->x1, x));
    TRY(norm_fwd(c, k, LN2_W, &s->norm2, s->x1));
    s->up = values(c, k, INNER);
    s->gelu = values(c, k, INNER);
    TRY(linear_fwd(c, k, UP_W, s->up, s->norm2.y));
    TX_RUN(c, activation_fwd, .y = s->gelu, .x = s->up, .kind = TX_GELU_TANH);
    TRY(linear_fwd(c, k, DOWN_W, y, s->gelu));
    return add(c, k, y, y, s->x1);
}

static tx_status block_backward(tx_ctx *c, const tx_layer_call *k)
{
    const block_saved *s = k->saved;
    tx_tensor dy = tx_as_rows(k->dy), dx = tx_as_rows(k->dx), x = tx_as_rows(k->x);
    tx_tensor d_up = values(c, k, INNER), d_norm = values(c, k, HIDDEN), dx1 = values(c, k, HIDDEN);
    tx_tensor d_o = values(c, k, HIDDEN);
    TRY(linear_bwd(c, k, DOWN_W, d_up, dy, s->gelu));
    TX_RUN(c, activation_bwd, .dx = d_up, .dy = d_up, .x = s->up, .kind = TX_GELU_TANH);
    TRY(linear_bwd(c, k, UP_W, d_norm, d_up, s->norm2.y));
    TRY(norm_bwd(c, k, LN2_W, &s->norm2, dx1, d_norm, s->x1, dy));
    TRY(linear_bwd(c, k, OUT_W, d_o, dx1, s->o));
    TRY(attention_bwd(c, k, s, d_norm, d_o));
    return norm_bwd(c, k, LN1_W, &s->norm1, dx, d_norm, x, dx1);
}

/* ---- the head ---- */

typedef struct head_saved {
    norm_saved norm;
    tx_tensor dz; /* already in forward: the softmax is there */
} head_saved;

static tx_status head_forward(tx_ctx *c, const tx_layer_call *k)
{
    head_saved *s = k->saved;
    int64_t rows = k->b * LENGTH;
    tx_tensor none = { 0 };
    TRY(norm_fwd(c, k, LN_W, &s->norm, tx_as_rows(k->x)));
    s->dz = values(c, k, VOCAB);
    size_t mark = tx_ctx_mark(c);
    tx_tensor z = floats(c, rows, VOCAB);
    TX_RUN(c, gemm, .c = z, .a = s->norm.y, .b = k->weight[LOGIT_W].value, .trans_b = true);
    TX_RUN(c, cross_entropy, .loss = tx_slice1(k->loss, 0, rows), .z = z, .dz = k->train ? s->dz : none,
           .y = tx_slice1(k->input[1], 0, rows), .weight = k->train ? tx_slice1(k->loss_weight, 0, rows) : none,
           .n_valid = VOCAB);
    tx_ctx_pop(c, mark);
    return TX_OK;
}

static tx_status head_backward(tx_ctx *c, const tx_layer_call *k)
{
    const head_saved *s = k->saved;
    tx_tensor none = { 0 }, d_norm = values(c, k, HIDDEN);
    TX_RUN(c, gemm, .c = k->weight[LOGIT_W].grad, .a = s->dz, .b = s->norm.y, .trans_a = true, .accumulate = true);
    TX_RUN(c, gemm, .c = d_norm, .a = s->dz, .b = k->weight[LOGIT_W].value);
    return norm_bwd(c, k, LN_W, &s->norm, tx_as_rows(k->dx), d_norm, tx_as_rows(k->x), none);
}

/* ---- initialisation ---- */

static tx_status initialize(tx_engine **e, tx_config *cfg)
{
    static tx_param_spec param[N_LAYERS][N_BLOCK];
    static tx_layer layer[N_LAYERS];
    static const tx_client_model model = { .size = sizeof(tx_client_model),
                                           .name = "char-lm",
                                           .input = { { TX_I32, 1, { LENGTH } }, { TX_I32, 1, { LENGTH } } },
                                           .n_inputs = 2,
                                           .layer = layer,
                                           .n_layers = N_LAYERS,
                                           .losses_per_sample = LENGTH,
                                           .host_only = true,
                                           .initial = char_lm_initial };
    for (int l = 0; l < N_LAYERS; l++) {
        const char_lm_layer *of = &char_lm_layers[l];
        for (int p = 0; p < of->n_params; p++)
            param[l][p] = (tx_param_spec){ .name = of->param[p].name,
                                           .dim = { of->param[p].dim[0], of->param[p].dim[1] },
                                           .init = TX_INIT_OWN };
        layer[l] = (tx_layer){ .name = of->name,
                               .param = param[l],
                               .n_params = of->n_params,
                               .n_dims = 2,
                               .dim = { LENGTH, HIDDEN },
                               .forward = block_forward,
                               .backward = block_backward,
                               .saved_size = sizeof(block_saved) };
    }
    layer[0].forward = embedding_forward, layer[0].backward = embedding_backward;
    layer[N_LAYERS - 1].forward = head_forward, layer[N_LAYERS - 1].backward = head_backward;
    layer[N_LAYERS - 1].n_dims = 0;
    return tx_engine_initialize(e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &model });
}

/* ---- training: whole global batches, which a pipeline needs ---- */

typedef struct reader {
    tx_engine *e;
    int32_t *token, *next; /* [b, LENGTH] */
    const void *batch[2];
} reader;

/* The data-parallel ranks read micro-batches in turn. */
static tx_status read_micro_batch(void *user, int64_t micro, const void **batch)
{
    reader *r = user;
    int64_t b = tx_engine_train_micro_batch_size(r->e), ranks = tx_engine_data_parallel_size(r->e);
    int64_t first = tx_engine_iteration(r->e) * tx_engine_train_batch_size(r->e) +
                    (micro * ranks + tx_engine_data_parallel_rank(r->e)) * b;
    for (int64_t j = 0; j < b; j++) char_lm_sample(first + j, r->token + j * LENGTH, r->next + j * LENGTH);
    *batch = r->batch;
    return TX_OK;
}

/* The client's state is the average of the losses that is shown. */
static tx_status save(tx_engine *e, const char *folder, double average)
{
    char state[128];
    snprintf(state, sizeof state, "{\"average_loss\": %.17g}", average);
    return tx_engine_save_checkpoint(e, folder, NULL, state);
}

static tx_status load(tx_engine *e, const char *folder, double *average)
{
    char *path = NULL, *state = NULL;
    tx_status st = tx_engine_load_checkpoint(e, folder, NULL, &path, &state);
    const char *at = state ? strchr(state, ':') : NULL;
    if (at) *average = strtod(at + 1, NULL);
    tx_text_free(path);
    tx_text_free(state);
    return st;
}

static tx_status train(reader *r, const options *o)
{
    tx_engine *e = r->e;
    double average = 0, loss;
    if (o->folder) TRY(load(e, o->folder, &average));
    while (tx_engine_iteration(e) < o->steps) {
        TRY(tx_engine_train_batch(e, read_micro_batch, r, &loss));
        int64_t step = tx_engine_iteration(e);
        average = step == 1 ? loss : 0.9 * average + 0.1 * loss;
        if (tx_engine_global_rank(e) == 0)
            printf("step %4lld  loss %.9g  average %.17g  scale %g\n", (long long)step, loss, average,
                   tx_engine_cur_scale(e));
        fflush(stdout);
        if (o->folder && o->every && step % o->every == 0) TRY(save(e, o->folder, average));
    }
    if (tx_engine_global_rank(e) == 0) printf("memory %lld bytes a rank\n", (long long)tx_engine_memory_of(e).total);
    return TX_OK;
}

int main(int argc, char **argv)
{
    options o = { .steps = 200 };
    reader r = { .e = NULL };
    tx_status st = parse(&o, argc, argv);
    if (!st) st = initialize(&r.e, o.engine);
    if (!st) {
        size_t size = (size_t)tx_engine_train_micro_batch_size(r.e) * LENGTH * sizeof *r.token;
        r.batch[0] = r.token = malloc(size);
        r.batch[1] = r.next = malloc(size);
        if (!r.token || !r.next) exit((fprintf(stderr, "char_lm_engine: no memory\n"), 1));
        st = train(&r, &o);
    }
    if (st) {
        fprintf(stderr, "char_lm_engine: %s\n", tx_last_error());
        exit(1); /* not through destroy, which waits for the other ranks */
    }
    tx_engine_destroy(r.e);
    tx_config_free(o.engine);
    free(r.token);
    free(r.next);
    return 0;
}
