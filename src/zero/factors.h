/* factors.h - means of the squares of a matrix's rows and columns (TX_OPTIMIZER_FACTORS), of what ZeRO and tensor ranks
 * divide.
 *
 *      a rank's fragments     largest |g| of each row and column                         over the ranks: a maximum
 *                             g², rounded to a grid that this and the number of elements decide, so that sums of such
 *                             numbers are exact in fp64, summed                          over the ranks: a sum
 *      every rank             the averages of all rows and columns of its matrices; and of these the factors of the
 *                             update
 *
 *  So the means do not depend on how matrices are cut or in which order they are summed, and every stage has the bits
 * of stage 0. The averages are on all data-parallel ranks: two numbers for the sides of a matrix. */
#ifndef TX_ZERO_FACTORS_H
#define TX_ZERO_FACTORS_H

#include "zero/zero_state.h"

/* After the layout: sizes, and addresses for a dry run. After the dry run: the memory. TX_ERR_NOMEM. */
tx_status tx__factors_plan(tx_zero *z);
tx_status tx__factors_take(tx_zero *z);
void tx__factors_close(tx_zero *z);
size_t tx__factors_bytes(const tx_zero *z);

/* Points a range to its factors; of a vector: nothing. */
void tx__factors_point(const tx_zero *z, const tx_fragment *s, tx_optim_range *r);

/* After the gate, before anything is measured. Collective over the ranks that share tensors. */
tx_status tx__factors_step(tx_zero *z, const tx_optim_step *s);

#endif
