/* step_profile.h - --profile: where the time of some iterations went (tx_config_profiled). Where triax chooses, the
 * first two of the program are left out: memory is touched there for the first time, and libraries choose
 * their kernels. Then ops are timed (backend/profile.h) for N iterations, a table goes into the log and a trace into a
 * file. What no op did (reading data, the loop, the log) is "outside ops", so that all lines add up to the iteration.
 *
 * With several ranks each profiles itself and rank 0 reports; calls to others are lines, too, and a table shows what
 * the rank that sends most has moved in one iteration, beside the formulas for that (parallel/volume.h). */
#ifndef TX_TRAIN_STEP_PROFILE_H
#define TX_TRAIN_STEP_PROFILE_H

#include "backend/profile.h"
#include "train/trainer.h"

typedef struct tx_step_profile { /* zeroed: off */
    tx_profile ops;
    int64_t first, last;     /* the iterations; last 0: none, or reported already */
    int64_t n;               /* of them done */
    double *start, *seconds; /* [last - first + 1]: of an iteration, tx_clock's */
    double peak_flops;       /* of the machine; 0: unknown */
    bool peak_is_given;      /* by --peak-tflops */
    double bandwidth;        /* bytes/s, the maximum measured; 0: unknown */
    tx_volume volume;        /* this rank's communication in the last iteration; during an iteration, the total
                              * before it */
} tx_step_profile;

/* Call after the trainer has its weights. Measures the memory bandwidth. Without --profile it stays off.
 * @peak_flops of the machine, 0: unknown. TX_ERR_NOMEM. */
tx_status tx_step_profile_open(tx_step_profile *p, const tx_trainer *t, double peak_flops);
void tx_step_profile_close(tx_step_profile *p, tx_trainer *t); /* a zeroed one is fine */

/* Call before and after an iteration. */
void tx_step_profile_begin(tx_step_profile *p, tx_trainer *t);
void tx_step_profile_end(tx_step_profile *p, tx_trainer *t);

/* After the last of the iterations, or with `over` at the end of the run: reports the table and the trace, or warns
 * that the run was too short; once. A trace that cannot be written is a warning. Collective. TX_ERR_NOMEM. */
tx_status tx_step_profile_tell(tx_step_profile *p, const tx_trainer *t, bool over);

/* profile_trace.c: writes the events in Chrome's trace format, for chrome://tracing and Perfetto. */
tx_status tx__profile_trace_write(const tx_step_profile *p, const char *path);

#endif
