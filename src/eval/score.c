/* score.c - logits to log-probabilities of given tokens. */
#include "eval/score.h"

#include <math.h>

tx_token_score tx_token_score_of(const float *logits, int64_t n, int32_t token)
{
    float mine = logits[token];
    tx_token_score s = { .rank = 1 };
    double sum = 0;
    for (int64_t v = 0; v < n; v++) {
        s.rank += logits[v] > mine || (logits[v] == mine && v < token);
        if (logits[v] > logits[s.top]) s.top = (int32_t)v;
    }
    for (int64_t v = 0; v < n; v++) sum += expf(logits[v] - logits[s.top]);
    s.logprob = (double)mine - logits[s.top] - log(sum);
    if (isnan(s.logprob)) s.rank = n;
    return s;
}

typedef struct pass {
    const int32_t *token;
    int64_t first, n_vocab;
    tx_token_score *score;
} pass;

/* A tx_logits_fn. */
static tx_status take(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    const pass *p = user;
#pragma omp parallel for schedule(static) if (n_rows > 1)
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t at = first + r + 1; /* what comes after the position */
        p->score[at - p->first] = tx_token_score_of(logits + r * stride, p->n_vocab, p->token[at]);
    }
    return TX_OK;
}

tx_status tx_score_tokens(tx_decoder *d, const int32_t *token, int64_t n, int64_t first, int64_t kept,
                          tx_token_score *score)
{
    TX_ASSERT(first >= 1 && first < n && kept >= 0 && kept < first);
    pass p = { .token = token, .first = first, .n_vocab = tx_decoder_vocab(d), .score = score };
    if (!tx_decoder_keeps_keys(d)) kept = 0;
    tx_decoder_truncate(d, 0, kept);
    return tx_decoder_append(d, 0, token + kept, n - 1 - kept, &(tx_logits_wanted){ first - 1, take, &p });
}
