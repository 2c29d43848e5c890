/* vocab_trainer.h - inside of tx_vocab_trainer (triax/token.h). */
#ifndef TX_TOKEN_VOCAB_TRAINER_H
#define TX_TOKEN_VOCAB_TRAINER_H

#include <stdbool.h>

#include "token/merge_learner.h"
#include "token/strings.h"
#include "triax/token.h"

struct tx_vocab_trainer {
    tx_vocab_kind kind;
    int32_t vocab_size, limit_alphabet;
    int64_t min_frequency;
    tx__strings special; /* all of them, in the order of their ids */
    tx__strings word;    /* distinct words of the text, until finish: bytes of BPE, UTF-8 of WordPiece */
    int64_t *count;      /* [word] how often */
    size_t cap_count;
    bool finished;
    tx__strings token; /* number = id; BPE's as bytes */
    uint64_t *merge;   /* BPE: pairs of ids in the order learned */
    size_t n_merges;
};

/* Counts `n` more of a word. */
tx_status tx__count_word(tx_vocab_trainer *t, const void *bytes, size_t len, int64_t n);

/* Words to tokens and merges; t->word is gone afterwards. */
tx_status tx__bpe_learn(tx_vocab_trainer *t);
tx_status tx__wordpiece_learn(tx_vocab_trainer *t);

/* tx_vocab_trainer_feed's part for WordPiece. */
tx_status tx__wordpiece_feed(tx_vocab_trainer *t, const char *text, size_t n_bytes);

#endif
