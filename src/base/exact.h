/* exact.h - exact sums of non-negative numbers. They do not depend on order or grouping, so a norm is the same however
 * its tensors are partitioned over ranks.
 *
 *      limb[k] counts units of 2^(32 k - 320); a double is added to the two or three that its 53 bits touch
 *
 *  That holds squares of fp32 numbers and sums of them: 2^-298 to below 2^300, some 2^31 of them.
 *  Source: Kulisch's long accumulator; Collange et al. 2015, "Numerical reproducibility for the parallel reduction". */
#ifndef TX_BASE_EXACT_H
#define TX_BASE_EXACT_H

#include <stdint.h>

enum { TX_EXACT_LIMBS = 21 };

typedef struct tx_exact {
    uint64_t limb[TX_EXACT_LIMBS];
    double beyond; /* sum of what does not fit: infinities, NaN and larger numbers, or 0 */
} tx_exact;        /* all zero: 0 */

/* @x >= 0 or NaN, a multiple of 2^-320 */
void tx_exact_add(tx_exact *a, double x);

void tx_exact_merge(tx_exact *a, const tx_exact *b);

/* The sum, rounded once. */
double tx_exact_value(const tx_exact *a);

#endif
