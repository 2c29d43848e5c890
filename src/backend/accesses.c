/* accesses.c - what an op reads and writes, told to ThreadSanitizer as ops.def has it: the tensors that its cost
 * counts, and its outputs. The cpu backend's kernels are not compiled for it, nor is oneDNN: so both are seen. */
#include "backend/backend.h"

#ifdef __SANITIZE_THREAD__
typedef void access(void *of_8_bytes);
access __tsan_unaligned_read8, __tsan_unaligned_write8;

/* The ends of each row (other threads may have what lies between two), and of each 64 bytes of it 8: what two threads
 * use at a time is a part of a buffer, and any byte of it tells. A row of less than 8 bytes is left out. */
static double tell(tx_tensor x, access *told)
{
    if (!x.data || !x.n_dims || !tx_numel(x)) return 0;
    TX_ASSERT(x.stride[x.n_dims - 1] == 1 || x.dim[x.n_dims - 1] == 1);
    int64_t n = tx_is_contiguous(x) ? tx_numel(x) : x.dim[x.n_dims - 1], n_rows = tx_numel(x) / n;
    int64_t size = (int64_t)tx_dtype_size(x.dtype), bytes = n * size;
    for (int64_t row = 0; row < n_rows; row++) {
        char *begin = (char *)x.data + tx_row_offset(x, row) * size;
        for (int64_t i = 0; i + 8 < bytes; i += 64) told(begin + i);
        if (bytes >= 8) told(begin + bytes - 8);
    }
    return 0;
}

static double tell_each(tx_tensors x, tx_tensor count, access *told)
{
    for (int64_t i = 0; x.first && i < count.dim[0]; i++) tell(*tx_nth_tensor(x, i), told);
    return 0;
}

#define OUT(tensor)                     tell(a->tensor, __tsan_unaligned_write8);
#define EACH_OUT(tensors)               tell_each(a->tensors, a->count, __tsan_unaligned_write8);
#define B(tensor)                       tell(a->tensor, __tsan_unaligned_read8)
#define ALL(tensors)                    tell_each(a->tensors, a->count, __tsan_unaligned_read8)
#define ROWS(index, table)              tell(a->table, __tsan_unaligned_read8)
#define seen_fwd(a)                     (B(k) + B(v))
#define seen_bwd(a)                     (B(k) + B(v))
#define seen_max(a)                     B(k)
#define keys_read(seen)                 (seen)
#define MEMORY(tensor, moved)           (moved)
#define PRODUCT(size, n_flops, moved)   (moved)
#define ATTENTION(size, n_flops, moved) (moved)
#define OP(op, outputs, cost, scratch)                           \
    void tx__tell_##op(const tx_ctx *c, const tx_##op##_args *a) \
    {                                                            \
        if (c->dry || c->device) return;                         \
        (void)(cost);                                            \
        outputs                                                  \
    }
#else
#define OP(op, ...)                                              \
    void tx__tell_##op(const tx_ctx *c, const tx_##op##_args *a) \
    {                                                            \
        (void)c, (void)a;                                        \
    }
#endif
#include "backend/ops.def"
