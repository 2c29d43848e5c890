/* sp_cut.h - cuts a normalized text into the pieces of a SentencePiece model of any kind. */
#ifndef TX_TOKEN_SP_CUT_H
#define TX_TOKEN_SP_CUT_H

#include "token/sp_model.h"
#include "token/symbol_bpe.h"
#include "token/unigram.h"

/* Where pieces are sure to end, as the vocabulary says: before a run of blanks, after one, or nowhere. */
typedef enum tx__sp_words { TX__SP_WHOLE, TX__SP_BEFORE_BLANKS, TX__SP_AFTER_BLANKS } tx__sp_words;

typedef struct tx__sp_cutter {
    const tx__sp_model *model;
    tx__byte_trie user;  /* user-defined symbols: their ids */
    bool any_user;       /* there are some */
    tx__sp_words words;  /* what the text is cut into first, each word by itself; not for chars and words */
    tx__unigram unigram; /* of that kind */
    tx__symbol_bpe bpe;
    tx__byte_trie chars; /* of BPE: characters to symbols. A symbol is an id, or beyond them a character in pieces */
    bool any_unused;     /* of BPE: merged pieces that are not used are taken apart again */
} tx__sp_cutter;

tx_status tx__sp_cutter_open(tx__sp_cutter *c, const tx__sp_model *m, const char *file);
void tx__sp_cutter_close(tx__sp_cutter *c);

/* Memory kept between texts, and the result. Zeroed = none. */
typedef struct tx__sp_scratch {
    tx__unigram_scratch ways; /* .span[0..n_spans): the result */
    tx__symbol_scratch merges;
    int32_t *symbol, (*seen)[2], *stack;
    size_t cap, cap_seen, cap_stack;
} tx__sp_scratch;
void tx__sp_scratch_free(tx__sp_scratch *s);

/* Cuts text[0..n) into s->ways.span, unknown characters (of words: words) with the unknown id. *sum and *margin are
 * tx__unigram_cut's; of other kinds *sum stays and *margin is infinite. Errors: TX_ERR_NOMEM. */
tx_status tx__sp_cut(const tx__sp_cutter *c, tx__sp_scratch *s, const unsigned char *text, size_t n, double *sum,
                     double *margin);

/* Length of the first word of text[0..n), n > 0. */
size_t tx__sp_word(const tx__sp_cutter *c, const unsigned char *text, size_t n);

#endif
