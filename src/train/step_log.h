/* step_log.h - what --log-level debug logs for each iteration, on every rank: its communication beside the formulas,
 * its part of the data, the work of its stage, and the offload traffic.
 *
 * Except for the waiting times, everything is counted anyway. Single calls (--log-level trace) are logged where they
 * are made. */
#ifndef TX_TRAIN_STEP_LOG_H
#define TX_TRAIN_STEP_LOG_H

#include "train/trainer.h"

typedef struct tx_step_log {
    bool on; /* between begin and end */
    tx_volume before;
    double waited[TX_N_STEP_GROUPS][TX_N_COMM_OPS];
    tx_zero_moved moved;
} tx_step_log;

/* Call before and after an iteration.
 * @position of its first sample in the order of the data; -1: user-defined data */
void tx_step_log_begin(tx_step_log *l, const tx_trainer *t);
void tx_step_log_end(tx_step_log *l, const tx_trainer *t, int64_t position);

#endif
