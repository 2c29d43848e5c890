/* utf8.h - the first character of a run of bytes, and GPT-2's names for bytes. Pure functions, used in inner loops. */
#ifndef TX_TOKEN_UTF8_H
#define TX_TOKEN_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define TX__NO_CHAR 0xFFFFFFFFu

/* Reads the first character of p[0..n), n > 0, into *c and returns its length in bytes. Where there is none (wrong or
 * missing continuation, overlong form, surrogate, beyond U+10FFFF) *c is TX__NO_CHAR and the length that of the longest
 * beginning of a character, at least 1: what Unicode calls the maximal subpart. */
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

/* GPT-2's files spell a byte as a visible character: Latin-1's printable ones stand for themselves, the other 68 bytes,
 * in order, are U+0100 to U+0143:
 *      0..32 -> U+0100..0120      127..160 -> U+0121..0142      173 -> U+0143                                  */
#define TX__SYMBOL_END 0x144u

static inline uint32_t tx__symbol_of_byte(unsigned b)
{
    if (b <= 32) return 0x100 + b;
    if (b >= 127 && b <= 160) return 0x121 + (b - 127);
    return b == 173 ? 0x143 : b;
}

/* The byte, or -1 for a character that names none. */
static inline int tx__byte_of_symbol(uint32_t c)
{
    if (c >= TX__SYMBOL_END) return -1;
    if (c == 0x143) return 173;
    if (c >= 0x121) return (int)(c - 0x121 + 127);
    if (c >= 0x100) return (int)(c - 0x100);
    return c <= 32 || (c >= 127 && c <= 160) || c == 173 ? -1 : (int)c;
}

#endif
