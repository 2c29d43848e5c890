/* loop.h - pre-training from the current iteration to the last: steps, log lines, evaluation, checkpoints, exits. */
#ifndef TX_TRAIN_LOOP_H
#define TX_TRAIN_LOOP_H

#include "data/gpt_dataset.h"
#include "train/trainer.h"

/* How many samples of each split a run of `cfg` will ask for: Megatron's rule. @n [TX_N_SPLITS] */
void tx_train_sample_counts(const tx_config *cfg, int64_t *n);

/* Runs until train_iters or an exit the options ask for; evaluates at the end; saves where --save says. */
tx_status tx_train_loop(tx_trainer *t, const tx_gpt_data *data);

/* Mean over micro-batches of their mean losses, samples first .. first + n_samples - 1 of a split, around again at its
 * end.
 * @tokens [b][s+1] scratch */
tx_status tx_train_evaluate(tx_trainer *t, const tx_gpt_dataset *ds, int32_t *tokens, int64_t first, int64_t n_samples,
                            double *loss);

#endif
