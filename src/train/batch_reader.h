/* batch_reader.h - reads the samples of one split, a micro-batch at a time, in the sampler's order. */
#ifndef TX_TRAIN_BATCH_READER_H
#define TX_TRAIN_BATCH_READER_H

#include "data/draws.h"
#include "data/sampler.h"
#include "data/train_data.h"
#include "train/trainer.h"

typedef struct tx_batch_reader {
    const tx_blend *data; /* borrowed */
    tx_order sampler;
    tx_draws *draws; /* batches are drawn, and position p of the run is place p % batch of one; NULL: they are not */
    int64_t *sample; /* [b] */
    int32_t *rows;   /* [b][row_len] (data/samples.h) */
    int32_t *scratch;
} tx_batch_reader;

/* Opens a reader for this rank's micro-batches. Errors: those of tx_order_open; TX_ERR_NOMEM. */
tx_status tx_batch_reader_open(tx_batch_reader *r, const tx_trainer *t, const tx_blend *data);
void tx_batch_reader_close(tx_batch_reader *r); /* a zeroed one is fine */

/* From now on the samples are those that are drawn (--data-efficiency-curriculum-learning). Errors: those of
 * tx_draws_open. */
tx_status tx_batch_reader_draw(tx_batch_reader *r, const tx_trainer *t);

/* Reads the micro-batch that follows `consumed` samples into r->rows, and the numbers of its samples into r->sample.
 * Errors: those of tx_order_get, tx_draws_batch and tx_blend_get. */
tx_status tx_batch_reader_read(tx_batch_reader *r, const tx_trainer *t, int64_t consumed);

/* The number of the first sample of iteration `iteration` in a run that has consumed `consumed` samples: larger by
 * what --skip-train-iteration-range has skipped. */
int64_t tx_train_position(const tx_config *cfg, int64_t iteration, int64_t consumed);

#endif
