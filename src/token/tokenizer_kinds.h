/* tokenizer_kinds.h - tokenizers by their type (kinds/tokenizers.h): how one is opened, and the names of its files. */
#ifndef TX_TOKEN_TOKENIZER_KINDS_H
#define TX_TOKEN_TOKENIZER_KINDS_H

#include "kinds/tokenizers.h"
#include "token/tokenizer_files.h"
#include "triax/token.h"

/* Errors: TX_ERR_UNSUPPORTED if the type is not built; those of the tokenizer's files. */
tx_status tx_tokenizer_open_type(tx_tokenizer **out, enum tx_tokenizer_type type, const tx_tokenizer_files *from);

/* The names that files of tokenizers have in a model's folder: number i of them, NULL after the last one. */
const char *tx_tokenizer_file_name(int i);

/* What train-tokenizer learns for this type.   @type one of TX_LEARNED_TOKENIZERS */
tx_vocab_kind tx_tokenizer_vocab_kind(enum tx_tokenizer_type type);

#endif
