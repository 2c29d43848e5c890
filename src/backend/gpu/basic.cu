/* basic.cu - fill, cast, copy, add, sums over columns, and what is summed of flat buffers: squares, zeros, magnitudes.
 *
 *  Sums are made in an order that depends on shapes alone, not on how many lanes a warp has. */
#include "backend/gpu/gpu.h"

/* ---- fill ---- */

template <class T> __global__ void fill_kernel(T *x, T value, int64_t n)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) x[i] = value;
}

template <class T> static void fill(const tx_ctx *c, tx_tensor x, T value)
{
    int64_t n = tx_numel(x);
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 256), 256, 0, fill_kernel<T>, (T *)x.data, value, n);
}

TX_GPU_ROW tx_status tx__gpu_fill(tx_ctx *c, const tx_fill_args *a, void *scratch)
{
    (void)scratch;
    size_t bytes = (size_t)tx_numel(a->x) * tx_dtype_size(a->x.dtype);
    if (!bytes) return TX_OK;
    if (a->value == 0) { /* the most frequent, and all bits of any type are 0 */
        GPU_TRY(gpuMemsetAsync(a->x.data, 0, bytes, tx__gpu_compute(c)));
    } else if (a->x.dtype == TX_I32) {
        fill<int32_t>(c, a->x, (int32_t)a->value);
    } else {
        TX_TRY(tx__gpu_need_float("fill", a->x));
        GPU_FLOAT(a->x.dtype, T, fill<T>(c, a->x, to<T>((float)a->value)));
    }
    return tx__gpu_launched(c, "fill");
}

/* ---- cast ---- */

/* Sizes and strides of up to 5 dimensions, rows being what all but the last make. */
struct strides {
    int n_dims;
    int64_t dim[TX_MAX_DIMS], stride[TX_MAX_DIMS];
};

static strides strides_of(tx_tensor x)
{
    strides s;
    memset(&s, 0, sizeof s);
    s.n_dims = x.n_dims;
    for (int i = 0; i < x.n_dims; i++) s.dim[i] = x.dim[i], s.stride[i] = x.stride[i];
    return s;
}

__device__ static inline int64_t row_begin(const strides &s, int64_t row)
{
    int64_t at = 0;
    for (int i = s.n_dims - 2; i >= 0; i--) {
        at += row % s.dim[i] * s.stride[i];
        row /= s.dim[i];
    }
    return at;
}

template <class Y, class X> __global__ void cast_kernel(Y *y, const X *x, int64_t n)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) y[i] = to<Y>(f32(x[i]));
}

/* Both ends on 16 bytes: eight at a time. */
template <class Y, class X> __global__ void cast_packs_kernel(Y *y, const X *x, int64_t n_packs)
{
    for (int64_t i = grid_thread(); i < n_packs; i += grid_threads()) {
        float v[8];
        load_floats<8>(x + 8 * i, v);
        store_floats<8>(y + 8 * i, v);
    }
}

template <class Y, class X>
__global__ void cast_rows_kernel(Y *y, strides to_, const X *x, strides from, int64_t rows, int64_t n)
{
    for (int64_t i = grid_thread(); i < rows * n; i += grid_threads()) {
        int64_t row = i / n, j = i - row * n;
        y[row_begin(to_, row) + j] = to<Y>(f32(x[row_begin(from, row) + j]));
    }
}

template <class Y, class X> static void cast(const tx_ctx *c, const tx_cast_args *a)
{
    gpuStream_t s = tx__gpu_compute(c);
    int64_t n = tx_numel(a->x), last = a->x.dim[a->x.n_dims - 1];
    Y *y = (Y *)a->y.data;
    const X *x = (const X *)a->x.data;
    if (!tx_is_contiguous(a->x) || !tx_is_contiguous(a->y)) {
        GPU_LAUNCH(s, tx__gpu_blocks(c, n, 256), 256, 0, (cast_rows_kernel<Y, X>), y, strides_of(a->y), x,
                   strides_of(a->x), n / last, last);
    } else if (aligned16(y) && aligned16(x) && n % 8 == 0) {
        GPU_LAUNCH(s, tx__gpu_blocks(c, n / 8, 256), 256, 0, (cast_packs_kernel<Y, X>), y, x, n / 8);
    } else {
        GPU_LAUNCH(s, tx__gpu_blocks(c, n, 256), 256, 0, (cast_kernel<Y, X>), y, x, n);
    }
}

TX_GPU_ROW tx_status tx__gpu_cast(tx_ctx *c, const tx_cast_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x);
    TX_TRY(tx__gpu_need_float("cast", a->x));
    TX_TRY(tx__gpu_need_float("cast", a->y));
    if (!n) return TX_OK;
    if (a->x.dtype == a->y.dtype && tx_is_contiguous(a->x) && tx_is_contiguous(a->y)) {
        size_t bytes = (size_t)n * tx_dtype_size(a->x.dtype);
        if (a->x.data != a->y.data) GPU_TRY(gpuMemcpyAsync(a->y.data, a->x.data, bytes, tx__gpu_compute(c)));
    } else {
        GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->x.dtype, X, cast<Y, X>(c, a)));
    }
    return tx__gpu_launched(c, "cast");
}

/* ---- copy ---- */

/* Two tensors of one shape, rows of n words: dimensions of one index are left out, and such as follow each other in
 * both are one, for an index costs a division. */
struct copy_shape {
    int n_dims;
    int64_t n, rows, dim[TX_MAX_DIMS], to[TX_MAX_DIMS], from[TX_MAX_DIMS];
};

static copy_shape copy_shape_of(const tx_copy_args *a)
{
    copy_shape s;
    int last = a->x.n_dims - 1;
    memset(&s, 0, sizeof s);
    s.n = a->x.dim[last];
    s.rows = tx_numel(a->x) / s.n;
    for (int i = 0; i < last; i++) {
        int64_t dim = a->x.dim[i], to = a->y.stride[i], from = a->x.stride[i];
        int k = s.n_dims - 1;
        if (dim == 1) continue;
        if (s.n_dims && s.to[k] == to * dim && s.from[k] == from * dim)
            s.dim[k] *= dim;
        else
            s.dim[k = s.n_dims++] = dim;
        s.to[k] = to;
        s.from[k] = from;
    }
    return s;
}

/* The most bytes up to 16 of which addresses, strides and rows are multiples. */
static size_t copy_word(const copy_shape *s, const tx_copy_args *a, size_t size)
{
    uintptr_t all = (uintptr_t)a->y.data | (uintptr_t)a->x.data | (uintptr_t)s->n * size;
    for (int i = 0; i < s->n_dims; i++) all |= (uintptr_t)s->to[i] * size | (uintptr_t)s->from[i] * size;
    size_t word = 16;
    while (all % word) word /= 2;
    return word;
}

/* T is a word; I counts them all. */
template <class T, class I> __global__ void copy_rows_kernel(T *y, const T *x, copy_shape s)
{
    const I n = (I)s.n, all = (I)(s.rows * s.n);
    for (I i = (I)grid_thread(); i < all; i += (I)grid_threads()) {
        I row = i / n;
        int64_t to_ = i - row * n, from = to_;
        for (int k = s.n_dims - 1; k >= 0; k--) {
            I over = row / (I)s.dim[k], at = row - over * (I)s.dim[k];
            to_ += at * s.to[k];
            from += at * s.from[k];
            row = over;
        }
        y[to_] = x[from];
    }
}

template <class T> static void copy_rows(const tx_ctx *c, const tx_copy_args *a, copy_shape s, size_t size)
{
    const int64_t per_word = (int64_t)(sizeof(T) / size);
    s.n /= per_word;
    for (int i = 0; i < s.n_dims; i++) s.to[i] /= per_word, s.from[i] /= per_word;
    int64_t n = s.rows * s.n;
    unsigned blocks = tx__gpu_blocks(c, n, 256);
    if (n < INT32_MAX)
        GPU_LAUNCH(tx__gpu_compute(c), blocks, 256, 0, (copy_rows_kernel<T, uint32_t>), (T *)a->y.data,
                   (const T *)a->x.data, s);
    else
        GPU_LAUNCH(tx__gpu_compute(c), blocks, 256, 0, (copy_rows_kernel<T, int64_t>), (T *)a->y.data,
                   (const T *)a->x.data, s);
}

TX_GPU_ROW tx_status tx__gpu_copy(tx_ctx *c, const tx_copy_args *a, void *scratch)
{
    (void)scratch;
    size_t size = tx_dtype_size(a->x.dtype), bytes = (size_t)tx_numel(a->x) * size;
    if (!bytes) return TX_OK;
    if (tx_is_contiguous(a->x) && tx_is_contiguous(a->y)) {
        if (a->x.data != a->y.data) GPU_TRY(gpuMemcpyAsync(a->y.data, a->x.data, bytes, tx__gpu_compute(c)));
        return tx__gpu_launched(c, "copy");
    }
    copy_shape s = copy_shape_of(a);
    switch (copy_word(&s, a, size)) {
    case 16:
        copy_rows<pack<uint32_t, 4>>(c, a, s, size);
        break;
    case 8:
        copy_rows<uint64_t>(c, a, s, size);
        break;
    case 4:
        copy_rows<uint32_t>(c, a, s, size);
        break;
    default:
        copy_rows<uint16_t>(c, a, s, size);
    }
    return tx__gpu_launched(c, "copy");
}

/* ---- add ---- */

template <class Y, class A, class B> __global__ void add_kernel(Y *y, const A *a, const B *b, int64_t n)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) y[i] = to<Y>(f32(a[i]) + f32(b[i]));
}

/* All on 16 bytes: eight at a time. */
template <class Y, class A, class B> __global__ void add_packs_kernel(Y *y, const A *a, const B *b, int64_t n_packs)
{
    for (int64_t i = grid_thread(); i < n_packs; i += grid_threads()) {
        float v[8], w[8];
        load_floats<8>(a + 8 * i, v);
        load_floats<8>(b + 8 * i, w);
        for (int k = 0; k < 8; k++) v[k] += w[k];
        store_floats<8>(y + 8 * i, v);
    }
}

template <class Y, class A, class B> static void add(const tx_ctx *c, const tx_add_args *a)
{
    gpuStream_t s = tx__gpu_compute(c);
    int64_t n = tx_numel(a->y);
    Y *y = (Y *)a->y.data;
    const A *p = (const A *)a->a.data;
    const B *q = (const B *)a->b.data;
    if (aligned16(y) && aligned16(p) && aligned16(q) && n % 8 == 0)
        GPU_LAUNCH(s, tx__gpu_blocks(c, n / 8, 256), 256, 0, (add_packs_kernel<Y, A, B>), y, p, q, n / 8);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, n, 256), 256, 0, (add_kernel<Y, A, B>), y, p, q, n);
}

TX_GPU_ROW tx_status tx__gpu_add(tx_ctx *c, const tx_add_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("add", a->y));
    TX_TRY(tx__gpu_need_float("add", a->a));
    TX_TRY(tx__gpu_need_float("add", a->b));
    if (!tx_numel(a->y)) return TX_OK;
    GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->a.dtype, A, GPU_FLOAT(a->b.dtype, B, add<Y, A, B>(c, a))));
    return tx__gpu_launched(c, "add");
}

/* ---- col_sum ---- */

/* Rows are cut into `parts`, each of which is summed in order; then the parts are added, in order. */
template <class T> __global__ void col_part_kernel(float *part, const T *x, int64_t rows, int64_t n, int64_t each)
{
    int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, first = (int64_t)blockIdx.y * each;
    int64_t end = first + each < rows ? first + each : rows;
    float sum = 0;
    if (j >= n) return;
    for (int64_t i = first; i < end; i++) sum += f32(x[i * n + j]);
    part[(int64_t)blockIdx.y * n + j] = sum;
}

#define COLUMNS 32
#define GROUPS  8

/* Rows of whole packs: a thread has eight columns of every GROUPS-th row of its part. */
enum { PACK = 8 };

template <class T> __global__ void col_part_packs_kernel(float *part, const T *x, int64_t rows, int64_t n, int64_t each)
{
    __shared__ float run[GROUPS][PACK * COLUMNS];
    int column = PACK * ((int)threadIdx.x % COLUMNS), group = (int)threadIdx.x / COLUMNS;
    int64_t first = (int64_t)blockIdx.y * each, end = first + each < rows ? first + each : rows;
    int64_t j = (int64_t)blockIdx.x * PACK * COLUMNS + column;
    float sum[PACK] = { 0 }, v[PACK];
    for (int64_t i = first + group; i < end && j < n; i += GROUPS) {
        load_floats<PACK>(x + i * n + j, v);
        for (int k = 0; k < PACK; k++) sum[k] += v[k];
    }
    for (int k = 0; k < PACK; k++) run[group][column + k] = sum[k];
    __syncthreads();
    column = (int)threadIdx.x; /* from here on one */
    j = (int64_t)blockIdx.x * PACK * COLUMNS + column;
    if (j >= n) return;
    float all = run[0][column];
    for (int g = 1; g < GROUPS; g++) all += run[g][column];
    part[(int64_t)blockIdx.y * n + j] = all;
}

/* A column's parts in GROUPS runs of them, and then these. */

__global__ void col_join_kernel(float *y, const float *part, int64_t parts, int64_t n)
{
    __shared__ float run[GROUPS][COLUMNS];
    int column = (int)threadIdx.x % COLUMNS, group = (int)threadIdx.x / COLUMNS;
    int64_t j = (int64_t)blockIdx.x * COLUMNS + column, each = (parts + GROUPS - 1) / GROUPS;
    int64_t first = group * each, end = first + each < parts ? first + each : parts;
    float sum = 0;
    for (int64_t p = first; p < end && j < n; p++) sum += part[p * n + j];
    run[group][column] = sum;
    __syncthreads();
    if (group || j >= n) return;
    for (int g = 1; g < GROUPS; g++) sum += run[g][column];
    y[j] += sum;
}

void tx__gpu_add_parts(const tx_ctx *c, float *y, const float *part, int64_t parts, int64_t n)
{
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)((n + COLUMNS - 1) / COLUMNS), COLUMNS * GROUPS, 0, col_join_kernel, y,
               part, parts, n);
}

TX_GPU_ROW size_t tx__gpu_col_sum_scratch(const tx_ctx *c, const tx_col_sum_args *a)
{
    (void)c;
    return (size_t)(tx__gpu_row_parts(a->x.dim[0], a->x.dim[1]) * a->x.dim[1]) * sizeof(float);
}

TX_GPU_ROW tx_status tx__gpu_col_sum(tx_ctx *c, const tx_col_sum_args *a, void *scratch)
{
    int64_t rows = a->x.dim[0], n = a->x.dim[1], parts = tx__gpu_row_parts(rows, n), each = (rows + parts - 1) / parts;
    dim3 grid((unsigned)((n + 127) / 128), (unsigned)parts), packs((unsigned)((n + 255) / 256), (unsigned)parts);
    bool packed = n % PACK == 0 && aligned16(a->x.data);
    TX_TRY(tx__gpu_need_float("col_sum", a->x));
    if (packed) {
        GPU_FLOAT(a->x.dtype, T,
                  GPU_LAUNCH(tx__gpu_compute(c), packs, GROUPS * COLUMNS, 0, col_part_packs_kernel<T>, (float *)scratch,
                             (const T *)a->x.data, rows, n, each));
    } else {
        GPU_FLOAT(a->x.dtype, T,
                  GPU_LAUNCH(tx__gpu_compute(c), grid, 128, 0, col_part_kernel<T>, (float *)scratch,
                             (const T *)a->x.data, rows, n, each));
    }
    tx__gpu_add_parts(c, (float *)a->y.data, (const float *)scratch, parts, n);
    return tx__gpu_launched(c, "col_sum");
}

/* ---- sums over blocks of TX_SUMSQ_BLOCK ---- */

enum { SUM_LANES = 8 };

/* A block is the work of eight lanes, which take eight numbers at a time: few exchanges for many loads under way. */
template <class T> __global__ void sumsq_kernel(double *out, const T *x, int64_t n, int64_t blocks, bool packed)
{
    int lane = (int)threadIdx.x % SUM_LANES;
    int64_t step = grid_threads() / SUM_LANES, rounds = (blocks + step - 1) / step;
    for (int64_t r = 0; r < rounds; r++) { /* all lanes of a warp come to every round: they exchange their sums */
        int64_t block = r * step + grid_thread() / SUM_LANES;
        double sum = 0;
#pragma unroll
        for (int k = 0; k < TX_SUMSQ_BLOCK; k += PACK * SUM_LANES) {
            int64_t i = block * TX_SUMSQ_BLOCK + k + PACK * lane;
            float v[PACK] = { 0 };
            if (packed && i + PACK <= n)
                load_floats<PACK>(x + i, v);
            else
                for (int e = 0; e < PACK && i + e < n; e++) v[e] = f32(x[i + e]);
            for (int e = 0; e < PACK; e++) sum += (double)v[e] * (double)v[e];
        }
        for (int m = SUM_LANES / 2; m; m >>= 1) sum += shfl_xor(sum, m);
        if (lane == 0 && block < blocks) out[block] = sum;
    }
}

TX_GPU_ROW tx_status tx__gpu_sumsq(tx_ctx *c, const tx_sumsq_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x), blocks = tx_numel(a->out);
    TX_TRY(tx__gpu_need_float("sumsq", a->x));
    if (!n) return TX_OK;
    GPU_FLOAT(a->x.dtype, T,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, blocks * SUM_LANES, 256), 256, 0, sumsq_kernel<T>,
                         (double *)a->out.data, (const T *)a->x.data, n, blocks, aligned16(a->x.data)));
    return tx__gpu_launched(c, "sumsq");
}

template <class T> __global__ void magnitudes_kernel(double *out, const T *x, int64_t n, int64_t blocks)
{
    int lane = (int)threadIdx.x % LANES;
    int64_t step = grid_threads() / LANES, rounds = (blocks + step - 1) / step;
    for (int64_t r = 0; r < rounds; r++) {
        int64_t block = r * step + grid_thread() / LANES, first = block * TX_SUMSQ_BLOCK;
        double sum[3] = { 0, 0, 0 };
        float most = 0;
        for (int k = 0; k < TX_SUMSQ_BLOCK / LANES; k++) {
            int64_t i = first + k * LANES + lane;
            float v = block < blocks && i < n ? fabsf(f32(x[i])) : 0;
            sum[0] += (double)v;
            sum[1] += (double)v * (double)v;
            sum[2] += sqrt((double)v);
            most = fmaxf(most, v);
        }
        for (int k = 0; k < 3; k++) sum[k] = lanes_sum(sum[k]);
        for (int m = LANES / 2; m; m >>= 1) most = fmaxf(most, shfl_xor(most, m));
        if (lane || block >= blocks) continue;
        for (int k = 0; k < 3; k++) out[4 * block + k] = sum[k];
        out[4 * block + 3] = (double)most;
    }
}

TX_GPU_ROW tx_status tx__gpu_magnitudes(tx_ctx *c, const tx_magnitudes_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x), blocks = a->out.dim[0];
    TX_TRY(tx__gpu_need_float("magnitudes", a->x));
    if (!n) return TX_OK;
    GPU_FLOAT(a->x.dtype, T,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, blocks * LANES, 256), 256, 0, magnitudes_kernel<T>,
                         (double *)a->out.data, (const T *)a->x.data, n, blocks));
    return tx__gpu_launched(c, "magnitudes");
}

/* ---- count_zeros ---- */

template <class T> __global__ void count_zeros_kernel(unsigned long long *count, const T *x, int64_t n)
{
    unsigned long long zeros = 0;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) zeros += f32(x[i]) == 0;
    zeros = block_sum(zeros);
    if (threadIdx.x == 0 && zeros) atomicAdd(count, zeros);
}

__global__ void count_out_kernel(double *out, const unsigned long long *count)
{
    *out = (double)*count;
}

TX_GPU_ROW size_t tx__gpu_count_zeros_scratch(const tx_ctx *c, const tx_count_zeros_args *a)
{
    (void)c, (void)a;
    return sizeof(unsigned long long);
}

TX_GPU_ROW tx_status tx__gpu_count_zeros(tx_ctx *c, const tx_count_zeros_args *a, void *scratch)
{
    unsigned long long *count = (unsigned long long *)scratch;
    gpuStream_t s = tx__gpu_compute(c);
    int64_t n = tx_numel(a->x);
    TX_TRY(tx__gpu_need_float("count_zeros", a->x));
    GPU_TRY(gpuMemsetAsync(count, 0, sizeof *count, s));
    GPU_FLOAT(a->x.dtype, T,
              GPU_LAUNCH(s, tx__gpu_blocks(c, n, 256), 256, 0, count_zeros_kernel<T>, count, (const T *)a->x.data, n));
    GPU_LAUNCH(s, 1, 1, 0, count_out_kernel, (double *)a->out.data, count);
    return tx__gpu_launched(c, "count_zeros");
}
