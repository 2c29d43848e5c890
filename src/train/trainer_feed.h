/* trainer_feed.h - what a trainer feeds its stage: this rank's micro-batches in, their losses out; for src/train/
 * only.
 *
 * Training makes one feed per iteration, or per micro-batch if the caller runs single calls. An evaluation makes its
 * own. */
#ifndef TX_TRAIN_TRAINER_FEED_H
#define TX_TRAIN_TRAINER_FEED_H

#include "train/trainer.h"

typedef struct tx_trainer_feed {
    tx_feed is; /* passed to tx_stage_begin; its user is this struct */
    tx_trainer *t;
    tx_micro_batch_fn *read; /* NULL: use `rows` */
    void *read_user;
    const void *rows;
    int64_t n_samples;         /* of an evaluation, over all data-parallel ranks; 0: training */
    int64_t first;             /* micro-batches of an evaluation done so far */
    double sum[TX_MAX_LOSSES]; /* mean losses of the last micro-batch; in an evaluation their weighted sum */
} tx_trainer_feed;

/* A feed that fills batches, with dropout unless it is an evaluation. The caller sets what happens to the losses. */
void tx__trainer_feed_init(tx_trainer_feed *f, tx_trainer *t);

/* The sums of the batch's losses over its first n_samples; of all positions, where ranks divide them. */
tx_status tx__trainer_losses_of(const tx_trainer *t, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum);

/* f->sum[k] += weight times their means. */
tx_status tx__trainer_feed_add(tx_trainer_feed *f, const tx_batch *batch, int64_t n_samples, double weight);

/* The sum of a model's losses. */
double tx__trainer_total(const tx_trainer *t, const double *losses);

/* TX_ERR_STATE with a pipeline, whose micro-batches cannot run one by one. */
tx_status tx__trainer_no_pipeline(const tx_trainer *t);

/* reweigh.c: a tx_feed.look for training, which calls the user-defined objective for its gradient. */
tx_status tx__trainer_ask_gradient(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host);

#endif
