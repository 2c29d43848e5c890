/* unicode_split.c - GPT-2's pre-tokenizer by hand. The regular expression, leftmost alternative first:
 *
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 *  Nothing looks back, so one pass without backtracking does it: after a contraction, a piece is a run of one class
 *  with at most one U+0020 before it; white space that something else follows leaves its last character to that.
 *
 *  \s is Unicode's White_Space. Letters and numbers come from utf8proc's tables (Unicode 15.0 in utf8proc 2.8) and a
 * short list of those that Unicode 15.1 and 16.0 added, which is what the peers' tables hold; characters still younger
 * are "other". Bytes that are not UTF-8 are "other". */
#include "token/unicode_split.h"

#include <pthread.h>
#include <stdint.h>
#include <utf8proc.h>

#include "token/utf8.h"

enum { OTHER, LETTER, NUMBER, SPACE };

static uint8_t bmp_class[0x10000]; /* classes of the Basic Multilingual Plane, filled once */
static pthread_once_t bmp_once = PTHREAD_ONCE_INIT;

/* Letters and numbers of Unicode 15.1 and 16.0. A utf8proc that knows them says the same. */
/* clang-format off */
static const struct {
    uint32_t first, last;
    uint8_t kind;
} younger[] = {
    { 0x1C89, 0x1C8A, LETTER }, { 0xA7CB, 0xA7CD, LETTER }, { 0xA7DA, 0xA7DC, LETTER },
    { 0x105C0, 0x105F3, LETTER }, { 0x10D40, 0x10D49, NUMBER }, { 0x10D4A, 0x10D65, LETTER },
    { 0x10D6F, 0x10D85, LETTER }, { 0x10EC2, 0x10EC4, LETTER }, { 0x11380, 0x11389, LETTER },
    { 0x1138B, 0x1138B, LETTER }, { 0x1138E, 0x1138E, LETTER }, { 0x11390, 0x113B5, LETTER },
    { 0x113B7, 0x113B7, LETTER }, { 0x113D1, 0x113D1, LETTER }, { 0x113D3, 0x113D3, LETTER },
    { 0x116D0, 0x116E3, NUMBER }, { 0x11BC0, 0x11BE0, LETTER }, { 0x11BF0, 0x11BF9, NUMBER },
    { 0x13460, 0x143FA, LETTER }, { 0x16100, 0x1611D, LETTER }, { 0x16130, 0x16139, NUMBER },
    { 0x16D40, 0x16D6C, LETTER }, { 0x16D70, 0x16D79, NUMBER }, { 0x18CFF, 0x18CFF, LETTER },
    { 0x1CCF0, 0x1CCF9, NUMBER }, { 0x1E5D0, 0x1E5ED, LETTER }, { 0x1E5F0, 0x1E5F0, LETTER },
    { 0x1E5F1, 0x1E5FA, NUMBER }, { 0x2EBF0, 0x2EE5D, LETTER },
};
/* clang-format on */

static uint8_t younger_class(uint32_t c)
{
    for (size_t i = 0; i < sizeof younger / sizeof *younger && c >= younger[i].first; i++)
        if (c <= younger[i].last) return younger[i].kind;
    return OTHER;
}

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
    case UTF8PROC_CATEGORY_CN:
        return younger_class(c);
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
