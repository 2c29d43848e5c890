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
    double peak_flops;       /* the machine's; 0: not known */
    bool peak_is_given;      /* by --peak-tflops */
    double bandwidth;        /* bytes/s, the most that was measured; 0: not known */
    tx_volume volume;        /* what this rank has moved in the last one; while it runs, what it had before */
} tx_step_profile;

/* After the trainer has its weights. Measures the memory's bandwidth. Without --profile it stays off.
 * @peak_flops the machine's, 0: not known. TX_ERR_NOMEM. */
tx_status tx_step_profile_open(tx_step_profile *p, const tx_trainer *t, double peak_flops);
void tx_step_profile_close(tx_step_profile *p, tx_trainer *t); /* a zeroed one is fine */

/* Around an iteration. */
void tx_step_profile_begin(tx_step_profile *p, tx_trainer *t);
void tx_step_profile_end(tx_step_profile *p, tx_trainer *t);

/* When the last of the iterations is done, or with `over`, as the run ends: the table and the trace, or a warning that
 * the run was too short; once. A trace that cannot be written is a warning. Collective. TX_ERR_NOMEM. */
tx_status tx_step_profile_tell(tx_step_profile *p, const tx_trainer *t, bool over);

/* profile_trace.c: publishes the events as Chrome's trace format, which chrome://tracing and Perfetto show. */
tx_status tx__profile_trace_write(const tx_step_profile *p, const char *path);

#endif
