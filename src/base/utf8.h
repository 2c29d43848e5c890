/* utf8.h - the first character of a run of bytes. Pure, used in inner loops. */
#ifndef TX_BASE_UTF8_H
#define TX_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define TX__NO_CHAR 0xFFFFFFFFu

/* Reads the first character of p[0..n), n > 0, into *c and returns its length in bytes. If it is invalid (wrong or
 * missing continuation, overlong form, surrogate, beyond U+10FFFF), *c is TX__NO_CHAR and the length is that of the
 * longest beginning of a character, at least 1: Unicode's maximal subpart. */
static inline size_t tx__utf8_next(const unsigned char *p, size_t n, uint32_t *c)
{
    uint32_t first = p[0];
    *c = first;
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first < 0xE0 && n > 1 && (p[1] & 0xC0) == 0x80) { /* nearly all: whole ones of two and three */
        *c = (first & 0x1F) << 6 | (p[1] & 0x3Fu);
        return 2;
    }
    if ((first & 0xF0) == 0xE0 && n > 2 && (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80) {
        uint32_t v = (first & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        if (v >= 0x800 && v - 0xD800 >= 0x800) {
            *c = v;
            return 3;
        }
    }
    *c = TX__NO_CHAR;
    if (first < 0xC2 || first > 0xF4) return 1;
    size_t len = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    uint32_t v = first & (0x7Fu >> len);
    /* only the second byte has narrower bounds: no overlong forms, no surrogates, nothing beyond U+10FFFF */
    uint32_t lo = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint32_t hi = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < len; i++) {
        if (i == n || p[i] < lo || p[i] > hi) return i;
        v = v << 6 | (p[i] & 0x3Fu);
        lo = 0x80;
        hi = 0xBF;
    }
    *c = v;
    return len;
}

#endif
