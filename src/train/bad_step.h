/* bad_step.h - what the loop does when a step was skipped because its gradients were not finite. */
#ifndef TX_TRAIN_BAD_STEP_H
#define TX_TRAIN_BAD_STEP_H

#include "train/batch_reader.h"

/* Warns with the first value that was not finite and the documents of its micro-batch. With `stop` the run ends here:
 * TX_ERR_NUMERIC, and replay-iteration-<N>.json is left in --save's folder, or in the current one without --save. The
 * trainer is as before, but for the gradients. @from what the step was read from */
tx_status tx_bad_step(tx_trainer *t, tx_batch_reader *from, bool stop);

#endif
