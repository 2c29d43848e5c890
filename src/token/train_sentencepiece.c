/* train_sentencepiece.c - learns models in SentencePiece's form: words with U+2581 in front, pieces of characters,
 * bytes for all others. Pieces have letters or other characters, not both; a digit is a piece by itself.
 *
 *      ids: <unk> <s> </s>, the caller's special tokens, 256 bytes, pieces */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "token/char_class.h"
#include "token/pairs.h"
#include "token/train_sentencepiece.h"

#define BLANK    "\xE2\x96\x81" /* U+2581 */
#define COVERAGE 0.9995         /* of all characters are to be pieces, as by default in SentencePiece */

/* ---- words ---- */

typedef struct feeder {
    tx_vocab_trainer *t;
    tx_str word;
    int kind; /* of its characters: 0 none yet */
} feeder;

static tx_status end_word(feeder *f)
{
    size_t n = f->word.len;
    f->word.len = 0;
    f->kind = 0;
    return n ? tx__count_word(f->t, f->word.data, n, 1) : TX_OK;
}

static tx_status begin_word(feeder *f)
{
    TX_TRY(end_word(f));
    return tx_str_puts(&f->word, BLANK);
}

static tx_status feed_char(feeder *f, const unsigned char *p, size_t n)
{
    size_t len;
    unsigned bits = tx__bits_next(p, n, &len);
    int kind = bits & TX__ALPHA ? 1 : bits & TX__NUMERIC ? 2 : bits & TX__MARK && f->kind ? f->kind : 3;
    if (kind == 2 || (f->kind && kind != f->kind)) TX_TRY(end_word(f));
    TX_TRY(tx_str_append(&f->word, p, n));
    f->kind = kind;
    return kind == 2 ? end_word(f) : TX_OK;
}

/* A line is a text of its own, with a blank in front unless it has one. */
static tx_status feed(tx_vocab_trainer *t, const char *text, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    feeder f = { .t = t };
    tx_status st = TX_OK;
    bool at_start = true;
    tx__char_class_init();
    for (size_t i = 0, len; i < n_bytes; i += len) {
        uint32_t c;
        len = tx__utf8_next(p + i, n_bytes - i, &c);
        if (c == '\n' || !c || c == TX__NO_CHAR) {
            TX_GOTO(end_word(&f));
            at_start |= c == '\n';
        } else if (c == ' ' || c == 0x2581) {
            TX_GOTO(begin_word(&f));
            at_start = false;
        } else {
            if (at_start) TX_GOTO(begin_word(&f));
            at_start = false;
            TX_GOTO(feed_char(&f, p + i, len));
        }
    }
    st = end_word(&f);
out:
    tx_str_free(&f.word);
    return st;
}

/* ---- characters ---- */

typedef struct counted {
    const char *bytes;
    uint32_t n;
    int64_t count;
} counted;

static int compare_bytes(const void *pa, const void *pb)
{
    const counted *a = pa, *b = pb;
    int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    return c ? c : a->n < b->n ? -1 : a->n > b->n;
}

static int compare_counts(const void *pa, const void *pb)
{
    const counted *a = pa, *b = pb;
    return a->count > b->count ? -1 : a->count < b->count ? 1 : compare_bytes(pa, pb);
}

/* The strings with their counts, sorted. */
static tx_status sorted(const tx__strings *s, const int64_t *count, int (*compare)(const void *, const void *),
                        counted **out)
{
    TX_TRY(tx_alloc(out, (size_t)s->n + 1, sizeof **out, "distinct words"));
    for (uint32_t i = 0; i < s->n; i++) {
        size_t n;
        const char *bytes = tx__strings_at(s, i, &n);
        (*out)[i] = (counted){ bytes, (uint32_t)n, count[i] };
    }
    qsort(*out, s->n, sizeof **out, compare);
    return TX_OK;
}

static tx_status add_count(tx__strings *s, int64_t **count, const char *bytes, size_t n, int64_t more)
{
    uint32_t number;
    int fresh;
    TX_TRY(tx__strings_add(s, bytes, n, &number, &fresh));
    if (fresh && !(number & (number - 1)))
        TX_TRY(tx_realloc(count, 2 * (size_t)number + 1, sizeof **count, "distinct words"));
    (*count)[number] = (fresh ? 0 : (*count)[number]) + more;
    return TX_OK;
}

static size_t char_length(const char *p, size_t n)
{
    uint32_t c;
    return tx__utf8_next((const unsigned char *)p, n, &c);
}

/* The most frequent characters that make up COVERAGE of the text. */
static tx_status choose_chars(tx__sp_corpus *c, const counted *word, uint32_t n_words)
{
    tx_status st = TX_OK;
    tx__strings all = { 0 };
    int64_t *count = NULL, total = 0, have = 0;
    counted *order = NULL;
    for (uint32_t w = 0; w < n_words; w++)
        for (size_t i = 0, len; i < word[w].n; i += len, total += word[w].count) {
            len = char_length(word[w].bytes + i, word[w].n - i);
            TX_GOTO(add_count(&all, &count, word[w].bytes + i, len, word[w].count));
        }
    TX_GOTO(sorted(&all, count, compare_counts, &order));
    for (uint32_t i = 0; i < all.n && (double)have < COVERAGE * (double)total; have += order[i++].count)
        TX_GOTO(add_count(&c->ch, &c->ch_count, order[i].bytes, order[i].n, order[i].count));
out:
    tx__strings_free(&all);
    tx_free(count);
    tx_free(order);
    return st;
}

/* The parts of a word between characters that are no pieces. */
static tx_status take_parts(tx__sp_corpus *c, const counted *word)
{
    size_t start = 0;
    for (size_t i = 0, len; i <= word->n; i += len) {
        len = i < word->n ? char_length(word->bytes + i, word->n - i) : 1;
        if (i < word->n && tx__strings_find(&c->ch, word->bytes + i, len) >= 0) continue;
        if (i > start) TX_TRY(add_count(&c->word, &c->count, word->bytes + start, i - start, word->count));
        start = i + len;
    }
    return TX_OK;
}

tx_status tx__sp_corpus_take(tx__sp_corpus *c, tx_vocab_trainer *t)
{
    tx_status st;
    counted *word = NULL;
    uint32_t n = t->word.n;
    TX_GOTO(sorted(&t->word, t->count, compare_bytes, &word));
    TX_GOTO(choose_chars(c, word, n));
    for (uint32_t w = 0; w < n; w++) TX_GOTO(take_parts(c, &word[w]));
    if (tx__sp_room(t) < (int32_t)c->ch.n)
        st = TX_FAIL(TX_ERR_ARG,
                     "vocabulary size %d is too small: the text has %u characters, special tokens and bytes "
                     "are %d: give at least %d",
                     t->vocab_size, c->ch.n, t->vocab_size - tx__sp_room(t),
                     t->vocab_size - tx__sp_room(t) + (int32_t)c->ch.n);
out:
    tx_free(word);
    tx__strings_free(&t->word);
    return st;
}

void tx__sp_corpus_free(tx__sp_corpus *c)
{
    tx__strings_free(&c->word);
    tx__strings_free(&c->ch);
    tx_free(c->count);
    tx_free(c->ch_count);
}

/* ---- pieces ---- */

int32_t tx__sp_room(const tx_vocab_trainer *t)
{
    return t->vocab_size - (int32_t)t->special.n - 256;
}

tx_status tx__sp_add_piece(tx_vocab_trainer *t, const char *piece, size_t n, float score)
{
    uint32_t id;
    int fresh;
    TX_TRY(tx__strings_add(&t->token, piece, n, &id, &fresh));
    TX_ASSERT(fresh);
    if (!(id & (id - 1))) TX_TRY(tx_realloc(&t->score, 2 * (size_t)id + 1, sizeof *t->score, "the scores of a model"));
    t->score[id] = score;
    return TX_OK;
}

static tx_status add_first_pieces(tx_vocab_trainer *t)
{
    for (uint32_t i = 0; i < t->special.n; i++) {
        size_t n;
        const char *special = tx__strings_at(&t->special, i, &n);
        TX_TRY(tx__sp_add_piece(t, special, n, 0));
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", byte);
        TX_TRY(tx__sp_add_piece(t, piece, 6, 0));
    }
    return TX_OK;
}

/* ---- BPE ---- */

static tx_status places_of(const tx__sp_corpus *c, tx__word_place **out, size_t *n)
{
    TX_TRY(tx_realloc(out, c->word.pool.len + 1, sizeof **out, "distinct words"));
    *n = 0;
    for (uint32_t w = 0; w < c->word.n; w++) {
        size_t len, n_word;
        const char *bytes = tx__strings_at(&c->word, w, &n_word);
        for (size_t i = 0; i < n_word; i += len) {
            len = char_length(bytes + i, n_word - i);
            (*out)[(*n)++] = (tx__word_place){ (int32_t)tx__strings_find(&c->ch, bytes + i, len), w };
        }
    }
    return TX_OK;
}

/* Two merges may make the same piece, which is there once; pieces that are too long are left out. */
static tx_status add_merged(tx_vocab_trainer *t, const tx__sp_corpus *c, const uint64_t *merge, size_t n_merges,
                            int32_t room)
{
    tx_status st = TX_OK;
    tx__strings symbol = { 0 };
    tx_str piece = { 0 };
    int32_t added = 0;
    for (uint32_t i = 0; i < c->ch.n; i++) {
        size_t n;
        const char *ch = tx__strings_at(&c->ch, i, &n);
        TX_GOTO(tx__strings_add_hidden(&symbol, ch, n));
    }
    for (size_t i = 0; i < n_merges && added < room; i++) {
        size_t n, n_chars = 0;
        piece.len = 0;
        for (int side = 32; side >= 0; side -= 32) {
            const char *part = tx__strings_at(&symbol, (uint32_t)(merge[i] >> side), &n);
            TX_GOTO(tx_str_append(&piece, part, n));
        }
        TX_GOTO(tx__strings_add_hidden(&symbol, piece.data, piece.len));
        for (size_t k = 0; k < piece.len; k++) n_chars += ((unsigned char)piece.data[k] & 0xC0) != 0x80;
        if (n_chars > TX__SP_LONGEST || tx__strings_find(&t->token, piece.data, piece.len) >= 0) continue;
        TX_GOTO(tx__sp_add_piece(t, piece.data, piece.len, -(float)added++));
    }
    for (uint32_t i = 0; i < c->ch.n; i++) {
        size_t n;
        const char *ch = tx__strings_at(&c->ch, i, &n);
        TX_GOTO(tx__sp_add_piece(t, ch, n, -(float)added++));
    }
out:
    tx__strings_free(&symbol);
    tx_str_free(&piece);
    return st;
}

static tx_status learn_bpe(tx_vocab_trainer *t, const tx__sp_corpus *c)
{
    tx_status st;
    tx__word_place *place = NULL;
    uint64_t *merge = NULL;
    size_t n, n_merges = 0;
    int32_t room = tx__sp_room(t) - (int32_t)c->ch.n;
    tx__learn_opts o = { .count = c->count,
                         .n_symbols = (int32_t)c->ch.n,
                         .max_merges = room + room / 16 + 256, /* some make a piece that there is, or one too long */
                         .min_frequency = t->min_frequency };
    TX_GOTO(places_of(c, &place, &n));
    TX_GOTO(tx__learn_merges(place, n, &o, &merge, &n_merges));
    TX_GOTO(add_merged(t, c, merge, n_merges, room));
out:
    tx_free(place);
    tx_free(merge);
    return st;
}

static tx_status learn(tx_vocab_trainer *t)
{
    tx__sp_corpus c = { 0 };
    tx_status st;
    TX_GOTO(tx__sp_corpus_take(&c, t));
    TX_GOTO(add_first_pieces(t));
    if (t->learner == &tx__learner_sp_bpe)
        st = learn_bpe(t, &c);
    else
        st = tx__sp_learn_unigram(t, &c);
out:
    tx__sp_corpus_free(&c);
    return st;
}

const tx__vocab_learner tx__learner_sp_bpe = {
    .kind = TX_VOCAB_SENTENCEPIECE_BPE,
    .special = { "<unk>", "<s>", "</s>" },
    .n_smallest = 256,
    .smallest = "256 bytes",
    .feed = feed,
    .learn = learn,
    .file = { { "tokenizer.model", tx__put_sp_bpe_model }, { "tokenizer.json", tx__put_sp_bpe_tokenizer_json } },
};
const tx__vocab_learner tx__learner_sp_unigram = {
    .kind = TX_VOCAB_SENTENCEPIECE_UNIGRAM,
    .special = { "<unk>", "<s>", "</s>" },
    .n_smallest = 256,
    .smallest = "256 bytes",
    .feed = feed,
    .learn = learn,
    .file = { { "tokenizer.model", tx__put_sp_unigram_model },
              { "tokenizer.json", tx__put_sp_unigram_tokenizer_json } },
};
