/* status.c - the per-thread error sentence. */
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static _Thread_local char error_text[8192]; /* a table of all that differs has room */

const char *tx_last_error(void)
{
    return error_text;
}

const char *tx_version(void)
{
    return TX_VERSION;
}

/* C0, DEL and C1, which terminals obey too. */
static bool is_shown(uint32_t c)
{
    return c != TX__NO_CHAR && c >= 0x20 && (c < 0x7F || c > 0x9F);
}

static void show(char *out, size_t cap, const char *text, bool one_line)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    size_t at = 0;
    while (p < end) {
        uint32_t c;
        size_t n = tx__utf8_next(p, (size_t)(end - p), &c);
        bool as_it_is = is_shown(c) || (c == '\n' && !one_line);
        if (cap - at <= (as_it_is ? n : 4 * n)) break;
        if (as_it_is) {
            memcpy(out + at, p, n);
            at += n;
        }
        for (size_t i = 0; i < n && !as_it_is; i++) at += (size_t)snprintf(out + at, cap - at, "\\x%02x", p[i]);
        p += n;
    }
    out[at] = 0;
}

char *tx_printable(char *out, size_t cap, const char *text)
{
    show(out, cap, text, true);
    return out;
}

/* The new sentence; its arguments may be the old one. */
static void keep(bool one_line, const char *fmt, va_list ap)
{
    char text[sizeof error_text];
    vsnprintf(text, sizeof text, fmt, ap);
    show(error_text, sizeof error_text, text, one_line);
}

tx_status tx__fail(tx_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    keep(true, fmt, ap);
    va_end(ap);
    return code;
}

tx_status tx__fail_lines(tx_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    keep(false, fmt, ap);
    va_end(ap);
    return code;
}

tx_status tx_fail_prefix(tx_status code, const char *fmt, ...)
{
    char prefix[sizeof error_text], text[sizeof error_text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    tx_printable(text, sizeof text, prefix); /* what is already there may have several lines */
    size_t n = strlen(text);
    if (snprintf(text + n, sizeof text - n, ": %s", error_text) < 0) text[n] = 0; /* what does not fit is cut off */
    memcpy(error_text, text, sizeof text);
    return code;
}

_Noreturn void tx__assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "triax: bug at %s:%d: %s\n", file, line, cond);
    abort();
}
