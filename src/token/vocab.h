/* vocab.h - tokens and merges of a byte-level BPE, read and checked: GPT-2's vocab.json and merges.txt, or the two
 * parts of a tokenizer.json that hold the same. */
#ifndef TX_TOKEN_VOCAB_H
#define TX_TOKEN_VOCAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "token/pairs.h"
#include "token/strings.h"

#define TX__EOD_TOKEN "<|endoftext|>"

/* Zeroed = empty. */
typedef struct tx__vocab {
    tx__strings token;    /* number = id; special tokens are hidden, an id without a token is empty */
    int32_t byte_id[256]; /* id of the token of one byte */
    int32_t eod;          /* -1: none */
    tx__pairs rank;       /* pair of ids -> its line among the merges, 0 = strongest */
    int32_t *merged;      /* [rank] id of the pair's bytes */
    bool in_rounds;       /* merges are to be taken in rounds, and here that matters (see bpe.c) */
} tx__vocab;

/* Reads both files as tx_tokenizer_open_gpt2 describes. *out is zeroed before, and again after a failure. */
tx_status tx__vocab_load(tx__vocab *out, const char *vocab_file, const char *merge_file);

/* The same from "vocab" and "merges" of a tokenizer.json, which `file` names in messages. Ids may have holes, tokens
 * that are not spelled in byte symbols are special, however they look, a merge is "a b" or ["a", "b"], and the
 * merges are taken in Hugging Face's order. */
tx_status tx__vocab_from_json(tx__vocab *out, json_t *tokens, json_t *merges, const char *file);

/* The same for tokens that are text. Of a merge's right token the first n_prefix bytes are dropped. merges may be NULL;
 * byte_id and eod are not set. */
tx_status tx__vocab_plain_from_json(tx__vocab *out, json_t *tokens, json_t *merges, size_t n_prefix, const char *file);

/* Whether all 256 byte symbols are among the tokens. */
bool tx__vocab_has_bytes(json_t *tokens);

/* Reads a file of JSON, with a limit for its size.   @more_flags of Jansson, besides ours   @out the caller calls
 * json_decref */
tx_status tx__vocab_json(json_t **out, const char *file, size_t more_flags);

/* A user's text as it is shown in a one-line message: cut after 60 bytes, with '?' for control bytes. */
typedef struct tx__shown {
    char text[72];
} tx__shown;
tx__shown tx__show(const char *bytes, size_t n);

void tx__vocab_free(tx__vocab *v);

#endif
