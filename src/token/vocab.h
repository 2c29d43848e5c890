/* vocab.h - GPT-2's vocab.json and merges.txt, read and checked. */
#ifndef TX_TOKEN_VOCAB_H
#define TX_TOKEN_VOCAB_H

#include <stdint.h>

#include "token/pairs.h"
#include "token/strings.h"

#define TX__EOD_TOKEN "<|endoftext|>"

/* Zeroed = empty. */
typedef struct tx__vocab {
    tx__strings token;    /* number = id; special tokens are hidden */
    int32_t byte_id[256]; /* id of the token of one byte */
    int32_t eod;          /* -1: none */
    tx__pairs rank;       /* pair of ids -> its line among the merges, 0 = strongest */
    int32_t *merged;      /* [rank] id of the pair's bytes */
} tx__vocab;

/* Reads both files as tx_tokenizer_open_gpt2 describes. *out is zeroed; on failure it is again. */
tx_status tx__vocab_load(tx__vocab *out, const char *vocab_file, const char *merge_file);
void tx__vocab_free(tx__vocab *v);

#endif
