/* reduce.h - the arithmetic of reductions: n inputs, one result, added in the order of the inputs. */
#ifndef TX_COMM_REDUCE_H
#define TX_COMM_REDUCE_H

#include "comm/comm.h"

/* to[0][i] = ... = to[n_to-1][i] = from[0][i] + from[1][i] + ..., from left to right, in fp32 (fp64 of fp64, integers
 * for integers) and rounded once. A `to` may be a `from`.
 *
 *  Such a sum can be made in several places, one after the other, with the same bits: what is handed on is not rounded,
 * but in the type in which it is added. */
typedef struct tx__reduction {
    void *const *to;
    int n_to;
    void *const *from;
    int n_from;
    tx_dtype dtype;
    tx_reduce op;
    bool carries, leaves; /* from[0] is, and what is written is, such an unfinished sum: of type tx__sum_dtype */
} tx__reduction;

/* The type of an unfinished sum, which says all of it: fp32 of 16 bits, else the same (sums of integers wrap around).
 */
tx_dtype tx__sum_dtype(tx_dtype t);

/* Elements [lo, lo + n). */
void tx__reduce(const tx__reduction *r, int64_t lo, int64_t n);

#endif
