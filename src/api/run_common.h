/* run_common.h - what pretrain, evaluate and generate share: datasets, and a model without a trainer. */
#ifndef TX_API_RUN_COMMON_H
#define TX_API_RUN_COMMON_H

#include "config/config.h"
#include "convert/source.h"
#include "data/train_data.h"
#include "train/trainer.h"
#include "triax/token.h"

/* The three splits as the run of `cfg` trains and evaluates on them. @vocab_size 0: ids are not checked.
 * @tok the model's tokenizer; NULL unless its kind of samples needs one */
tx_status tx__run_data_open(tx_train_data **out, const tx_config *cfg, int64_t vocab_size, int32_t eod,
                            const tx_tokenizer *tok);

/* The training samples continue where the checkpoint left the datasets; from now on checkpoints record it. */
tx_status tx__run_data_carry(tx_trainer *t, tx_train_data *data);

/* A model for scoring or sampling, a rank's part of it (grid NULL: all): weights from the source, sizes from its
 * options. *value is the flat buffer. Collective over the source's group. */
tx_status tx__model_load(tx_model **model, void **value, const tx_config *cfg, tx_source *src, const tx_grid *grid);

/* Moves the parameters from the host's memory to the device's, which *value then is to be given back to. */
tx_status tx__model_move(tx_model *m, void **value, tx_device *d);

/* The weights of a source that is a Hugging Face folder, into a trainer of their shape. */
tx_status tx__trainer_take_weights(tx_trainer *t, tx_source *src);

#endif
