/* non_finite.h - finds the first value that is not finite, after a step was skipped for it.
 *
 * A step whose gradients were not finite changed no parameter, so its iteration can be run again and watched
 * (backend/watch.h). */
#ifndef TX_TRAIN_NON_FINITE_H
#define TX_TRAIN_NON_FINITE_H

#include "train/trainer.h"

/* A skipped iteration: its number, the samples consumed before it, and the known micro-batches. */
typedef struct tx_bad_iteration {
    int64_t iteration, consumed_train_samples, first_micro, n_micro;
} tx_bad_iteration;

typedef struct tx_non_finite {
    bool found;
    int64_t micro; /* micro-batch with the first value that is not finite, from 0; the last one if none was found */
    /* "parameter X holds NaN at row 3, column 4; micro-batch 1 of 2: the first value that is not finite is NaN in the
     * output of encoder.layers.0.mlp.dense_h_to_4h (forward, gemm): sample 0, position 5, element 6". Micro-batches
     * count from 1 there, all else from 0. */
    char text[1024];
} tx_non_finite;

/* Whether the last step was skipped because of a fault, not because of the loss scale. */
bool tx_non_finite_is_fault(const tx_trainer *t);

/* Runs the iteration's forward and backward again until a value is not finite. The trainer must be between iterations
 * and have the parameters with which the iteration began. Afterwards it is unchanged, except for the gradients. */
tx_status tx_non_finite_search(tx_trainer *t, const tx_bad_iteration *bad, tx_micro_batch_fn *read, void *user,
                               tx_non_finite *out);

#endif
