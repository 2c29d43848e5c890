/* loco.c - errors of gradients that are sent as integers of a few bits. */
#include "zero/loco.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"

static const char what[] = "what quantized gradients leave out";

enum { NEAR_HOP, FAR_HOP };

static int near_ranks(const tx_zero *z)
{
    return tx_comm_size(tx_grid_group(z->grid, TX_GROUP_NEAR));
}

static int rows(const tx_zero *z)
{
    return tx_comm_size(tx_grid_group(z->grid, TX_GROUP_DATA)) / near_ranks(z);
}

static bool has_hop(const tx_zero *z, int hop)
{
    return z->quantized.loco && (hop == NEAR_HOP || (near_ranks(z) > 1 && rows(z) > 1));
}

static bool has_errors(const tx_zero *z, int k)
{
    bool ends = tx_grid_size(z->grid, TX_AXIS_PIPELINE) > 1;
    if (!z->quantized.loco || !tx__quantizes_sum(z, k)) return false;
    for (int row = 0; row < z->ps->n; row++)
        if (z->flat.of_row[row] == k && z->ps->param[row].tied && ends) return false;
    return true;
}

/* Elements of a bucket that a hop sends, and those of all buckets before it. */
static int64_t sent_of(const tx_zero *z, int k, int hop)
{
    return z->flat.bucket[k].numel / (hop == NEAR_HOP ? 1 : near_ranks(z));
}

static int64_t before(const tx_zero *z, int k, int hop)
{
    int64_t n = 0;
    for (int i = 0; i < k; i++)
        if (has_errors(z, i)) n += sent_of(z, i, hop);
    return n;
}

/* ---- memory ---- */

void tx__loco_bytes(const tx_zero *z, size_t bytes[TX_LOCO_HOPS])
{
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++)
        bytes[hop] = has_hop(z, hop) ? (size_t)before(z, z->flat.n_buckets, hop) * tx_dtype_size(TX_BF16) : 0;
}

/* The fragments of the parts of all buckets that this rank sums in the first hop. */
static tx_status list_far(tx_zero *z)
{
    tx_loco *l = &z->loco;
    int n = near_ranks(z), f = rows(z), rank = tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_NEAR));
    TX_TRY(tx_alloc(&l->far.fragment, (size_t)z->ps->n * (size_t)f + 1, sizeof *l->far.fragment, what));
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        const tx_bucket *b = &z->flat.bucket[z->flat.of_row[row]];
        int64_t part = tx_bucket_part(&z->flat, b), begin = p->offset - b->offset, end = begin + p->numel;
        for (int j = 0; j < f; j++) {
            int64_t first = (j * n + rank) * part, last = first + part;
            if (first < begin) first = begin;
            if (last > end) last = end;
            if (first >= last) continue;
            l->far.fragment[l->far.n++] = (tx_fragment){ row, first - begin, last - first, l->far.numel };
            l->far.numel += last - first;
        }
    }
    return TX_OK;
}

tx_status tx__loco_plan(tx_zero *z)
{
    tx_loco *l = &z->loco;
    if (!z->quantized.loco) return TX_OK;
    l->error[NEAR_HOP] = l->error[FAR_HOP] = TX_DRY_ADDRESS;
    TX_TRY(tx_alloc(&l->scale_of, (size_t)z->flat.n_buckets + 1, sizeof *l->scale_of, what));
    snprintf(l->name[NEAR_HOP], sizeof l->name[0], "worker_loco_error_%d",
             tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_DATA)));
    snprintf(l->name[FAR_HOP], sizeof l->name[0], "worker_loco_far_error_%d",
             tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_FAR)));
    return has_hop(z, FAR_HOP) ? list_far(z) : TX_OK;
}

tx_status tx__loco_take(tx_zero *z)
{
    size_t bytes[TX_LOCO_HOPS];
    tx__loco_bytes(z, bytes);
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++) z->loco.error[hop] = NULL;
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++)
        if (bytes[hop]) TX_TRY(tx_device_take(z->c->device, &z->loco.error[hop], bytes[hop], true, what));
    return tx__loco_forget(z);
}

void tx__loco_close(tx_zero *z)
{
    tx_loco *l = &z->loco;
    tx_device *d = z->c ? z->c->device : NULL;
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++)
        if (l->error[hop] != TX_DRY_ADDRESS) tx_device_give(d, l->error[hop]);
    tx_free(l->scale_of);
    tx_free(l->far.fragment);
    *l = (tx_loco){ .scale = 0 };
}

tx_status tx__loco_forget(tx_zero *z)
{
    size_t bytes[TX_LOCO_HOPS];
    tx__loco_bytes(z, bytes);
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++)
        if (bytes[hop]) TX_RUN(z->c, fill, .x = tx_tensor1(z->loco.error[hop], TX_BF16, (int64_t)bytes[hop] / 2));
    return TX_OK;
}

/* ---- sums ---- */

void tx_zero_loco_scale(tx_zero *z, double scale)
{
    z->loco.scale = scale;
}

void tx__loco_begin(tx_zero *z, int k)
{
    tx_loco *l = &z->loco;
    if (has_errors(z, k)) l->rescale = l->scale_of[k] > 0 ? l->scale / l->scale_of[k] : 1;
}

void tx__loco_end(tx_zero *z, int k)
{
    if (has_errors(z, k)) z->loco.scale_of[k] = z->loco.scale;
}

tx_status tx__loco_pack(const tx_zero *z, const tx__loco_piece *of, tx_tensor words, tx_tensor x)
{
    tx_ctx *c = z->c;
    int k = of->bucket, bits = of->bits;
    int64_t n = tx_numel(x), n_words = tx_numel(words);
    double beta = z->cfg->zero_loco_err_beta, rescale = z->loco.rescale;
    if (!has_errors(z, k)) {
        TX_RUN(c, quantize, .words = words, .x = x, .bits = bits);
        return TX_OK;
    }
    tx_tensor error = tx_tensor1((uint16_t *)z->loco.error[of->hop] + before(z, k, of->hop) + of->at, TX_BF16, n);
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor b = tx_push1(&c->scratch, TX_F32, n), sent = tx_push1(&c->scratch, TX_F32, n);
    TX_RUN(c, blend, .y = b, .x = x, .z = error, .alpha = 1, .beta = rescale);
    TX_RUN(c, quantize, .words = words, .x = b, .bits = bits);
    TX_RUN(c, dequantize_sum, .y = sent, .words = tx_tensor2(words.data, TX_I32, 1, n_words), .bits = bits);
    TX_RUN(c, blend, .y = b, .x = b, .z = sent, .alpha = 1, .beta = -1);
    TX_RUN(c, blend, .y = error, .x = b, .z = error, .alpha = 1 - beta, .beta = beta * rescale);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- checkpoints ---- */

bool tx_zero_loco_part(const tx_zero *z, int hop, const char **name, const tx_fragments **kept)
{
    int ranks = tx_comm_size(tx_grid_group(z->grid, TX_GROUP_DATA));
    if (!has_hop(z, hop) || ranks == 1 || ranks > TX_LOCO_MAX_RANKS) return false;
    *name = z->loco.name[hop];
    *kept = hop == FAR_HOP ? &z->loco.far : NULL;
    return true;
}

void tx_zero_loco_next(const tx_zero *z, int hop, char name[40])
{
    if (hop == NEAR_HOP)
        snprintf(name, 40, "worker_loco_error_%d", tx_comm_size(tx_grid_group(z->grid, TX_GROUP_DATA)));
    else
        snprintf(name, 40, "worker_loco_far_error_%d", has_hop(z, FAR_HOP) ? rows(z) : 0);
}

tx_status tx_zero_loco_restore(tx_zero *z, double scale)
{
    for (int k = 0; k < z->flat.n_buckets; k++) z->loco.scale_of[k] = scale;
    z->loco.scale = scale;
    return tx__loco_forget(z);
}

/* Where an element of a bucket lies in what a hop sends of it. */
static int64_t place(const tx_zero *z, int k, int hop, int64_t at)
{
    int64_t part = tx_bucket_part(&z->flat, &z->flat.bucket[k]);
    return hop == NEAR_HOP ? at : at / part / near_ranks(z) * part + at % part;
}

tx_status tx_zero_loco_move(tx_zero *z, int hop, const tx_fragment *s, float *x, bool store)
{
    int64_t n = s->numel;
    int k = z->flat.of_row[s->row];
    uint16_t *room = NULL;
    tx_status st;
    if (!has_errors(z, k)) {
        if (!store) memset(x, 0, (size_t)n * sizeof *x);
        return TX_OK;
    }
    int64_t at = z->ps->param[s->row].offset - z->flat.bucket[k].offset + s->first;
    uint16_t *there = (uint16_t *)z->loco.error[hop] + before(z, k, hop) + place(z, k, hop, at);
    TX_TRY(tx_alloc(&room, (size_t)n, sizeof *room, what));
    if (store) {
        tx_params_round(room, TX_BF16, x, n);
        st = tx_device_write(z->c->device, there, room, (size_t)n * sizeof *room);
    } else {
        st = tx_device_read(z->c->device, room, there, (size_t)n * sizeof *room);
        for (int64_t i = 0; i < n && !st; i++) x[i] = tx_bf16_to_f32(room[i]);
    }
    tx_free(room);
    return st;
}
