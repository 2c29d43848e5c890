/* watch.c - finds the first value that is not finite. */
#include "backend/watch.h"

#include <math.h>

#include "backend/ref/ref.h"

bool tx_find_not_finite(tx_tensor x, int64_t index[TX_MAX_DIMS], double *value)
{
    if (!x.data || x.n_dims == 0 || tx_numel(x) == 0) return false;
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

static void look(const tx_ctx *c, const char *op, const char *output, tx_tensor x)
{
    tx_watch *w = c->watch;
    if (w->op || !tx_find_not_finite(x, w->index, &w->value)) return;
    w->op = op;
    w->output = output;
    w->tensor = x;
    w->where = c->at;
}

#define OUT(tensor) look(c, name, #tensor, a->tensor);
#define OUTPUTS(op, list)                                         \
    void tx__watch_##op(const tx_ctx *c, const tx_##op##_args *a) \
    {                                                             \
        static const char name[] = #op;                           \
        list                                                      \
    }
#include "backend/op_outputs.def"
#undef OUTPUTS
#undef OUT
