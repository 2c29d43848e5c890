/* line_rules.h - the rules of Megatron's server for line ends: none right after a colon, and texts that end with a
 * line. Megatron has GPT-2's tokens "\n" and "\n\n" built in; here they are looked up in the model's own vocabulary. */
#ifndef TX_INFER_LINE_RULES_H
#define TX_INFER_LINE_RULES_H

#include "infer/batcher.h"
#include "triax/token.h"

typedef struct tx_line_rules {
    bool prevent_newline_after_colon, stop_on_eol, stop_on_double_eol; /* set by the caller */
    int32_t colon, eol, double_eol;                                    /* -1: no single token */
} tx_line_rules;

/* Finds the ids. TX_ERR_ARG: a rule is asked for, and the vocabulary has no single token for its text. */
tx_status tx_line_rules_find(tx_line_rules *r, const tx_tokenizer *tok);

/* Makes the sequence keep the rule for colons. */
void tx_line_rules_apply(const tx_line_rules *r, tx_sequence *s);

/* Whether a text ends with `id`, which is part of it.   @before the token before it, new or the prompt's */
bool tx_line_rules_end(const tx_line_rules *r, int32_t before, int32_t id);

#endif
