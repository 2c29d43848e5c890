/* correction.c - predictions that learn from measurements. */
#include "predict/correction.h"

#include <math.h>

/* Standard deviations, of logarithms: how far layouts of the same kinds are off, and what is known before. */
#define ALIKE      0.03
#define PRIOR_ALL  0.5
#define PRIOR_KIND 0.1

#define X(constant, name) [constant] = name,
const char *const tx_correction_names[TX_N_OFF] = { TX_CORRECTION_KINDS(X) };
#undef X

static void kinds_of(double x[TX_N_OFF], const tx_layout_choice *c)
{
    double dp = (double)tx_choice_data_parallel(c);
    bool divided = tx_choice_sharers(c) > 1;
    const double kinds[TX_N_OFF] = {
        [TX_OFF_ALL] = 1,
        [TX_OFF_TENSOR] = log2((double)c->tp),
        [TX_OFF_SEQUENCE] = c->sequence,
        [TX_OFF_CONTEXT] = log2((double)tx_choice_context(c)),
        [TX_OFF_PIPELINE] = log2((double)c->pp),
        [TX_OFF_CHUNKS] = c->chunk_layers > 0,
        [TX_OFF_DATA] = log2(dp),
        [TX_OFF_ZERO] = divided && c->zero > 0,
        [TX_OFF_GATHER] = divided && c->zero == 3,
        [TX_OFF_AGAIN] = (double)c->again / (TX_N_AGAIN - 1),
        [TX_OFF_OFFLOAD] = c->offload,
        [TX_OFF_MICRO] = log2((double)c->micro_batch),
    };
    for (int k = 0; k < TX_N_OFF; k++) x[k] = kinds[k];
}

void tx_correction_start(tx_correction *c)
{
    *c = (tx_correction){ 0 };
    for (int k = 0; k < TX_N_OFF; k++)
        c->covariance[k][k] = k == TX_OFF_ALL ? PRIOR_ALL * PRIOR_ALL : PRIOR_KIND * PRIOR_KIND;
}

/* The expected value and the variance of x w; along: the covariance times x. */
static double expect(const tx_correction *c, const double x[TX_N_OFF], double along[TX_N_OFF], double *variance)
{
    double mean = 0;
    *variance = 0;
    for (int i = 0; i < TX_N_OFF; i++) {
        along[i] = 0;
        for (int k = 0; k < TX_N_OFF; k++) along[i] += c->covariance[i][k] * x[k];
        mean += c->mean[i] * x[i];
        *variance += along[i] * x[i];
    }
    return mean;
}

void tx_correction_learn(tx_correction *c, const tx_layout_choice *of, double times, double noise)
{
    double x[TX_N_OFF], along[TX_N_OFF], variance;
    kinds_of(x, of);
    double off = log(times) - expect(c, x, along, &variance), all = variance + ALIKE * ALIKE + noise * noise;
    c->surprise += off * off / all;
    c->n++;
    for (int i = 0; i < TX_N_OFF; i++) {
        c->mean[i] += along[i] / all * off;
        for (int k = 0; k < TX_N_OFF; k++) c->covariance[i][k] -= along[i] * along[k] / all;
    }
}

double tx_correction_of(const tx_correction *c, const tx_layout_choice *of, double *spread)
{
    double x[TX_N_OFF], along[TX_N_OFF], variance;
    kinds_of(x, of);
    double mean = expect(c, x, along, &variance);
    double surprise = c->n && c->surprise > c->n ? c->surprise / c->n : 1;
    *spread = sqrt(((variance > 0 ? variance : 0) + ALIKE * ALIKE) * surprise);
    return exp(mean);
}
