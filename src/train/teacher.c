/* teacher.c - the forward of a teacher beside the student's. */
#include "train/teacher.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "convert/source.h"
#include "parallel/cp.h"
#include "parallel/tp.h"

/* ---- shapes ---- */

tx_tensor tx_teacher_stream(const tx_teacher *t, tx_ctx *c, int64_t s, int64_t b)
{
    return tx_tensor3(NULL, t->m->stream, tx_tp_positions(c, tx_cp_rows(tx_grid_of(c), s)), b, t->m->hidden);
}

static tx_tensor push(tx_arena *a, tx_tensor shape)
{
    shape.data = tx_arena_push(a, (size_t)tx_numel(shape) * tx_dtype_size(shape.dtype));
    return shape;
}

/* With one chunk a stage the last one sends nothing. */
static void push_own(tx_teacher *t, tx_ctx *c)
{
    int64_t s = t->cfg->seq_length, b = t->cfg->micro_batch_size;
    tx_tensor stream = tx_teacher_stream(t, c, s, b);
    const tx_pp_chunk *last = &t->m->chunk[t->m->n_chunks - 1];
    if (!last->post || t->m->n_chunks > 1) t->y = push(&t->acts, stream);
    int64_t rows = tx_cp_rows(tx_grid_of(c), s);
    if (last->post) t->features = push(&t->acts, tx_tensor2(NULL, t->m->dtype, rows * b, t->m->hidden));
}

void tx_teacher_set_length(tx_teacher *t, tx_ctx *c, int64_t s, int64_t b)
{
    tx_tensor stream = tx_teacher_stream(t, c, s, b);
    if (t->y.data) t->y.dim[0] = stream.dim[0];
    if (t->features.data) t->features.dim[0] = tx_cp_rows(tx_grid_of(c), s) * b;
}

/* ---- life ---- */

/* Values, and behind them the bias of experts where values are narrower. */
static size_t value_bytes(const tx_model *m)
{
    return (size_t)m->params.numel * tx_dtype_size(m->dtype);
}

static size_t bias_bytes(const tx_model *m)
{
    return m->dtype != TX_F32 && m->expert_bias.n_dims ? (size_t)tx_numel(m->expert_bias) * sizeof(float) : 0;
}

size_t tx_teacher_bytes(const tx_teacher *t)
{
    return t->m ? value_bytes(t->m) + bias_bytes(t->m) : 0;
}

static void bind(tx_model *m, void *value)
{
    tx_params_bind(&m->params, value, m->dtype, NULL);
    if (bias_bytes(m)) m->expert_bias.data = (char *)value + value_bytes(m);
}

tx_status tx_teacher_open(tx_teacher *t, tx_ctx *c, const tx_model *student, const tx_config *cfg)
{
    TX_TRY(tx_config_teacher(&t->cfg, cfg));
    TX_TRY(tx_model_type_of(t->cfg)->create(&t->m, t->cfg, student->vocab_size, tx_grid_of(c)));
    tx_arena_init(&t->acts, "the teacher's activations");
    t->acts.shared = c->acts.shared;
    t->acts.device = c->device;
    TX_ASSERT(t->m->type->head && t->m->n_chunks == student->n_chunks);
    if (t->m->vocab_padded != student->vocab_padded || t->m->n_valid != student->n_valid)
        return TX_FAIL(TX_ERR_SHAPE, "the teacher's logits have %lld columns, the student's %lld",
                       (long long)t->m->vocab_padded, (long long)student->vocab_padded);
    bind(t->m, TX_DRY_ADDRESS);
    push_own(t, c);
    return TX_OK;
}

tx_status tx_teacher_take(tx_teacher *t, tx_ctx *c)
{
    if (!t->m) return TX_OK;
    size_t peak = t->acts.peak;
    TX_TRY(tx_arena_reserve(&t->acts, peak));
    push_own(t, c);
    TX_TRY(tx_device_take(c->device, &t->value, tx_teacher_bytes(t), false, "the teacher's parameters"));
    bind(t->m, t->value);
    return TX_OK;
}

void tx_teacher_close(tx_teacher *t, tx_ctx *c)
{
    tx_device_give(c->device, t->value);
    tx_arena_deinit(&t->acts);
    if (t->m) t->m->type->destroy(t->m);
    tx_config_free(t->cfg);
    *t = (tx_teacher){ .cfg = NULL };
}

/* ---- weights ---- */

static tx_status check_vocabulary(const tx_model *m, const tx_source *src)
{
    int64_t known = src->type->resumes ? src->state.vocab_size : src->vocab_size;
    if (!known || known == m->vocab_size || known == m->vocab_padded) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE,
                   "--load-teacher %s: has %lld tokens, the student %lld: a teacher has its student's vocabulary",
                   src->dir, (long long)known, (long long)m->vocab_size);
}

/* The weights in the type of the run, as they lie in t->value. */
static void round_to(const tx_model *m, void *host, const float *weights)
{
    if (m->dtype == TX_F32)
        memcpy(host, weights, value_bytes(m));
    else
        tx_params_round(host, m->dtype, weights, m->params.numel);
    if (bias_bytes(m)) tx_model_read_bias(m, (float *)(void *)((char *)host + value_bytes(m)), weights);
}

tx_status tx_teacher_load(tx_teacher *t, tx_ctx *c, const tx_config *cfg)
{
    tx_source src = { 0 };
    float *weights = NULL;
    void *host = NULL;
    tx_status st;
    if (!t->m) return TX_OK;
    tx_comm *world = tx_grid_group(tx_grid_of(c), TX_GROUP_WORLD);
    st = tx_source_open(&src, cfg->load_teacher, NULL, world);
    if (st) st = tx_fail_prefix(st, "--load-teacher");
    if (st) goto out;
    TX_GOTO(check_vocabulary(t->m, &src));
    TX_GOTO(tx_alloc(&weights, (size_t)t->m->params.numel, sizeof *weights, "the teacher's weights in fp32"));
    TX_GOTO(tx_alloc(&host, tx_teacher_bytes(t), 1, "the teacher's weights"));
    TX_GOTO(tx_source_weights(&src, t->m, weights));
    round_to(t->m, host, weights);
    TX_GOTO(tx_device_write(c->device, t->value, host, tx_teacher_bytes(t)));
    tx_info(" teacher: %lld layers, hidden size %lld, %lld heads, from %s", (long long)t->m->n_layers,
            (long long)t->m->hidden, (long long)t->m->n_heads, src.path ? src.path : src.dir);
out:
    tx_free(weights);
    tx_free(host);
    tx_source_close(&src);
    return st;
}

/* ---- forward ---- */

/* On the arena that the context has. */
static tx_status forward(tx_teacher *t, tx_ctx *c, tx_batch *batch)
{
    bool post = t->m->chunk[batch->chunk].post;
    size_t mark = tx_arena_mark(&c->acts);
    TX_TRY(tx_model_fwd(c, t->m, batch, false));
    if (!post) TX_RUN(c, copy, .y = t->y, .x = batch->y);
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

tx_status tx_teacher_fwd(tx_teacher *t, tx_ctx *c, tx_batch *batch)
{
    const tx_pp_chunk *chunk = &t->m->chunk[batch->chunk];
    tx_batch own = { .token = batch->token,
                     .position = batch->position,
                     .first_key = batch->first_key,
                     .chunk = batch->chunk,
                     .dropout = batch->dropout };
    own.dropout.on = false;
    if (!chunk->pre) own.x = t->x;
    if (chunk->post) own.features = t->features;
    tx_arena acts = c->acts;
    c->acts = t->acts;
    tx_status st = forward(t, c, &own);
    t->acts = c->acts;
    c->acts = acts;
    if (chunk->post) batch->teacher = (tx_teaching){ t->features, t->m->type->head(t->m) };
    return st;
}
