/* dealer.h - made-up samples of a trainer's iteration, dealt to the data ranks in turn as the batch reader deals them.
 * The file that includes it says before how many tokens a sample has, S, and how many samples an iteration at most,
 * BATCH. */
#ifndef TX_TESTS_TRAIN_DEALER_H
#define TX_TESTS_TRAIN_DEALER_H

#include "train/trainer.h"

typedef struct dealer {
    const tx_trainer *t;
    bool again; /* the same samples in every iteration */
    int32_t rows[BATCH * (S + 1)];
} dealer;

static inline tx_status deal(void *user, int64_t micro, const void **rows)
{
    dealer *d = user;
    const tx_trainer *t = d->t;
    int data = tx_grid_size(t->grid, TX_AXIS_DATA), rank = tx_grid_rank(t->grid, TX_AXIS_DATA);
    int64_t first = d->again ? 0 : t->consumed_train_samples;
    for (int64_t i = 0; i < t->b; i++)
        for (int64_t k = 0; k <= S; k++) {
            int64_t sample = first + (micro * data + rank) * t->b + i, x = sample * (S + 1) + k;
            d->rows[i * (S + 1) + k] = (int32_t)((x * x / 7 + 3 * x) % 61);
        }
    *rows = d->rows;
    return TX_OK;
}

#endif
