/* cpu.h - what the files of backend "cpu" share. It computes in fp32 with OpenMP threads, bf16 and fp16 by way of it;
 * matrix products are oneDNN's, everything else is ours (isa/). How work is cut depends on shapes and c->n_threads
 * only, never on which threads run, so that the same call computes the same bits. */
#ifndef TX_BACKEND_CPU_CPU_H
#define TX_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/crew.h"
#include "backend/cpu/isa/kernels.h"

typedef struct tx__cpu {
    const tx__cpu_kernels *k;
    struct tx__cpu_gemm *gemm; /* cpu_gemm.c's engine and cache */
    tx__crew *crew;            /* NULL: there is one thread */
} tx__cpu;

static inline const tx__cpu_kernels *tx__cpu_k(const tx_ctx *c)
{
    return ((const tx__cpu *)c->backend_state)->k;
}

/* TX_ERR_UNSUPPORTED unless x is fp32, bf16 or fp16; one tensor of a call is enough, because check.c has
 * checked that the others match. */
tx_status tx__cpu_need_float(const char *op, tx_tensor x);

/* Element i of x; NULL if x is absent. */
static inline void *tx__cpu_at(tx_tensor x, int64_t i)
{
    return x.data ? (char *)x.data + (size_t)i * tx_dtype_size(x.dtype) : NULL;
}

/* Some kernels know only fp32. They are given fp32 tensors as they are; of bf16 and fp16 a stretch at a time is
 * converted into room that stays in the cache, worked on and converted back:
 *
 *      k->kernel(tx__cpu_dst(y, at, y_room), tx__cpu_get(c, x, at, n, x_room), n);
 *      tx__cpu_put(c, y, at, n, y_room);
 *
 * Each room holds n floats and is not touched for fp32. */
float *tx__cpu_get(const tx_ctx *c, tx_tensor x, int64_t at, int64_t n, float *room); /* NULL if x is absent */

static inline float *tx__cpu_dst(tx_tensor y, int64_t at, float *room)
{
    return y.dtype == TX_F32 ? (float *)y.data + at : room;
}

void tx__cpu_put(const tx_ctx *c, tx_tensor y, int64_t at, int64_t n, const float *room);

/* n elements from x + from to y + to, between any of the three types. */
void tx__cpu_move(const tx_ctx *c, tx_tensor y, int64_t to, tx_tensor x, int64_t from, int64_t n);

/* The stretch of element-wise work, whose rooms lie on the stack: all of n where the op's values are fp32. */
enum { TX__CPU_STRETCH = 1024 };

static inline int64_t tx__cpu_stretch(tx_dtype values, int64_t n)
{
    return values == TX_F32 || n < TX__CPU_STRETCH ? n : TX__CPU_STRETCH;
}

static inline int64_t tx__cpu_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many parts n units of work are cut into: one where starting threads costs more than the work, else one for every
 * thread, of which some are empty where n is less. Never a number between: libgomp ends the threads that a region does
 * not want and starts them again for the next. `each` is the work of a unit in elements touched. */
static inline int tx__cpu_parts(const tx_ctx *c, int64_t n, int64_t each)
{
    return n > 1 && n * each >= 16384 ? c->n_threads : 1;
}

typedef struct tx__range {
    int64_t lo, hi;
} tx__range;

/* Part t of n, cut at multiples of `unit`. */
static inline tx__range tx__cpu_part(int64_t n, int64_t unit, int parts, int t)
{
    int64_t units = (n + unit - 1) / unit, lo = units * t / parts * unit, hi = units * (t + 1) / parts * unit;
    return (tx__range){ lo, hi < n ? hi : n };
}

#define ROW(op) tx_status tx__cpu_##op(tx_ctx *c, const tx_##op##_args *a, void *scratch);
#include "backend/cpu/rows.def"

#define OP(op, outputs, cost, scratch) scratch
#define CPU_SCRATCH(op)                size_t tx__cpu_##op##_scratch(const tx_ctx *c, const tx_##op##_args *a);
#include "backend/ops.def"

/* Up to this many rows a product by a transposed matrix is ours (isa_few.c). */
enum { TX__CPU_FEW = 64 };

/* cpu_gemm_widened.c: the product of bf16 and fp16 by way of fp32. Its scratch is `rooms` bytes for what is converted
 * and, after them, the bytes returned, for oneDNN. */
tx_status tx__cpu_gemm_widened(tx_ctx *c, const tx_gemm_args *a, void *scratch);
size_t tx__cpu_gemm_widened_scratch(const tx_ctx *c, const tx_gemm_args *a, size_t *rooms);

/* cpu_gemm_symmetric.c: a product that the caller knows to be symmetric, as so many panels of it that are products by
 * themselves; 1: it is one like others. */
int tx__cpu_gemm_panels(const tx_gemm_args *a);
tx_gemm_args tx__cpu_gemm_panel(const tx_gemm_args *a, int i);
tx_status tx__cpu_gemm_symmetric(tx_ctx *c, const tx_gemm_args *a, void *scratch);

/* Whether the processor multiplies numbers of type t itself, and oneDNN has products of them. */
bool tx__cpu_gemm_is_own(tx_dtype t);

/* cpu_peak.c: backend.h has the contracts. */
double tx__cpu_peak_flops(const tx_ctx *c, tx_dtype t);
tx_status tx__cpu_bandwidth(const tx_ctx *c, tx_bandwidth *out);
/* Bytes of each of its three arrays: twice the last cache, but no more than 256 MiB, because hypervisors report a
 * whole machine's cache, and no more than a sixteenth of the memory that is free (0: unknown), because a run measures,
 * too. */
size_t tx__cpu_bandwidth_array(long cache, size_t free_bytes);
const tx__cpu_kernels *tx__cpu_best_kernels(void); /* of the processor, regardless of TX_CPU_ISA */

tx_status tx__cpu_gemm_open(struct tx__cpu_gemm **out);
void tx__cpu_gemm_close(struct tx__cpu_gemm *g); /* NULL allowed */
const char *tx__cpu_gemm_version(char *buf, size_t cap);

#endif
