/* batcher.h - many sequences at once, each with its own sampler and length: who waits joins at the next token, who is
 * done leaves its slot to the next (continuous batching, Orca, OSDI 2022).
 *
 *      slot 0   PPPPttttttttttttt|PPtttttt...        P prompt, t a step's token
 *      slot 1   ..PPPttttt|PPPPPPPPtttttt...         waiting sequences join in the order in which they came
 *
 *  A step computes at most TX_BATCHER_PIECE positions of prompts beside one token of everybody else, so that a long
 *  prompt does not hold up the others. What a prompt has in common with the beginning of a sequence that is in is
 * copied from its slot: several samples of one prompt compute it once. Random numbers are counted by (seed, sample,
 * number of the new token): what a sequence becomes does not depend on who runs beside it, up to the rounding of
 * products. */
#ifndef TX_INFER_BATCHER_H
#define TX_INFER_BATCHER_H

#include "infer/decoder.h"
#include "infer/sample.h"

enum { TX_BATCHER_PIECE = 512 };

typedef enum tx_finish {
    TX_UNFINISHED = 0,
    TX_FINISH_EOD,    /* the end-of-document token came, which is not among the tokens told */
    TX_FINISH_STOP,   /* a stop id came (it is not told either), or the caller's `token` said stop */
    TX_FINISH_LENGTH, /* max_new, or the slot is full */
    TX_FINISH_CANCELLED
} tx_finish;

/* A new token, or one of the prompt where prompt_logprobs asks for them. */
typedef struct tx_token_made {
    int32_t id;
    bool of_prompt;
    int64_t index;  /* in the prompt, or among the new ones */
    double logprob; /* log softmax of the model's own logits, before any filter, nats; NaN: not asked for (logprobs,
                     * prompt_logprobs), or the first of a prompt */
    const float *logits;        /* [vocabulary] that it came from, borrowed for the call; NULL: the first of a prompt */
    const tx_sample_past *past; /* of a new token: what its filters knew (tx_sample_filter); borrowed; else NULL */
} tx_token_made;

/* One text that is being made. The caller fills in the first part, zeroed where not named, and keeps it, and what it
 * points to, until it is finished. */
typedef struct tx_sequence {
    const int32_t *prompt; /* at least one token */
    int64_t n_prompt;
    int64_t max_new, min_new; /* before min_new the end of document and the stop ids are forbidden tokens */
    int32_t eod;              /* -1: none */
    const int32_t *stop_id;
    int64_t n_stop_ids;
    const int32_t *forbidden; /* ids that never come */
    int64_t n_forbidden;
    bool prevent; /* `then` never comes right behind `after`, also behind the prompt's last */
    int32_t after, then;
    tx_sampler sampler;
    uint64_t seed;
    uint64_t sample;      /* number among those of one seed */
    bool logprobs;        /* of new tokens: a pass over the vocabulary for each */
    bool prompt_logprobs; /* tells the prompt's tokens too */
    /* Told of every token, in order; false: enough (TX_FINISH_STOP). */
    bool (*token)(void *user, struct tx_sequence *s, const tx_token_made *t);
    /* Once, when it has left the batch. May add other sequences. */
    void (*finished)(void *user, struct tx_sequence *s);
    void *user;

    /* out */
    tx_finish finish;
    int64_t n_new;

    /* the batcher's own, from here on */
    struct tx_sequence *next;
    int slot;     /* -1: it waits, or is done */
    int64_t n_in; /* tokens of the prompt that have been read */
    int32_t *all; /* prompt and new tokens, and behind them room for the ids that must not come now */
    int64_t room; /* for prompt and new tokens */
    bool cancelled;
} tx_sequence;

typedef struct tx_batcher tx_batcher;

tx_status tx_batcher_create(tx_batcher **out, tx_decoder *d); /* the decoder's leader; borrowed */
void tx_batcher_destroy(tx_batcher *b);                       /* what is in it is forgotten, nobody is told */

/* Behind those that wait. TX_ERR_ARG (an empty prompt, an id outside the vocabulary, a prompt longer than a slot): it
 * is not taken. */
tx_status tx_batcher_add(tx_batcher *b, tx_sequence *s);

/* It ends at the next step, before another token of it is made. Nothing happens to one that is done. */
void tx_batcher_cancel(tx_batcher *b, tx_sequence *s);

/* Lets waiting ones join, and makes a token of everyone whose prompt is read. Nothing to do: returns at once. After a
 * failure only destroy is left. */
tx_status tx_batcher_step(tx_batcher *b);

int64_t tx_batcher_waiting(const tx_batcher *b);
int64_t tx_batcher_running(const tx_batcher *b); /* have a slot */

#endif
