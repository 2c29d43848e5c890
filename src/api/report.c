/* report.c - lines of a report. */
#include "api/report.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

tx_status tx__report_line(tx__report *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    TX_ASSERT(n >= 0);
    TX_TRY(tx_str_reserve(&r->text, (size_t)n));
    va_start(ap, fmt);
    vsnprintf(r->text.data, (size_t)n + 1, fmt, ap);
    va_end(ap);
    TX_TRY(tx_str_printable(&r->text)); /* names out of files, say */
    r->line(r->user, r->text.data);
    return TX_OK;
}

tx_status tx__report_quote(tx_str *out, const char *raw, size_t n)
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

tx_status tx__report_decode(tx_str *out, const tx_tokenizer *tok, const int32_t *ids, size_t n)
{
    tx_bytes raw = { 0 };
    tx_status st = tx_tokenizer_decode(tok, ids, n, &raw);
    if (!st) st = tx__report_quote(out, raw.data, raw.n);
    tx_bytes_free(&raw);
    return st;
}
