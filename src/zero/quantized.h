/* quantized.h - ZeRO++, Wang et al., arXiv:2306.10209: less of what ZeRO-3 moves between hosts, of the buckets that are
 * gathered and dropped. Rows of near ranks (parallel/grid.h) are of --zero-hpz-partition-size; n of them in a row, f
 * rows, a bucket has n f parts.
 *
 *      qwZ   a bucket is gathered as blocks of 8 bits (backend/ops.h), a rank's own part, too, so that layers compute
 *            with the same numbers everywhere. Masters and checkpoints are exact
 *      hpZ   what was gathered is kept by the ranks of a row, an n-th each: this second copy is there until values
 *            change or the iteration ends, and later uses are gathered from it, between near ranks, in the values' type
 *      qgZ   gradients as blocks of 4 bits, in two hops, each an all-to-all:
 *
 *              1  in a row rank i gets what is meant for the i-th ranks of all rows, f parts, and sums it in fp32
 *              2  across rows each of these sums, as 4 bits again, goes to where the part is kept, and is summed there
 *
 *            with rows of one rank, or one row, there is one hop
 *
 *  DeepSpeed's blocks are as long as a group of its own, near 8000 elements; its second copy lasts for one backward.
 *  What rounding leaves out is kept by loco.h, or lost. A block that is not finite is so after a sum: the step is
 * skipped as it is without. */
#ifndef TX_ZERO_QUANTIZED_H
#define TX_ZERO_QUANTIZED_H

#include "zero/zero_state.h"

/* ---- values, for gather.c ---- */

/* Starts to gather bucket k from the second copy, or as blocks of 8 bits; what is neither, gather.c does.
 * @all [bucket] in which this rank's own part is, but where the second copy is read */
tx_status tx__quantized_gather_start(tx_zero *z, int k, tx_tensor all);

/* After the wait: numbers from blocks; and the second copy, if there is to be one and is none. */
tx_status tx__quantized_gathered(tx_zero *z, int k, tx_tensor all);

static inline bool tx__has_second(const tx_zero *z, int k)
{
    return z->now[k].second;
}

/* Values are not what they were, or their iteration is over. */
void tx__quantized_forget(tx_zero *z);

/* ---- gradients, for sums.c ---- */

/* The sum of a bucket whose gradients are sent as blocks (tx__quantizes_sum), or that is added to `to`.   @x [bucket]
 * @to [part] */
tx_status tx__quantized_sum(tx_zero *z, int k, tx_tensor to, tx_tensor x, bool added);

/* ---- memory, for zero.c ---- */

tx_status tx__quantized_plan(tx_zero *z); /* TX_ERR_NOMEM */
tx_status tx__quantized_take(tx_zero *z);
void tx__quantized_close(tx_zero *z);
size_t tx__quantized_bytes(const tx_zero *z);

#endif
