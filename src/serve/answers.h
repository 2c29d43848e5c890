/* answers.h - the answers to a client, as JSON and as server-sent events. Shared inside this room. */
#ifndef TX_SERVE_ANSWERS_H
#define TX_SERVE_ANSWERS_H

#include "serve/generation.h"

/* What every answer to a completion has. */
typedef struct tx__answer_head {
    char id[32];
    long long created; /* seconds since 1970 */
    const char *model;
    const tx_tokenizer *tok;
} tx__answer_head;

/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
tx_status tx__answer_string(tx_str *out, const char *bytes, size_t n);

/* Megatron's server reports an error as a JSON string, OpenAI's as an object. */
tx_status tx__answer_error(tx_str *out, bool is_megatron, unsigned code, const char *message);

/* ---- of a generation that is complete ---- */

tx_status tx__answer_megatron(tx_str *out, const tx__generation *g, const tx_tokenizer *tok);
tx_status tx__answer_completion(tx_str *out, const tx__generation *g, const tx__answer_head *head);

/* ---- of one that is running ---- */

/* Appends an event for each choice with something new, and after the end of all choices the closing events. With its
 * lock held. *over: there are no more events. */
tx_status tx__answer_events(tx_str *out, tx__generation *g, const tx__answer_head *head, bool *over);

#endif
