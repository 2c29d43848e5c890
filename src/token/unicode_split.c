/* unicode_split.c - GPT-2's pre-tokenizer by hand. The regular expression, leftmost alternative first:
 *
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 *  Nothing looks back, so one pass without backtracking does it: after a contraction, a piece is a run of one class
 *  with at most one U+0020 before it; white space that something else follows leaves its last character to that.
 *
 *  What a letter is says char_class.h; bytes that are not UTF-8 are neither. */
#include "token/unicode_split.h"

#include "token/char_class.h"

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
    tx__char_class_init();
    size_t end = contraction(text, n), len;
    if (end) return end;

    int class = tx__class_next(text, n, &len);
    if (text[0] == ' ' && n > 1) { /* " ?" takes the blank only if something that is not white space follows */
        size_t after;
        int follows = tx__class_next(text + 1, n - 1, &after);
        if (follows != TX__SPACE) {
            class = follows;
            len = 1 + after;
        }
    }
    size_t last = 0; /* where the run's last character starts */
    for (end = len; end < n; end += len) {
        if (tx__class_next(text + end, n - end, &len) != class) break;
        last = end;
    }
    /* \s+(?!\S): not the last character of the run, if it has others and text follows */
    return class == TX__SPACE && end < n && last > 0 ? last : end;
}
