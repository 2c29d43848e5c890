/* file_kind.h - which of the tokenizers' files a file is, for whoever was given the wrong one. */
#ifndef TX_TOKEN_FILE_KIND_H
#define TX_TOKEN_FILE_KIND_H

#include "base/status.h"

typedef enum tx__file_kind {
    TX__FILE_VOCAB_JSON,
    TX__FILE_MERGES,
    TX__FILE_VOCAB_TXT,
    TX__FILE_TOKENIZER_JSON,
    TX__FILE_OTHER
} tx__file_kind;

/* st, with which reading `file` as `wanted` has failed; where the file is clearly one of the other kinds, that is the
 * error instead, and what reads it. */
tx_status tx__file_is_wrong(tx_status st, const char *file, tx__file_kind wanted);

#endif
