/* non_finite.h - when numbers went bad: which was the first one that is not finite. A step whose gradients were not
 * finite changed no parameter, so its iteration can run again and be watched (backend/watch.h). */
#ifndef TX_TRAIN_NON_FINITE_H
#define TX_TRAIN_NON_FINITE_H

#include "train/trainer.h"

/* An iteration that was skipped: its number, what was consumed before it, and the micro-batches that are known. */
typedef struct tx_bad_iteration {
    int64_t iteration, consumed_train_samples, first_micro, n_micro;
} tx_bad_iteration;

typedef struct tx_non_finite {
    bool found;
    int64_t micro; /* micro-batch with the first value that is not finite, from 0; the last one when none was found */
    /* "parameter X holds NaN at row 3, column 4; micro-batch 1 of 2: the first value that is not finite is NaN in the
     * output of encoder.layers.0.mlp.dense_h_to_4h (forward, gemm): sample 0, position 5, element 6". Micro-batches
     * count from 1 there, all else from 0. */
    char text[1024];
} tx_non_finite;

/* Whether the last step was skipped for a fault. */
bool tx_non_finite_is_fault(const tx_trainer *t);

/* Runs the iteration's forward and backward again until a value is not finite. The trainer must be between iterations
 * and holds the parameters that the iteration had; afterwards it is as before, but for the gradients. */
tx_status tx_non_finite_search(tx_trainer *t, const tx_bad_iteration *bad, tx_micro_batch_fn *read, void *user,
                               tx_non_finite *out);

#endif
