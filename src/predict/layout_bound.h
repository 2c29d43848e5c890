/* layout_bound.h - what a layout takes at least, without a dry run of it: from runs of one and of three layers on a few
 * ranks. A layer's work is the same in all layouts with the same tensor parallelism,
 * micro-batch and recomputation, so two small dry runs bound thousands of layouts.
 *
 *      time      n_micro micro-batches of the stage with the most layers, and the pipeline's filling and draining;
 *                no messages but those within layers, no update but of its layers' parameters. Or, where that is
 *                longer, all messages of its layers between data-parallel ranks, one after the other
 *      memory    parameters, gradients, optimizer and activations of the layers of the first stage, and no more */
#ifndef TX_PREDICT_LAYOUT_BOUND_H
#define TX_PREDICT_LAYOUT_BOUND_H

#include "predict/layout_choice.h"
#include "predict/predict.h"

typedef tx_status tx_predict_fn(tx_time *out, const tx_run_work *w, const tx_machine *m);

enum { TX_BOUND_OPS = TX_COMM_ALL_GATHER + 1 };

/* What a layer takes in a run of a few layers, and what is before the first and after the last one. */
typedef struct tx_small_run {
    tx_layout_choice is; /* the small run's own */
    bool possible;
    double seconds[2];                     /* of a micro-batch: [0] in a layer, [1] in the ends */
    double update;                         /* seconds, of a layer that one rank updates */
    double params, grads, optimizer, acts; /* bytes of a layer */
    double data[2][TX_BOUND_OPS];          /* bytes of a layer between data-parallel ranks, by tx_comm_op: [0] of a
                                              micro-batch, [1] besides, of an iteration */
} tx_small_run;

typedef struct tx_layout_bounds {
    const tx_config *base; /* borrowed, as the next two */
    const tx_machine *machine;
    tx_predict_fn *predict;
    int64_t vocab_size;
    tx_small_run *run; /* owned: those that have been made */
    int n, cap;
} tx_layout_bounds;

/* *seconds of an iteration and *bytes of a rank, at least. Infinity: the rules refuse the layout. */
tx_status tx_layout_bound(tx_layout_bounds *b, const tx_layout_choice *c, double *seconds, double *bytes);
void tx_layout_bounds_free(tx_layout_bounds *b);

#endif
