/* decoder.h - a model that continues sequences of tokens. Each sequence has a slot of the key-value cache, which keeps
 * what the model has computed of it, and a call computes the new tokens only.
 *
 *      append    slot 3    t0 t1 ... t(n-1)        many tokens of one sequence: a prompt, a text to be scored
 *      step      slot 0 1 3 7    a  b  c  d        one token more of several sequences, each with its own past
 *
 *  Ranks: with tensor, pipeline and context parallelism the ranks that see the same samples work together; those along
 *  the context axis each keep the keys and values of some heads, and divide long prompts. The first of them, the
 * leader, makes all calls; the others are in tx_decoder_follow and do their part of each call, until the leader
 * dismisses them. So code that generates, scores or serves is written for one rank and runs on any number. The leader
 * gets whole logits.
 *
 *  After an error in a call's arguments, or an error of `each`, the decoder can be used as before. Other errors end a
 *  job of several ranks: the rank that fails has to end it (tx_world_abort, or by returning the status from its
 *  thread), and later calls fail at once. Followers wait for the next call without a time-out.
 *
 *  create takes all memory. One thread at a time uses a decoder. */
#ifndef TX_INFER_DECODER_H
#define TX_INFER_DECODER_H

#include "model/model.h"

typedef struct tx_decoder tx_decoder;

typedef struct tx_decoder_opts {
    const char *backend; /* "cpu"; used if the grid has not chosen one */
    int n_threads;       /* 0: as tx_ctx_init */
    bool teams;          /* as tx_grid_ctx's: no other context of the job sends from GPU to GPU */
    int64_t n_slots;     /* sequences at once */
    int64_t max_len;     /* tokens of a sequence; at most the model's positions, where it has a table of them */
    int64_t max_rows;    /* positions that one call computes at most: append works in pieces of it. 0: a default */
} tx_decoder_opts;

/* The model has its weights. @model, @grid (NULL: a rank alone) are borrowed. Collective over those ranks, all with
 * the same options. TX_ERR_ARG: max_len is more than the model has positions for. */
tx_status tx_decoder_create(tx_decoder **out, tx_model *model, const tx_grid *grid, const tx_decoder_opts *opts);
void tx_decoder_destroy(tx_decoder *d); /* NULL allowed; not collective */

/* Where it computes, and where the model's weights have to be before its first call; NULL: the host. */
tx_device *tx_decoder_device(const tx_decoder *d);

bool tx_decoder_leads(const tx_decoder *d);

/* Followers only. Returns after the leader's tx_decoder_dismiss. */
tx_status tx_decoder_follow(tx_decoder *d);
tx_status tx_decoder_dismiss(tx_decoder *d); /* the leader; nothing to do for a rank alone */

/* ---- the leader's ---- */

int64_t tx_decoder_slots(const tx_decoder *d);
int64_t tx_decoder_max_len(const tx_decoder *d);
int64_t tx_decoder_vocab(const tx_decoder *d); /* columns of logits that are tokens: model->vocab_size */

int64_t tx_decoder_length(const tx_decoder *d, int slot);
void tx_decoder_truncate(tx_decoder *d, int slot, int64_t n); /* back to its first n tokens; 0: empty */

/* A text of n tokens is read by several appends; until the next tx_decoder_truncate. With --rope-scaling-type dynamic
 * its keys depend on how long it is: then tx_decoder_keeps_keys is false, and the keys of a text are not those of
 * another that begins as it does. */
void tx_decoder_expect(tx_decoder *d, int slot, int64_t n);
bool tx_decoder_keeps_keys(const tx_decoder *d);

/* Takes the logits of n_rows positions that follow each other. `first` is the number of the first one in its sequence;
 * logits[i * stride + v] is of token v after position first + i. Borrowed for the call. */
typedef tx_status tx_logits_fn(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride);

/* Who takes which logits. */
typedef struct tx_logits_wanted {
    int64_t first;      /* of this position, counted in the sequence, and of all after it */
    tx_logits_fn *each; /* called in the order of positions, with several at a time */
    void *user;
} tx_logits_wanted;

/* n tokens after what the slot has.   @wanted NULL: no logits are
 * Errors: TX_ERR_ARG: a token outside the vocabulary, a full slot. */
tx_status tx_decoder_append(tx_decoder *d, int slot, const int32_t *token, int64_t n, const tx_logits_wanted *wanted);

/* One token more for each of n different slots.   @logits owned by the decoder, valid until its next call: row i, at
 * logits[i * stride], is what comes after slot[i]'s token */
tx_status tx_decoder_step(tx_decoder *d, const int *slot, const int32_t *token, int64_t n, const float **logits,
                          int64_t *stride);

/* Copies slot `from` to slot `to`. */
tx_status tx_decoder_copy(tx_decoder *d, int to, int from);

#endif
