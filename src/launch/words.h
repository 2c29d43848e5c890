/* words.h - a list of words: a command line under construction, ready for execvp. All zero means empty. */
#ifndef TX_LAUNCH_WORDS_H
#define TX_LAUNCH_WORDS_H

#include "base/str.h"

typedef struct tx_words {
    char **word; /* word[n] is NULL once there is one */
    int n, cap;
} tx_words;

tx_status tx__words_add(tx_words *w, const char *word);
tx_status tx__words_add_n(tx_words *w, const char *word, size_t n);
tx_status tx__words_addf(tx_words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds all words of a NULL-terminated list (NULL: empty), or the words of a text, separated by blanks. */
tx_status tx__words_add_all(tx_words *w, const char *const *words);
tx_status tx__words_add_cut(tx_words *w, const char *text);
void tx__words_free(tx_words *w);

/* Appends the words as one would type them in a shell. */
tx_status tx__words_quote(tx_str *out, char *const *words, int n);

#endif
