/* token_test.h - what the tokenizer tests share: the two stored vocabularies, opened. */
#ifndef TX_TESTS_TOKEN_TEST_H
#define TX_TESTS_TOKEN_TEST_H

#include "support.h"
#include "triax/token.h"

static inline tx_tokenizer *open_gpt2(void)
{
    tx_tokenizer *t = NULL;
    ASSERT_OK(tx_tokenizer_open_gpt2(&t, data_path("token/gpt2-vocab.json"), data_path("token/gpt2-merges.txt")));
    return t;
}

static inline tx_tokenizer *open_tiny(void)
{
    tx_tokenizer *t = NULL;
    ASSERT_OK(tx_tokenizer_open_gpt2(&t, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    return t;
}

#endif
