/* bad_step.h - what the training loop does after a step was skipped because its gradients were not finite. */
#ifndef TX_TRAIN_BAD_STEP_H
#define TX_TRAIN_BAD_STEP_H

#include "train/batch_reader.h"

/* Warns with the first value that was not finite and the documents of its micro-batch. With `stop` the run ends here:
 * TX_ERR_NUMERIC, and replay-iteration-<N>.json is written into --save's folder, or into the current one without
 * --save. The trainer is unchanged, except for the gradients.
 * @from the reader of the step's samples */
tx_status tx_bad_step(tx_trainer *t, tx_batch_reader *from, bool stop);

#endif
