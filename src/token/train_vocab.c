/* train_vocab.c - tx_vocab_trainer: counts the distinct words of a text; the learner of the vocabulary's kind makes
 * tokens of them. */
#include "base/alloc.h"
#include "base/log.h"
#include "token/vocab_trainer.h"

#include <string.h>

/* By tx_vocab_kind. */
static const tx__vocab_learner *const learners[] = {
    [TX_VOCAB_BPE] = &tx__learner_bpe,
    [TX_VOCAB_WORDPIECE_LOWER_CASE] = &tx__learner_wordpiece_lower_case,
    [TX_VOCAB_WORDPIECE_CASE] = &tx__learner_wordpiece_case,
    [TX_VOCAB_SENTENCEPIECE_BPE] = &tx__learner_sp_bpe,
    [TX_VOCAB_SENTENCEPIECE_UNIGRAM] = &tx__learner_sp_unigram,
};

/* ---- special tokens ---- */

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Both splitters cut such a token into three words or more. */
static bool cannot_be_learned(const char *s, size_t n)
{
    bool inner = false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] <= ' ' || s[i] > '~') return false;
        inner |= is_letter_or_digit(s[i]);
    }
    return inner && !is_letter_or_digit(s[0]) && !is_letter_or_digit(s[n - 1]);
}

static tx_status add_special(tx__strings *special, const char *s)
{
    uint32_t number;
    int fresh;
    size_t n = strlen(s);
    if (!cannot_be_learned(s, n))
        return TX_FAIL(TX_ERR_ARG,
                       "special token \"%.60s\": it takes visible ASCII that begins and ends with a mark and has a "
                       "letter or digit, such as <|name|> or [name]",
                       s);
    TX_TRY(tx__strings_add(special, s, n, &number, &fresh));
    return fresh ? TX_OK : TX_FAIL(TX_ERR_ARG, "special token \"%.60s\" is there twice; name it once", s);
}

static tx_status add_specials(tx_vocab_trainer *t, const tx_vocab_opts *o)
{
    const tx__vocab_learner *l = t->learner;
    for (int i = 0; i < TX__MAX_VOCAB_SPECIALS && l->special[i]; i++) TX_TRY(add_special(&t->special, l->special[i]));
    for (int i = 0; i < o->n_special; i++) TX_TRY(add_special(&t->special, o->special[i]));
    return TX_OK;
}

/* ---- life ---- */

tx_status tx_vocab_trainer_create(tx_vocab_trainer **out, const tx_vocab_opts *o)
{
    tx_status st;
    tx_vocab_trainer *t;
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "a vocabulary's trainer"));
    t->learner = learners[o->kind];
    t->vocab_size = o->vocab_size;
    t->limit_alphabet = o->limit_alphabet;
    t->min_frequency = o->min_frequency;
    TX_GOTO(add_specials(t, o));
    int64_t least = (int64_t)t->special.n + t->learner->n_smallest;
    if (o->vocab_size < least)
        st = TX_FAIL(TX_ERR_ARG, "vocabulary size %d is too small: %s and %u special tokens need %lld", o->vocab_size,
                     t->learner->smallest, t->special.n, (long long)least);
    else if (o->min_frequency < 0)
        st = TX_FAIL(TX_ERR_ARG, "minimum frequency %lld of a pair is negative", (long long)o->min_frequency);
    else if (o->limit_alphabet < 0)
        st = TX_FAIL(TX_ERR_ARG, "limit %d of the alphabet is negative", o->limit_alphabet);
    if (!st) *out = t;
out:
    if (st) tx_vocab_trainer_free(t);
    return st;
}

void tx_vocab_trainer_free(tx_vocab_trainer *t)
{
    if (!t) return;
    tx__strings_free(&t->special);
    tx__strings_free(&t->word);
    tx__strings_free(&t->token);
    tx_free(t->count);
    tx_free(t->merge);
    tx_free(t->score);
    tx_free(t);
}

/* ---- counting ---- */

tx_status tx__count_word(tx_vocab_trainer *t, const void *bytes, size_t len, int64_t n)
{
    uint32_t word;
    int fresh;
    if (t->word.n == t->cap_count) {
        size_t cap = t->cap_count ? t->cap_count + t->cap_count / 2 : 1024;
        TX_TRY(tx_realloc(&t->count, cap, sizeof *t->count, "word counts"));
        t->cap_count = cap;
    }
    TX_TRY(tx__strings_add(&t->word, bytes, len, &word, &fresh));
    t->count[word] = (fresh ? 0 : t->count[word]) + n;
    return TX_OK;
}

tx_status tx_vocab_trainer_feed(tx_vocab_trainer *t, const char *text, size_t n_bytes)
{
    if (t->finished) return TX_FAIL(TX_ERR_STATE, "this vocabulary's trainer has finished and takes no more text");
    return t->learner->feed(t, text, n_bytes);
}

static void forget_words(tx_vocab_trainer *t)
{
    tx__strings_free(&t->word);
    tx_free(t->count);
    t->count = NULL;
    t->cap_count = 0;
}

tx_status tx_vocab_trainer_absorb(tx_vocab_trainer *t, tx_vocab_trainer *from)
{
    if (t->finished || from->finished)
        return TX_FAIL(TX_ERR_STATE, "this vocabulary's trainer has finished and takes no more text");
    if (t == from || t->learner != from->learner)
        return TX_FAIL(TX_ERR_ARG, "two trainers of one kind are needed to join");
    for (uint32_t i = 0; i < from->word.n; i++) {
        size_t n;
        const char *word = tx__strings_at(&from->word, i, &n);
        TX_TRY(tx__count_word(t, word, n, from->count[i]));
    }
    forget_words(from);
    return TX_OK;
}

int64_t tx_vocab_trainer_words(const tx_vocab_trainer *t)
{
    return t->word.n;
}

/* ---- learning ---- */

tx_status tx_vocab_trainer_finish(tx_vocab_trainer *t)
{
    if (t->finished) return TX_FAIL(TX_ERR_STATE, "this vocabulary's trainer has finished already");
    TX_TRY(t->learner->learn(t));
    forget_words(t);
    t->finished = true;
    if (tx_vocab_trainer_size(t) < t->vocab_size)
        tx_warn(
            "asked for a vocabulary of %d tokens, but the text gives only %d: no more pairs occur %lld times or more",
            t->vocab_size, tx_vocab_trainer_size(t), (long long)(t->min_frequency > 1 ? t->min_frequency : 1));
    return TX_OK;
}

int32_t tx_vocab_trainer_size(const tx_vocab_trainer *t)
{
    return t->finished ? (int32_t)t->token.n : 0;
}
