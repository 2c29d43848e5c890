/* tokenizers.h - the tokenizers: --tokenizer-type.
 *
 *  A row is a constant, its word, the tx_tokenizer_kind in src/token/ that does the work, and what it is opened from:
 *
 *  - .vocab_file, .merge_file, .model_file: it reads --vocab-file, --merge-file, --tokenizer-model; the value is the
 * name that such a file has in a model's folder
 *  - .beside: a file in the same folder that is kept with model_file, if there is one
 *  - .extra_ids: it adds --vocab-extra-ids tokens
 *  - .numbers: a text consists of ids; --vocab-size is their number
 *  - .tiktoken: it has the options --tiktoken-*
 *  - .wordpiece: for BERT: it cuts words into pieces, and has [CLS], [SEP] and [MASK]
 *
 *  To add a tokenizer: a row here, and src/token/tokenizer_<name>.c, which defines its tx_tokenizer_kind. Rows with
 *  not_built are upstream's words for what is not built yet. */
#ifndef TX_KINDS_TOKENIZERS_H
#define TX_KINDS_TOKENIZERS_H

#include <stdbool.h>
#include <stddef.h>

#include "kinds/kind.h"

/* clang-format off */
#define TX_GPT2_FILES .vocab_file = "vocab.json", .merge_file = "merges.txt"
#define TX_BERT_FILES .vocab_file = "vocab.txt", .wordpiece = true
#define TX_HF_FILES   .model_file = "tokenizer.json", .beside = "tokenizer_config.json"
#define TX_SP_FILES   .model_file = "tokenizer.model"

#define TX_TIKTOKEN_FILES .model_file = "tiktoken.model", .tiktoken = true

/*   X(constant, word, kind, what it is opened from) */
#define TX_TOKENIZERS(X)                                                                                      \
    X(TX_TOKENIZER_GPT2_BPE,           "GPT2BPETokenizer",          gpt2,                 TX_GPT2_FILES)      \
    X(TX_TOKENIZER_NULL,               "NullTokenizer",             null,                 .numbers = true)    \
    X(TX_TOKENIZER_BERT_LOWER_CASE,    "BertWordPieceLowerCase",    wordpiece_lower_case, TX_BERT_FILES)      \
    X(TX_TOKENIZER_BERT_CASE,          "BertWordPieceCase",         wordpiece_case,       TX_BERT_FILES)      \
    X(TX_TOKENIZER_SENTENCE_PIECE,     "SentencePieceTokenizer",    sentencepiece,        TX_SP_FILES, .extra_ids = true) \
    X(TX_TOKENIZER_GPT_SENTENCE_PIECE, "GPTSentencePieceTokenizer", sentencepiece_gpt,    TX_SP_FILES)        \
    X(TX_TOKENIZER_LLAMA2,             "Llama2Tokenizer",           sentencepiece_llama2, TX_SP_FILES)        \
    X(TX_TOKENIZER_HF,                 "HFTokenizer",               json,                 TX_HF_FILES)        \
    X(TX_TOKENIZER_PRETRAINED_HF,      "PretrainedFromHF",          json,                 TX_HF_FILES)        \
    X(TX_TOKENIZER_TIKTOKEN,           "TikTokenizer",              tiktoken,             TX_TIKTOKEN_FILES)

/* As messages list them. */
#define TX_TOKENIZERS_BUILT                                                                                    \
    "GPT2BPETokenizer, HFTokenizer, Llama2Tokenizer, SentencePieceTokenizer, GPTSentencePieceTokenizer, "      \
    "TikTokenizer, BertWordPieceLowerCase, BertWordPieceCase or NullTokenizer"
#define TX_TOKENIZERS_WORDPIECE "BertWordPieceLowerCase or BertWordPieceCase"

/* Those that train-tokenizer makes files for. */
#define TX_LEARNED_TOKENIZERS(X)                                \
    X(TX_TOKENIZER_GPT2_BPE, "GPT2BPETokenizer")                \
    X(TX_TOKENIZER_BERT_LOWER_CASE, "BertWordPieceLowerCase")   \
    X(TX_TOKENIZER_BERT_CASE, "BertWordPieceCase")              \
    X(TX_TOKENIZER_LLAMA2, "Llama2Tokenizer")                   \
    X(TX_TOKENIZER_GPT_SENTENCE_PIECE, "GPTSentencePieceTokenizer")
/* clang-format on */

TX_KIND(tokenizer_type, TX_TOKENIZERS)

typedef struct tx_tokenizer_traits {
    const char *vocab_file, *merge_file, *model_file, *beside; /* NULL: none */
    bool numbers, wordpiece, extra_ids, tiktoken;
} tx_tokenizer_traits;

/* All zeros of 0, and of a tokenizer that is not built. */
static inline tx_tokenizer_traits tx_tokenizer_traits_of(enum tx_tokenizer_type type)
{
#define TX_TOKENIZER_TRAITS(constant, word, kind, ...) [constant] = { __VA_ARGS__ },
    static const tx_tokenizer_traits traits[] = { TX_TOKENIZERS(TX_TOKENIZER_TRAITS) };
#undef TX_TOKENIZER_TRAITS
    return traits[type];
}

static inline bool tx_tokenizer_is_wordpiece(enum tx_tokenizer_type type)
{
    return tx_tokenizer_traits_of(type).wordpiece;
}

/* Whether it reads any file. */
static inline bool tx_tokenizer_has_files(enum tx_tokenizer_type type)
{
    tx_tokenizer_traits t = tx_tokenizer_traits_of(type);
    return t.vocab_file || t.merge_file || t.model_file;
}

static inline bool tx_tokenizer_is_built(enum tx_tokenizer_type type)
{
    return tx_tokenizer_has_files(type) || tx_tokenizer_traits_of(type).numbers;
}

#endif
