/* added_tokens.c - finding added tokens: two bytes decide on nearly every place, then each length is looked up. */
#include "token/added_tokens.h"

#include <string.h>

#include "base/alloc.h"
#include "token/char_class.h"
#include "token/tokenizer.h"

static tx_status add_length(tx__added_set *s, size_t n)
{
    size_t i = 0;
    while (i < s->n_lengths && s->length[i] > n) i++;
    if (i < s->n_lengths && s->length[i] == n) return TX_OK;
    TX_TRY(tx_realloc(&s->length, s->n_lengths + 1, sizeof *s->length, "added tokens"));
    memmove(s->length + i + 1, s->length + i, (s->n_lengths - i) * sizeof *s->length);
    s->length[i] = n;
    s->n_lengths++;
    return TX_OK;
}

static void begin_with(tx__added_set *s, unsigned first, unsigned second)
{
    unsigned bit = first << 8 | second;
    s->begins[bit / 64] |= (uint64_t)1 << bit % 64;
}

tx_status tx__added_set_add(tx__added_set *s, const void *spelling, size_t n, const tx__added_token *token, int *fresh)
{
    const unsigned char *p = spelling;
    uint32_t number;
    TX_TRY(tx__strings_add(&s->spelling, spelling, n, &number, fresh));
    if (!*fresh) return TX_OK;
    TX_TRY(tx_realloc(&s->token, s->spelling.n, sizeof *s->token, "added tokens"));
    s->token[number] = *token;
    TX_TRY(add_length(s, n));
    for (unsigned second = 0; second < 256; second++)
        if (n == 1 || second == p[1]) begin_with(s, p[0], second);
    return TX_OK;
}

void tx__added_set_free(tx__added_set *s)
{
    tx__strings_free(&s->spelling);
    tx_free(s->token);
    tx_free(s->length);
    *s = (tx__added_set){ 0 };
}

/* Moves *at to the next token of text[0..n), whose bytes are counted in *len; NULL: there is none. */
static const tx__added_token *find(const tx__added_set *s, const unsigned char *text, size_t n, size_t *at, size_t *len)
{
    for (size_t i = *at; i < n; i++) {
        unsigned bit = (unsigned)text[i] << 8 | (i + 1 < n ? text[i + 1] : 0);
        if (!(s->begins[bit / 64] >> bit % 64 & 1)) continue;
        for (size_t k = 0; k < s->n_lengths; k++) {
            if (s->length[k] > n - i) continue;
            int64_t number = tx__strings_find(&s->spelling, text + i, s->length[k]);
            if (number < 0) continue;
            *at = i;
            *len = s->length[k];
            return &s->token[number];
        }
    }
    return NULL;
}

/* Start of the last character of text[0..n), n > 0. */
static size_t last_start(const unsigned char *text, size_t n)
{
    size_t i = n - 1, least = n > 4 ? n - 4 : 0, len;
    while (i > least && (text[i] & 0xC0) == 0x80) i--;
    uint32_t c;
    len = tx__utf8_next(text + i, n - i, &c);
    return i + len == n ? i : n - 1; /* not a whole character: its last byte */
}

static bool word_at(const unsigned char *text, size_t n)
{
    size_t len;
    return n && tx__bits_next(text, n, &len) & TX__WORD;
}

static bool word_before(const unsigned char *text, size_t n)
{
    return n && word_at(text + last_start(text, n), n - last_start(text, n));
}

static size_t spaces_from(const unsigned char *text, size_t n, size_t at)
{
    for (size_t len; at < n && (tx__bits_next(text + at, n - at, &len) & TX__WHITE);) at += len;
    return at;
}

static size_t spaces_before(const unsigned char *text, size_t at, size_t least)
{
    for (size_t start, len; at > least; at = start) {
        start = last_start(text, at);
        if (!(tx__bits_next(text + start, at - start, &len) & TX__WHITE)) break;
    }
    return at;
}

tx_status tx__added_split(const tx__added_set *s, const unsigned char *text, size_t n, tx_ids *out,
                          tx__added_each *each, void *user)
{
    size_t done = 0, len;
    tx__char_class_init();
    const tx__added_token *t;
    for (size_t at = 0; s->n_lengths && (t = find(s, text, n, &at, &len)); at += len) {
        size_t start = at, stop = at + len;
        if (t->single_word && (word_before(text, start) || word_at(text + stop, n - stop))) continue;
        if (t->lstrip) {
            start = spaces_before(text, start, done);
            if (start < done) start = done;
        }
        if (t->rstrip) stop = spaces_from(text, n, stop);
        if (start > done) TX_TRY(each(user, text + done, start - done));
        TX_TRY(tx__ids_reserve(out, 1));
        out->id[out->n++] = t->id;
        done = stop;
    }
    return done < n ? each(user, text + done, n - done) : TX_OK;
}
