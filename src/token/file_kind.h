/* file_kind.h - recognizes the files of tokenizers, so that an error can name what a wrong file is. */
#ifndef TX_TOKEN_FILE_KIND_H
#define TX_TOKEN_FILE_KIND_H

#include "base/status.h"

typedef enum tx__file_kind {
    TX__FILE_VOCAB_JSON,
    TX__FILE_MERGES,
    TX__FILE_VOCAB_TXT,
    TX__FILE_TOKENIZER_JSON,
    TX__FILE_SENTENCEPIECE,
    TX__FILE_OTHER
} tx__file_kind;

/* To be called after reading `file` as `wanted` has failed with st. Returns st; but if the file is clearly of another
 * kind, the error becomes one that names that kind and what reads it. */
tx_status tx__file_is_wrong(tx_status st, const char *file, tx__file_kind wanted);

#endif
