/* pt_values.c - the numbers of a tensor, whatever its strides and dtype, in runs that are evenly spaced in the file. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "torch/pt_file.h"

/* n elements, `stride` apart, from src (perhaps unaligned) to x; how many finite numbers became infinite. */
static size_t to_f32(tx_pt_dtype t, const unsigned char *src, int64_t stride, int64_t n, float *x)
{
    size_t n_lost = 0;
    uint16_t half;
    double wide;
    switch (t) {
    case TX_PT_F32:
        if (stride == 1)
            memcpy(x, src, (size_t)n * 4);
        else
            for (int64_t i = 0; i < n; i++) memcpy(x + i, src + 4 * i * stride, 4);
        break;
    case TX_PT_BF16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&half, src + 2 * i * stride, 2);
            x[i] = tx_bf16_to_f32(half);
        }
        break;
    case TX_PT_F16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&half, src + 2 * i * stride, 2);
            x[i] = tx_f16_to_f32(half);
        }
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&wide, src + 8 * i * stride, 8);
            x[i] = (float)wide;
            n_lost += isinf(x[i]) && !isinf(wide);
        }
    }
    return n_lost;
}

/* Elements of the longest run of trailing dimensions that lies in the file as it is in memory; what is left of the
 * shape in front of it is *n_outer dimensions. At least a row, whose elements may be *step apart. */
static int64_t run_length(const tx_pt_tensor *t, int *n_outer, int64_t *step)
{
    int64_t run = 1;
    int i = t->n_dims;
    *step = 1;
    while (i > 0 && (t->dim[i - 1] == 1 || t->stride[i - 1] == run)) run *= t->dim[--i];
    if (run == 1 && i > 0) {
        i--;
        run = t->dim[i];
        *step = t->stride[i];
    }
    *n_outer = i;
    return run;
}

static size_t read_runs(const tx_pt_tensor *t, int64_t first, int64_t n, float *dst)
{
    int n_outer;
    int64_t step, run = run_length(t, &n_outer, &step), index[TX_PT_MAX_DIMS], at = t->offset, rest = first / run;
    size_t size = tx_pt_dtype_size(t->storage->dtype), n_lost = 0;
    for (int i = n_outer - 1; i >= 0; i--) {
        index[i] = rest % t->dim[i];
        rest /= t->dim[i];
        at += index[i] * t->stride[i];
    }
    for (int64_t skip = first % run, done = 0; done < n; skip = 0) {
        int64_t k = run - skip < n - done ? run - skip : n - done;
        n_lost += to_f32(t->storage->dtype, t->storage->data + (size_t)(at + skip * step) * size, step, k, dst + done);
        done += k;
        for (int i = n_outer - 1; i >= 0; i--) { /* the next run, as an odometer counts */
            at += t->stride[i];
            if (++index[i] < t->dim[i]) break;
            at -= t->dim[i] * t->stride[i];
            index[i] = 0;
        }
    }
    return n_lost;
}

int64_t tx_pt_numel(const tx_pt_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n = t->dim[i] ? n : 0;
    for (int i = 0; n && i < t->n_dims; i++) n *= t->dim[i];
    return n;
}

static void check_range(const tx_pt_tensor *t, int64_t first, int64_t n)
{
    int64_t numel = tx_pt_numel(t);
    TX_ASSERT(first >= 0 && n >= 0 && first <= numel && n <= numel - first);
}

tx_status tx_pt_read_f32(const tx_pt *f, const tx_pt_tensor *t, int64_t first, int64_t n, float *dst)
{
    tx_pt_dtype dtype = t->storage->dtype;
    check_range(t, first, n);
    if (n) TX_TRY(tx__pt_check_storage(f, t->storage));
    if (dtype >= TX_PT_I64)
        return TX_FAIL(TX_ERR_FORMAT, "%s: a tensor of %s where one of floats is needed", f->path,
                       tx_pt_dtype_name(dtype));
    size_t n_lost = n ? read_runs(t, first, n, dst) : 0;
    if (n_lost)
        return TX_FAIL(TX_ERR_NUMERIC, "%s: %zu numbers of a tensor are too large for float32", f->path, n_lost);
    return TX_OK;
}
