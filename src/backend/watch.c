/* watch.c - finds the first value that is not finite. */
#include "backend/watch.h"

#include <math.h>

#include "backend/ref/ref.h"
#include "base/alloc.h"

static bool search(tx_tensor x, int64_t index[TX_MAX_DIMS], double *value)
{
    int last = x.n_dims - 1;
    int64_t n = x.dim[last], n_rows = tx_numel(x) / n;
    for (int64_t row = 0; row < n_rows; row++) {
        int64_t begin = tx_row_offset(x, row);
        for (int64_t j = 0; j < n; j++) {
            double v = tx__ref_load(x, begin + j * x.stride[last]);
            if (isfinite(v)) continue;
            *value = v;
            index[last] = j;
            for (int64_t k = last - 1, rest = row; k >= 0; rest /= x.dim[k], k--) index[k] = rest % x.dim[k];
            return true;
        }
    }
    return false;
}

/* Bytes from the first element to behind the last one. */
static size_t extent(tx_tensor x)
{
    int64_t last = 0;
    for (int i = 0; i < x.n_dims; i++) last += (x.dim[i] - 1) * x.stride[i];
    return (size_t)(last + 1) * tx_dtype_size(x.dtype);
}

bool tx_find_not_finite(const tx_ctx *c, tx_tensor x, int64_t index[TX_MAX_DIMS], double *value)
{
    if (!x.data || x.n_dims == 0 || tx_numel(x) == 0 || x.dtype == TX_I32 || x.dtype == TX_I64) return false;
    if (!c->device) return search(x, index, value);
    void *copy;
    if (tx_alloc(&copy, extent(x), 1, "a tensor to look at")) return false;
    bool found = !tx_device_read(c->device, copy, x.data, extent(x));
    x.data = copy;
    found = found && search(x, index, value);
    tx_free(copy);
    return found;
}

static void look(const tx_ctx *c, const char *op, const char *output, tx_tensor x)
{
    tx_watch *w = c->watch;
    if (w->op || !tx_find_not_finite(c, x, w->index, &w->value)) return;
    w->op = op;
    w->output = output;
    w->tensor = x;
    w->where = c->at;
}

#define OUT(tensor) look(c, name, #tensor, a->tensor);
#define EACH_OUT(tensors)                                             \
    for (int64_t i = 0; a->tensors.first && i < a->count.dim[0]; i++) \
        look(c, name, #tensors, *tx_nth_tensor(a->tensors, i));
#define OP(op, outputs, ...)                                      \
    void tx__watch_##op(const tx_ctx *c, const tx_##op##_args *a) \
    {                                                             \
        static const char name[] = #op;                           \
        outputs                                                   \
    }
#include "backend/ops.def"
