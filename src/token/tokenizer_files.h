/* tokenizer_files.h - what a tokenizer is opened from. */
#ifndef TX_TOKEN_TOKENIZER_FILES_H
#define TX_TOKEN_TOKENIZER_FILES_H

#include <stdint.h>

/* A kind of tokenizer reads those members that its traits name (kinds/tokenizers.h). */
typedef struct tx_tokenizer_files {
    const char *vocab_file, *merge_file, *model_file; /* paths */
    int32_t n_ids;                                    /* of text that consists of numbers */
    int32_t n_extra_ids;                              /* <extra_id_N> to add */
} tx_tokenizer_files;

#endif
