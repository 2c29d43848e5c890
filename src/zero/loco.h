/* loco.h - LoCo, Xie et al., arXiv:2407.04480: what 4 bits leave out of a gradient goes into a later one. As
 * DeepSpeed's all_to_all_loco_quant_reduce, each hop of a quantized sum (quantized.h) has an error e for each element
 * that it sends:
 *
 *      b = g + e,   sent: Q(b),   e = beta e + (1 - beta) (b - Q(b))
 *
 *  Then the sum of all that is sent is that of all g, less the last e / (1 - beta): it does not drift. Errors are of
 * gradients as they are scaled, by the loss scale and the number of micro-batches: with another scale they are scaled
 * along. They are 0 again after every --zero-loco-reset-t updates, and after a step that is skipped, since what is not
 * finite would stay.
 *
 *  They are kept as bf16, 2 bytes for each parameter that is gathered and dropped, and with two hops 2 / n more for n
 * near ranks. DeepSpeed keeps integers of 8 bits, with a scale for a block: half of that, but a block's small errors
 * are lost, and no fp32 in a checkpoint stands for it exactly. Of a matrix that both ends of a pipeline have no error
 * is kept. */
#ifndef TX_ZERO_LOCO_H
#define TX_ZERO_LOCO_H

#include "zero/zero_state.h"

enum { TX_LOCO_HOPS = 2, TX_LOCO_MAX_RANKS = 16 };

/* Before an iteration: what gradients are multiplied by. */
void tx_zero_loco_scale(tx_zero *z, double scale);

/* What this rank has of a hop's errors, as a part of a checkpoint: its name, of this rank or for the second hop of its
 * row; the fragments, NULL: all; and the numbers. false: there is none. More than TX_LOCO_MAX_RANKS ranks save none. */
bool tx_zero_loco_part(const tx_zero *z, int hop, const char **name, const tx_fragments **kept);
tx_status tx_zero_loco_move(tx_zero *z, int hop, const tx_fragment *s, float *x, bool store);

/* What is to be read are errors of so scaled gradients; 0: all are 0. */
tx_status tx_zero_loco_restore(tx_zero *z, double scale);

/* The name of the part that a job with one rank, or row, more would have; so that an equal number can be told. */
void tx_zero_loco_next(const tx_zero *z, int hop, char name[40]);

/* ---- inside the room ---- */

/* Bytes of each hop's errors; after the layout. */
void tx__loco_bytes(const tx_zero *z, size_t bytes[TX_LOCO_HOPS]);
tx_status tx__loco_plan(tx_zero *z); /* TX_ERR_NOMEM */
tx_status tx__loco_take(tx_zero *z);
void tx__loco_close(tx_zero *z);

/* All errors are 0. */
tx_status tx__loco_forget(tx_zero *z);

/* Around the sum of bucket k, whether it has errors or not: begin, then for each piece that a hop sends, which begins
 * at element `at` of what the hop sends of the bucket, pack; end. */
typedef struct tx__loco_piece {
    int bucket, hop, bits;
    int64_t at;
} tx__loco_piece;

void tx__loco_begin(tx_zero *z, int k);
tx_status tx__loco_pack(const tx_zero *z, const tx__loco_piece *of, tx_tensor words, tx_tensor x);
void tx__loco_end(tx_zero *z, int k);

#endif
