/* tokenizers.h - the tokenizers: --tokenizer-type. Some are upstream's names of what is not built yet. */
#ifndef TX_KINDS_TOKENIZERS_H
#define TX_KINDS_TOKENIZERS_H

#include "kinds/kind.h"

/*   X(constant, word) */
#define TX_TOKENIZERS(X)                                            \
    X(TX_TOKENIZER_GPT2_BPE, "GPT2BPETokenizer")                    \
    X(TX_TOKENIZER_NULL, "NullTokenizer")                           \
    X(TX_TOKENIZER_BERT_LOWER_CASE, "BertWordPieceLowerCase")       \
    X(TX_TOKENIZER_BERT_CASE, "BertWordPieceCase")                  \
    X(TX_TOKENIZER_SENTENCE_PIECE, "SentencePieceTokenizer")        \
    X(TX_TOKENIZER_GPT_SENTENCE_PIECE, "GPTSentencePieceTokenizer") \
    X(TX_TOKENIZER_HF, "HFTokenizer")                               \
    X(TX_TOKENIZER_PRETRAINED_HF, "PretrainedFromHF")

TX_KIND(tokenizer_type, TX_TOKENIZERS)

/* Whether it cuts words into BERT's pieces, with a vocab.txt. */
static inline int tx_tokenizer_is_wordpiece(enum tx_tokenizer_type type)
{
    return type == TX_TOKENIZER_BERT_LOWER_CASE || type == TX_TOKENIZER_BERT_CASE;
}

#endif
