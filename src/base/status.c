/* status.c - the per-thread error sentence. */
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char error_text[8192]; /* a table of all that differs has room */
static _Thread_local char error_place[160];

const char *tx_last_error(void)
{
    return error_text;
}

const char *tx_last_error_place(void)
{
    return error_place;
}

const char *tx_version(void)
{
    return TX_VERSION;
}

char *tx_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7F) *p = '?';
    return text;
}

/* The new sentence; its arguments may be the old one. */
static void keep(const char *file, int line, bool one_line, const char *fmt, va_list ap)
{
    char text[sizeof error_text];
    vsnprintf(text, sizeof text, fmt, ap);
    if (one_line) tx_printable(text);
    memcpy(error_text, text, sizeof text);
    const char *src = strstr(file, "src/");
    snprintf(error_place, sizeof error_place, "%s:%d", src ? src : file, line);
}

tx_status tx__fail(tx_status code, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    keep(file, line, true, fmt, ap);
    va_end(ap);
    return code;
}

tx_status tx__fail_lines(tx_status code, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    keep(file, line, false, fmt, ap);
    va_end(ap);
    return code;
}

tx_status tx_fail_prefix(tx_status code, const char *fmt, ...)
{
    char text[sizeof error_text];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) n = 0;
    tx_printable(text); /* what is already there may have several lines */
    size_t room = (size_t)n < sizeof text ? sizeof text - (size_t)n : 0; /* what does not fit is cut off */
    if (room && snprintf(text + n, room, ": %s", error_text) < 0) text[n] = 0;
    memcpy(error_text, text, sizeof text);
    return code;
}

_Noreturn void tx__assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "triax: bug at %s:%d: %s\n", file, line, cond);
    abort();
}
