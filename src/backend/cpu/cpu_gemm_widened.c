/* cpu_gemm_widened.c - products of bf16 and fp16 by way of fp32: operands are converted, multiplied and, if C is not
 * fp32 itself, the result is rounded. What is converted would take twice the memory of the operands (of an embedding
 * table, say), so the product is cut along the longest of m, n and k into pieces, one after another in the same rooms.
 */
#include "backend/cpu/cpu.h"

/* What the rooms of a piece may come to, and how short it may be made for that: the operand that is not cut has to be
 * multiplied often enough to be worth its conversion. */
enum { ROOM_BYTES = 8 << 20, SHORTEST = 512 };

enum { M, N, K };

typedef struct cutting {
    int axis; /* M, N or K */
    int64_t total, step;
} cutting;

static cutting cut_of(const tx_gemm_args *a)
{
    const int64_t size[] = { [M] = a->c.dim[0], [N] = a->c.dim[1], [K] = a->a.dim[a->trans_a ? 0 : 1] };
    int axis = M;
    for (int i = N; i <= K; i++)
        if (size[i] > size[axis]) axis = i;
    int64_t total = size[axis], whole = size[M] * size[K] + size[K] * size[N];
    if (a->c.dtype != TX_F32) whole += size[M] * size[N];
    int64_t n = (whole * (int64_t)sizeof(float) + ROOM_BYTES - 1) / ROOM_BYTES, most = total / SHORTEST;
    if (n > most) n = most;
    return (cutting){ axis, total, n > 1 ? tx__lanes((total + n - 1) / n) : total };
}

/* x cut along `dim` to [first, first + n); the others as they are. */
static tx_tensor slice(tx_tensor x, int dim, int64_t first, int64_t n)
{
    x.data = (char *)x.data + (size_t)(first * x.stride[dim]) * tx_dtype_size(x.dtype);
    x.dim[dim] = n;
    return x;
}

/* The part of the product from `first` on, of at most `step`, still in its own types. */
static tx_gemm_args piece(const tx_gemm_args *a, cutting cut, int64_t first)
{
    tx_gemm_args p = *a;
    int64_t n = tx__cpu_min(cut.total - first, cut.step);
    if (cut.axis != N) p.a = slice(a->a, (cut.axis == M) == a->trans_a, first, n);
    if (cut.axis != M) p.b = slice(a->b, (cut.axis == N) != a->trans_b, first, n);
    if (cut.axis == M) p.c = slice(a->c, 0, first, n);
    if (cut.axis == N) p.c = slice(a->c, 1, first, n);
    if (cut.axis == N && a->bias.data) p.bias = slice(a->bias, 0, first, n);
    if (cut.axis == K && first > 0) p.accumulate = true, p.bias.data = NULL;
    return p;
}

/* x in fp32: itself or, dense, a room for it. The next room begins behind one for `largest`. */
static tx_tensor room(tx_tensor x, tx_tensor largest, float **at)
{
    if (x.dtype == TX_F32 || !largest.data) return x;
    if (x.data) x = x.n_dims == 1 ? tx_tensor1(*at, TX_F32, x.dim[0]) : tx_tensor2(*at, TX_F32, x.dim[0], x.dim[1]);
    *at += tx__lanes(tx_numel(largest));
    return x;
}

/* A piece in fp32, in rooms from *at on that lie where those of the first and largest piece do; at the end *at is what
 * follows them. */
static tx_gemm_args widened(const tx_gemm_args *p, const tx_gemm_args *largest, float **at)
{
    tx_gemm_args w = *p;
    w.a = room(p->a, largest->a, at);
    w.b = room(p->b, largest->b, at);
    w.bias = room(p->bias, largest->bias, at);
    w.c = room(p->c, largest->c, at);
    return w;
}

size_t tx__cpu_gemm_widened_scratch(const tx_ctx *c, const tx_gemm_args *a, size_t *rooms)
{
    cutting cut = cut_of(a);
    float *start = a->c.data, *end = start; /* any address: none is touched */
    const tx_gemm_args first = piece(a, cut, 0);
    tx_gemm_args w = widened(&first, &first, &end);
    size_t most = tx__cpu_gemm_scratch(c, &w);
    *rooms = (size_t)(end - start) * sizeof(float);
    /* those in the middle may accumulate, unlike the first, and be longer than the last */
    const int64_t others[] = { cut.step < cut.total ? cut.step : 0, (cut.total - 1) / cut.step * cut.step };
    for (int i = 0; i < 2; i++) {
        const tx_gemm_args other = piece(a, cut, others[i]);
        float *unused = start;
        w = widened(&other, &first, &unused);
        size_t bytes = tx__cpu_gemm_scratch(c, &w);
        if (bytes > most) most = bytes;
    }
    return most;
}

static tx_status convert(tx_ctx *c, tx_tensor y, tx_tensor x)
{
    return tx__cpu_cast(c, &(tx_cast_args){ .y = y, .x = x }, NULL);
}

tx_status tx__cpu_gemm_widened(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    cutting cut = cut_of(a);
    bool rounds = a->c.dtype != TX_F32;
    const tx_gemm_args largest = piece(a, cut, 0);
    for (int64_t first = 0; first < cut.total; first += cut.step) {
        float *end = scratch;
        tx_gemm_args p = piece(a, cut, first), w = widened(&p, &largest, &end);
        if (first == 0 || cut.axis != N) TX_TRY(convert(c, w.a, p.a));
        if (first == 0 || cut.axis != M) TX_TRY(convert(c, w.b, p.b));
        if (p.bias.data) TX_TRY(convert(c, w.bias, p.bias));
        if (rounds && a->accumulate && (first == 0 || cut.axis != K)) TX_TRY(convert(c, w.c, p.c));
        TX_TRY(tx__cpu_gemm(c, &w, end));
        if (rounds && (cut.axis != K || first + cut.step >= cut.total)) TX_TRY(convert(c, p.c, w.c));
    }
    return TX_OK;
}
