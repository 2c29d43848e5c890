/* decoder_logits.h - logits behind tokens, with and without the cache. */
#ifndef TX_TESTS_DECODER_LOGITS_H
#define TX_TESTS_DECODER_LOGITS_H

#include "support.h"

#include "infer/decoder.h"

static inline tx_decoder *decoder_of(tx_model *model, const char *backend, int64_t max_len)
{
    tx_decoder *d;
    ASSERT_OK(
        tx_decoder_create(&d, model, NULL, &(tx_decoder_opts){ .backend = backend, .n_slots = 1, .max_len = max_len }));
    return d;
}

typedef struct wanted_row {
    float *out;
    int64_t n;
} wanted_row;

static inline tx_status keep_row(void *user, int64_t first, int64_t n_rows, const float *row, int64_t stride)
{
    wanted_row *w = user;
    (void)first;
    memcpy(w->out, row + (n_rows - 1) * stride, (size_t)w->n * sizeof *row);
    return TX_OK;
}

/* All n tokens at once.   @out [vocabulary] */
static inline void logits_behind(tx_decoder *d, const int32_t *token, int64_t n, float *out)
{
    wanted_row w = { out, tx_decoder_vocab(d) };
    tx_decoder_truncate(d, 0, 0);
    ASSERT_OK(tx_decoder_append(d, 0, token, n, &(tx_logits_wanted){ n - 1, keep_row, &w }));
}

/* The likeliest tokens behind a prompt, one after the other over the cache; logits that the last was taken from.
 * @token [n_prompt + n_new]   @out [vocabulary] */
static inline void go_on_greedily(tx_decoder *d, int32_t *token, int64_t n_prompt, int64_t n_new, float *out)
{
    const float *row;
    int64_t stride, vocab = tx_decoder_vocab(d);
    logits_behind(d, token, n_prompt, out);
    for (int64_t i = n_prompt; i < n_prompt + n_new; i++) {
        int32_t best = 0;
        for (int32_t v = 1; v < vocab; v++)
            if (out[v] > out[best]) best = v;
        token[i] = best;
        if (i + 1 == n_prompt + n_new) break;
        ASSERT_OK(tx_decoder_step(d, (int[]){ 0 }, &best, 1, &row, &stride));
        memcpy(out, row, (size_t)vocab * sizeof *row);
    }
}

#endif
