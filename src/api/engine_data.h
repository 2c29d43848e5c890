/* engine_data.h - the user's training data (triax/data.h) as the micro-batches of an engine. */
#ifndef TX_API_ENGINE_DATA_H
#define TX_API_ENGINE_DATA_H

#include "train/trainer.h"

/* A micro-batch's inputs, in the host's memory. */
typedef struct tx_engine_data {
    tx_training_data from;
    const tx_trainer *t; /* borrowed */
    int64_t *sample;     /* [b] */
    tx_tensor input[TX_MAX_INPUTS];
    int n_inputs;
    const void *at[TX_MAX_INPUTS]; /* for a user-defined model: where they are */
} tx_engine_data;

/* For an engine's trainer. TX_ERR_ARG: data that cannot be; TX_ERR_NOMEM. */
tx_status tx__engine_data_open(tx_engine_data **out, const tx_training_data *from, const tx_trainer *t);
void tx__engine_data_close(tx_engine_data *d); /* NULL allowed */

/* A tx_micro_batch_fn and tx_read_fn of an engine's data: of the current iteration or the next. */
tx_status tx__engine_data_read(void *data, int64_t micro, const void **batch);

#endif
