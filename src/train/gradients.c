/* gradients.c - sums of gradients over ranks. */
#include "train/gradients.h"

#include "base/alloc.h"

#define SUMS "gradients" /* for tx_at_part */

static void cut_buckets(tx_gradients *g, int64_t bucket_size)
{
    const tx_params *ps = g->ps;
    int64_t end = ps->numel;
    g->n_buckets = 0;
    for (int i = ps->n - 1, k = 0; i >= 0; i--) {
        tx_bucket *b = &g->bucket[k];
        b->left++;
        g->bucket_of[i] = k;
        *b = (tx_bucket){ .offset = ps->param[i].offset, .numel = end - ps->param[i].offset, .left = b->left };
        g->n_buckets = k + 1;
        if (b->numel < bucket_size) continue;
        end = b->offset;
        k++;
    }
}

static void count_again(tx_gradients *g)
{
    for (int k = 0; k < g->n_buckets; k++) g->bucket[k].left = 0;
    for (int i = 0; i < g->ps->n; i++) g->bucket[g->bucket_of[i]].left++;
}

tx_status tx_gradients_open(tx_gradients *g, tx_ctx *c, const tx_params *ps, float *flat, int64_t bucket_size,
                            bool overlap)
{
    *g = (tx_gradients){ .c = c, .ps = ps, .grid = tx_grid_of(c), .flat = flat, .overlap = overlap };
    tx_status st;
    TX_GOTO(tx_alloc(&g->bucket, (size_t)ps->n, sizeof *g->bucket, "the gradients' buckets"));
    TX_GOTO(tx_alloc(&g->bucket_of, (size_t)ps->n, sizeof *g->bucket_of, "the gradients' buckets"));
    cut_buckets(g, bucket_size);
out:
    if (st) tx_gradients_close(g);
    return st;
}

void tx_gradients_close(tx_gradients *g)
{
    tx_free(g->bucket);
    tx_free(g->bucket_of);
    *g = (tx_gradients){ 0 };
}

/* ---- over tensor ranks ---- */

static bool has_parts(const tx_gradients *g, const tx_param *p)
{
    return p->over_tp == TX_PARTS && g->grid->sequence && g->grid->tp.size > 1;
}

static tx_tensor flat_grad(const tx_param *p)
{
    tx_tensor x = p->weight->grad;
    return tx_tensor1(x.data, x.dtype, p->numel);
}

/* Copies the gradients that have parts, in [first, end), side by side into `all`, or with `back` from there. */
static tx_status side_by_side(tx_gradients *g, int first, int end, tx_tensor all, bool back)
{
    int64_t at = 0;
    for (int i = first; i < end; i++) {
        const tx_param *p = &g->ps->param[i];
        if (!has_parts(g, p)) continue;
        tx_tensor side = tx_slice1(all, at, p->numel), own = flat_grad(p);
        TX_RUN(g->c, cast, .y = back ? own : side, .x = back ? side : own);
        at += p->numel;
    }
    return TX_OK;
}

/* The small ones of a layer travel together. */
static tx_status sum_parts(tx_gradients *g, int first, int end)
{
    int64_t n = 0;
    for (int i = first; i < end; i++)
        if (has_parts(g, &g->ps->param[i])) n += g->ps->param[i].numel;
    if (!n) return TX_OK;
    size_t mark = tx_arena_mark(&g->c->scratch);
    tx_tensor all = tx_push1(&g->c->scratch, TX_F32, n);
    TX_TRY(side_by_side(g, first, end, all, false));
    TX_TRY(tx_all_reduce(g->c, g->grid->tensor, all, TX_SUM));
    TX_TRY(side_by_side(g, first, end, all, true));
    tx_arena_pop(&g->c->scratch, mark);
    return TX_OK;
}

/* ---- over data ranks ---- */

static tx_status start(tx_gradients *g, tx_bucket *b)
{
    tx_tensor x = tx_slice1(tx_tensor1(g->flat, TX_F32, g->ps->numel), b->offset, b->numel);
    return tx_all_reduce_start(g->c, g->grid->data, x, &b->sum);
}

static tx_status complete(tx_gradients *g, int i)
{
    tx_bucket *b = &g->bucket[g->bucket_of[i]];
    TX_ASSERT(b->left > 0);
    return --b->left == 0 && g->overlap ? start(g, b) : TX_OK;
}

tx_status tx_gradients_done(void *user, int first, int end)
{
    tx_gradients *g = user;
    const char *part = g->c->at.part;
    tx_at_part(g->c, SUMS);
    TX_TRY(sum_parts(g, first, end));
    for (int i = end - 1; i >= first; i--)
        if (!g->ps->param[i].tied) TX_TRY(complete(g, i));
    tx_at_part(g->c, part);
    return tx_comm_poll(g->c, g->grid->data);
}

tx_status tx_gradients_finish(tx_gradients *g)
{
    tx_at_part(g->c, SUMS);
    for (int i = g->ps->n - 1; i >= 0; i--) {
        const tx_param *p = &g->ps->param[i];
        if (!p->tied) continue;
        TX_TRY(tx_all_reduce(g->c, g->grid->ends, flat_grad(p), TX_SUM));
        TX_TRY(complete(g, i));
    }
    for (int k = 0; k < g->n_buckets && !g->overlap; k++) TX_TRY(start(g, &g->bucket[k]));
    for (int k = 0; k < g->n_buckets; k++) TX_TRY(tx_wait(g->c, &g->bucket[k].sum));
    count_again(g);
    return TX_OK;
}
