/* op_costs.c - what a run of each op costs, as ops.def has it. */
#include "backend/backend.h"

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

/* Groups' rows have all been multiplied with matrices of one shape. */
static tx_tensor grouped_shape(tx_tensor c, tx_tensor a)
{
    return (tx_tensor){ .dtype = a.dtype, .n_dims = 3, .dim = { a.dim[0], c.dim[1], a.dim[1] } };
}

static double grouped_flops(tx_tensor c, tx_tensor a)
{
    return 2.0 * (double)a.dim[0] * (double)c.dim[1] * (double)a.dim[1];
}

static double head_flops(const tx_head_loss_args *a)
{
    double product = 2.0 * (double)a->x.dim[0] * (double)a->x.dim[1] * (double)a->w.dim[0];
    tx_tensor x = a->teacher.x;
    double taught = x.data ? 2.0 * (double)x.dim[0] * (double)x.dim[1] * (double)a->w.dim[0] : 0;
    return (a->weight.data ? 3 : 1) * product + taught;
}

/* What attention sees of its keys: the same of forward and of backward, which knows no past. */
typedef struct seen {
    tx_tensor q, first_key;
    tx__call_keys keys;
    int64_t window;
} seen;

/* A dry run knows no numbers: then nothing pads. */
static tx_tensor known(tx_tensor index)
{
    return index.data == TX_DRY_ADDRESS ? (tx_tensor){ .n_dims = 0 } : index;
}

static seen seen_fwd(const tx_attention_fwd_args *a)
{
    tx__call_keys keys = { a->past, known(a->n_keys), a->k, a->q.dim[0], TX__SEQ_PART_OF(a), a->causal };
    return (seen){ a->q, known(a->first_key), keys, a->kind.window };
}

static seen seen_bwd(const tx_attention_bwd_args *a)
{
    tx__call_keys keys = { { .n = { 0 } }, known(a->n_keys), a->k, a->q.dim[0], TX__SEQ_PART_OF(a), a->causal };
    return (seen){ a->q, known(a->first_key), keys, a->kind.window };
}

static seen seen_max(const tx_max_logits_args *a)
{
    tx__call_keys keys = { { .n = { 0 } }, known(a->n_keys), a->k, a->q.dim[0], TX__SEQ_PART_OF(a), a->causal };
    return (seen){ a->q, known(a->first_key), keys, a->window };
}

/* n_products over all pairs of a query and a key that it sees. */
static double attention_flops(int n_products, seen a)
{
    const tx__call_keys *k = &a.keys;
    int64_t sq = a.q.dim[0], b = a.q.dim[1], sk = k->k.dim[0], pairs = 0;
    bool one_by_one = k->n_keys.data || k->past.n.data || a.first_key.data || a.window || k->part.is;
    if (!one_by_one) pairs = b * (sq * sk - (k->causal ? sq * (sq - 1) / 2 : 0));
    for (int64_t i = 0; i < sq && one_by_one; i++)
        for (int64_t j = 0; j < b; j++) {
            int64_t at = tx__query_at(k, j) + i, end = tx__keys_end(k, j, at);
            int64_t first = a.first_key.data ? ((const int32_t *)a.first_key.data)[i * b + j] - k->part.k_at : 0;
            int64_t begin = tx__window_begin(a.window, at);
            begin = first > begin ? first : begin;
            pairs += end > begin ? end - begin : 0;
        }
    return 2.0 * n_products * (double)pairs * (double)(a.q.dim[2] * a.q.dim[3] * a.q.dim[4]);
}

/* What is read of keys: what does not pad, of a cache what its sequences have within the window of the first query. */
static double keys_read(seen a)
{
    double n = 0;
    tx_tensor k = a.keys.k;
    for (int64_t j = 0; j < a.q.dim[1]; j++) {
        int64_t at = tx__query_at(&a.keys, j), end = tx__keys_end(&a.keys, j, at + a.q.dim[0] - 1),
                begin = tx__window_begin(a.window, at);
        n += end > begin ? (double)(end - begin) : 0;
    }
    return n * (double)(k.dim[2] * k.dim[3]) * (double)tx_dtype_size(k.dtype);
}

#define B(tensor)          size_of(a->tensor)
#define ALL(tensors)       (a->tensors.first ? (double)a->count.dim[0] * size_of(*a->tensors.first) : 0)
#define ROWS(index, table) rows_of(a->index, a->table)
#define COST(cost_kind, ...)             \
    (tx_cost)                            \
    {                                    \
        .kind = (cost_kind), __VA_ARGS__ \
    }
#define MEMORY(tensor, moved)           COST(TX_COST_MEMORY, .bytes = (moved), .shape = a->tensor)
#define PRODUCT(size, n_flops, moved)   COST(TX_COST_PRODUCT, .flops = (n_flops), .bytes = (moved), .shape = (size))
#define ATTENTION(size, n_flops, moved) COST(TX_COST_ATTENTION, .flops = (n_flops), .bytes = (moved), .shape = (size))
#define OP(op, outputs, cost, scratch)             \
    tx_cost tx__cost_##op(const tx_##op##_args *a) \
    {                                              \
        return cost;                               \
    }
#include "backend/ops.def"
