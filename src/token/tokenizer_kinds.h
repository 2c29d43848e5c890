/* tokenizer_kinds.h - tokenizers by their type (kinds/tokenizers.h): how one is opened, and the names of its files. */
#ifndef TX_TOKEN_TOKENIZER_KINDS_H
#define TX_TOKEN_TOKENIZER_KINDS_H

#include "kinds/tokenizers.h"
#include "triax/token.h"

typedef struct tx_tokenizer_kind tx_tokenizer_kind;

/* What a tokenizer is opened from. A kind reads those members that its traits name. */
typedef struct tx_tokenizer_files {
    const char *vocab_file, *merge_file, *model_file; /* paths */
    int32_t n_ids;                                    /* of text that consists of numbers */
} tx_tokenizer_files;

/* Errors: TX_ERR_UNSUPPORTED if the type is not built; those of the tokenizer's files. */
tx_status tx_tokenizer_open_type(tx_tokenizer **out, enum tx_tokenizer_type type, const tx_tokenizer_files *from);

/* The names that files of tokenizers have in a model's folder: number i of them, NULL after the last one. */
const char *tx_tokenizer_file_name(int i);

/* What train-tokenizer learns for this type.   @type one of TX_LEARNED_TOKENIZERS */
tx_vocab_kind tx_tokenizer_vocab_kind(enum tx_tokenizer_type type);

#endif
