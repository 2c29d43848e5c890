/* ref_attention.c - attention, one query after another. Forward arXiv:1706.03762, backward from the saved log-sum-exp
 * as in arXiv:2205.14135, algorithm 4. */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

/* Where the row of (position, sample, group, head of group) begins in q, o, do, dq, and of (position, sample, group) in
 * k, v, dk, dv. */
static int64_t q_row(tx_tensor q, int64_t i, int64_t i_b, int64_t g, int64_t r)
{
    return i * q.stride[0] + i_b * q.stride[1] + g * q.stride[2] + r * q.stride[3];
}

static int64_t k_row(tx_tensor k, int64_t j, int64_t i_b, int64_t g)
{
    return j * k.stride[0] + i_b * k.stride[1] + g * k.stride[2];
}

static double dot(tx_tensor x, int64_t x_at, tx_tensor y, int64_t y_at, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++) sum += tx__ref_load(x, x_at + i) * tx__ref_load(y, y_at + i);
    return sum;
}

/* What hides the first keys, of which a call's first one is at k_at. */
typedef struct firsts {
    tx_tensor first_key;
    int64_t window, k_at;
} firsts;

/* The first key that query i sees, at `position`. */
static int64_t first_seen(const firsts *f, int64_t i, int64_t i_b, int64_t position)
{
    const int32_t *key = f->first_key.data;
    int64_t begin = tx__window_begin(f->window, position),
            first = key ? key[i * f->first_key.dim[1] + i_b] - f->k_at : 0;
    return first > begin ? first : begin;
}

static const tx_past no_past = { .n = { 0 } };

/* What becomes of a scaled score, and by how much it changes with it. */
static double capped(const tx_attention_kind *k, double score)
{
    return k->softcap > 0 ? k->softcap * tanh(score / k->softcap) : score;
}

static double cap_slope(const tx_attention_kind *k, double score)
{
    double t = k->softcap > 0 ? tanh(score / k->softcap) : 0;
    return 1 - t * t;
}

/* -infinity: there is none. */
static double sink_of(const tx_attention_kind *k, int64_t i_n)
{
    return k->sink.data ? tx__ref_load(k->sink, i_n) : k->off_by_one ? 0 : -INFINITY;
}

static double slope_of(const tx_alibi *a, int64_t i_n)
{
    return a->n_heads ? exp2(tx_alibi_log2_slope(a, i_n)) : 0;
}

size_t tx__ref_attention_fwd_scratch(const tx_ctx *c, const tx_attention_fwd_args *a)
{
    (void)c;
    return (size_t)a->k.dim[0] * sizeof(double);
}

/* One query of one head; p has room for sk probabilities. */
static void query_fwd(const tx_attention_fwd_args *a, int64_t i_b, int64_t g, int64_t r, int64_t i, double *p)
{
    const tx__call_keys keys = { a->past, a->n_keys, a->k, a->q.dim[0], TX__SEQ_PART_OF(a), a->causal };
    const firsts at = { a->first_key, a->kind.window, a->k_at };
    int64_t sq = a->q.dim[0], d = a->q.dim[4], heads = a->q.dim[3], slot = tx__slot_of(a->past, i_b);
    int64_t position = i + tx__query_at(&keys, i_b), n_keys = tx__keys_end(&keys, i_b, position),
            q_at = q_row(a->q, i, i_b, g, r), o_at = q_row(a->o, i, i_b, g, r);
    uint64_t e = tx_dropout_head(&a->mask, i_b, g * heads + r) +
                 (uint64_t)(position + a->k_at) * (uint64_t)a->mask.s_global + (uint64_t)a->k_at;
    double sink = sink_of(&a->kind, g * heads + r), max = sink, sum = 0, slope = slope_of(&a->alibi, g * heads + r);
    int64_t first = first_seen(&at, i, i_b, position);
    for (int64_t j = first; j < n_keys; j++) {
        double score = a->scale * dot(a->q, q_at, a->k, k_row(a->k, j, slot, g), d);
        p[j] = capped(&a->kind, score) + slope * (double)(j - position);
        max = fmax(max, p[j]);
    }
    if (max == -INFINITY) first = n_keys, max = 0, sum = 0; /* o = 0, lse = log 0 */
    if (tx_has_sink(&a->kind)) sum = exp(sink - max);
    for (int64_t j = first; j < n_keys; j++) sum += p[j] = exp(p[j] - max);
    for (int64_t j = first; j < n_keys; j++) p[j] *= tx__ref_keep(&a->mask, e + (uint64_t)j) / sum;
    for (int64_t x = 0; x < d; x++) {
        double o = 0;
        for (int64_t j = first; j < n_keys; j++) o += p[j] * tx__ref_load(a->v, k_row(a->v, j, slot, g) + x);
        tx__ref_store(a->o, o_at + x, o);
    }
    if (a->lse.data) tx__ref_store(a->lse, ((i_b * a->q.dim[2] + g) * heads + r) * sq + i, max + log(sum));
}

tx_status tx__ref_attention_fwd(tx_ctx *c, const tx_attention_fwd_args *a, void *scratch)
{
    (void)c;
    const int64_t *n = a->q.dim;
    if (a->past.n.data) TX_TRY(tx__check_past("attention_fwd", a->past, n[0], a->k));
    TX_TRY(tx__check_n_keys("attention_fwd", a->n_keys, a->k, TX__SEQ_PART_OF(a)));
    for (int64_t i_b = 0; i_b < n[1]; i_b++)
        for (int64_t g = 0; g < n[2]; g++)
            for (int64_t r = 0; r < n[3]; r++)
                for (int64_t i = 0; i < n[0]; i++) query_fwd(a, i_b, g, r, i, scratch);
    return TX_OK;
}

/* y[past.n[b] + i, past.slot[b]] = x[i, b], of one sample. */
static void append(tx_tensor y, tx_tensor x, tx_past past, int64_t i_b)
{
    int64_t slot = tx__slot_of(past, i_b), n = ((const int32_t *)past.n.data)[i_b];
    for (int64_t i = 0; i < x.dim[0]; i++)
        for (int64_t g = 0; g < x.dim[2]; g++) {
            int64_t to = k_row(y, n + i, slot, g), from = k_row(x, i, i_b, g);
            for (int64_t j = 0; j < x.dim[3]; j++) tx__ref_store(y, to + j, tx__ref_load(x, from + j));
        }
}

tx_status tx__ref_cache_append(tx_ctx *c, const tx_cache_append_args *a, void *scratch)
{
    (void)c, (void)scratch;
    TX_TRY(tx__check_past("cache_append", a->past, a->k.dim[0], a->k_cache));
    for (int64_t i_b = 0; i_b < a->k.dim[1]; i_b++) {
        append(a->k_cache, a->k, a->past, i_b);
        append(a->v_cache, a->v, a->past, i_b);
    }
    return TX_OK;
}

tx_status tx__ref_attention_join(tx_ctx *c, const tx_attention_join_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const int64_t *n = a->o.dim;
    for (int64_t row = 0; row < n[0] * n[1] * n[2] * n[3]; row++) {
        int64_t i = row % n[0], r = row / n[0] % n[3], g = row / n[0] / n[3] % n[2], i_b = row / n[0] / n[3] / n[2];
        int64_t at = q_row(a->o, i, i_b, g, r), from = q_row(a->part, i, i_b, g, r);
        double lse = tx__ref_load(a->lse, row);
        tx_join_shares share = tx_join_of(&lse, tx__ref_load(a->part_lse, row));
        tx__ref_store(a->lse, row, lse);
        for (int64_t x = 0; x < n[4]; x++)
            tx__ref_store(a->o, at + x,
                          share.o * tx__ref_load(a->o, at + x) + share.part * tx__ref_load(a->part, from + x));
    }
    return TX_OK;
}

tx_status tx__ref_max_logits(tx_ctx *c, const tx_max_logits_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t s = a->q.dim[0], b = a->q.dim[1], groups = a->q.dim[2], heads = a->q.dim[3], d = a->q.dim[4];
    float *max = a->max.data;
    const tx__seq_part part = TX__SEQ_PART_OF(a);
    const tx__call_keys keys = { no_past, a->n_keys, a->k, s, part, a->causal }, /* and which queries do not pad */
        queries = { no_past, a->n_keys, a->q, s, { a->k_at, a->q_at, part.is }, false };
    const firsts at = { a->first_key, a->window, a->k_at };
    TX_TRY(tx__check_n_keys("max_logits", a->n_keys, a->k, part));
    for (int64_t i_b = 0; i_b < b; i_b++)
        for (int64_t i_n = 0; i_n < groups * heads; i_n++) {
            int64_t g = i_n / heads, r = i_n % heads, real = tx__keys_of(&queries, i_b);
            for (int64_t i = 0; i < real; i++) {
                int64_t position = i + tx__query_at(&keys, i_b), end = tx__keys_end(&keys, i_b, position);
                for (int64_t j = first_seen(&at, i, i_b, position); j < end; j++) {
                    double score = a->scale * dot(a->q, q_row(a->q, i, i_b, g, r), a->k, k_row(a->k, j, i_b, g), d);
                    max[i_n] = (float)fmax(max[i_n], score);
                }
            }
        }
    return TX_OK;
}

size_t tx__ref_attention_bwd_scratch(const tx_ctx *c, const tx_attention_bwd_args *a)
{
    (void)c;
    int64_t s = a->k.dim[0], d = a->k.dim[3];
    return (size_t)(2 * s * d + d) * sizeof(double);
}

/* Head r of group g of a sample. */
typedef struct head {
    int64_t i_b, g, r;
} head;

/* One query of one head: writes its dq, adds to dk and dv [sk, d]; what it adds to the gradient of its head's sink. */
static double query_bwd(const tx_attention_bwd_args *a, head at, int64_t i, double *dk, double *dv, double *dq)
{
    int64_t i_b = at.i_b, g = at.g, r = at.r;
    int64_t s = a->q.dim[0], heads = a->q.dim[3], d = a->q.dim[4];
    const tx__call_keys keys = { no_past, a->n_keys, a->k, s, TX__SEQ_PART_OF(a), a->causal };
    const firsts hidden = { a->first_key, a->kind.window, a->k_at };
    int64_t position = i + tx__query_at(&keys, i_b), n_keys = tx__keys_end(&keys, i_b, position);
    int64_t q_at = q_row(a->q, i, i_b, g, r), do_at = q_row(a->do_, i, i_b, g, r);
    uint64_t e = tx_dropout_head(&a->mask, i_b, g * heads + r) +
                 (uint64_t)(position + a->k_at) * (uint64_t)a->mask.s_global + (uint64_t)a->k_at;
    double lse = tx__ref_load(a->lse, ((i_b * a->q.dim[2] + g) * heads + r) * s + i);
    double big_d = dot(a->do_, do_at, a->o, q_row(a->o, i, i_b, g, r), d);
    double slope = slope_of(&a->alibi, g * heads + r);
    memset(dq, 0, (size_t)d * sizeof *dq);
    for (int64_t j = first_seen(&hidden, i, i_b, position); j < n_keys; j++) {
        int64_t k_at = k_row(a->k, j, i_b, g);
        double score = a->scale * dot(a->q, q_at, a->k, k_at, d);
        double p = exp(capped(&a->kind, score) + slope * (double)(j - position) - lse);
        double z = tx__ref_keep(&a->mask, e + (uint64_t)j);
        double ds = p * (z * dot(a->do_, do_at, a->v, k_row(a->v, j, i_b, g), d) - big_d) * a->scale;
        ds *= cap_slope(&a->kind, score);
        for (int64_t x = 0; x < d; x++) {
            dv[j * d + x] += p * z * tx__ref_load(a->do_, do_at + x);
            dk[j * d + x] += ds * tx__ref_load(a->q, q_at + x);
            dq[x] += ds * tx__ref_load(a->k, k_at + x);
        }
    }
    for (int64_t x = 0; x < d; x++) tx__ref_store(a->dq, q_row(a->dq, i, i_b, g, r) + x, dq[x]);
    return -exp(sink_of(&a->kind, g * heads + r) - lse) * big_d;
}

tx_status tx__ref_attention_bwd(tx_ctx *c, const tx_attention_bwd_args *a, void *scratch)
{
    (void)c;
    const int64_t *n = a->q.dim;
    int64_t s = n[0], sk = a->k.dim[0], d = n[4];
    double *dk = scratch, *dv = dk + sk * d, *dq = dv + sk * d;
    TX_TRY(tx__check_n_keys("attention_bwd", a->n_keys, a->k, TX__SEQ_PART_OF(a)));
    for (int64_t i_b = 0; i_b < n[1]; i_b++)
        for (int64_t g = 0; g < n[2]; g++) {
            memset(dk, 0, (size_t)(2 * sk * d) * sizeof *dk);
            for (int64_t r = 0; r < n[3]; r++) {
                double dsink = 0;
                for (int64_t i = 0; i < s; i++) dsink += query_bwd(a, (head){ i_b, g, r }, i, dk, dv, dq);
                if (!a->dsink.data) continue;
                int64_t at = g * n[3] + r;
                tx__ref_store(a->dsink, at, tx__ref_load(a->dsink, at) + dsink);
            }
            for (int64_t j = 0; j < sk; j++)
                for (int64_t x = 0; x < d; x++) {
                    tx__ref_store(a->dk, k_row(a->dk, j, i_b, g) + x, dk[j * d + x]);
                    tx__ref_store(a->dv, k_row(a->dv, j, i_b, g) + x, dv[j * d + x]);
                }
        }
    return TX_OK;
}
