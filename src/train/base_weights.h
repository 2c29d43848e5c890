/* base_weights.h - the model that adapters (nn/lora.h) are beside: a table without them, to read a checkpoint that has
 * none. */
#ifndef TX_TRAIN_BASE_WEIGHTS_H
#define TX_TRAIN_BASE_WEIGHTS_H

#include "train/trainer.h"

/* Whether the run has adapters and the checkpoint has not: then they begin as they are, and so does the run. */
bool tx__trainer_begins_adapters(const tx_trainer *t, const tx_source *from);

/* Reads all but the adapters into `part`, the weights (tx_source_read). Collective over the source's group. */
tx_status tx__trainer_read_base(tx_trainer *t, tx_source *from, const tx_ckpt_part *part);

#endif
