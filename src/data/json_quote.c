/* json_quote.c - texts as JSON strings. */
#include "data/json_quote.h"

#include <jansson.h>
#include <stdlib.h>

tx_status tx_json_quote(tx_str *out, const char *raw, size_t n)
{
    tx_bytes text = { 0 };
    json_t *string = NULL;
    char *quoted = NULL;
    tx_status st;
    TX_GOTO(tx_text_replace_invalid(raw, n, &text));
    string = json_stringn(text.n ? text.data : "", text.n);
    if (string) quoted = json_dumps(string, JSON_ENCODE_ANY);
    st = quoted ? tx_str_puts(out, quoted) : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a text of %zu bytes", text.n);
out:
    free(quoted);
    json_decref(string);
    tx_bytes_free(&text);
    return st;
}

tx_status tx_json_quote_ids(tx_str *out, const tx_tokenizer *tok, const int32_t *ids, size_t n)
{
    tx_bytes raw = { 0 };
    tx_status st = tx_tokenizer_decode(tok, ids, n, &raw);
    if (!st) st = tx_json_quote(out, raw.data, raw.n);
    tx_bytes_free(&raw);
    return st;
}
