/* tiktoken_patterns.h - how TikTokenizer cuts text into words: --tiktoken-pattern.
 *
 *  A row is a constant and its word. v1 and v2 are Megatron Core's two; the others are those of published vocabularies.
 * src/token/split_pattern.c has their functions and says what they are as regular expressions. */
#ifndef TX_KINDS_TIKTOKEN_PATTERNS_H
#define TX_KINDS_TIKTOKEN_PATTERNS_H

#include "kinds/kind.h"

/* clang-format off */
#define TX_TIKTOKEN_PATTERNS(X)              \
    X(TX_TIKTOKEN_V1,     "v1")              \
    X(TX_TIKTOKEN_V2,     "v2")              \
    X(TX_TIKTOKEN_R50K,   "r50k")            \
    X(TX_TIKTOKEN_P50K,   "p50k")            \
    X(TX_TIKTOKEN_CL100K, "cl100k")          \
    X(TX_TIKTOKEN_O200K,  "o200k")           \
    X(TX_TIKTOKEN_LLAMA3, "llama3")          \
    X(TX_TIKTOKEN_QWEN2,  "qwen2")
/* clang-format on */

TX_KIND(tiktoken_pattern, TX_TIKTOKEN_PATTERNS)

#endif
