/* score.h - the log-probabilities that a model assigns to the tokens of a text. */
#ifndef TX_EVAL_SCORE_H
#define TX_EVAL_SCORE_H

#include "infer/decoder.h"

typedef struct tx_token_score {
    double logprob; /* log softmax of the model's logits at the token, nats */
    int64_t rank;   /* 1: it is the likeliest; of equal logits the lower id comes first */
    int32_t top;    /* the likeliest token at its place */
} tx_token_score;

/* Scores a token by n logits. If the logits are not finite: logprob NaN, rank n. */
tx_token_score tx_token_score_of(const float *logits, int64_t n, int32_t token);

/* Scores token[first .. n), each after all tokens before it; 1 <= first. Uses slot 0, whose first `kept` tokens are
 * token[0 .. kept) already, kept < first; afterwards the slot has token[0 .. n - 1).
 * @score [n - first] */
tx_status tx_score_tokens(tx_decoder *d, const int32_t *token, int64_t n, int64_t first, int64_t kept,
                          tx_token_score *score);

#endif
