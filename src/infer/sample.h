/* sample.h - draws the next token from logits. Pure functions.
 *
 *      logits -> repetition penalty -> forbidden tokens -> temperature -> top-k -> top-p -> softmax -> draw
 *
 *  Hugging Face's order and rules (transformers/generation/logits_process.py), except where a member says otherwise. */
#ifndef TX_INFER_SAMPLE_H
#define TX_INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_sampler {
    double temperature; /* > 0 */
    int64_t top_k;      /* 0: off. Keeps the k largest logits, and those that are equal to the k-th */
    double top_p; /* 0 or 1: off. Keeps the smallest set of likeliest tokens whose probability reaches p; of equally
                   * likely ones those with higher ids */
    /* Megatron's server: after every new token top_p = max(top_p * top_p_decay, top_p_bound). 0: off */
    double top_p_decay, top_p_bound;
    double repetition_penalty; /* 0 or 1: off. Logits of tokens that the sequence has: divided by it where positive,
                                * multiplied where negative (arXiv:1909.05858 §4.1) */
    bool greedy; /* the largest logit, and of equal ones the lowest id; temperature, top_k, top_p are ignored */
} tx_sampler;

/* A temperature below 1e-6 means greedy, which is the limit of falling temperatures. t >= 0. */
void tx_sampler_set_temperature(tx_sampler *s, double t);

/* What came before, for the filters that depend on it. */
typedef struct tx_sample_past {
    const int32_t *token; /* prompt and new tokens */
    int64_t n;
    int64_t n_new;            /* how many of them are new: decays top_p */
    const int32_t *forbidden; /* tokens that must not be drawn now */
    int64_t n_forbidden;
} tx_sample_past;

/* The stages whose results --top-logprobs shows. */
typedef enum tx_sample_stage {
    TX_STAGE_RAW, /* softmax of the logits as they are */
    TX_STAGE_PENALTY,
    TX_STAGE_TEMPERATURE,
    TX_STAGE_TOP_K,
    TX_STAGE_TOP_P,
    TX_N_STAGES
} tx_sample_stage;
extern const char *const tx_sample_stage_names[TX_N_STAGES];

/* The probabilities of a vocabulary's tokens. Memory is the caller's. */
typedef struct tx_token_probs {
    double *prob; /* [n] */
    double *work; /* [n] scratch */
    int64_t n;
} tx_token_probs;

/* Probabilities after the filters up to and with `last`, summing to 1; dropped tokens are exactly 0.
 * @out prob is written   @logits [out->n]   @past may be NULL */
void tx_sample_filter(tx_token_probs *out, const tx_sampler *s, const tx_sample_past *past, tx_sample_stage last,
                      const float *logits);

/* The token that u in [0,1) falls on.   @p scratch; has the filtered probabilities afterwards, unless greedy
 * @logits [p->n] */
int32_t tx_sample_token(tx_token_probs *p, const tx_sampler *s, const tx_sample_past *past, const float *logits,
                        double u);

/* log softmax(logits)[token], in nats. */
double tx_logprob(const float *logits, int64_t n, int32_t token);

/* The k likeliest of prob (or logits): largest first, lower ids first among equals. Tokens with prob 0 are left out;
 * returns how many there are.   @id [k] out */
int64_t tx_sample_top(const double *prob, int64_t n, int64_t k, int32_t *id);

#endif
