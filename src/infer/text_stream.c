/* text_stream.c - decides how much of the text can be released. */
#include "infer/text_stream.h"

#include <string.h>

void tx_text_stream_init(tx_text_stream *t, const tx_tokenizer *tok, const char *const *stop, int n_stops)
{
    *t = (tx_text_stream){ .tok = tok, .stop = stop, .n_stops = n_stops, .last = -1 };
}

void tx_text_stream_deinit(tx_text_stream *t)
{
    tx_str_free(&t->text);
    tx_str_free(&t->held);
}

/* The first n held bytes are text, the others stay. */
static tx_status let_out(tx_text_stream *t, size_t n)
{
    if (n == 0) return TX_OK;
    tx_bytes text = { 0 };
    tx_status st;
    TX_GOTO(tx_text_replace_invalid(t->held.data, n, &text));
    TX_GOTO(tx_str_append(&t->text, text.data, text.n));
    memmove(t->held.data, t->held.data + n, t->held.len - n + 1); /* with the NUL */
    t->held.len -= n;
out:
    tx_bytes_free(&text);
    return st;
}

static tx_status append_token(tx_text_stream *t, int32_t id)
{
    tx_bytes more = { 0 };
    tx_status st = tx_tokenizer_decode_next(t->tok, t->last, id, &more);
    if (!st) st = tx_str_append(&t->held, more.data, more.n);
    tx_bytes_free(&more);
    t->last = id;
    return st;
}

/* Where in the held bytes the stop string begins that is complete first; of several that end there the longest. */
static bool find_stop(const tx_text_stream *t, size_t *begin)
{
    for (size_t end = 1; end <= t->held.len; end++) {
        size_t longest = 0;
        for (int i = 0; i < t->n_stops; i++) {
            size_t n = strlen(t->stop[i]);
            if (n <= end && n > longest && !memcmp(t->held.data + end - n, t->stop[i], n)) longest = n;
        }
        if (longest) {
            *begin = end - longest;
            return true;
        }
    }
    return false;
}

/* Bytes at the end that may be the beginning of a stop string. */
static size_t begun_stop(const tx_text_stream *t)
{
    size_t longest = 0;
    for (int i = 0; i < t->n_stops; i++) {
        size_t n = strlen(t->stop[i]) - 1;
        if (n > t->held.len) n = t->held.len;
        while (n > longest && memcmp(t->held.data + t->held.len - n, t->stop[i], n) != 0) n--;
        if (n > longest) longest = n;
    }
    return longest;
}

/* The bytes that a character has whose first bytes are these n; 0: none begins so. */
static size_t character_length(const unsigned char *c, size_t n)
{
    if (c[0] < 0xc2 || c[0] > 0xf4) return 0;
    if (n > 1) { /* what the second byte may be: no overlong forms, no surrogates, nothing above U+10FFFF */
        unsigned lo = c[0] == 0xe0 ? 0xa0 : c[0] == 0xf0 ? 0x90 : 0x80;
        unsigned hi = c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;
        if (c[1] < lo || c[1] > hi) return 0;
    }
    if (n > 2 && (c[2] & 0xc0) != 0x80) return 0;
    return c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
}

/* Bytes at the end that are a character without its last bytes. */
static size_t begun_character(const tx_text_stream *t)
{
    for (size_t n = t->held.len < 3 ? t->held.len : 3; n > 0; n--)
        if (character_length((const unsigned char *)t->held.data + t->held.len - n, n) > n) return n;
    return 0;
}

tx_status tx_text_stream_put(tx_text_stream *t, int32_t id)
{
    if (t->stopped) return TX_OK;
    TX_TRY(append_token(t, id));
    size_t begin;
    if (find_stop(t, &begin)) {
        t->stopped = true;
        TX_TRY(let_out(t, begin));
        tx_str_free(&t->held);
        return TX_OK;
    }
    size_t stop = begun_stop(t), character = begun_character(t);
    return let_out(t, t->held.len - (stop > character ? stop : character));
}

tx_status tx_text_stream_end(tx_text_stream *t)
{
    return let_out(t, t->held.len);
}
