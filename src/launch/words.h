/* words.h - a list of words: a command line that is being made, ready for execvp. Zeroed = empty. */
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
/* All of a NULL-terminated list (NULL: empty); of a text what lies between blanks. */
tx_status tx__words_add_all(tx_words *w, const char *const *words);
tx_status tx__words_add_cut(tx_words *w, const char *text);
void tx__words_free(tx_words *w);

/* As one would type it in a shell, appended. */
tx_status tx__words_quote(tx_str *out, char *const *words, int n);

#endif
