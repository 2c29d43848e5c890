/* score.h - how likely a model finds the tokens of a text. */
#ifndef TX_EVAL_SCORE_H
#define TX_EVAL_SCORE_H

#include "infer/decoder.h"

typedef struct tx_token_score {
    double logprob; /* log softmax of the model's logits at the token, nats */
    int64_t rank;   /* 1: the model would have taken it; of equal logits the lower id is before */
    int32_t top;    /* the likeliest token there */
} tx_token_score;

/* The token among n logits. Logits that are not numbers: logprob NaN, rank n. */
tx_token_score tx_token_score_of(const float *logits, int64_t n, int32_t token);

/* Scores token[first .. n), each after all that stands before it; 1 <= first. Done in slot 0, whose first `kept` tokens
 * are token[0 .. kept) already, kept < first; the slot has token[0 .. n - 1) then.
 * @score [n - first] */
tx_status tx_score_tokens(tx_decoder *d, const int32_t *token, int64_t n, int64_t first, int64_t kept,
                          tx_token_score *score);

#endif
