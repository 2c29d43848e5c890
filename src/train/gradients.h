/* gradients.h - what has to happen to gradients between backward and the update: sums over the ranks that have a part
 * of them each.
 *
 *      over tensor ranks     of TX_PARTS parameters, with sequence parallelism       as backward completes them
 *      over grid.ends        of a tied matrix that first and last stage have         behind the last backward
 *      over data ranks       of everything, in buckets                               as buckets are complete, while
 *                                                                                    backward goes on
 *
 *  The weights of the loss have the division by the number of data-parallel ranks in them (micro_batch.h), so sums are
 *  averages. Buckets are runs of whole parameters of at least --ddp-bucket-size elements, from the table's end to its
 *  beginning, which is the order in which backward completes them. How they are cut shows in no bit. */
#ifndef TX_TRAIN_GRADIENTS_H
#define TX_TRAIN_GRADIENTS_H

#include "model/model.h"

typedef struct tx_bucket {
    int64_t offset, numel; /* elements of the flat buffer */
    int left;              /* parameters whose gradients are not complete */
    tx_request sum;
} tx_bucket;

typedef struct tx_gradients {
    tx_ctx *c;
    const tx_params *ps; /* borrowed, as the next two */
    const tx_grid *grid;
    float *flat;  /* [ps->numel] */
    bool overlap; /* buckets are summed while backward goes on */
    tx_bucket *bucket;
    int *bucket_of; /* [ps->n] */
    int n_buckets;
} tx_gradients;

/* flat may be TX_DRY_ADDRESS in a dry run. bucket_size in elements. TX_ERR_NOMEM. */
tx_status tx_gradients_open(tx_gradients *g, tx_ctx *c, const tx_params *ps, float *flat, int64_t bucket_size,
                            bool overlap);
void tx_gradients_close(tx_gradients *g); /* a zeroed one is fine */

/* A tx_grads_done_fn: user is the tx_gradients. */
tx_status tx_gradients_done(void *g, int first, int end);

/* Behind the iteration's last backward: what is not summed yet is, and all is waited for. */
tx_status tx_gradients_finish(tx_gradients *g);

#endif
