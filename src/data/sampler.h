/* sampler.h - which samples a rank's next micro-batch holds: a function of how many are consumed, and of nothing else.
 *
 *      single   samples in their order; every micro-batch's worth goes to the ranks in turn
 *               consumed c, rank r:  c + r*b .. c + (r+1)*b - 1
 *      cyclic   shuffled anew each epoch, by the permutation torch.randperm gives for the epoch's number as the seed
 *               sharded: each rank has a range of its own; else one permutation for all, dealt out one by one
 *
 *  Source: Megatron-LM megatron/data/data_samplers.py. */
#ifndef TX_DATA_SAMPLER_H
#define TX_DATA_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_order {
    int64_t n_samples;   /* in the dataset */
    int64_t micro_batch; /* samples of one rank */
    int64_t rank, n_ranks;
    bool cyclic, sharded;
    /* the permutation of one epoch, kept between calls */
    int32_t *order; /* [n_order] */
    int64_t n_order, epoch;
} tx_order;

/* What is set above n_order stays as it is. Errors: TX_ERR_ARG for fewer samples than one micro-batch of all ranks
 * (cyclic), TX_ERR_UNSUPPORTED for more than torch.randperm draws from 32 bits, TX_ERR_NOMEM. */
tx_status tx_order_open(tx_order *s);
void tx_order_close(tx_order *s); /* a zeroed one is fine */

/* sample[0 .. micro_batch) for this rank when all ranks together have consumed that many. `single` goes around at the
 * end. Errors: TX_ERR_ARG when `consumed` does not end a micro-batch of all ranks in an epoch (cyclic). */
tx_status tx_order_get(tx_order *s, int64_t *sample, int64_t consumed);

#endif
