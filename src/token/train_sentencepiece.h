/* train_sentencepiece.h - what learning SentencePiece's two kinds of models shares. Shared inside this room. */
#ifndef TX_TOKEN_TRAIN_SENTENCEPIECE_H
#define TX_TOKEN_TRAIN_SENTENCEPIECE_H

#include "token/vocab_trainer.h"

enum { TX__SP_LONGEST = 16 /* characters of a piece */ };

/* The words of a text, without the characters that are too rare to be pieces, in the order of their bytes. */
typedef struct tx__sp_corpus {
    tx__strings word;
    int64_t *count; /* [word] */
    tx__strings ch; /* characters that are pieces, the most frequent first */
    int64_t *ch_count;
} tx__sp_corpus;

/* Takes the words of t, which has none afterwards. */
tx_status tx__sp_corpus_take(tx__sp_corpus *c, tx_vocab_trainer *t);
void tx__sp_corpus_free(tx__sp_corpus *c);

/* Appends a learned piece, which has not been added before. */
tx_status tx__sp_add_piece(tx_vocab_trainer *t, const char *piece, size_t n, float score);

/* Pieces that there is room for. */
int32_t tx__sp_room(const tx_vocab_trainer *t);

/* The most probable pieces for the words of c (train_unigram.c): adds them to t, the most probable first.
 * Source: Kudo, arXiv:1804.10959, section 3.2, with the numbers of SentencePiece's trainer. */
tx_status tx__sp_learn_unigram(tx_vocab_trainer *t, const tx__sp_corpus *c);

#endif
