/* sp_normalize.c - one step is the longest known sequence or one character; most steps are ASCII characters that stay,
 * which a table of two of them tells. */
#include "token/sp_normalize.h"

#include <string.h>

#include "base/utf8.h"

/* ---- what stays ---- */

static bool map_begins(const tx__charsmap *c, unsigned char a, int b)
{
    if (!c->unit) return false;
    uint32_t at = tx__charsmap_below(c, 0) ^ a;
    if ((c->unit[at] & (1u << 31 | 0xFF)) != a) return false;
    if (c->unit[at] & 1u << 8) return true;
    uint32_t below = tx__charsmap_below(c, at) ^ (uint32_t)b;
    return (c->unit[below] & (1u << 31 | 0xFF)) == (uint32_t)b;
}

static bool trie_begins(const tx__byte_trie *t, unsigned char a, unsigned char b)
{
    uint32_t at = t ? tx__trie_step(t, 0, a) : 0;
    return at && (tx__trie_value(t, at) >= 0 || tx__trie_step(t, at, b));
}

tx_status tx__sp_normalizer_open(tx__sp_normalizer *z, const tx__sp_rules *rules, bool suffix,
                                 const tx__byte_trie *keep, const char *where)
{
    *z = (tx__sp_normalizer){ .keep = keep,
                              .add_dummy_prefix = rules->add_dummy_prefix,
                              .remove_extra = rules->remove_extra_whitespaces,
                              .escape = rules->escape_whitespaces,
                              .suffix = suffix };
    if (rules->charsmap.n) TX_TRY(tx__charsmap_read(&z->map, rules->charsmap.bytes, rules->charsmap.n, where));
    for (int a = 0; a < 128; a++)
        for (int b = 0; b < 128; b++)
            if (!map_begins(&z->map, (unsigned char)a, b) && !trie_begins(keep, (unsigned char)a, (unsigned char)b))
                z->plain[a][b / 64] |= (uint64_t)1 << b % 64;
    return TX_OK;
}

void tx__sp_normalizer_close(tx__sp_normalizer *z)
{
    tx__charsmap_free(&z->map);
}

/* ---- steps ---- */

static inline bool is_plain(const tx__sp_normalizer *z, const unsigned char *p)
{
    return ((p[0] | p[1]) & 0x80) == 0 && (z->plain[p[0]][p[1] / 64] >> p[1] % 64 & 1);
}

/* What p[0..n) begins with: *to[0..*n_to) takes the place of the bytes whose number is returned. */
static size_t step(const tx__sp_normalizer *z, const unsigned char *p, size_t n, const char **to, size_t *n_to)
{
    int32_t value;
    size_t len = z->keep ? tx__trie_longest(z->keep, p, n, &value) : 0;
    if (!len && (len = tx__charsmap_longest(&z->map, p, n, to))) {
        *n_to = strlen(*to);
        return len;
    }
    *to = (const char *)p;
    if (!len) {
        uint32_t c;
        len = tx__utf8_next(p, n, &c);
        if (c == TX__NO_CHAR) {
            *to = "\xEF\xBF\xBD";
            *n_to = 3;
            return 1;
        }
    }
    return *n_to = len;
}

static tx_status put_blank(const tx__sp_normalizer *z, tx_str *out)
{
    return z->escape ? tx_str_append(out, TX__SP_BLANK, 3) : tx_str_append(out, " ", 1);
}

static tx_status put(const tx__sp_normalizer *z, tx_str *out, const char *bytes, size_t n)
{
    if (!z->escape) return tx_str_append(out, bytes, n);
    for (const char *end = bytes + n, *blank; bytes < end; bytes = blank + 1) {
        blank = memchr(bytes, ' ', (size_t)(end - bytes));
        if (!blank) return tx_str_append(out, bytes, (size_t)(end - bytes));
        TX_TRY(tx_str_append(out, bytes, (size_t)(blank - bytes)));
        TX_TRY(put_blank(z, out));
    }
    return TX_OK;
}

/* Bytes of blanks at the beginning. */
static size_t heading_blanks(const tx__sp_normalizer *z, const unsigned char *text, size_t n)
{
    const char *to;
    size_t at = 0, n_to;
    while (at < n) {
        size_t len = step(z, text + at, n - at, &to, &n_to);
        if (n_to != 1 || *to != ' ') break;
        at += len;
    }
    return at;
}

/* Copies what stays as it is, up to the first character that may not; out has room for 3 bytes of each. Returns the
 * bytes copied. */
static size_t put_plain(const tx__sp_normalizer *z, const unsigned char *text, size_t n, tx_str *out, bool *after_blank)
{
    size_t at = 0, n_blank = z->escape ? 3 : 1;
    const char *blank = z->escape ? TX__SP_BLANK : "   ";
    char *to = out->data + out->len;
    bool after = *after_blank;
    for (; at + 1 < n && is_plain(z, text + at); at++) {
        if (text[at] != ' ') {
            *to++ = (char)text[at];
            after = false;
        } else {
            if (!after) {
                memcpy(to, blank, 3);
                to += n_blank;
            }
            after = z->remove_extra;
        }
    }
    out->len = (size_t)(to - out->data);
    *after_blank = after;
    return at;
}

static tx_status put_all(const tx__sp_normalizer *z, const unsigned char *text, size_t n, tx_str *out)
{
    bool after_blank = z->remove_extra;
    for (size_t at = 0; at < n;) {
        size_t n_to;
        const char *to;
        TX_TRY(tx_str_reserve(out, out->len + 3 * (n - at)));
        at += put_plain(z, text + at, n - at, out, &after_blank);
        if (at == n) break;
        at += step(z, text + at, n - at, &to, &n_to);
        while (after_blank && n_to && *to == ' ') to++, n_to--;
        if (n_to) {
            TX_TRY(put(z, out, to, n_to));
            after_blank = z->remove_extra && to[n_to - 1] == ' ';
        }
    }
    return TX_OK;
}

tx_status tx__sp_normalize(const tx__sp_normalizer *z, const unsigned char *text, size_t n, tx_str *out)
{
    const char *blank = z->escape ? TX__SP_BLANK : " ";
    size_t n_blank = strlen(blank), skip = z->remove_extra ? heading_blanks(z, text, n) : 0;
    out->len = 0;
    if (skip == n) return TX_OK;
    if (z->add_dummy_prefix && !z->suffix) TX_TRY(put_blank(z, out));
    TX_TRY(put_all(z, text + skip, n - skip, out));
    while (z->remove_extra && out->len >= n_blank && !memcmp(out->data + out->len - n_blank, blank, n_blank))
        out->len -= n_blank;
    return z->add_dummy_prefix && z->suffix ? put_blank(z, out) : TX_OK;
}
