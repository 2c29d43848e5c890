/* show_time.h - the part of a job plan that --machine adds: how long an iteration and the run take there. */
#ifndef TX_API_SHOW_TIME_H
#define TX_API_SHOW_TIME_H

#include <jansson.h>

#include "api/report.h"
#include "predict/predict.h"

typedef struct tx_plan_time {
    tx_machine machine; /* as the options want it: --gpus-per-node, --node-bandwidth */
    tx_run_work work;
    tx_time time;
    double tokens; /* of the whole run; 0: its length is not given */
} tx_plan_time;

/* Reads --machine. The caller frees it, also after a failure. Errors as tx_machine_read. */
tx_status tx_plan_time_open(tx_plan_time *out, const tx_config *cfg);

/* Predicts the run on it.   @tokens of the whole run */
tx_status tx_plan_time_predict(tx_plan_time *t, const tx_config *cfg, int64_t vocab_size, double tokens);
void tx_plan_time_free(tx_plan_time *t); /* a zeroed one is fine */

/* The parts of an iteration, the speed, the length of the run. */
tx_status tx__show_time(tx__report *r, const tx_plan_time *t);

/* The same as {"iteration_s": ...}. NULL: no memory. */
json_t *tx__time_to_json(const tx_plan_time *t);

#endif
