/* step_log.h - what --log-level debug reports of each iteration, on every rank: its messages beside the formulas, its
 * part of the data, the work of its stage, what moved of what is offloaded. Nothing is counted for it that is not
 * counted anyway, but the waits. Single calls, --log-level trace, are logged where they are made. */
#ifndef TX_TRAIN_STEP_LOG_H
#define TX_TRAIN_STEP_LOG_H

#include "train/trainer.h"

typedef struct tx_step_log {
    bool on; /* between begin and end */
    tx_volume before;
    double waited[TX_N_STEP_GROUPS][TX_N_COMM_OPS];
    tx_zero_moved moved;
} tx_step_log;

/* Around an iteration.   @position of its first sample in the order of the data; -1: the user's own data */
void tx_step_log_begin(tx_step_log *l, const tx_trainer *t);
void tx_step_log_end(tx_step_log *l, const tx_trainer *t, int64_t position);

#endif
