/* predict.h - how long an iteration takes on a machine that need not exist.
 *
 *      a dry run of each kind of pipeline stage  ->  work.h: what it does, in order
 *      on a machine (machine.h)                  ->  op_time.h: seconds of ops and messages
 *                                                ->  seconds of each forward and backward, with what hides behind them
 *                                                ->  the schedule of the pipeline  ->  tx_time
 *
 *  docs/howto/predict.md says how well that agrees with published runs. */
#ifndef TX_PREDICT_PREDICT_H
#define TX_PREDICT_PREDICT_H

#include "parallel/pp_times.h"
#include "predict/machine.h"
#include "predict/work.h"

/* Seconds of an iteration at the full global batch size, of the pipeline stage that is done last. The parts below
 * `iteration` add up to it. */
typedef struct tx_time {
    double iteration;
    double low, high;                 /* half of the runs are expected between them */
    double products, attention;       /* matrix products, and those of attention */
    double memory_bound;              /* all other ops, without the update's; launches that ops wait for */
    double exposed[TX_N_STEP_GROUPS]; /* messages that nothing hides, by group */
    double copies;                    /* to and from the host's memory or a disk, that nothing hides */
    double bubble;                    /* waiting for other stages */
    double update;                    /* the optimizer */
    double other;                     /* straggling ranks, and what the machine file adds to a step */
    double tokens_per_s;              /* of a rank */
    double flops_per_s, hardware_flops_per_s, told_flops_per_s; /* of a rank: the model's, with recomputation, by
                                                                   --flops-formula */
    double peak_share;                                          /* flops_per_s by the peak of the run's type */
} tx_time;

/* The schedule in seconds: of every virtual stage its forward and backward (with ZB-H1 in two parts) and the messages
 * after them, and of each stage what follows its last backward. */
typedef struct tx_pipeline_time {
    tx_pp_times times;                                          /* the arrays below */
    double *fwd, *bwd, *bwd_last, *wgt, *wgt_last, *message[2]; /* [p n_chunks] */
    double begin, *finish, *update; /* before the first forward; [p]: sums that are waited for, optimizer */
    double *memory;                 /* owned: of all arrays */
} tx_pipeline_time;
tx_status tx_predict_pipeline(tx_pipeline_time *out, const tx_run_work *w, const tx_machine *m);
void tx_pipeline_time_free(tx_pipeline_time *t); /* a zeroed one is fine */

/* @w of the run's stages (tx_run_work_make) */
tx_status tx_predict(tx_time *out, const tx_run_work *w, const tx_machine *m);

#endif
