/* batcher.h - many sequences at once, each with its own sampler and length. A waiting sequence joins at the next token;
 * when one is finished, its slot goes to the next (continuous batching; Orca, OSDI 2022).
 *
 *      slot 0   PPPPttttttttttttt|PPtttttt...        P prompt, t a step's token
 *      slot 1   ..PPPttttt|PPPPPPPPtttttt...         waiting sequences join in the order in which they came
 *
 *  A step computes at most TX_BATCHER_PIECE positions of prompts, and one token of every other sequence, so that a
 *  long prompt does not delay the others. Where a prompt begins like a sequence that has a slot, the common part is
 *  copied from that slot: several samples of one prompt compute it once. Random numbers are a function of (seed,
 *  sample, number of the new token): a sequence does not depend on those that run beside it, up to the rounding of
 *  matrix products. */
#ifndef TX_INFER_BATCHER_H
#define TX_INFER_BATCHER_H

#include "infer/decoder.h"
#include "infer/sample.h"

enum { TX_BATCHER_PIECE = 512 };

typedef enum tx_finish {
    TX_UNFINISHED = 0,
    TX_FINISH_EOD,    /* the end-of-document token was drawn; it is not reported */
    TX_FINISH_STOP,   /* a stop id was drawn (it is not reported either), or the caller's `token` returned false */
    TX_FINISH_LENGTH, /* max_new, or the slot is full */
    TX_FINISH_CANCELLED
} tx_finish;

/* A new token; with prompt_logprobs also a token of the prompt. */
typedef struct tx_token_made {
    int32_t id;
    bool of_prompt;
    int64_t index;  /* in the prompt, or among the new tokens */
    double logprob; /* log softmax of the model's own logits, before any filter, nats; NaN: not asked for (logprobs,
                     * prompt_logprobs), or the first of a prompt */
    const float *logits;        /* [vocabulary] that it came from, borrowed for the call; NULL: the first of a prompt */
    const tx_sample_past *past; /* of a new token: the input of its filters (tx_sample_filter); borrowed; else NULL */
} tx_token_made;

/* One text that is being made. The caller fills in the first part, zeroed where not named, and keeps the struct and
 * everything that it points to until `finished` is called. */
typedef struct tx_sequence {
    const int32_t *prompt; /* at least one token */
    int64_t n_prompt;
    int64_t max_new, min_new; /* before min_new the end of document and the stop ids are forbidden tokens */
    int32_t eod;              /* -1: none */
    const int32_t *stop_id;
    int64_t n_stop_ids;
    const int32_t *forbidden; /* ids that are never drawn */
    int64_t n_forbidden;
    bool prevent; /* `then` is never drawn right after `after`, nor after the prompt's last token if that is `after` */
    int32_t after, then;
    tx_sampler sampler;
    uint64_t seed;
    uint64_t sample;      /* number among those of one seed */
    bool logprobs;        /* of new tokens: a pass over the vocabulary for each */
    bool prompt_logprobs; /* the prompt's tokens are reported too */
    /* Called with every token, in order. Returning false finishes the sequence (TX_FINISH_STOP). */
    bool (*token)(void *user, struct tx_sequence *s, const tx_token_made *t);
    /* Called once, when the sequence has left the batch. May add other sequences. */
    void (*finished)(void *user, struct tx_sequence *s);
    void *user;

    /* out */
    tx_finish finish;
    int64_t n_new;

    /* of the batcher, from here on */
    struct tx_sequence *next;
    int slot;     /* -1: it is waiting, or finished */
    int64_t n_in; /* tokens of the prompt that have been read */
    int32_t *all; /* prompt and new tokens, and after them room for the ids that are forbidden at this step */
    int64_t room; /* for prompt and new tokens */
    bool cancelled;
} tx_sequence;

typedef struct tx_batcher tx_batcher;

tx_status tx_batcher_create(tx_batcher **out, tx_decoder *d); /* the decoder's leader; borrowed */
void tx_batcher_destroy(tx_batcher *b); /* its sequences are dropped without a call of `finished` */

/* Adds a sequence after those that are waiting. TX_ERR_ARG: an empty prompt, an id outside the vocabulary, a prompt
 * longer than a slot; then it is not added. */
tx_status tx_batcher_add(tx_batcher *b, tx_sequence *s);

/* It finishes at the next step, before another token of it is made. One that is finished is left as it is. */
void tx_batcher_cancel(tx_batcher *b, tx_sequence *s);

/* Lets waiting sequences join, and makes one token of every sequence whose prompt has been read. Returns at once if
 * there are none. After a failure only destroy may be called. */
tx_status tx_batcher_step(tx_batcher *b);

int64_t tx_batcher_waiting(const tx_batcher *b);
int64_t tx_batcher_running(const tx_batcher *b); /* those with a slot */

#endif
