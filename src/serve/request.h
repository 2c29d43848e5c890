/* request.h - parses requests: the JSON of Megatron's text generation server or of OpenAI's completions is checked and
 * becomes one struct. Pure functions: bytes in, a request or an error message out.
 *
 *  Nothing in a request is ignored: an unknown field, and a known value that is not supported, are TX_ERR_ARG, and the
 *  message names them. Where Megatron's server has a message for a mistake, ours is the same. */
#ifndef TX_SERVE_REQUEST_H
#define TX_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "infer/sample.h"

enum {
    TX_REQUEST_TEXTS = 128,       /* prompts times samples of each, at most */
    TX_REQUEST_STOPS = 16,        /* stop strings */
    TX_REQUEST_ALTERNATIVES = 20, /* logprobs of a completion, at most */
    TX_REQUEST_BEAM = 64
};

typedef struct tx_request_prompt {
    char *text; /* owned; NULL: it came as ids */
    size_t n_bytes;
    int32_t *id; /* owned */
    size_t n_ids;
} tx_request_prompt;

typedef struct tx_text_request {
    tx_request_prompt *prompt; /* [n_prompts] */
    int n_prompts;
    int n; /* samples of each */
    int64_t max_new, min_new;
    tx_sampler sampler;
    bool has_seed;
    uint64_t seed;
    bool logprobs;    /* in Megatron's API the prompt's too */
    int alternatives; /* likely tokens that are shown with each token; 0: none */
    char *stop[TX_REQUEST_STOPS];
    int n_stops;

    /* completions */
    char *model; /* NULL: any */
    bool echo, stream, stream_usage;

    /* Megatron's */
    bool add_bos, stop_on_double_eol, stop_on_eol, prevent_newline_after_colon, no_log;
    int beam_width; /* 0: sampling */
    bool has_stop_token;
    int32_t stop_token;
    double length_penalty;
} tx_text_request;

/* What the server allows. */
typedef struct tx_text_request_limits {
    int64_t max_new;
    int32_t vocab_size; /* ids are below it */
} tx_text_request_limits;

/* A body of PUT or POST /api. *out has to be freed also after a failure. TX_ERR_FORMAT: not a JSON object, or not
 * UTF-8; TX_ERR_ARG; TX_ERR_NOMEM. */
tx_status tx_text_request_megatron(tx_text_request *out, const char *body, size_t n,
                                   const tx_text_request_limits *limits);

/* A body of POST /v1/completions. Members that are null count as left out. */
tx_status tx_text_request_completion(tx_text_request *out, const char *body, size_t n,
                                     const tx_text_request_limits *limits);

void tx_text_request_free(tx_text_request *r); /* back to zeros; a zeroed one is fine */

#endif
