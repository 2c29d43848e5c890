/* report.c - lines of a report. */
#include "api/report.h"

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

tx_status tx__report_json(tx__report *r, json_t *all, const char *what)
{
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    tx_status st = text ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s as JSON", what);
    if (!st) r->line(r->user, text);
    free(text);
    json_decref(all);
    return st;
}

const char *tx__grouped(char buf[32], int64_t n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = 0;
    return buf;
}
