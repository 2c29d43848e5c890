/* measured_time.h - seconds of ops and calls by what was measured on the machine; for src/predict/ only. */
#ifndef TX_PREDICT_MEASURED_TIME_H
#define TX_PREDICT_MEASURED_TIME_H

#include "predict/machine.h"
#include "predict/work.h"

/* Between the sizes that were measured rates are interpolated, and beyond them the nearest counts; of counts of ranks
 * the nearest counts. Negative: nothing of the op and type was measured.   @n_ranks of a node */
double tx__measured_op(const tx_machine *m, const tx_work_event *e, int n_ranks);

/* Likewise of a call in a group of n_ranks that are all in a node. */
double tx__measured_call(const tx_machine *m, const char *op, tx_dtype dtype, double bytes, int n_ranks);

/* How many ranks of a node share a core, where it has cores and not GPUs; at least 1. */
double tx__ranks_a_core(const tx_machine *m, double n_ranks);

#endif
