/* matrices.h - updates that need whole matrices (TX_OPTIMIZER_MATRICES), of what ZeRO and tensor ranks divide.
 *
 *  An optimizer makes of a matrix's gradient a direction, element by element, and of the whole direction an orthogonal
 *  matrix (optim/orthogonal.h), which the weights then follow, again element by element. Bucket by bucket:
 *
 *      1  a rank makes the directions of what it keeps, in its part of a buffer as large as the bucket
 *      2  all-gather of the buffer's parts                                                        ZeRO 1 and higher
 *      3  the ranks take turns at the bucket's matrices: each makes its own orthogonal and the others' 0
 *      4  reduce-scatter: what a rank keeps of a sum of one matrix and zeros is the matrix's      ZeRO 1 and higher
 *      5  a rank updates what it keeps (tx_optim_step_some)
 *
 *  So the work is divided among the ranks that divide the state, for 4 bytes a parameter each way. Without ZeRO every
 * rank keeps and does all, and sends nothing. Of a matrix that tensor ranks split, step 3 is --muon-tp-mode's: each
 * part by itself; or gathered over them and made orthogonal on each; or in parts, with sums over them. A layer's
 * matrices are those of two dimensions in a unit of a layer: not embeddings and heads. */
#ifndef TX_ZERO_MATRICES_H
#define TX_ZERO_MATRICES_H

#include "zero/zero_state.h"

/* Whether a row of the table is updated so. */
bool tx_zero_is_matrix(const tx_zero *z, int row);
bool tx_zero_has_matrix(const tx_zero *z, int bucket);

/* What a step moves between the tensor ranks of this rank's matrices.   @v [TX_N_COMM_OPS], added to */
void tx_zero_matrices_volume(const tx_zero *z, tx_comm_volume *v);

/* ---- inside the room ---- */

/* After the layout: sizes, and addresses for a dry run. After the dry run: the memory. TX_ERR_NOMEM. */
void tx__matrices_plan(tx_zero *z);
tx_status tx__matrices_take(tx_zero *z);
void tx__matrices_close(tx_zero *z);
size_t tx__matrices_bytes(const tx_zero *z);

/* Where the direction of a fragment lies; NULL: it is of no matrix. */
float *tx__matrices_direction(const tx_zero *z, const tx_fragment *s);

/* Steps 2 to 4, of bucket k; zero.c goes over what is kept. */
tx_status tx__matrices_step(tx_zero *z, int k);

#endif
