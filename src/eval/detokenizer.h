/* detokenizer.h - undoes the tokenization of published benchmark texts, which have blanks around punctuation. */
#ifndef TX_EVAL_DETOKENIZER_H
#define TX_EVAL_DETOKENIZER_H

#include <stdbool.h>

#include "base/str.h"
#include "config/config.h"

/* The rules that upstream takes for a file: those whose name, "ptb" or else "wiki", is part of the path. */
enum tx_detokenizer_choice tx_detokenizer_for(const char *path);

/* Changes the text in place by upstream's rules, in its order (tasks/zeroshot_gpt/detokenizer.py).   @which not auto */
tx_status tx_detokenize(enum tx_detokenizer_choice which, tx_str *text);

/* ---- white space as Python has it, which upstream's counts and tasks depend on ---- */

/* Length of the white space character (str.isspace) that p[0..n) begins with; 0: it begins with none. */
size_t tx_white_at(const char *p, size_t n);

/* str.strip: removes white space from both ends. */
void tx_strip(const char **text, size_t *n);

#endif
