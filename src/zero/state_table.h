/* state_table.h - which tensors each buffer of the optimizer's state has numbers of, and where. The row of
 * kinds/optimizers.h says the first (tx_state_of); memory, the update, checkpoints and plans read it here.
 *
 *      kept buffers       | words        | norms, biases | matrices of layers            |
 *      muon_exp_avg       | words        | norms, biases | matrices of layers            |    even: at the same places
 *      muon_exp_avg_sq    | words        | norms, biases |                                    its own places
 *
 *  Chunks of what is offloaded (offload.h) are whole blocks of TX_TIER_BLOCK elements. Of a buffer of its own places
 * the blocks that have no numbers are left out, and the others are as they lie in what is kept: so a chunk of it is one
 * stretch, too. */
#ifndef TX_ZERO_STATE_TABLE_H
#define TX_ZERO_STATE_TABLE_H

#include "zero/zero_state.h"

/* After the layout: the tables of z->n_state buffers, which are offloaded or not; keeps NULL: of a user-defined
 * optimizer, which are even. TX_ERR_NOMEM. */
tx_status tx__state_tables_open(tx_zero *z, const tx_optim_keeps *keeps, bool offloaded);
void tx__state_tables_close(tx_zero *z);

/* Where buffer k has fragment s of the model's table, which lies in what is kept of a row; or TX_NOWHERE. */
#define TX_NOWHERE INT64_MIN
int64_t tx__state_at(const tx_zero *z, int k, const tx_fragment *s);

/* Offloaded: where buffer k has element `at` of what is kept, or how many elements it has before a block's begin. */
int64_t tx__state_packed(const tx_zero *z, int k, int64_t at);

#endif
