/* generator.h - continues a prompt, several samples at once, with a key-value cache.
 *
 *      prompt        p0 p1 ... p(n-1)            one call, all positions
 *      new tokens                     t0 t1 ...  one call each
 *
 *  Random numbers are counted by (seed, sample, position): a sample does not depend on how many others run beside it.
 */
#ifndef TX_INFER_GENERATOR_H
#define TX_INFER_GENERATOR_H

#include "infer/sample.h"
#include "model/model.h"

typedef struct tx_generator {
    tx_ctx ctx;
    tx_model *model;           /* borrowed */
    int64_t b;                 /* samples at once */
    int64_t max_len;           /* prompt and new tokens together */
    tx_kv_cache *kv;           /* [n_layers] */
    int32_t *token, *position; /* [max_len, b] */
    float *logits;             /* [b, padded vocabulary] */
    double *prob, *work;
} tx_generator;

/* Takes memory for prompts of up to `max_prompt` and sequences of up to `max_len` tokens. The model has its weights. */
tx_status tx_generator_create(tx_generator **out, tx_model *model, const char *backend, int n_threads, int64_t b,
                              int64_t max_prompt, int64_t max_len);
void tx_generator_destroy(tx_generator *g);

/* Continues the prompt by up to n_new tokens in each of the b samples; a sample ends after `eod` (-1: never).
 * @out [b][n_new]   @n_out [b] tokens written, eod not counted.   first_sample numbers the samples for the seed. */
tx_status tx_generator_run(tx_generator *g, const int32_t *prompt, int64_t n_prompt, int64_t n_new, int32_t eod,
                           const tx_sampler *sampler, uint64_t seed, uint64_t first_sample, int32_t *out,
                           int64_t *n_out);

/* Logits of the position after `prompt`, sample 0. @logits [vocab_size]. */
tx_status tx_generator_logits(tx_generator *g, const int32_t *prompt, int64_t n_prompt, float *logits);

#endif
