/* generation.h - a request for texts that is being worked on: what it asks for, one choice for each text of it, and who
 * waits for them.
 *
 *      HTTP's threads     create -> submit -> wait ............. read, release
 *      the batching one              admit -> tokens -> finish -> release
 *
 *  Both hold a reference, and the last to release it frees the generation. Members that change with tokens are read and
 * written under `lock`.
 * Shared inside this room. */
#ifndef TX_SERVE_GENERATION_H
#define TX_SERVE_GENERATION_H

#include <pthread.h>
#include <stdatomic.h>

#include "infer/batcher.h"
#include "infer/beam.h"
#include "infer/line_rules.h"
#include "infer/text_stream.h"
#include "serve/request.h"

typedef struct tx__alternative {
    int32_t id;
    float logprob;
} tx__alternative;

/* A token of a choice that the answer shows: new, or of the prompt. */
typedef struct tx__made {
    int32_t id;
    bool of_prompt;
    double logprob; /* NaN: not known */
} tx__made;

struct tx__generation;

/* One text. */
typedef struct tx__choice {
    struct tx__generation *generation;
    int prompt; /* its number */
    tx_sequence seq;
    tx_text_stream stream;        /* of the new tokens */
    tx__made *made;               /* [n_made], where logprobs are asked for, or segments */
    tx__alternative *alternative; /* [n_made][request.alternatives] */
    size_t n_made, cap;
    size_t n_told;     /* of them by a stream, */
    size_t n_sent;     /* and bytes of its text */
    int64_t n_chars;   /* of the tokens told */
    bool begun, ended; /* a stream has told its prompt, its end */
    bool in_batch, done;
} tx__choice;

typedef enum tx__end { TX__GOES_ON = 0, TX__COMPLETE, TX__CANCELLED, TX__TIMED_OUT, TX__FAILED } tx__end;

typedef struct tx__generation {
    pthread_mutex_t lock;
    atomic_int holders;
    tx_text_request request;
    bool is_megatron;
    uint64_t seed;
    tx_ids *prompt; /* [request.n_prompts] */
    int32_t eod;
    tx_line_rules lines;
    tx__choice *choice; /* [n_choices]: the samples of the first prompt, of the second, ... */
    int n_choices, n_left;
    int n_admitted;            /* of the batching thread */
    tx_hypothesis *hypothesis; /* [beam_width], of beam search */
    tx__end end;
    double created, deadline, first_token; /* tx_clock; first_token 0: not yet */
    atomic_bool cancel;                    /* asked for */
    void (*wake)(void *user);              /* with the lock held; NULL: nobody waits */
    void *user;
    struct tx__generation *next, *next_waiting; /* the scheduler's */
} tx__generation;

/* The model that generations are made for. */
typedef struct tx__model_facts {
    const tx_tokenizer *tok;
    int64_t max_len;          /* tokens that prompt and continuation may have in all */
    int64_t beams;            /* widest beam that can be searched for */
    const int32_t *forbidden; /* ids of the model that the tokenizer does not have */
    int64_t n_forbidden;
} tx__model_facts;

/* Takes the request, which is zeros afterwards. TX_ERR_ARG: it does not fit into the model, or a prompt has no
 * tokens. */
tx_status tx__generation_create(tx__generation **out, tx_text_request *request, bool is_megatron,
                                const tx__model_facts *m);
void tx__generation_release(tx__generation *g); /* NULL allowed */

/* ---- the batching thread's ---- */

/* All of it is over. */
void tx__generation_end(tx__generation *g, tx__end end);

/* Beam search, in place of choices. `cancelled` is asked before each step (infer/beam.h). */
tx_status tx__generation_search(tx__generation *g, tx_decoder *d, bool (*cancelled)(void *user), void *user);

int64_t tx__generation_new_tokens(const tx__generation *g);
int64_t tx__generation_prompt_tokens(const tx__generation *g);

#endif
