/* reduce.h - the arithmetic of reductions: n inputs, one result, added in the order of the inputs. */
#ifndef TX_COMM_REDUCE_H
#define TX_COMM_REDUCE_H

#include "comm/comm.h"

/* to[0][i] = ... = to[n_to-1][i] = from[0][i] + from[1][i] + ..., from left to right, in fp32 (fp64 of fp64, integers
 * for integers) and rounded once. A `to` may be a `from`. */
typedef struct tx__reduction {
    void *const *to;
    int n_to;
    void *const *from;
    int n_from;
    tx_dtype dtype;
    tx_reduce op;
} tx__reduction;

/* Elements [lo, lo + n). */
void tx__reduce(const tx__reduction *r, int64_t lo, int64_t n);

#endif
