/* line_rules.c - finds the tokens of line ends, and applies the rules for them. */
#include "infer/line_rules.h"

#include <string.h>

/* The one token that the text is, -1: it is several. */
static tx_status only_token(const tx_tokenizer *tok, const char *text, int32_t *out)
{
    tx_ids ids = { 0 };
    TX_TRY(tx_tokenizer_encode(tok, text, strlen(text), &ids));
    *out = ids.n == 1 ? ids.id[0] : -1;
    tx_ids_free(&ids);
    return TX_OK;
}

tx_status tx_line_rules_find(tx_line_rules *r, const tx_tokenizer *tok)
{
    r->colon = r->eol = r->double_eol = -1;
    if (!r->prevent_newline_after_colon && !r->stop_on_eol && !r->stop_on_double_eol) return TX_OK;
    if (r->prevent_newline_after_colon) TX_TRY(only_token(tok, ":", &r->colon));
    TX_TRY(only_token(tok, "\n", &r->eol));
    TX_TRY(only_token(tok, "\n\n", &r->double_eol));
    if (r->eol < 0 || (r->prevent_newline_after_colon && r->colon < 0))
        return TX_FAIL(
            TX_ERR_ARG,
            "the vocabulary has no token for a line end%s: leave prevent-newline-after-colon, stop-on-eol and "
            "stop-on-double-eol out",
            r->prevent_newline_after_colon ? " and for a colon" : "");
    return TX_OK;
}

void tx_line_rules_apply(const tx_line_rules *r, tx_sequence *s)
{
    s->prevent = r->prevent_newline_after_colon;
    s->after = r->colon;
    s->then = r->eol;
}

bool tx_line_rules_end(const tx_line_rules *r, int32_t before, int32_t id)
{
    if (id < 0 || (id != r->eol && id != r->double_eol)) return false;
    return r->stop_on_eol || (r->stop_on_double_eol && (id == r->double_eol || before == r->eol));
}
