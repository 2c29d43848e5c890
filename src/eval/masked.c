/* masked.c - micro-batches of masked samples through the stages, and from the last one's output to scores.
 *
 *  A tensor rank has a part of the vocabulary's logits. It sends the others what `read_row` computes from its part of a
 *  row, so the logits themselves are never sent. The last stage sends the result to all stages. */
#include "eval/masked.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "parallel/tp.h"

enum { LOT = 64 }; /* rows whose logits exist at once; products are always of so many, whose workspace is found dry */

/* What a rank tells of a row, all of it doubles:
 * [max][sum of exp(x - max)][the label's logit][the words' logits ...][the likeliest: logit, id, logit, id, ...] */
enum { MAX, SUM, LABEL, WORDS };

static int64_t width(const tx_masked *m)
{
    return WORDS + m->opts.n_words + 2 * m->opts.n_top;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- a row of logits ---- */

/* This rank's part of a row: x[0, n) are the logits of tokens first, first + 1, ... */
typedef struct row_part {
    const float *x;
    int64_t first, n;
} row_part;

/* Puts a logit among n pairs [logit, id] that are in order; id -1: there is none. */
static void insert(double *top, int64_t n, double logit, double id)
{
    int64_t k = n;
    while (k > 0 && (top[2 * k - 1] < 0 || logit > top[2 * k - 2])) k--;
    if (k == n) return;
    memmove(top + 2 * k + 2, top + 2 * k, (size_t)(n - k - 1) * 2 * sizeof *top);
    top[2 * k] = logit;
    top[2 * k + 1] = id;
}

static double logit_of(const row_part *r, int64_t token)
{
    return token >= r->first && token < r->first + r->n ? (double)r->x[token - r->first] : -INFINITY;
}

static void read_row(const tx_masked *m, double *to, const row_part *r, int32_t label)
{
    int64_t n_top = m->opts.n_top, n_real = min(r->n, m->model->vocab_size - r->first);
    double *top = to + WORDS + m->opts.n_words;
    for (int64_t k = 0; k < n_top; k++) top[2 * k] = -INFINITY, top[2 * k + 1] = -1;
    to[MAX] = -INFINITY;
    to[SUM] = 0;
    for (int64_t v = 0; v < r->n; v++) to[MAX] = fmax(to[MAX], (double)r->x[v]);
    for (int64_t v = 0; v < r->n; v++) to[SUM] += exp((double)r->x[v] - to[MAX]);
    for (int64_t v = 0; v < n_real; v++) insert(top, n_top, (double)r->x[v], (double)(r->first + v));
    to[LABEL] = logit_of(r, label);
    for (int64_t w = 0; w < m->opts.n_words; w++) to[WORDS + w] = logit_of(r, m->opts.word[w]);
}

/* What another rank, with higher tokens, has told of the row. */
static void add_part(const tx_masked *m, double *to, const double *part)
{
    int64_t top = WORDS + m->opts.n_words;
    double most = fmax(to[MAX], part[MAX]);
    if (part[SUM] == 0) return; /* nothing but padding is there */
    to[SUM] = to[SUM] * exp(to[MAX] - most) + part[SUM] * exp(part[MAX] - most);
    to[MAX] = most;
    for (int64_t i = LABEL; i < top; i++) to[i] = fmax(to[i], part[i]);
    for (int64_t k = 0; k < m->opts.n_top && part[top + 2 * k + 1] >= 0; k++)
        insert(to + top, m->opts.n_top, part[top + 2 * k], part[top + 2 * k + 1]);
}

/* The whole row into the results of token `at`. */
static void keep_row(tx_masked *m, int64_t at, const double *row)
{
    int64_t n_words = m->opts.n_words, n_top = m->opts.n_top;
    const double *top = row + WORDS + n_words;
    double lse = row[MAX] + log(row[SUM]);
    m->score[at] = (tx_token_score){ .logprob = row[LABEL] - lse, .top = (int32_t)top[1] };
    for (int64_t i = 0; i < n_words; i++) m->word[at * n_words + i] = row[WORDS + i] - lse;
    for (int64_t k = 0; k < n_top; k++)
        m->top[at * n_top + k] = (tx_guess){ .logprob = top[2 * k] - lse, .id = (int32_t)top[2 * k + 1] };
}

/* Tokens of the part that come before the label, by its logit; of equal ones the lower id is before. */
static double count_before(const row_part *r, int32_t label, double logit)
{
    int64_t n = 0;
    for (int64_t v = 0; v < r->n; v++)
        n += (double)r->x[v] > logit || ((double)r->x[v] == logit && r->first + v < label);
    return (double)n;
}

/* ---- behind the last stage's forward ---- */

/* Logits of rows lot .. lot + n, which have these labels, into results from number `at` on.   @y whole lots */
static tx_status score_rows(tx_masked *m, const int32_t *label, tx_tensor y, int64_t lot, int64_t n, int64_t at)
{
    tx_ctx *c = &m->ctx;
    const tx_axis *tp = &m->grid->axis[TX_AXIS_TENSOR];
    int64_t v = m->model->vocab_padded / tp->size, first = tp->rank * v, w = width(m);
    int64_t n_valid = m->model->n_valid > first ? min(v, m->model->n_valid - first) : 0;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor logits = tx_push2(&c->scratch, TX_F32, LOT, v);
    TX_TRY(m->model->type->logits(c, m->model, logits, tx_slice_rows(y, lot, LOT)));
    tx_arena_pop(&c->scratch, mark); /* no op follows that would need it */
    if (c->dry) return TX_OK;
    const float *x = m->logits ? m->logits : logits.data;
    if (m->logits) TX_TRY(tx_device_read(c->device, m->logits, logits.data, (size_t)(LOT * v) * sizeof *m->logits));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) read_row(m, m->part + i * w, &(row_part){ x + i * v, first, n_valid }, label[i]);
    TX_TRY(
        tx_comm_gather(tx_grid_group(m->grid, TX_GROUP_TENSOR), m->parts, m->part, (size_t)(n * w) * sizeof *m->part));
    for (int64_t i = 0; i < n; i++) {
        double *row = m->parts + i * w;
        for (int r = 1; r < tp->size; r++) add_part(m, row, row + r * n * w);
        keep_row(m, at + i, row);
        m->part[i] = count_before(&(row_part){ x + i * v, first, n_valid }, label[i], row[LABEL]);
    }
    TX_TRY(tx_comm_gather(tx_grid_group(m->grid, TX_GROUP_TENSOR), m->parts, m->part, (size_t)n * sizeof *m->part));
    for (int64_t i = 0; i < n; i++) {
        double before = 0;
        for (int r = 0; r < tp->size; r++) before += m->parts[r * n + i];
        m->score[at + i].rank = isnan(m->score[at + i].logprob) ? m->model->n_valid : 1 + (int64_t)before;
    }
    return TX_OK;
}

/* The rows of y that have labels, one behind the other. What fwd has left on the stack is behind y, and y is gone with
 * the first push: so to the scratch. */
static tx_status gather_rows(tx_masked *m, const tx_batch *batch, tx_tensor x)
{
    tx_ctx *c = &m->ctx;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor y = batch->y, whole = tx_tp_room(c, &c->scratch, y);
    tx_tensor row = tx_tensor2((int32_t *)batch->row.data + m->opts.b, TX_I32, 1, batch->n_labels);
    TX_TRY(tx_tp_gather(c, whole, y));
    TX_RUN(c, embedding_fwd, .y = tx_tensor3(x.data, x.dtype, 1, x.dim[0], x.dim[1]), .token = row, .position = row,
           .word = tx_as_rows(whole));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

static tx_status keep_pairs(tx_masked *m, const tx_batch *batch, const tx_batch *host, int64_t sample)
{
    float *pair_loss = host->other_loss.data;
    if (m->ctx.device)
        TX_TRY(tx_device_read(m->ctx.device, pair_loss, batch->other_loss.data, (size_t)m->opts.b * sizeof *pair_loss));
    for (int64_t j = 0; j < m->opts.b && sample + j < m->n_samples; j++) m->pair[sample + j] = -(double)pair_loss[j];
    return TX_OK;
}

/* A tx_feed.look. */
static tx_status score_batch(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host)
{
    tx_masked *m = user;
    tx_ctx *c = &m->ctx;
    int64_t sample = micro * m->opts.b, at = c->dry || sample >= m->n_samples ? 0 : m->first[sample];
    if (m->pair && !c->dry) TX_TRY(keep_pairs(m, batch, host, sample));
    if (!batch->n_labels) return TX_OK;
    size_t mark = tx_arena_mark(&c->scratch);
    int64_t rows = (batch->n_labels + LOT - 1) / LOT * LOT;
    tx_tensor x = tx_push2(&c->scratch, batch->y.dtype, rows, batch->y.dim[2]);
    TX_RUN(c, fill, .x = x, .value = 0);
    TX_TRY(gather_rows(m, batch, tx_slice_rows(x, 0, batch->n_labels)));
    for (int64_t lot = 0; lot < batch->n_labels; lot += LOT)
        TX_TRY(
            score_rows(m, (const int32_t *)host->label.data + lot, x, lot, min(LOT, batch->n_labels - lot), at + lot));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- a lot ---- */

/* A sample without labels, for the places of a lot that no sample has. */
static void put_nothing(const tx_masked *m, int64_t k)
{
    tx_bert_ids ids = tx_masked_row(m, k);
    memset(ids.tokens, 0, (size_t)tx_bert_row_len(m->opts.s) * sizeof *ids.tokens);
    for (int64_t i = 0; i < m->opts.s; i++) ids.labels[i] = -1;
    *ids.n_tokens = 1;
}

/* A tx_feed.fill. */
static tx_status fill(void *user, int64_t micro, tx_batch *batch)
{
    tx_masked *m = user;
    const tx_batch_rule rule = { .eod = -1, .scale = 1 };
    return m->model->type->collate(m->model, batch, m->rows + micro * m->opts.b * tx_bert_row_len(m->opts.s), &rule);
}

static void count_labels(tx_masked *m)
{
    m->first[0] = 0;
    for (int64_t k = 0; k < m->n_samples; k++) {
        const int32_t *label = tx_masked_row(m, k).labels;
        m->first[k + 1] = m->first[k];
        for (int64_t i = 0; i < m->opts.s; i++) m->first[k + 1] += label[i] != -1;
    }
    m->n_labels = m->first[m->n_samples];
}

/* What the last stage has found, to all stages. */
static tx_status spread(tx_masked *m)
{
    tx_comm *g = tx_grid_group(m->grid, TX_GROUP_PIPELINE);
    int last = tx_grid_size(m->grid, TX_AXIS_PIPELINE) - 1;
    size_t n = (size_t)m->n_labels;
    if (last == 0) return TX_OK;
    if (m->pair) TX_TRY(tx_comm_spread(g, m->pair, (size_t)m->n_samples * sizeof *m->pair, last));
    if (!n) return TX_OK;
    TX_TRY(tx_comm_spread(g, m->score, n * sizeof *m->score, last));
    TX_TRY(tx_comm_spread(g, m->top, n * (size_t)m->opts.n_top * sizeof *m->top, last));
    if (!m->opts.n_words) return TX_OK;
    return tx_comm_spread(g, m->word, n * (size_t)m->opts.n_words * sizeof *m->word, last);
}

tx_bert_ids tx_masked_row(const tx_masked *m, int64_t k)
{
    return tx_bert_ids_of(m->rows + k * tx_bert_row_len(m->opts.s), m->opts.s);
}

tx_status tx_masked_share(tx_masked *m, int64_t *n)
{
    tx_comm *g = tx_grid_group(m->grid, TX_GROUP_MODEL);
    TX_TRY(tx_comm_spread(g, n, sizeof *n, 0));
    if (!*n) return TX_OK;
    return tx_comm_spread(g, m->rows, (size_t)(*n * tx_bert_row_len(m->opts.s)) * sizeof *m->rows, 0);
}

tx_status tx_masked_run(tx_masked *m, int64_t n)
{
    TX_ASSERT(n >= 1 && n <= m->room);
    int64_t b = m->opts.b, p = tx_grid_size(m->grid, TX_AXIS_PIPELINE), n_micro = (n + b - 1) / b;
    const tx_feed feed = { .fill = fill, .look = score_batch, .user = m };
    if (m->model->n_chunks > 1) n_micro = (n_micro + p - 1) / p * p; /* the schedule's */
    for (int64_t k = n; k < n_micro * b; k++) put_nothing(m, k);
    m->n_samples = n;
    count_labels(m);
    tx_stage_begin(&m->stage, &feed);
    TX_TRY(tx_stage_run(&m->stage, n_micro, false));
    TX_TRY(tx_stage_end(&m->stage));
    return spread(m);
}

/* ---- life ---- */

static tx_status check_opts(const tx_model *model, const tx_masked_opts *o)
{
    TX_ASSERT(o->s >= 1 && o->b >= 1 && o->n_top >= 1);
    if (o->s <= model->max_positions) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "a sample of %lld tokens, the model has %lld positions", (long long)o->s,
                   (long long)model->max_positions);
}

static tx_status take_results(tx_masked *m)
{
    const char *what = "the scores of masked tokens";
    size_t n = (size_t)(m->room * m->opts.s), lot = (size_t)(LOT * width(m));
    TX_TRY(tx_alloc(&m->rows, (size_t)(m->room * tx_bert_row_len(m->opts.s)), sizeof *m->rows, "masked samples"));
    TX_TRY(tx_alloc(&m->first, (size_t)m->room + 1, sizeof *m->first, "masked samples"));
    TX_TRY(tx_alloc(&m->score, n, sizeof *m->score, what));
    TX_TRY(tx_alloc(&m->top, n * (size_t)m->opts.n_top, sizeof *m->top, what));
    TX_TRY(tx_alloc(&m->word, n * (size_t)m->opts.n_words, sizeof *m->word, what));
    TX_TRY(tx_alloc(&m->part, lot, sizeof *m->part, what));
    TX_TRY(tx_alloc(&m->parts, lot * (size_t)tx_grid_size(m->grid, TX_AXIS_TENSOR), sizeof *m->parts, what));
    return m->model->n_losses > 1 ? tx_alloc(&m->pair, (size_t)m->room, sizeof *m->pair, what) : TX_OK;
}

static tx_status set_options(tx_masked *m, const tx_config *cfg, const tx_masked_opts *opts)
{
    size_t n = (size_t)opts->n_words;
    m->opts = *opts;
    m->cfg = *cfg;
    m->cfg.seq_length = opts->s;
    m->cfg.micro_batch_size = opts->b;
    m->cfg.mask_prob = 1; /* any position may have a label */
    TX_TRY(tx_alloc(&m->token, n, sizeof *m->token, "the words"));
    if (n) memcpy(m->token, opts->word, n * sizeof *m->token);
    m->opts.word = m->token;
    return TX_OK;
}

tx_status tx_masked_create(tx_masked **out, tx_model *model, const tx_config *cfg, const tx_grid *grid,
                           const tx_masked_opts *opts)
{
    tx_masked *m;
    TX_TRY(check_opts(model, opts));
    TX_TRY(tx_alloc(&m, 1, sizeof *m, "the evaluation of masked samples"));
    const tx_feed dry = { .look = score_batch, .user = m };
    tx_status st;
    m->model = model;
    m->grid = grid;
    m->n_micro = tx_grid_size(grid, TX_AXIS_PIPELINE);
    m->room = m->n_micro * opts->b;
    TX_GOTO(set_options(m, cfg, opts));
    TX_GOTO(take_results(m));
    TX_GOTO(tx_grid_ctx(&m->ctx, grid, tx_device_choice_word(cfg->device), (int)cfg->threads, true));
    TX_GOTO(tx_stage_open(&m->stage, &m->ctx, model, &m->cfg, m->n_micro, false));
    tx_stage_begin(&m->stage, &dry);
    TX_GOTO(tx_stage_run(&m->stage, m->n_micro, false));
    TX_GOTO(tx_stage_end(&m->stage));
    TX_GOTO(tx_stage_take(&m->stage));
    size_t lot = (size_t)(LOT * model->vocab_padded / tx_grid_size(grid, TX_AXIS_TENSOR));
    if (m->ctx.device) TX_GOTO(tx_alloc(&m->logits, lot, sizeof *m->logits, "the scores of masked tokens"));
    *out = m;
out:
    if (st) tx_masked_destroy(m);
    return st;
}

void tx_masked_destroy(tx_masked *m)
{
    if (!m) return;
    tx_stage_close(&m->stage);
    tx_ctx_deinit(&m->ctx);
    tx_free(m->token);
    tx_free(m->rows);
    tx_free(m->first);
    tx_free(m->score);
    tx_free(m->top);
    tx_free(m->word);
    tx_free(m->pair);
    tx_free(m->part);
    tx_free(m->parts);
    tx_free(m->logits);
    tx_free(m);
}
