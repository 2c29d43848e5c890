/* words.c - lists of words. */
#include "launch/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

tx_status tx__words_add_n(tx_words *w, const char *word, size_t n)
{
    if (w->n + 2 > w->cap) {
        int cap = w->cap ? 2 * w->cap : 16;
        TX_TRY(tx_realloc(&w->word, (size_t)cap, sizeof *w->word, "a command line"));
        w->cap = cap;
    }
    TX_TRY(tx_memdup0(&w->word[w->n], word, n, "a command line"));
    w->word[++w->n] = NULL;
    return TX_OK;
}

tx_status tx__words_add(tx_words *w, const char *word)
{
    return tx__words_add_n(w, word, strlen(word));
}

tx_status tx__words_addf(tx_words *w, const char *fmt, ...)
{
    char text[4096 + 512]; /* a path, and what stands before it */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text) return TX_FAIL(TX_ERR_ARG, "a word of %d bytes on a command line", n);
    return tx__words_add_n(w, text, (size_t)n);
}

tx_status tx__words_add_all(tx_words *w, const char *const *words)
{
    for (; words && *words; words++) TX_TRY(tx__words_add(w, *words));
    return TX_OK;
}

tx_status tx__words_add_cut(tx_words *w, const char *text)
{
    for (;;) {
        text += strspn(text, " \t\n");
        size_t n = strcspn(text, " \t\n");
        if (!n) return TX_OK;
        TX_TRY(tx__words_add_n(w, text, n));
        text += n;
    }
}

void tx__words_free(tx_words *w)
{
    for (int i = 0; i < w->n; i++) tx_free(w->word[i]);
    tx_free(w->word);
    *w = (tx_words){ 0 };
}

tx_status tx__words_quote(tx_str *out, char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) TX_TRY(tx_str_puts(out, " "));
        TX_TRY(tx_str_put_word(out, words[i]));
    }
    return TX_OK;
}
