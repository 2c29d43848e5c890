/* batch_reader.h - the samples of one split, read a micro-batch at a time in the order of the sampler. */
#ifndef TX_TRAIN_BATCH_READER_H
#define TX_TRAIN_BATCH_READER_H

#include "data/sampler.h"
#include "data/train_data.h"
#include "train/trainer.h"

typedef struct tx_batch_reader {
    const tx_blend *data; /* borrowed */
    tx_order sampler;
    int64_t *sample; /* [b] */
    int32_t *rows;   /* [b][row_len] (data/samples.h) */
    int32_t *scratch;
} tx_batch_reader;

/* For this rank's micro-batches. Errors: those of tx_order_open; TX_ERR_NOMEM. */
tx_status tx_batch_reader_open(tx_batch_reader *r, const tx_trainer *t, const tx_blend *data);
void tx_batch_reader_close(tx_batch_reader *r); /* a zeroed one is fine */

/* r->rows = the micro-batch that follows `consumed` samples, r->sample = the numbers of its samples. Errors: those of
 * tx_order_get and tx_blend_get. */
tx_status tx_batch_reader_read(tx_batch_reader *r, const tx_trainer *t, int64_t consumed);

/* The sample of the data with which the trained iteration `iteration` begins, of a run that has consumed so many: later
 * by what --skip-train-iteration-range skipped. */
int64_t tx_train_position(const tx_config *cfg, int64_t iteration, int64_t consumed);

#endif
