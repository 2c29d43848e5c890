/* unigram.h - the most probable way to make a text of pieces that have logarithms of probabilities: SentencePiece's and
 * Hugging Face's Unigram. Knows nothing of files. Source: Kudo, "Subword Regularization", arXiv:1804.10959,
 * section 3.2. How sums are rounded, which decides between ways that are equally good, is SentencePiece's as of 0.2.3
 * (float, and a sum below -100000 is taken off all sums there are) or the tokenizers library's (double). */
#ifndef TX_TOKEN_UNIGRAM_H
#define TX_TOKEN_UNIGRAM_H

#include <stdbool.h>

#include "token/byte_trie.h"

/* A model. The caller fills it, builds the trie of its pieces with their ids as values, and frees what it made. A piece
 * that must not be used is not in the trie. */
typedef struct tx__unigram {
    tx__byte_trie trie;
    double *score;             /* [id] finite */
    int32_t unk;               /* id of a character that is no piece */
    double unk_score, largest; /* the largest size of a score, unk_score's too */
    bool in_float;             /* sums are rounded as SentencePiece does it, else as tokenizers does */
} tx__unigram;

typedef struct tx__unigram_span {
    int32_t id;
    uint32_t n; /* bytes */
} tx__unigram_span;

/* Memory kept between texts. Zeroed = none. `span` is the result: the pieces in order. */
typedef struct tx__unigram_scratch {
    struct tx__unigram_node *node;
    tx__unigram_span *span;
    size_t n_spans, cap;
} tx__unigram_scratch;
void tx__unigram_scratch_free(tx__unigram_scratch *s);

/* Makes room for the result of a text of n bytes. tx__unigram_cut does it itself. */
tx_status tx__unigram_reserve(tx__unigram_scratch *s, size_t n);

/* Cuts text[0..n), whose sum begins with *sum, into s->span; an unknown character is a span with u->unk. *sum becomes
 * the sum at the end, so that a text may be given in parts that no piece crosses. *margin (NULL allowed) is by how much
 * the best way wins against any other at the places where it decides: infinite if there is no other. In a text whose
 * sum is so small that rounding changes less than that, the ways are the same: tx__unigram_limit. Errors: TX_ERR_NOMEM;
 * TX_ERR_UNSUPPORTED for a text of more than 2 GiB. */
tx_status tx__unigram_cut(const tx__unigram *u, tx__unigram_scratch *s, const unsigned char *text, size_t n,
                          double *sum, double *margin);

/* A part of n characters, cut with the sum 0 and this margin, is cut alike with any sum of at most this size. */
float tx__unigram_limit(const tx__unigram *u, size_t n, double margin);

/* Adds a piece to a sum as tx__unigram_cut does, within the piece's limit. */
static inline double tx__unigram_add(const tx__unigram *u, double sum, int32_t id)
{
    sum += id == u->unk ? u->unk_score : u->score[id];
    return u->in_float ? (double)(float)sum : sum;
}

/* Bytes of the character that begins with this byte, as SentencePiece counts them. */
static inline size_t tx__lead_length(unsigned char lead)
{
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

#endif
