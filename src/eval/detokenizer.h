/* detokenizer.h - undoes the tokenization of published benchmark texts, which have blanks around punctuation. */
#ifndef TX_EVAL_DETOKENIZER_H
#define TX_EVAL_DETOKENIZER_H

#include <stdbool.h>

#include "base/str.h"

/* The rules that upstream's tasks apply, in its order (tasks/zeroshot_gpt/detokenizer.py). */
typedef enum tx_detokenizer { TX_DETOKENIZE_NONE, TX_DETOKENIZE_PTB, TX_DETOKENIZE_WIKI } tx_detokenizer;

/* The rules that upstream takes for a file: those whose name, "ptb" or else "wiki", is part of the path. */
tx_detokenizer tx_detokenizer_for(const char *path);

/* Changes the text in place. */
tx_status tx_detokenize(tx_detokenizer which, tx_str *text);

/* ---- white space as Python has it, which upstream's counts and tasks depend on ---- */

/* Length of the white space character (str.isspace) that p[0..n) begins with; 0: it begins with none. */
size_t tx_white_at(const char *p, size_t n);

/* str.strip: removes white space from both ends. */
void tx_strip(const char **text, size_t *n);

#endif
