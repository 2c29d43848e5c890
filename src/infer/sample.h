/* sample.h - from logits to the next token. Pure functions.
 * Filters are applied in Hugging Face's order: temperature, then top-k, then top-p. */
#ifndef TX_INFER_SAMPLE_H
#define TX_INFER_SAMPLE_H

#include <stdint.h>

#include "base/status.h"

typedef struct tx_sampler {
    double temperature; /* > 0 */
    int64_t top_k;      /* 0: off. Keeps the k largest logits (and what is equal to the k-th) */
    double top_p;       /* 0 or 1: off. Keeps the smallest set of likeliest tokens whose probability reaches p */
    int greedy;         /* the largest logit, the lowest id of equals; the rest is ignored */
} tx_sampler;

/* Probabilities after the filters, summing to 1; dropped tokens are exactly 0.
 * @prob [n] out   @logits [n]   @work [n] scratch */
void tx_sample_filter(const tx_sampler *s, double *prob, const float *logits, int64_t n, double *work);

/* The token that u in [0,1) falls on. @prob, @work [n] scratch */
int32_t tx_sample_token(const tx_sampler *s, const float *logits, int64_t n, double u, double *prob, double *work);

#endif
