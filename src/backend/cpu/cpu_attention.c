/* cpu_attention.c - shares the heads among threads; isa/isa_attention.c does the work of one.
 *
 *  Forward: a thread takes a run of query heads and packs k and v again only where the group changes. Backward: it
 * takes a run of groups, because all query heads of a group add to one dk and dv. Both runs have all samples of a head
 * side by side, so that short ones and long ones are spread. Keys that pad are not among those that a head is given.
 *
 *  A row of documents is cut into them (`piece`), and each is as a sample of its own: it costs what it would cost
 * alone, and has the bits that it would have at the beginning of a row. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/half.h"

/* Up to this many queries, k and v are read in place. Not where keys pad: there a sequence has the same bits however
 * long it is padded. */
enum { FEW = 4 };

static bool in_place(const tx_attention_fwd_args *a)
{
    return a->q.dim[0] <= FEW && !a->n_keys.data;
}

/* A part's `packed` and `work`, in floats, both multiples of a cache line. */
typedef struct room {
    int64_t packed, work;
} room;

static room fwd_room(const tx_attention_fwd_args *a)
{
    int64_t sk = a->k.dim[0], d = a->k.dim[3];
    if (in_place(a)) return (room){ 0, tx__attn_few_work(sk, d) };
    return (room){ tx__attn_fwd_packed(sk, d), tx__attn_fwd_work(a->q.dim[0], d) };
}

/* Work of one query head, in elements touched. */
static int64_t head_cost(tx_tensor q, tx_tensor k)
{
    return q.dim[0] * k.dim[0] * q.dim[4] / 8;
}

static int fwd_parts(const tx_ctx *c, const tx_attention_fwd_args *a)
{
    return tx__cpu_parts(c, a->q.dim[1] * a->q.dim[2] * a->q.dim[3], head_cost(a->q, a->k));
}

size_t tx__cpu_attention_fwd_scratch(const tx_ctx *c, const tx_attention_fwd_args *a)
{
    room need = fwd_room(a);
    return (size_t)(fwd_parts(c, a) * (need.packed + need.work)) * sizeof(float);
}

/* Where head (i_b, g, r) begins in a q-like, and group (i_b, g) in a k-like tensor. */
static void *q_head(tx_tensor q, int64_t i_b, int64_t g, int64_t r)
{
    return (char *)q.data + (i_b * q.stride[1] + g * q.stride[2] + r * q.stride[3]) * (int64_t)tx_dtype_size(q.dtype);
}

static void *k_head(tx_tensor k, int64_t i_b, int64_t g)
{
    return (char *)k.data + (i_b * k.stride[1] + g * k.stride[2]) * (int64_t)tx_dtype_size(k.dtype);
}

static float slope_of(const tx_alibi *a, int64_t i_n)
{
    return a->n_heads ? (float)exp2(tx_alibi_log2_slope(a, i_n)) : 0;
}

static float sink_of(const tx_attention_kind *k, int64_t i_n)
{
    const void *x = k->sink.data;
    if (!x) return 0;
    if (k->sink.dtype == TX_BF16) return tx_bf16_to_f32(((const uint16_t *)x)[i_n]);
    return k->sink.dtype == TX_F16 ? tx_f16_to_f32(((const uint16_t *)x)[i_n]) : ((const float *)x)[i_n];
}

/* Queries of a head, and all keys that they see. */
typedef struct piece {
    tx__range q, k;
} piece;

/* A head's piece, as if the others were not there. */
static tx__attn cut(tx__attn h, piece p)
{
    int64_t size = (int64_t)tx_dtype_size(h.dtype), i = p.q.lo, j = p.k.lo;
    h.q = (const char *)h.q + i * h.q_s * size;
    h.o = (char *)h.o + i * h.o_s * size;
    h.k = (const char *)h.k + j * h.k_s * size;
    h.v = (const char *)h.v + j * h.v_s * size;
    if (h.dq) {
        h.dq = (char *)h.dq + i * h.dq_s * size;
        h.do_ = (const char *)h.do_ + i * h.do_s * size;
        h.dk = (char *)h.dk + j * h.dk_s * size;
        h.dv = (char *)h.dv + j * h.dv_s * size;
    }
    if (h.lse) h.lse += i;
    if (h.first_key) h.first_key += i * h.first_key_s;
    h.first_key_at += j;
    h.e += (uint64_t)j * (h.e_row + 1);
    h.q0 += i - j;
    h.sq = p.q.hi - i;
    h.sk = p.k.hi - j;
    return h;
}

/* The pieces of a head, from the last one on: none sees a key of another. A piece ends where its keys do, and begins
 * where what sees them does, so keys that nobody sees are some piece's, too. Before the first one: no_piece.   False:
 * there are no more */
static piece no_piece(const tx__attn *h)
{
    return (piece){ { h->sq, h->sq }, { h->sk, h->sk } };
}

static bool next_piece(const tx__attn *h, piece *p)
{
    int64_t end = p->q.lo, keys = p->k.lo, least = keys;
    if (!end) return false;
    *p = (piece){ { 0, end }, { 0, keys } };
    if (!h->first_key || !h->causal) return true;
    for (int64_t i = end - 1, seen = tx__attn_end(h, i); i; i--) {
        least = tx__cpu_min(least, tx__attn_begin(h, i));
        if (least < tx__attn_end(h, i - 1) || least >= seen) continue;
        *p = (piece){ { i, end }, { least, keys } };
        return true;
    }
    return true;
}

/* With a past and a window: keys that no query of the call sees, whole blocks of them, are left out. */
static tx__attn leave_keys_out(const tx__attn *h)
{
    int64_t n = tx__window_begin(h->window, h->q0) / TX__ATTN_K * TX__ATTN_K;
    return cut(*h, (piece){ { 0, h->sq }, { n, h->sk } });
}

static tx__attn fwd_head(const tx_attention_fwd_args *a, int64_t i_b, int64_t g, int64_t r, const tx__drop *drop)
{
    int64_t sq = a->q.dim[0], heads = a->q.dim[3], i_n = g * heads + r;
    const tx__call_keys keys = { a->past, a->n_keys, a->k, sq, TX__SEQ_PART_OF(a), a->causal };
    uint64_t e_row = (uint64_t)a->mask.s_global;
    tx__attn head = { .dtype = a->q.dtype,
                      .o = q_head(a->o, i_b, g, r),
                      .lse = a->lse.data ? (float *)a->lse.data + (i_b * a->q.dim[2] * heads + i_n) * sq : NULL,
                      .q = q_head(a->q, i_b, g, r),
                      .k = k_head(a->k, tx__slot_of(a->past, i_b), g),
                      .v = k_head(a->v, tx__slot_of(a->past, i_b), g),
                      .o_s = a->o.stride[0],
                      .q_s = a->q.stride[0],
                      .k_s = a->k.stride[0],
                      .v_s = a->v.stride[0],
                      .sq = sq,
                      .sk = tx__keys_of(&keys, i_b),
                      .d = a->q.dim[4],
                      .q0 = tx__query_at(&keys, i_b),
                      .scale = (float)a->scale,
                      .slope = slope_of(&a->alibi, i_n),
                      .causal = a->causal,
                      .drop = a->mask.drop ? drop : NULL,
                      .e = tx_dropout_head(&a->mask, i_b, i_n) + (uint64_t)a->k_at * (e_row + 1),
                      .e_row = e_row,
                      .first_key = a->first_key.data ? (const int32_t *)a->first_key.data + i_b : NULL,
                      .first_key_s = a->q.dim[1],
                      .first_key_at = a->k_at,
                      .window = a->kind.window,
                      .softcap = (float)a->kind.softcap,
                      .has_sink = tx_has_sink(&a->kind),
                      .sink = sink_of(&a->kind, i_n) };
    if (a->past.n.data && a->kind.window && !a->first_key.data) return leave_keys_out(&head);
    return head;
}

/* A call of forward, as its threads see it. */
typedef struct fwd_call {
    const tx_attention_fwd_args *a;
    const tx__cpu_kernels *k;
    const tx__drop *drop;
    room size;
    float *scratch;
} fwd_call;

/* Query heads first .. end; each thread has some heads of all b. */
static void fwd_units(const void *arg, int64_t first, int64_t end, int thread)
{
    const fwd_call *call = arg;
    const tx_attention_fwd_args *a = call->a;
    int64_t b = a->q.dim[1], heads = a->q.dim[3];
    float *packed = call->scratch + thread * (call->size.packed + call->size.work), *work = packed + call->size.packed;
    for (int64_t i = first, n_r; i < end; i += n_r) {
        int64_t i_b = i / heads % b, g = i / heads / b, r = i % heads;
        n_r = tx__cpu_min(heads - r, end - i);
        tx__attn head = fwd_head(a, i_b, g, r, call->drop);
        for (int64_t j = 0; in_place(a) && j < n_r; j++) {
            head = fwd_head(a, i_b, g, r + j, call->drop);
            call->k->attn_fwd_few(&head, work);
        }
        for (piece p = no_piece(&head); !in_place(a) && next_piece(&head, &p);)
            for (int64_t j = 0; j < n_r; j++) {
                tx__attn part = cut(fwd_head(a, i_b, g, r + j, call->drop), p);
                if (!j) call->k->attn_pack_fwd(&part, packed);
                call->k->attn_fwd(&part, packed, work);
            }
    }
}

tx_status tx__cpu_attention_fwd(tx_ctx *c, const tx_attention_fwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("attention_fwd", a->q));
    if (a->past.n.data) TX_TRY(tx__check_past("attention_fwd", a->past, a->q.dim[0], a->k));
    TX_TRY(tx__check_n_keys("attention_fwd", a->n_keys, a->k, TX__SEQ_PART_OF(a)));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    const tx__drop drop = { a->mask.rng, a->mask.drop, (float)tx_dropout_scale(&a->mask) };
    const fwd_call call = { a, k, &drop, fwd_room(a), scratch };
    int64_t n = a->q.dim[1] * a->q.dim[2] * a->q.dim[3];
    int parts = fwd_parts(c, a);
    tx__crew *crew = tx__crew_of(c);
    if (crew && parts > 1) {
        tx__crew_share(crew, &(tx__crew_job){ .unit = fwd_units, .arg = &call, .n = n, .step = n / (2 * parts) });
        return TX_OK;
    }
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range range = tx__cpu_part(n, 1, parts, t);
        fwd_units(&call, range.lo, range.hi, t);
    }
    return TX_OK;
}

/* y[n] = share.o y + share.part x, both wherever they are. */
static void join_row(tx_ctx *c, tx_tensor y, int64_t at, tx_tensor x, int64_t from, tx_join_shares share)
{
    const float keep = (float)share.o, add = (float)share.part;
    float y_room[TX__CPU_STRETCH], x_room[TX__CPU_STRETCH];
    for (int64_t i = 0, n, d = y.dim[4]; i < d; i += n) {
        n = tx__cpu_min(d - i, TX__CPU_STRETCH);
        float *to = tx__cpu_get(c, y, at + i, n, y_room);
        const float *more = tx__cpu_get(c, x, from + i, n, x_room);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = keep * to[j] + add * more[j];
        tx__cpu_put(c, y, at + i, n, y_room);
    }
}

tx_status tx__cpu_attention_join(tx_ctx *c, const tx_attention_join_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("attention_join", a->o));
    const int64_t *dim = a->o.dim, *s = a->o.stride, *p = a->part.stride;
    int64_t n = dim[0] * dim[1] * dim[2] * dim[3];
    float *lse = a->lse.data;
    const float *part_lse = a->part_lse.data;
    int parts = tx__cpu_parts(c, n, 2 * dim[4] + 64);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range range = tx__cpu_part(n, 1, parts, t);
        for (int64_t row = range.lo; row < range.hi; row++) { /* of lse */
            int64_t i = row % dim[0], r = row / dim[0] % dim[3], g = row / dim[0] / dim[3] % dim[2],
                    i_b = row / dim[0] / dim[3] / dim[2];
            double whole = lse[row];
            tx_join_shares share = tx_join_of(&whole, part_lse[row]);
            lse[row] = (float)whole;
            join_row(c, a->o, i * s[0] + i_b * s[1] + g * s[2] + r * s[3], a->part,
                     i * p[0] + i_b * p[1] + g * p[2] + r * p[3], share);
        }
    }
    return TX_OK;
}

/* Some heads of all b of a thread's, and the maximum of each of them. */
static int64_t max_parts_room(const tx_max_logits_args *a)
{
    int64_t d = a->k.dim[3];
    return tx__attn_fwd_packed(a->k.dim[0], d) + tx__attn_fwd_work(1, d);
}

static int64_t n_heads_of(const tx_max_logits_args *a)
{
    return a->q.dim[1] * a->q.dim[2] * a->q.dim[3];
}

static int max_parts(const tx_ctx *c, const tx_max_logits_args *a)
{
    return tx__cpu_parts(c, n_heads_of(a), head_cost(a->q, a->k) / 2);
}

size_t tx__cpu_max_logits_scratch(const tx_ctx *c, const tx_max_logits_args *a)
{
    return (size_t)(max_parts(c, a) * max_parts_room(a) + tx__lanes(n_heads_of(a))) * sizeof(float);
}

tx_status tx__cpu_max_logits(tx_ctx *c, const tx_max_logits_args *a, void *scratch)
{
    const tx__seq_part part = TX__SEQ_PART_OF(a);
    TX_TRY(tx__cpu_need_float("max_logits", a->q));
    TX_TRY(tx__check_n_keys("max_logits", a->n_keys, a->k, part));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    const tx_attention_fwd_args as = { .o = a->q,
                                       .q = a->q,
                                       .k = a->k,
                                       .v = a->k,
                                       .scale = a->scale,
                                       .causal = a->causal,
                                       .first_key = a->first_key,
                                       .n_keys = a->n_keys,
                                       .kind = { .window = a->window },
                                       .q_at = a->q_at,
                                       .k_at = a->k_at,
                                       .part = a->part };
    const tx__call_keys queries = { /* which do not pad */
                                    .n_keys = a->n_keys,
                                    .k = a->q,
                                    .part = { a->k_at, a->q_at, part.is }
    };
    int64_t b = a->q.dim[1], heads = a->q.dim[3], n = n_heads_of(a), room_size = max_parts_room(a);
    const int64_t packed_size = tx__attn_fwd_packed(a->k.dim[0], a->k.dim[3]);
    float *of_head = (float *)scratch + max_parts(c, a) * room_size, *max = a->max.data;
    int parts = max_parts(c, a);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range range = tx__cpu_part(n, 1, parts, t);
        float *packed = (float *)scratch + t * room_size;
        for (int64_t i = range.lo; i < range.hi; i++) {
            tx__attn head = fwd_head(&as, i / heads % b, i / heads / b, i % heads, NULL);
            if (a->n_keys.data) head.sq = tx__keys_of(&queries, i / heads % b);
            of_head[i] = 0;
            for (piece p = no_piece(&head); next_piece(&head, &p);) {
                tx__attn one = cut(head, p);
                if (i == range.lo || i % heads == 0 || one.sq < head.sq) k->attn_pack_keys(&one, packed);
                of_head[i] = fmaxf(of_head[i], k->attn_max(&one, packed, packed + packed_size));
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        float *most = max + i / heads / b * heads + i % heads;
        if (of_head[i] > *most) *most = of_head[i];
    }
    return TX_OK;
}

/* The s positions of head (i_b, g) in a cache. */
static void append(tx_tensor y, tx_tensor x, tx_past past, int64_t i_b, int64_t g)
{
    int64_t n = ((const int32_t *)past.n.data)[i_b], size = (int64_t)tx_dtype_size(x.dtype);
    char *to = (char *)k_head(y, tx__slot_of(past, i_b), g) + n * y.stride[0] * size;
    const char *from = k_head(x, i_b, g);
    for (int64_t i = 0; i < x.dim[0]; i++)
        memcpy(to + i * y.stride[0] * size, from + i * x.stride[0] * size, (size_t)(x.dim[3] * size));
}

tx_status tx__cpu_cache_append(tx_ctx *c, const tx_cache_append_args *a, void *scratch)
{
    (void)scratch;
    int64_t groups = a->k.dim[2], n = a->k.dim[1] * groups;
    TX_TRY(tx__check_past("cache_append", a->past, a->k.dim[0], a->k_cache));
    int parts = tx__cpu_parts(c, n, 2 * a->k.dim[0] * a->k.dim[3]);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range range = tx__cpu_part(n, 1, parts, t);
        for (int64_t i = range.lo; i < range.hi; i++) {
            append(a->k_cache, a->k, a->past, i / groups, i % groups);
            append(a->v_cache, a->v, a->past, i / groups, i % groups);
        }
    }
    return TX_OK;
}

static room bwd_room(const tx_attention_bwd_args *a)
{
    int64_t s = a->k.dim[0], d = a->k.dim[3];
    return (room){ tx__attn_bwd_packed(s, d), tx__attn_bwd_work(a->q.dim[0], d) };
}

static int bwd_parts(const tx_ctx *c, const tx_attention_bwd_args *a)
{
    return tx__cpu_parts(c, a->q.dim[1] * a->q.dim[2], a->q.dim[3] * head_cost(a->q, a->k));
}

size_t tx__cpu_attention_bwd_scratch(const tx_ctx *c, const tx_attention_bwd_args *a)
{
    room need = bwd_room(a);
    int64_t sinks = a->dsink.data ? a->q.dim[1] * a->dsink.dim[0] : 0;
    return (size_t)(bwd_parts(c, a) * (need.packed + need.work) + sinks) * sizeof(float);
}

static tx__attn bwd_head(const tx_attention_bwd_args *a, int64_t i_b, int64_t g, int64_t r, const tx__drop *drop)
{
    const tx_attention_fwd_args fwd = { .o = a->o,
                                        .lse = a->lse,
                                        .q = a->q,
                                        .k = a->k,
                                        .v = a->v,
                                        .scale = a->scale,
                                        .causal = a->causal,
                                        .mask = a->mask,
                                        .first_key = a->first_key,
                                        .n_keys = a->n_keys,
                                        .alibi = a->alibi,
                                        .kind = a->kind,
                                        .q_at = a->q_at,
                                        .k_at = a->k_at,
                                        .part = a->part };
    tx__attn head = fwd_head(&fwd, i_b, g, r, drop);
    head.dq = q_head(a->dq, i_b, g, r);
    head.dk = k_head(a->dk, i_b, g);
    head.dv = k_head(a->dv, i_b, g);
    head.do_ = q_head(a->do_, i_b, g, r);
    head.dq_s = a->dq.stride[0];
    head.dk_s = a->dk.stride[0];
    head.dv_s = a->dv.stride[0];
    head.do_s = a->do_.stride[0];
    return head;
}

/* dk and dv of keys that pad. */
static void clear_padding(const tx_attention_bwd_args *a, const tx__attn *head)
{
    size_t size = tx_dtype_size(a->dk.dtype), row = (size_t)head->d * size;
    for (int64_t j = head->sk; j < a->k.dim[0]; j++) {
        memset((char *)head->dk + j * head->dk_s * (int64_t)size, 0, row);
        memset((char *)head->dv + j * head->dv_s * (int64_t)size, 0, row);
    }
}

tx_status tx__cpu_attention_bwd(tx_ctx *c, const tx_attention_bwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("attention_bwd", a->q));
    TX_TRY(tx__check_n_keys("attention_bwd", a->n_keys, a->k, TX__SEQ_PART_OF(a)));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    const tx__drop drop = { a->mask.rng, a->mask.drop, (float)tx_dropout_scale(&a->mask) };
    int64_t b = a->q.dim[1], heads = a->q.dim[3], n = b * a->q.dim[2];
    room size = bwd_room(a);
    int parts = bwd_parts(c, a);
    float *dsink = (float *)scratch + parts * (size.packed + size.work); /* [heads, b] */
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range range = tx__cpu_part(n, 1, parts, t);
        float *packed = (float *)scratch + t * (size.packed + size.work), *work = packed + size.packed;
        for (int64_t i = range.lo; i < range.hi; i++) {
            const tx__attn head = bwd_head(a, i % b, i / b, 0, &drop);
            float *of_sink = a->dsink.data ? dsink + i / b * heads * b + i % b : NULL, more;
            for (int64_t r = 0; of_sink && r < heads; r++) of_sink[r * b] = 0;
            for (piece p = no_piece(&head); next_piece(&head, &p);) {
                tx__attn part = cut(head, p);
                k->attn_pack_bwd(&part, packed);
                for (int64_t r = 0; r < heads; r++) {
                    part = cut(bwd_head(a, i % b, i / b, r, &drop), p);
                    if (of_sink) part.dsink = &more;
                    k->attn_bwd(&part, packed, work);
                    if (of_sink) of_sink[r * b] += more;
                }
                k->attn_unpack_bwd(&part, packed);
            }
            clear_padding(a, &head);
        }
    }
    for (int64_t i = 0; a->dsink.data && i < a->dsink.dim[0]; i++)
        for (int64_t i_b = 0; i_b < b; i_b++) ((float *)a->dsink.data)[i] += dsink[i * b + i_b];
    return TX_OK;
}
