/* unicode_split.c - GPT-2's pre-tokenizer by hand. The regular expression, leftmost alternative first:
 *
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 *  Nothing looks back, so one pass without backtracking does it: after a contraction, a piece is a run of one class
 *  with at most one U+0020 before it; white space that something else follows leaves its last character to that.
 *
 *  \s is Unicode's White_Space. Letters and numbers come from utf8proc's tables, so characters younger than its Unicode
 *  version (15.0 in utf8proc 2.8) are "other" here and may be letters to a peer with newer tables: other cuts, same
 * text. Bytes that are not UTF-8 are "other". */
#include "token/unicode_split.h"

#include <pthread.h>
#include <stdint.h>
#include <utf8proc.h>

#include "token/utf8.h"

enum { OTHER, LETTER, NUMBER, SPACE };

static uint8_t bmp_class[0x10000]; /* classes of the Basic Multilingual Plane, filled once */
static pthread_once_t bmp_once = PTHREAD_ONCE_INIT;

static uint8_t category_class(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return NUMBER;
    default:
        return OTHER;
    }
}

static void fill_bmp(void)
{
    /* White_Space as [first, last]; U+180E and U+200B are not in it */
    static const uint16_t space[][2] = { { 0x09, 0x0D },     { 0x20, 0x20 },     { 0x85, 0x85 },     { 0xA0, 0xA0 },
                                         { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
                                         { 0x205F, 0x205F }, { 0x3000, 0x3000 } };
    for (uint32_t c = 0; c < 0x10000; c++) bmp_class[c] = category_class(c);
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        for (uint32_t c = space[i][0]; c <= space[i][1]; c++) bmp_class[c] = SPACE;
}

/* Class of the first character of p[0..n), n > 0, and its length. */
static inline int next_class(const unsigned char *p, size_t n, size_t *len)
{
    if (p[0] < 0x80) {
        *len = 1;
        return bmp_class[p[0]];
    }
    uint32_t c;
    *len = tx__utf8_next(p, n, &c);
    if (c < 0x10000) return bmp_class[c];
    return c == TX__NO_CHAR ? OTHER : category_class(c); /* beyond the BMP nothing is White_Space */
}

/* 2 or 3 for 's 't 'm 'd 're 've 'll at p, else 0. Small letters only, as upstream. */
static size_t contraction(const unsigned char *p, size_t n)
{
    if (n < 2 || p[0] != '\'') return 0;
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return 2;
    if (n < 3) return 0;
    return (p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l') ? 3 : 0;
}

size_t tx__split_next(const unsigned char *text, size_t n)
{
    pthread_once(&bmp_once, fill_bmp);
    size_t end = contraction(text, n), len;
    if (end) return end;

    int class = next_class(text, n, &len);
    if (text[0] == ' ' && n > 1) { /* " ?" takes the blank only if something that is not white space follows */
        size_t after;
        int follows = next_class(text + 1, n - 1, &after);
        if (follows != SPACE) {
            class = follows;
            len = 1 + after;
        }
    }
    size_t last = 0; /* where the run's last character starts */
    for (end = len; end < n; end += len) {
        if (next_class(text + end, n - end, &len) != class) break;
        last = end;
    }
    /* \s+(?!\S): not the last character of the run, if it has others and text follows */
    return class == SPACE && end < n && last > 0 ? last : end;
}
