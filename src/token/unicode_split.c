/* unicode_split.c - GPT-2's pre-tokenizer, written as C. The regular expression, leftmost alternative first:
 *
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 *  The expression never looks back, so one pass without backtracking is enough: after a contraction, a piece is a run
 * of one class with at most one U+0020 before it; white space that something else follows leaves its last character to
 * that.
 *
 *  char_class.h defines letters and numbers; bytes that are not UTF-8 are neither. */
#include "token/unicode_split.h"

#include <string.h>

#include "token/char_class.h"

/* 2 or 3 for 's 't 'm 'd 're 've 'll at p, else 0. Small letters only, as upstream. */
static size_t contraction(const unsigned char *p, size_t n)
{
    if (n < 2 || p[0] != '\'') return 0;
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return 2;
    if (n < 3) return 0;
    return (p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l') ? 3 : 0;
}

/* Number of ASCII letters that p[0..8) begins with. */
static inline size_t ascii_letters(const unsigned char *p)
{
    const uint64_t each = 0x0101010101010101u, high = 0x80 * each;
    uint64_t x, small, no_letter;
    memcpy(&x, p, sizeof x);
    small = (x | 0x20 * each) & ~high; /* a to z stay, A to Z become those */
    /* bit 7 of a byte: at least 'a', and not above 'z', and not above 127 */
    no_letter = ~((small + (0x80 - 'a') * each) & ~(small + (0x7F - 'z') * each) & ~x) & high;
    return no_letter ? (size_t)__builtin_ctzll(no_letter) / 8 : 8;
}

size_t tx__split_next(const unsigned char *text, size_t n)
{
    int class = TX__LETTER;
    size_t end = 0, len, last = 0; /* last: where the run's last character starts, of white space */
    if (n > 24) {                  /* the usual case first: a word of ASCII, with or without a blank */
        size_t begin = text[0] == ' ', run = ascii_letters(text + begin);
        if (run == 8) run += ascii_letters(text + begin + 8);
        end = run ? begin + run : 0;
        if (run && run < 16 && text[end] < 0x80) return end;
    }
    tx__char_class_init();
    if (!end) {
        end = contraction(text, n);
        if (end) return end;
        class = tx__class_next(text, n, &end);
        if (text[0] == ' ' && n > 1) { /* " ?" takes the blank only if something that is not white space follows */
            int follows = tx__class_next(text + 1, n - 1, &len);
            if (follows != TX__SPACE) {
                class = follows;
                end = 1 + len;
            }
        }
    }
    for (; end < n; end += len) {
        if (tx__class_next(text + end, n - end, &len) != class) break;
        last = end;
    }
    /* \s+(?!\S): not the last character of the run, if it has others and text follows */
    return class == TX__SPACE && end < n && last > 0 ? last : end;
}
