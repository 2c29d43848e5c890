/* decoder.c - the cache's slots, and the calls of the model.
 *
 *  A call is a command of the leader: s positions of b sequences, what they are, and of how many of the s b rows
 *  logits are wanted; these are the last rows. Every rank of the model group runs the same:
 *
 *      the command  ->  x from the stage before  ->  its layers  ->  y to the stage after
 *                                                    last stage:     its part of the vocabulary to the leader
 *
 *  The number of positions in a call is always one that the dry run has seen (piece_of), so that no memory is planned
 *  or taken later.
 *
 *  Ranks along the context axis keep the cache of some heads each (nn/context_attention.h). They divide the positions
 * of a call of many, and what the last stage makes of these is gathered for the logits; few are computed by all of
 * them.
 *
 *  On a device, steps of as many sequences as before are the same launches with the same arguments: they are kept as a
 * graph, which the device then goes through without the host. */
#include "infer/decoder.h"

#include <string.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "nn/context_attention.h"

/* Up to FEW rows there may be any number of them. Logits are made for so many rows at once. */
enum { MAX_ROWS = 512, FEW = 64 };
enum { TAG_STREAM = 1, TAG_LOGITS };

typedef enum order { DECODE, COPY, DISMISS } order;

/* What the leader sends, all of it int32. */
typedef struct command {
    int32_t what;
    int32_t s, b, n_wanted; /* DECODE */
    int32_t to, from, n;    /* COPY: so many positions */
} command;

/* A step of so many sequences, on a device. */
typedef struct kept_step {
    bool done;       /* once, as all others are */
    tx_graph *graph; /* from the second one on */
} kept_step;

struct tx_decoder {
    tx_ctx ctx;
    tx_model *model; /* borrowed */
    tx_grid grid;    /* without sequence parallelism: a step has one position */
    tx_decoder_opts opts;
    int64_t n_layers; /* of this stage */
    int64_t n_groups; /* of which this rank keeps keys and values */
    tx_kv_cache *kv;  /* [n_layers] */
    int64_t *length;  /* [n_slots]; the leader's */
    int64_t *until;   /* [n_slots], likewise: how long a text is that is being read; or less */
    float *logits;    /* [FEW or n_slots, vocab_padded]; the leader's */
    void *message;    /* as it is sent: */
    command *cmd;
    int32_t *token, *n_past, *slot, *end; /* [rows] each */
    size_t message_bytes;
    int32_t *position; /* [rows], behind it */
    int32_t *there;    /* [5 rows], where the context computes: of token, n_past, slot, end, position; NULL: the host */
    int64_t rows;
    kept_step *step; /* [FEW]: of 1, 2, ... sequences */
    bool keeping;    /* what is put into the stream is kept for a graph */
    bool broken;     /* a command has failed half-way: the ranks no longer agree */
};

/* Who takes the rows of logits. */
typedef struct listener {
    float *logits;      /* where the leader puts them, stride vocab_padded */
    int64_t first;      /* position of the first one */
    tx_logits_fn *each; /* NULL: they stay in `logits` one after the other; else each lot is at its beginning */
    void *user;
    tx_status st; /* its first error; it is not called for the rows after that */
} listener;

static bool is_first(const tx_decoder *d)
{
    return tx_grid_rank(&d->grid, TX_AXIS_PIPELINE) == 0;
}

static bool is_last(const tx_decoder *d)
{
    return tx_grid_rank(&d->grid, TX_AXIS_PIPELINE) == tx_grid_size(&d->grid, TX_AXIS_PIPELINE) - 1;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int n_context(const tx_decoder *d)
{
    return tx_grid_size(&d->grid, TX_AXIS_CONTEXT);
}

static bool is_alone(const tx_decoder *d)
{
    return tx_grid_size(&d->grid, TX_AXIS_TENSOR) * tx_grid_size(&d->grid, TX_AXIS_PIPELINE) * n_context(d) == 1;
}

/* Whether ranks divide s positions. */
static bool divides(const tx_decoder *d, int64_t s)
{
    return n_context(d) > 1 && s > FEW && s % n_context(d) == 0;
}

/* ---- a command's work, on each rank ---- */

/* A part of the vocabulary joins the logits of n rows. */
static tx_status join(const tx_decoder *d, float *logits, const float *part, int t, int64_t n)
{
    int64_t v = d->model->vocab_padded / tx_grid_size(&d->grid, TX_AXIS_TENSOR);
    if (d->ctx.dry) return TX_OK;
    for (int64_t i = 0; i < n; i++)
        TX_TRY(tx_device_copy(d->ctx.device, TX_STREAM_COMPUTE, logits + i * d->model->vocab_padded + t * v,
                              part + i * v, (size_t)v * sizeof *logits));
    return d->keeping ? TX_OK : tx_device_sync(d->ctx.device, TX_STREAM_COMPUTE);
}

/* Logits of rows of y: to the leader, or on it, which may have no y itself, into `logits`. */
static tx_status make_logits(tx_decoder *d, tx_tensor y, int64_t n, float *logits)
{
    tx_ctx *c = &d->ctx;
    const tx_grid *g = &d->grid;
    bool leads = tx_decoder_leads(d);
    int64_t v = d->model->vocab_padded / tx_grid_size(g, TX_AXIS_TENSOR);
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor part = tx_push2(&c->acts, TX_F32, n, v);
    tx_request sent = { 0 };
    if (is_last(d)) {
        tx_tensor to = part;
        if (leads && !c->device) to.data = logits, to.stride[0] = d->model->vocab_padded;
        TX_TRY(d->model->type->logits(c, d->model, to, y));
        if (leads && c->device) TX_TRY(join(d, logits, part.data, 0, n));
        if (!leads) TX_TRY(tx_send_start(c, tx_grid_group(g, TX_GROUP_MODEL), part, 0, TAG_LOGITS, &sent));
        TX_TRY(tx_wait(c, &sent));
    }
    for (int t = is_last(d); leads && t < tx_grid_size(g, TX_AXIS_TENSOR); t++) {
        TX_TRY(tx_recv(c, tx_grid_group(g, TX_GROUP_MODEL), part,
                       (tx_grid_size(g, TX_AXIS_PIPELINE) - 1) * tx_grid_size(g, TX_AXIS_TENSOR) + t, TAG_LOGITS));
        TX_TRY(join(d, logits, part.data, t, n));
    }
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* Logits of the last `wanted` of n rows, in lots. */
static tx_status tell_logits(tx_decoder *d, tx_tensor rows, int64_t n, int64_t wanted, listener *to)
{
    if ((!is_last(d) && !tx_decoder_leads(d)) || tx_grid_rank(&d->grid, TX_AXIS_CONTEXT)) return TX_OK;
    for (int64_t done = 0, lot; done < wanted; done += lot) {
        lot = min(wanted - done, FEW);
        tx_tensor y = is_last(d) ? tx_slice_rows(rows, n - wanted + done, lot) : rows;
        float *logits = !to ? NULL : to->each || !to->logits ? to->logits : to->logits + done * d->model->vocab_padded;
        TX_TRY(make_logits(d, y, lot, logits));
        if (!to || !to->each || to->st) continue;
        to->st = to->each(to->user, to->first + done, lot, logits, d->model->vocab_padded);
    }
    return TX_OK;
}

/* The last stage's rows of all positions. */
static tx_status gather_rows(tx_decoder *d, int64_t wanted, tx_tensor *y)
{
    tx_ctx *c = &d->ctx;
    tx_tensor own = *y;
    if (!wanted || !is_last(d)) return TX_OK;
    *y = tx_push3(&c->acts, own.dtype, own.dim[0] * n_context(d), own.dim[1], own.dim[2]);
    return tx_all_gather(c, tx_grid_group(&d->grid, TX_GROUP_CONTEXT), *y, own);
}

/* all positions of b sequences, as the message has them: all that is put into the stream. */
static tx_status work(tx_decoder *d, int64_t all, int64_t b, int64_t wanted, listener *to)
{
    tx_ctx *c = &d->ctx;
    tx_model *m = d->model;
    bool parts = divides(d, all);
    int64_t s = parts ? all / n_context(d) : all, first = parts ? tx_grid_rank(&d->grid, TX_AXIS_CONTEXT) * s * b : 0;
    int32_t *token = d->there ? d->there : d->token, *n_past = token + d->rows, *slot = n_past + d->rows,
            *end = slot + d->rows, *position = end + d->rows;
    if (d->there && !c->dry)
        TX_TRY(tx_device_copy(c->device, TX_STREAM_COMPUTE, d->there, d->token, 5 * (size_t)d->rows * sizeof *token));
    const tx_past past = { tx_tensor1(n_past, TX_I32, b), tx_tensor1(slot, TX_I32, b), tx_tensor1(end, TX_I32, b) };
    const tx_tensor own_from = parts ? tx_tensor1(position + first, TX_I32, b) : (tx_tensor){ 0 };
    for (int64_t i = 0; i < d->n_layers; i++) d->kv[i].past = past, d->kv[i].own_from = own_from;
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor x = { 0 }, y = tx_push3(&c->acts, m->stream, s, b, m->hidden);
    if (!is_first(d)) {
        x = tx_push3(&c->acts, m->stream, s, b, m->hidden);
        TX_TRY(tx_recv(c, tx_grid_group(&d->grid, TX_GROUP_PIPELINE), x, tx_grid_rank(&d->grid, TX_AXIS_PIPELINE) - 1,
                       TAG_STREAM));
    }
    TX_TRY(m->type->decode(c, m,
                           &(tx_decode){
                               .token = tx_tensor2(token + first, TX_I32, s, b),
                               .position = tx_tensor2(position + first, TX_I32, s, b),
                               .x = x,
                               .y = y,
                               .kv = d->kv,
                           }));
    if (!is_last(d)) {
        tx_request sent = { 0 };
        TX_TRY(tx_send_start(c, tx_grid_group(&d->grid, TX_GROUP_PIPELINE), y,
                             tx_grid_rank(&d->grid, TX_AXIS_PIPELINE) + 1, TAG_STREAM, &sent));
        TX_TRY(tx_wait(c, &sent));
    }
    if (parts) TX_TRY(gather_rows(d, wanted, &y));
    TX_TRY(tell_logits(d, tx_as_rows(y), all * b, wanted, to));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* Whether the host does nothing but put work into the stream: ranks send each other messages, experts count. */
static bool repeats(const tx_decoder *d, int64_t s, int64_t b, const listener *to)
{
    return d->ctx.device && !d->ctx.dry && is_alone(d) && d->model->experts.n_experts <= 1 && s == 1 && b <= FEW &&
           to && to->logits == d->logits && !to->each;
}

/* A step of b sequences, by its graph as soon as there is one. */
static tx_status repeat(tx_decoder *d, int64_t b, listener *to)
{
    kept_step *k = &d->step[b - 1];
    if (!k->done) {
        k->done = true;
        return work(d, 1, b, b, to);
    }
    if (!k->graph) {
        TX_TRY(tx_device_graph_begin(d->ctx.device));
        d->keeping = true;
        tx_status st = work(d, 1, b, b, to), ended = tx_device_graph_end(d->ctx.device, &k->graph);
        d->keeping = false;
        if (st || ended) return st ? st : ended;
    }
    return k->graph ? tx_device_graph_run(d->ctx.device, k->graph) : TX_OK;
}

/* What `work` is told. */
typedef struct piece_of_work {
    tx_decoder *d;
    int64_t s, b, wanted;
    listener *to;
} piece_of_work;

static tx_status work_on(void *user)
{
    const piece_of_work *p = user;
    return work(p->d, p->s, p->b, p->wanted, p->to);
}

/* Of a few rows the threads stay together. */
static tx_status work_together(tx_decoder *d, int64_t s, int64_t b, int64_t wanted, listener *to)
{
    enum { ROWS = 8 };
    piece_of_work all = { d, s, b, wanted, to };
    if (s * b > ROWS || d->model->experts.n_experts > 1 || !d->ctx.backend->together) return work_on(&all);
    return d->ctx.backend->together(&d->ctx, work_on, &all);
}

static tx_status run(tx_decoder *d, int64_t s, int64_t b, int64_t wanted, listener *to)
{
    for (int64_t i = 0; i < s * b && !d->ctx.dry; i++) d->position[i] = d->n_past[i % b] + (int32_t)(i / b);
    TX_TRY(repeats(d, s, b, to) ? repeat(d, b, to) : work_together(d, s, b, wanted, to));
    return d->ctx.dry ? TX_OK : tx_device_sync(d->ctx.device, TX_STREAM_COMPUTE); /* the message is free again */
}

static tx_status copy(const tx_decoder *d, int64_t to, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < 2 * d->n_layers; i++) {
        tx_tensor x = i % 2 ? d->kv[i / 2].v : d->kv[i / 2].k;
        int64_t size = (int64_t)tx_dtype_size(x.dtype);
        for (int64_t g = 0; g < d->n_groups; g++)
            TX_TRY(tx_device_copy(
                d->ctx.device, TX_STREAM_COMPUTE, (char *)x.data + (to * x.stride[1] + g * x.stride[2]) * size,
                (char *)x.data + (from * x.stride[1] + g * x.stride[2]) * size, (size_t)(n * x.stride[0] * size)));
    }
    return TX_OK;
}

static tx_status obey(tx_decoder *d, listener *to)
{
    const command *k = d->cmd;
    if (k->what == DECODE) return run(d, k->s, k->b, k->n_wanted, to);
    return k->what == COPY ? copy(d, k->to, k->from, k->n) : TX_OK;
}

/* ---- the leader and its followers ---- */

/* The leader's next command, which all obey. What is told to `to` has failed only where its st says so. */
static tx_status lead(tx_decoder *d, listener *to)
{
    if (d->broken) return TX_FAIL(TX_ERR_COMM, "the decoder's ranks have been stopped by an error before");
    tx_status st = tx_comm_spread(tx_grid_samples_group(&d->grid), d->message, d->message_bytes, 0);
    if (!st) st = obey(d, to);
    d->broken = st && !is_alone(d);
    return st;
}

/* A server may have nothing to do for hours. */
static tx_status next_command(tx_decoder *d)
{
    tx_world *w = tx_comm_world(tx_grid_samples_group(&d->grid));
    double timeout = tx_world_timeout(w);
    tx_world_set_timeout(w, 0);
    tx_status st = tx_comm_spread(tx_grid_samples_group(&d->grid), d->message, d->message_bytes, 0);
    tx_world_set_timeout(w, timeout);
    return st;
}

bool tx_decoder_leads(const tx_decoder *d)
{
    return tx_comm_rank(tx_grid_samples_group(&d->grid)) == 0;
}

tx_status tx_decoder_follow(tx_decoder *d)
{
    if (tx_decoder_leads(d)) return TX_OK;
    for (;;) {
        TX_TRY(next_command(d));
        if (d->cmd->what == DISMISS) return TX_OK;
        TX_TRY(obey(d, NULL));
    }
}

tx_status tx_decoder_dismiss(tx_decoder *d)
{
    if (!tx_decoder_leads(d)) return TX_OK;
    *d->cmd = (command){ .what = DISMISS };
    return lead(d, NULL);
}

/* ---- life ---- */

/* So many positions, or less, that ranks can divide, where they are many. */
static int64_t whole_parts(const tx_decoder *d, int64_t n)
{
    int64_t each = n / n_context(d);
    return n > FEW && each ? each * n_context(d) : n;
}

/* How many of n positions the next call takes: all there is room for, or a power of two, or FEW at most. */
static int64_t piece_of(const tx_decoder *d, int64_t n)
{
    if (n >= d->opts.max_rows) return d->opts.max_rows;
    int64_t piece = FEW;
    while (2 * piece <= n) piece *= 2;
    return n < piece ? n : whole_parts(d, piece);
}

/* All calls there can be, dry: attention counts with the whole cache. */
static tx_status plan(tx_decoder *d)
{
    int64_t few = min(FEW, d->opts.max_rows);
    listener to = { .logits = d->logits };
    for (int64_t n = 1; n <= few; n++) TX_TRY(run(d, n, 1, n, &to));
    for (int64_t n = 2 * FEW; n < d->opts.max_rows; n *= 2) TX_TRY(run(d, whole_parts(d, n), 1, 0, &to));
    TX_TRY(run(d, d->opts.max_rows, 1, min(FEW, d->opts.max_rows), &to));
    for (int64_t n = 1; n <= min(FEW, d->opts.n_slots); n++) TX_TRY(run(d, 1, n, n, &to));
    return tx_ctx_take_memory(&d->ctx);
}

static tx_status take_cache(tx_decoder *d, tx_tensor *x)
{
    int64_t n = d->opts.n_slots, g = d->n_groups, max = d->opts.max_len, w = d->model->head_dim;
    *x = (tx_tensor){
        .dtype = d->model->dtype, .n_dims = 4, .dim = { max, n, g, w }, .stride = { w, g * max * w, max * w, 1 }
    };
    return tx_device_take(d->ctx.device, &x->data, (size_t)(n * g * max * w) * tx_dtype_size(x->dtype), false,
                          "the key-value cache");
}

static tx_status take_message(tx_decoder *d)
{
    int64_t rows = d->opts.max_rows > FEW ? d->opts.max_rows : FEW;
    size_t head = (sizeof(command) + 63) / 64 * 64;
    d->message_bytes = head + 4 * (size_t)rows * sizeof *d->token;
    TX_TRY(tx_device_take_host(d->ctx.device, &d->message, head + 5 * (size_t)rows * sizeof *d->token, "the decoder"));
    d->cmd = d->message;
    d->token = (int32_t *)(void *)((char *)d->message + head);
    d->n_past = d->token + rows;
    d->slot = d->n_past + rows;
    d->end = d->slot + rows;
    d->position = d->end + rows;
    d->rows = rows;
    if (d->ctx.device)
        TX_TRY(tx_device_take(d->ctx.device, &d->there, 5 * (size_t)rows * sizeof *d->there, false, "the decoder"));
    return tx_alloc(&d->step, FEW, sizeof *d->step, "the decoder");
}

static tx_status check_opts(const tx_model *m, const tx_grid *g, const tx_decoder_opts *opts)
{
    int n = g ? tx_grid_size(g, TX_AXIS_CONTEXT) : 1;
    if (n > 1 && m->n_heads / tx_grid_size(g, TX_AXIS_TENSOR) < n)
        return TX_FAIL(TX_ERR_ARG,
                       "--context-parallel-size %d: a rank that continues texts keeps the keys and values of some of "
                       "the attention heads, and a tensor-parallel rank has %lld: give at most as many",
                       n, (long long)(m->n_heads / tx_grid_size(g, TX_AXIS_TENSOR)));
    if (n > 1 && m->experts.n_experts > 1)
        return TX_FAIL(TX_ERR_ARG, "--context-parallel-size %d: layers with experts continue texts whole: leave it out",
                       n);
    if (m->positions == TX_POSITIONS_LEARNED && opts->max_len > m->max_positions)
        return TX_FAIL(TX_ERR_ARG,
                       "prompt and new tokens together are %lld, the model has %lld positions: shorten one of them",
                       (long long)opts->max_len, (long long)m->max_positions);
    if (m->n_chunks != 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "a pipeline stage with %d chunks of the layers does not decode; one does",
                       m->n_chunks);
    return TX_OK;
}

/* Those whose keys and values the rank keeps. */
static int64_t n_groups_of(const tx_decoder *d)
{
    int64_t t = tx_grid_size(&d->grid, TX_AXIS_TENSOR);
    return tx_context_groups_kept(d->model->n_heads / t, d->model->n_groups / t, n_context(d),
                                  tx_grid_rank(&d->grid, TX_AXIS_CONTEXT));
}

tx_status tx_decoder_create(tx_decoder **out, tx_model *model, const tx_grid *grid, const tx_decoder_opts *opts)
{
    TX_TRY(check_opts(model, grid, opts));
    tx_decoder *d;
    TX_TRY(tx_alloc(&d, 1, sizeof *d, "the decoder"));
    tx_status st;
    d->model = model;
    d->grid = grid ? *grid : tx_grid_alone;
    d->grid.sequence = false;
    d->grid.zigzag = false; /* and heads are exchanged among all context ranks */
    d->grid.heads = 0;
    d->opts = *opts;
    if (!d->opts.max_rows) d->opts.max_rows = MAX_ROWS * n_context(d);
    d->opts.max_rows = whole_parts(d, min(d->opts.max_rows, opts->max_len));
    d->n_layers = model->chunk[0].end - model->chunk[0].first;
    d->n_groups = n_groups_of(d);
    size_t slots = (size_t)opts->n_slots, rows = slots > FEW ? slots : FEW;
    TX_GOTO(tx_grid_ctx(&d->ctx, &d->grid, opts->backend, opts->n_threads, opts->teams));
    TX_GOTO(tx_alloc(&d->kv, (size_t)d->n_layers, sizeof *d->kv, "the key-value cache"));
    for (int64_t i = 0; i < d->n_layers; i++) {
        TX_GOTO(take_cache(d, &d->kv[i].k));
        TX_GOTO(take_cache(d, &d->kv[i].v));
    }
    TX_GOTO(take_message(d));
    TX_GOTO(tx_alloc(&d->length, slots, sizeof *d->length, "the decoder"));
    TX_GOTO(tx_alloc(&d->until, slots, sizeof *d->until, "the decoder"));
    if (tx_decoder_leads(d))
        TX_GOTO(tx_device_take_host(d->ctx.device, &d->logits, rows * (size_t)model->vocab_padded * sizeof *d->logits,
                                    "the logits"));
    TX_GOTO(plan(d));
    *out = d;
out:
    if (st) tx_decoder_destroy(d);
    return st;
}

void tx_decoder_destroy(tx_decoder *d)
{
    if (!d) return;
    for (int64_t i = 0; d->kv && i < d->n_layers; i++) {
        tx_device_give(d->ctx.device, d->kv[i].k.data);
        tx_device_give(d->ctx.device, d->kv[i].v.data);
    }
    for (int i = 0; d->step && i < FEW; i++) tx_device_graph_free(d->ctx.device, d->step[i].graph);
    tx_device_give(d->ctx.device, d->there);
    tx_device_give_host(d->ctx.device, d->logits);
    tx_device_give_host(d->ctx.device, d->message);
    tx_ctx_deinit(&d->ctx);
    tx_free(d->kv);
    tx_free(d->length);
    tx_free(d->until);
    tx_free(d->step);
    tx_free(d);
}

tx_device *tx_decoder_device(const tx_decoder *d)
{
    return d->ctx.device;
}

int64_t tx_decoder_slots(const tx_decoder *d)
{
    return d->opts.n_slots;
}

int64_t tx_decoder_max_len(const tx_decoder *d)
{
    return d->opts.max_len;
}

int64_t tx_decoder_vocab(const tx_decoder *d)
{
    return d->model->vocab_size;
}

/* ---- the leader's calls ---- */

int64_t tx_decoder_length(const tx_decoder *d, int slot)
{
    return d->length[slot];
}

void tx_decoder_truncate(tx_decoder *d, int slot, int64_t n)
{
    TX_ASSERT(n >= 0 && n <= d->length[slot]);
    d->length[slot] = n;
    d->until[slot] = 0;
}

void tx_decoder_expect(tx_decoder *d, int slot, int64_t n)
{
    d->until[slot] = n;
}

bool tx_decoder_keeps_keys(const tx_decoder *d)
{
    return !d->model->lengths_matter;
}

static tx_status check(const tx_decoder *d, int slot, const int32_t *token, int64_t n)
{
    TX_ASSERT(tx_decoder_leads(d) && slot >= 0 && slot < d->opts.n_slots);
    if (d->length[slot] + n > d->opts.max_len)
        return TX_FAIL(TX_ERR_ARG, "%lld tokens, there is room for %lld", (long long)(d->length[slot] + n),
                       (long long)d->opts.max_len);
    for (int64_t i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= d->model->vocab_size)
            return TX_FAIL(TX_ERR_ARG, "token %d, the model has %lld", token[i], (long long)d->model->vocab_size);
    return TX_OK;
}

tx_status tx_decoder_append(tx_decoder *d, int slot, const int32_t *token, int64_t n, const tx_logits_wanted *wanted)
{
    TX_TRY(check(d, slot, token, n));
    for (int64_t done = 0, piece; done < n; done += piece) {
        piece = piece_of(d, n - done);
        int64_t end = d->length[slot] + piece, rows = wanted ? min(piece, end - wanted->first) : 0;
        if (rows < 0) rows = 0;
        *d->cmd = (command){ .what = DECODE, .s = (int32_t)piece, .b = 1, .n_wanted = (int32_t)rows };
        memcpy(d->token, token + done, (size_t)piece * sizeof *token);
        d->n_past[0] = (int32_t)d->length[slot];
        d->slot[0] = slot;
        d->end[0] = (int32_t)max(d->until[slot], d->length[slot] + n - done);
        listener to = { .logits = d->logits, .first = end - rows };
        if (wanted) to.each = wanted->each, to.user = wanted->user;
        TX_TRY(lead(d, &to));
        d->length[slot] = end;
        TX_TRY(to.st);
    }
    return TX_OK;
}

tx_status tx_decoder_step(tx_decoder *d, const int *slot, const int32_t *token, int64_t n, const float **logits,
                          int64_t *stride)
{
    TX_ASSERT(n <= d->opts.n_slots);
    for (int64_t i = 0; i < n; i++) TX_TRY(check(d, slot[i], &token[i], 1));
    for (int64_t first = 0, b; first < n; first += b) {
        b = min(n - first, FEW);
        *d->cmd = (command){ .what = DECODE, .s = 1, .b = (int32_t)b, .n_wanted = (int32_t)b };
        for (int64_t i = 0; i < b; i++) {
            d->token[i] = token[first + i];
            d->slot[i] = slot[first + i];
            d->n_past[i] = (int32_t)d->length[slot[first + i]];
            d->end[i] = d->n_past[i] + 1;
        }
        listener to = { .logits = d->logits + first * d->model->vocab_padded };
        TX_TRY(lead(d, &to));
    }
    for (int64_t i = 0; i < n; i++) d->length[slot[i]]++;
    *logits = d->logits;
    *stride = d->model->vocab_padded;
    return TX_OK;
}

tx_status tx_decoder_copy(tx_decoder *d, int to, int from)
{
    if (to == from) return TX_OK;
    *d->cmd = (command){ .what = COPY, .to = to, .from = from, .n = (int32_t)d->length[from] };
    TX_TRY(lead(d, NULL));
    d->length[to] = d->length[from];
    return TX_OK;
}
