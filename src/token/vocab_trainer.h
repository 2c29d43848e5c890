/* vocab_trainer.h - the inside of tx_vocab_trainer (triax/token.h). Shared inside this room. */
#ifndef TX_TOKEN_VOCAB_TRAINER_H
#define TX_TOKEN_VOCAB_TRAINER_H

#include <stdbool.h>

#include "base/str.h"
#include "token/merge_learner.h"
#include "token/strings.h"
#include "triax/token.h"

enum { TX__MAX_VOCAB_SPECIALS = 5, TX__MAX_VOCAB_FILES = 3 };

/* A file of a learned vocabulary. `put` appends all of its text. */
typedef struct tx__vocab_file {
    const char *name;
    tx_status (*put)(tx_str *s, const tx_vocab_trainer *t);
} tx__vocab_file;

/* A kind of vocabulary: a row of the table in train_vocab.c. */
typedef struct tx__vocab_learner {
    tx_vocab_kind kind;
    const char *special[TX__MAX_VOCAB_SPECIALS]; /* come before the caller's; NULL: no more */
    int32_t n_smallest;                          /* tokens that there are besides the special ones, at least, */
    const char *smallest;                        /* in words, for the error message */
    bool bytes;                                  /* tokens are bytes, which files show as GPT-2's symbols */
    bool lower_case;                             /* WordPiece's */
    tx_status (*feed)(tx_vocab_trainer *t, const char *text, size_t n_bytes); /* counts the words of a document */
    tx_status (*learn)(tx_vocab_trainer *t); /* words to tokens and merges; t->word is freed afterwards */
    tx__vocab_file file[TX__MAX_VOCAB_FILES];
} tx__vocab_learner;

extern const tx__vocab_learner tx__learner_bpe;                  /* train_bpe.c */
extern const tx__vocab_learner tx__learner_wordpiece_lower_case; /* train_wordpiece.c */
extern const tx__vocab_learner tx__learner_wordpiece_case;
extern const tx__vocab_learner tx__learner_sp_bpe; /* train_sentencepiece.c */
extern const tx__vocab_learner tx__learner_sp_unigram;

struct tx_vocab_trainer {
    const tx__vocab_learner *learner;
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
    float *score; /* SentencePiece's: [id] */
};

/* Counts `n` more of a word. */
tx_status tx__count_word(tx_vocab_trainer *t, const void *bytes, size_t len, int64_t n);

/* The texts of files (save_vocab.c). */
tx_status tx__put_vocab_json(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_merges_txt(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_vocab_txt(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_bpe_tokenizer_json(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_wordpiece_tokenizer_json(tx_str *s, const tx_vocab_trainer *t);

/* The same of SentencePiece's (save_sentencepiece.c). */
tx_status tx__put_sp_bpe_model(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_sp_unigram_model(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_sp_bpe_tokenizer_json(tx_str *s, const tx_vocab_trainer *t);
tx_status tx__put_sp_unigram_tokenizer_json(tx_str *s, const tx_vocab_trainer *t);

#endif
