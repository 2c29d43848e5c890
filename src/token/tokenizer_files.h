/* tokenizer_files.h - what a tokenizer is opened from. */
#ifndef TX_TOKEN_TOKENIZER_FILES_H
#define TX_TOKEN_TOKENIZER_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "kinds/tiktoken_patterns.h"

/* A kind of tokenizer reads those members that its traits name (kinds/tokenizers.h). */
typedef struct tx_tokenizer_files {
    const char *vocab_file, *merge_file, *model_file; /* paths */
    int32_t n_ids;                                    /* of text that consists of numbers */
    int32_t n_extra_ids;                              /* <extra_id_N> to add */
    struct {
        enum tx_tiktoken_pattern pattern; /* 0: v2 */
        int32_t n_special;                /* ids before those of a JSON file's tokens */
        char *const *special;             /* [n_names] names; NULL: the usual ones */
        size_t n_names;
    } tiktoken; /* n_ids too: of a JSON file no more than that; 0: Megatron Core's 131072 */
} tx_tokenizer_files;

#endif
