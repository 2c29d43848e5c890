/* profile.c - counts timed ops, and what each of them costs. */
#include "backend/profile.h"

#include <string.h>

#include "backend/backend.h"
#include "base/alloc.h"

/* ---- rows and events ---- */

static tx_status find_row(tx_profile *p, tx_profile_row **out, const char *op, const tx_model_place *at,
                          tx_cost_kind kind)
{
    const char *part = at->part ? at->part : "";
    for (int64_t i = 0; i < p->n_rows; i++) {
        tx_profile_row *r = &p->row[i];
        if (r->backward != at->backward || strcmp(r->op, op) || strcmp(r->part, part)) continue;
        *out = r;
        return TX_OK;
    }
    if (p->n_rows == p->row_cap) {
        int64_t cap = p->row_cap ? 2 * p->row_cap : 64;
        TX_TRY(tx_realloc(&p->row, (size_t)cap, sizeof *p->row, "the profile"));
        p->row_cap = cap;
    }
    *out = &p->row[p->n_rows++];
    **out = (tx_profile_row){ .op = op, .part = part, .backward = at->backward, .kind = kind };
    return TX_OK;
}

static tx_status next_event(tx_profile *p, tx_profile_event **out)
{
    if (p->n_events == p->event_cap) {
        int64_t cap = p->event_cap ? 2 * p->event_cap : 1024;
        if (cap > TX_PROFILE_MAX_EVENTS) cap = TX_PROFILE_MAX_EVENTS;
        TX_TRY(tx_realloc(&p->event, (size_t)cap, sizeof *p->event, "the profile"));
        p->event_cap = cap;
    }
    *out = &p->event[p->n_events++];
    return TX_OK;
}

tx_status tx_profile_add(tx_profile *p, const char *op, const tx_model_place *at, double start, double seconds,
                         const tx_cost *cost)
{
    tx_profile_row *row;
    TX_TRY(find_row(p, &row, op, at, cost->kind));
    p->n_runs++;
    row->calls++;
    row->seconds += seconds;
    row->flops += cost->flops;
    row->bytes += cost->bytes;
    if (p->n_events == TX_PROFILE_MAX_EVENTS) {
        p->n_left_out++;
        return TX_OK;
    }
    tx_profile_event *e;
    TX_TRY(next_event(p, &e));
    *e = (tx_profile_event){ .op = op, .at = *at, .start = start, .seconds = seconds, .cost = *cost };
    e->cost.shape.data = NULL; /* its memory may hold something else by now */
    return TX_OK;
}

void tx_profile_free(tx_profile *p)
{
    tx_free(p->row);
    tx_free(p->event);
    *p = (tx_profile){ 0 };
}

/* ---- costs ---- */

static double size_of(tx_tensor x)
{
    return x.data ? (double)tx_numel(x) * (double)tx_dtype_size(x.dtype) : 0;
}

/* One row of `table` for each index. */
static double rows_of(tx_tensor index, tx_tensor table)
{
    return table.data ? (double)tx_numel(index) * (double)table.dim[1] * (double)tx_dtype_size(table.dtype) : 0;
}

static tx_tensor gemm_shape(const tx_gemm_args *a)
{
    return (tx_tensor){ .dtype = a->a.dtype,
                        .n_dims = 3,
                        .dim = { a->c.dim[0], a->c.dim[1], a->a.dim[a->trans_a ? 0 : 1] } };
}

static double gemm_flops(const tx_gemm_args *a)
{
    tx_tensor s = gemm_shape(a);
    return 2.0 * (double)s.dim[0] * (double)s.dim[1] * (double)s.dim[2];
}

static double head_flops(const tx_head_loss_args *a)
{
    double product = 2.0 * (double)a->x.dim[0] * (double)a->x.dim[1] * (double)a->w.dim[0];
    return (a->weight.data ? 3 : 1) * product;
}

/* n_products over all pairs of a query and a key that it sees. */
static double attention_flops(int n_products, tx_tensor q, tx_tensor k, bool causal, tx_tensor first_key, tx_past past,
                              tx_tensor n_keys)
{
    int64_t sq = q.dim[0], b = q.dim[1], pairs = 0;
    for (int64_t i = 0; i < sq; i++) {
        for (int64_t j = 0; j < b; j++) pairs += tx__keys_of(past, n_keys, k, sq, j) + (causal ? i + 1 - sq : 0);
        for (int64_t j = 0; first_key.data && j < b; j++) pairs -= ((const int32_t *)first_key.data)[i * b + j];
    }
    return 2.0 * n_products * (double)pairs * (double)(q.dim[2] * q.dim[3] * q.dim[4]);
}

/* What is read of keys: what does not pad, of a cache what its sequences have. */
static double keys_read(tx_tensor q, tx_tensor k, tx_past past, tx_tensor n_keys)
{
    double n = 0;
    for (int64_t j = 0; j < q.dim[1]; j++) n += (double)tx__keys_of(past, n_keys, k, q.dim[0], j);
    return n * (double)(k.dim[2] * k.dim[3]) * (double)tx_dtype_size(k.dtype);
}

#define B(tensor)          size_of(a->tensor)
#define ROWS(index, table) rows_of(a->index, a->table)
#define COST(op, cost_kind, tensor, n_flops, n_bytes)                                                       \
    tx_cost tx__cost_##op(const tx_##op##_args *a)                                                          \
    {                                                                                                       \
        return (tx_cost){ .kind = (cost_kind), .flops = (n_flops), .bytes = (n_bytes), .shape = (tensor) }; \
    }
#include "backend/op_costs.def"
#undef COST
#undef ROWS
#undef B
