/* normalize.c - NFC, NFD, NFKC and NFKD by utf8proc, in parts: two ASCII characters in a row, a character that Hugging
 * Face's tables lack, and bytes that are no character never combine with their neighbours, so the text between them is
 * normalized by itself. */
#include "token/normalize.h"

#include <stdbool.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* What utf8proc 2.8 (Unicode 15.0) decomposes or reorders and the peer's crate unicode-normalization-alignments, with
 * Unicode 9's tables, does not. */
/* clang-format off */
static const struct {
    uint32_t first, last;
} younger[] = {
    { 0x07FD, 0x07FD }, { 0x0898, 0x089F }, { 0x08CA, 0x08D3 }, { 0x09FE, 0x09FE }, { 0x0C3C, 0x0C3C },
    { 0x0D3B, 0x0D3C }, { 0x0EBA, 0x0EBA }, { 0x1715, 0x1715 }, { 0x1ABF, 0x1ACE }, { 0x1DF6, 0x1DFA },
    { 0x32FF, 0x32FF }, { 0xA7F2, 0xA7F4 }, { 0xA82C, 0xA82C }, { 0xAB69, 0xAB69 }, { 0x10781, 0x10785 },
    { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA }, { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF },
    { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x1133B, 0x1133B }, { 0x1145E, 0x1145E },
    { 0x11839, 0x1183A }, { 0x11938, 0x11938 }, { 0x1193D, 0x1193E }, { 0x11943, 0x11943 }, { 0x119E0, 0x119E0 },
    { 0x11A34, 0x11A34 }, { 0x11A47, 0x11A47 }, { 0x11A99, 0x11A99 }, { 0x11D42, 0x11D42 }, { 0x11D44, 0x11D45 },
    { 0x11D97, 0x11D97 }, { 0x11F41, 0x11F42 }, { 0x16FF0, 0x16FF1 }, { 0x1E030, 0x1E06D }, { 0x1E08F, 0x1E08F },
    { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF }, { 0x1F16C, 0x1F16C },
    { 0x1FBF0, 0x1FBF9 },
};
/* clang-format on */

static bool is_younger(uint32_t c)
{
    for (size_t i = 0; i < sizeof younger / sizeof *younger && c >= younger[i].first; i++)
        if (c <= younger[i].last) return true;
    return false;
}

typedef struct buffer {
    utf8proc_int32_t *c;
    size_t cap;
} buffer;

static tx_status normalize_stretch(tx_str *out, const unsigned char *text, size_t n, tx__normal_form form, buffer *b)
{
    bool compose = form == TX__NFC || form == TX__NFKC;
    int how = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
    if (form >= TX__NFKC) how |= UTF8PROC_COMPAT;
    if (n > SIZE_MAX / 16 / sizeof *b->c) return TX_FAIL(TX_ERR_NOMEM, "%zu bytes of text are too many at once", n);
    utf8proc_ssize_t got;
    for (;;) {
        got = utf8proc_decompose(text, (utf8proc_ssize_t)n, b->c, (utf8proc_ssize_t)b->cap, (utf8proc_option_t)how);
        TX_ASSERT(got >= 0); /* valid UTF-8, small enough */
        if ((size_t)got <= b->cap) break;
        TX_TRY(tx_realloc(&b->c, (size_t)got + 64, sizeof *b->c, "a text to normalize"));
        b->cap = (size_t)got + 64;
    }
    got = utf8proc_normalize_utf32(b->c, got, (utf8proc_option_t)how);
    for (utf8proc_ssize_t i = 0; i < got; i++) {
        utf8proc_uint8_t bytes[4];
        TX_TRY(tx_str_append(out, bytes, (size_t)utf8proc_encode_char(b->c[i], bytes)));
    }
    return TX_OK;
}

/* End of the stretch that begins at text[at], a character. */
static size_t stretch_end(const unsigned char *text, size_t n, size_t at)
{
    bool ascii = false;
    for (size_t len; at < n; at += len) {
        uint32_t c;
        len = tx__utf8_next(text + at, n - at, &c);
        if (c == TX__NO_CHAR || is_younger(c) || (c < 0x80 && ascii)) break;
        ascii = c < 0x80;
    }
    return at;
}

tx_status tx__normalize(tx_str *out, const unsigned char *text, size_t n, tx__normal_form form)
{
    tx_status st = TX_OK;
    buffer b = { 0 };
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at; end < n && text[end] < 0x80;) end++;
        if (end > at + 1) { /* all but the last, which what follows can change */
            end -= end < n;
            TX_GOTO(tx_str_append(out, text + at, end - at));
            continue;
        }
        end = stretch_end(text, n, at);
        if (end > at) {
            TX_GOTO(normalize_stretch(out, text + at, end - at, form, &b));
        } else {
            uint32_t c;
            end = at + tx__utf8_next(text + at, n - at, &c);
            TX_GOTO(tx_str_append(out, text + at, end - at));
        }
    }
out:
    tx_free(b.c);
    return st;
}
