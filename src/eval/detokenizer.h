/* detokenizer.h - text of benchmarks as it was before somebody put blanks around its punctuation. */
#ifndef TX_EVAL_DETOKENIZER_H
#define TX_EVAL_DETOKENIZER_H

#include <stdbool.h>

#include "base/str.h"

/* The rules that upstream's tasks apply, in its order (tasks/zeroshot_gpt/detokenizer.py). */
typedef enum tx_detokenizer { TX_DETOKENIZE_NONE, TX_DETOKENIZE_PTB, TX_DETOKENIZE_WIKI } tx_detokenizer;

/* What upstream takes for a file: that of which the path holds the letters "ptb" or "wiki", in this order. */
tx_detokenizer tx_detokenizer_for(const char *path);

/* Changes the text in place of the old one. */
tx_status tx_detokenize(tx_detokenizer which, tx_str *text);

/* ---- Python's idea of a text, which upstream's counts and tasks have ---- */

/* Length of the white space character at p[0..n) (str.isspace), 0: it is none. */
size_t tx_white_at(const char *p, size_t n);

/* str.strip: the text between the white space at both ends. */
void tx_strip(const char **text, size_t *n);

#endif
