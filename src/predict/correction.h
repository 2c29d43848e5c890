/* correction.h - how far predictions were off, by what the layouts have in common: the more of them were measured, the
 * better the others are known.
 *
 *      log(measured / predicted) = sum over kinds k of  x_k w_k  + noise        x: how much of each kind a layout has
 *
 *  The w are normal before anything is measured, and each measurement updates their mean and covariance (recursive
 *  Bayesian linear regression). */
#ifndef TX_PREDICT_CORRECTION_H
#define TX_PREDICT_CORRECTION_H

#include "predict/layout_choice.h"

/* X(constant, what it is called) */
#define TX_CORRECTION_KINDS(X)                   \
    X(TX_OFF_ALL, "all layouts")                 \
    X(TX_OFF_TENSOR, "tensor parallelism")       \
    X(TX_OFF_SEQUENCE, "sequence parallelism")   \
    X(TX_OFF_CONTEXT, "context parallelism")     \
    X(TX_OFF_PIPELINE, "pipeline parallelism")   \
    X(TX_OFF_CHUNKS, "the interleaved schedule") \
    X(TX_OFF_DATA, "data parallelism")           \
    X(TX_OFF_ZERO, "ZeRO")                       \
    X(TX_OFF_GATHER, "ZeRO 3")                   \
    X(TX_OFF_AGAIN, "recomputation")             \
    X(TX_OFF_OFFLOAD, "offload")                 \
    X(TX_OFF_MICRO, "twice the micro-batch")
#define X(constant, name) constant,
enum { TX_CORRECTION_KINDS(X) TX_N_OFF };
#undef X
extern const char *const tx_correction_names[TX_N_OFF];

typedef struct tx_correction {
    double mean[TX_N_OFF], covariance[TX_N_OFF][TX_N_OFF];
    double surprise; /* sum of squares of how far measurements were from what was expected, in standard deviations */
    int n;           /* measurements */
} tx_correction;

void tx_correction_start(tx_correction *c);

/* A layout took so many times what was predicted.   @noise standard deviation of the measurement, as a share of it */
void tx_correction_learn(tx_correction *c, const tx_layout_choice *of, double times, double noise);

/* What to multiply a prediction with. *spread: the standard deviation of its logarithm, the larger the more
 * measurements have surprised. */
double tx_correction_of(const tx_correction *c, const tx_layout_choice *of, double *spread);

#endif
