/* token_exchange.h - tokens that a layer computes (--random-ltd) where c ranks divide the positions of samples. Of a
 * sample's s positions a layer computes r, and a rank r/c: those whose numbers among the r are its positions of r
 * (parallel/cp.h). So they are a shorter sample, divided as the whole one, and travel from the ranks that have their
 * positions to those that compute them, and back:
 *
 *      c = 2, s = 8, in a ring, r = 4    rank 0 has  [0 1 . . . . 6 7]    rank 1  [2 3 4 5]
 *        positions 1 2 3 7               computes    1 7                          2 3
 *
 *  Each rank knows which they are, since they are drawn by sample and layer. With --sequence-parallel a tensor rank
 * sends what it has, and its peers' parts together are all. Gradients go the same way. */
#ifndef TX_MODEL_TOKEN_EXCHANGE_H
#define TX_MODEL_TOKEN_EXCHANGE_H

#include "backend/ops.h"
#include "comm/comm.h"

/* Which tokens. */
typedef struct tx_token_choice {
    tx_tensor at;    /* [r, b] i32: positions, rising in each sample */
    int64_t s;       /* positions of a sample */
    tx_rng rng;      /* they are drawn with (tx_routing_sample); */
    uint64_t sample; /* of the first sample */
} tx_token_choice;

typedef struct tx_token_exchange {
    tx_all_to_all_rows there, back;
    tx_tensor sent; /* [n] i32: which of this rank's rows [positions b] go to some rank, by ranks */
    tx_tensor got;  /* [r/c b] i32: which received row is the token's; -1: another tensor rank's */
    tx_tensor of;   /* [n] i32: which token a received row is */
    int64_t n_sent, n_got;
} tx_token_exchange;

/* Pushes e's tensors on c->acts, and what the host reads where that is.   @rows positions of this rank's activations */
tx_status tx_token_exchange_open(tx_ctx *c, tx_token_exchange *e, const tx_token_choice *which, int64_t rows);

/* @whole [r/c, b, h], written: this rank's tokens; zeros where another tensor rank has them   @x [rows, b, h]
 *  Collective over TX_GROUP_CONTEXT, as the other way: those of `whole` into y, whose other rows stay. */
tx_status tx_token_exchange_take(tx_ctx *c, const tx_token_exchange *e, tx_tensor whole, tx_tensor x);
tx_status tx_token_exchange_put(tx_ctx *c, const tx_token_exchange *e, tx_tensor y, tx_tensor whole);

#endif
