/* report.c - lines of a report. */
#include "api/report.h"

#include <stdarg.h>
#include <stdio.h>

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
