/* train_wordpiece.c - learns BERT's WordPiece from text: BPE over characters, of which those inside a word are symbols
 * of their own ("##e"). */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "token/bert_words.h"
#include "token/vocab_trainer.h"

#define N_CHARS 0x110000u

/* ---- counting ---- */

/* A tx__word_fn. */
static tx_status count_word(void *user, const tx__word *word)
{
    unsigned char bytes[4 * TX__WORD_MAX];
    size_t n = 0;
    if (word->n > TX__WORD_MAX) return TX_OK;
    for (size_t i = 0; i < word->n; i++) n += (size_t)utf8proc_encode_char((utf8proc_int32_t)word->c[i], bytes + n);
    return tx__count_word(user, bytes, n, 1);
}

static tx_status feed(tx_vocab_trainer *t, const char *text, size_t n_bytes)
{
    return tx__bert_words((const unsigned char *)text, n_bytes, t->learner->lower_case, count_word, t);
}

/* ---- the alphabet ---- */

typedef struct letter {
    uint32_t c;
    bool inside; /* also seen after a word's first character */
    int64_t count;
} letter;

typedef struct alphabet {
    letter *seen;     /* [N_CHARS], then the n that are kept */
    int32_t (*id)[2]; /* [N_CHARS] of the character, and of it inside of a word; -1: left out */
    size_t n, n_places;
} alphabet;

static int more_frequent(const void *a, const void *b)
{
    const letter *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : (x->c > y->c) - (x->c < y->c);
}

static int smaller(const void *a, const void *b)
{
    const letter *x = a, *y = b;
    return (x->c > y->c) - (x->c < y->c);
}

static tx_status alphabet_init(alphabet *a, const tx_vocab_trainer *t)
{
    TX_TRY(tx_alloc(&a->seen, N_CHARS, sizeof *a->seen, "an alphabet"));
    TX_TRY(tx_alloc(&a->id, N_CHARS, sizeof *a->id, "an alphabet"));
    for (uint32_t w = 0; w < t->word.n; w++) {
        size_t n;
        const unsigned char *p = (const unsigned char *)tx__strings_at(&t->word, w, &n);
        for (size_t i = 0, len; i < n; i += len, a->n_places++) {
            uint32_t c;
            len = tx__utf8_next(p + i, n - i, &c);
            a->seen[c].c = c;
            a->seen[c].count += t->count[w];
            a->seen[c].inside |= i > 0;
        }
    }
    for (uint32_t c = 0; c < N_CHARS; c++)
        if (a->seen[c].count) a->seen[a->n++] = a->seen[c];
    if (t->limit_alphabet && a->n > (size_t)t->limit_alphabet) {
        qsort(a->seen, a->n, sizeof *a->seen, more_frequent);
        a->n = (size_t)t->limit_alphabet;
        qsort(a->seen, a->n, sizeof *a->seen, smaller);
    }
    return TX_OK;
}

/* Special tokens, characters, characters inside of words. */
static tx_status add_letters(tx_vocab_trainer *t, alphabet *a)
{
    unsigned char bytes[2 + 4] = "##";
    size_t n;
    for (uint32_t i = 0; i < t->special.n; i++) {
        const char *special = tx__strings_at(&t->special, i, &n);
        TX_TRY(tx__strings_add_hidden(&t->token, special, n));
    }
    memset(a->id, 0xFF, N_CHARS * sizeof *a->id);
    for (int inside = 0; inside < 2; inside++)
        for (size_t i = 0; i < a->n; i++) {
            if (inside && !a->seen[i].inside) continue;
            n = (size_t)utf8proc_encode_char((utf8proc_int32_t)a->seen[i].c, bytes + 2);
            a->id[a->seen[i].c][inside] = (int32_t)t->token.n;
            TX_TRY(tx__strings_add_hidden(&t->token, inside ? bytes : bytes + 2, inside ? n + 2 : n));
        }
    if ((int64_t)t->token.n > t->vocab_size)
        return TX_FAIL(TX_ERR_ARG,
                       "vocabulary size %d is too small: %u special tokens and %zu characters, alone and inside of "
                       "words, need %u; ask for more, or for a smaller alphabet",
                       t->vocab_size, t->special.n, a->n, t->token.n);
    return TX_OK;
}

/* ---- learning ---- */

/* Words of two and more characters; those left out of the alphabet are passed over. */
static tx_status places_of_words(const tx__strings *words, const alphabet *a, tx__word_place **out, size_t *n)
{
    tx__word_place *place = NULL;
    TX_TRY(tx_realloc(&place, a->n_places + 1, sizeof *place, "distinct words"));
    *n = 0;
    for (uint32_t w = 0; w < words->n; w++) {
        size_t n_bytes, first = *n;
        const unsigned char *p = (const unsigned char *)tx__strings_at(words, w, &n_bytes);
        for (size_t i = 0, len; i < n_bytes; i += len) {
            uint32_t c;
            len = tx__utf8_next(p + i, n_bytes - i, &c);
            int32_t id = a->id[c][i > 0];
            if (id >= 0) place[(*n)++] = (tx__word_place){ id, w };
        }
        if (*n - first == 1) *n = first;
    }
    *out = place;
    return TX_OK;
}

/* Tokens of merged pairs: the left one's characters, then the right one's without its "##". */
static tx_status add_tokens(tx_vocab_trainer *t)
{
    tx_status st = TX_OK;
    tx_str bytes = { 0 };
    for (size_t i = 0; i < t->n_merges; i++) {
        size_t n_left, n_right;
        const char *left = tx__strings_at(&t->token, (uint32_t)(t->merge[i] >> 32), &n_left);
        const char *right = tx__strings_at(&t->token, (uint32_t)t->merge[i], &n_right);
        bytes.len = 0;
        TX_GOTO(tx_str_append(&bytes, left, n_left));
        TX_GOTO(tx_str_append(&bytes, right + 2, n_right - 2));
        TX_GOTO(tx__strings_add_hidden(&t->token, bytes.data, bytes.len));
    }
out:
    tx_str_free(&bytes);
    return st;
}

static tx_status learn(tx_vocab_trainer *t)
{
    tx_status st;
    alphabet a = { 0 };
    tx__word_place *place = NULL;
    size_t n;
    TX_GOTO(alphabet_init(&a, t));
    TX_GOTO(add_letters(t, &a));
    TX_GOTO(places_of_words(&t->word, &a, &place, &n));
    tx__strings_free(&t->word); /* the places are all there is to know */
    tx__learn_opts o = { .count = t->count,
                         .n_symbols = (int32_t)t->token.n,
                         .max_merges = t->vocab_size - (int32_t)t->token.n,
                         .min_frequency = t->min_frequency };
    TX_GOTO(tx__learn_merges(place, n, &o, &t->merge, &t->n_merges));
    TX_GOTO(add_tokens(t));
out:
    tx_free(a.seen);
    tx_free(a.id);
    tx_free(place);
    return st;
}

/* What a vocabulary has with case and without. */
#define OF_BERT                                                                                              \
    .special = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }, .n_smallest = 1, .smallest = "a character", \
    .feed = feed, .learn = learn,                                                                            \
    .file = { { "vocab.txt", tx__put_vocab_txt }, { "tokenizer.json", tx__put_wordpiece_tokenizer_json } }

const tx__vocab_learner tx__learner_wordpiece_lower_case = { OF_BERT, .kind = TX_VOCAB_WORDPIECE_LOWER_CASE,
                                                             .lower_case = true };
const tx__vocab_learner tx__learner_wordpiece_case = { OF_BERT, .kind = TX_VOCAB_WORDPIECE_CASE };
