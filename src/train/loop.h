/* loop.h - pre-training from the current iteration to the last: steps, log lines, evaluation, checkpoints, exits. */
#ifndef TX_TRAIN_LOOP_H
#define TX_TRAIN_LOOP_H

#include "train/batch_reader.h"
#include "train/metrics.h"

/* How many samples of each split a run of `cfg` will ask for: Megatron's rule. @n [TX_N_SPLITS] */
void tx_train_sample_counts(const tx_config *cfg, int64_t *n);

/* What an evaluation on validation data does besides; collective. It leaves the trainer as it is. */
typedef struct tx_also {
    tx_status (*evaluate)(void *user);
    void *user;
} tx_also;

/* What it reads: of each split the datasets' samples, or the user's own micro-batches, numbered within the iteration
 * or the evaluation, from 0. */
typedef struct tx_loop_data {
    const tx_train_data *sets; /* NULL: none */
    tx_micro_batch_fn *read[TX_N_SPLITS];
    void *user;
} tx_loop_data;

/* Runs until train_iters, train_tokens, an exit the options ask for or a signal (base/signals.h), which also ends an
 * evaluation; evaluates at the end; saves to --save.
 * Steps and evaluations are reported to `metrics`, which is started here. @start clock at which the program began, for
 * --exit-duration-in-mins. @also NULL allowed */
tx_status tx_train_loop(tx_trainer *t, const tx_loop_data *data, tx_metrics *metrics, double start,
                        const tx_also *also);

/* Trains until that iteration is done: no evaluation, and nothing is saved. */
tx_status tx_train_until(tx_trainer *t, const tx_train_data *data, int64_t iteration);

/* [n_losses] means over micro-batches of their mean losses: the n_samples that come after `consumed` ones, around again
 * at the end. @stop as tx_trainer_score has it */
tx_status tx_train_evaluate(tx_trainer *t, tx_batch_reader *from, int64_t consumed, int64_t n_samples, double *loss,
                            tx_stop *stop);

#endif
