/* str.c - a growing byte string. */
#include "base/str.h"

#include <ctype.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

tx_status tx_str_reserve(tx_str *s, size_t cap)
{
    if (s->data && cap <= s->cap) return TX_OK;
    if (cap > SIZE_MAX / 4) return TX_FAIL(TX_ERR_NOMEM, "a text of %zu bytes is too long", cap);
    size_t grown = cap < 64 ? 64 : cap + cap / 2;
    TX_TRY(tx_realloc(&s->data, grown + 1, 1, "text"));
    s->cap = grown;
    s->data[s->len] = 0;
    return TX_OK;
}

tx_status tx_str_append(tx_str *s, const void *bytes, size_t n)
{
    TX_TRY(tx_str_reserve(s, s->len + n));
    if (n) memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = 0;
    return TX_OK;
}

tx_status tx_str_puts(tx_str *s, const char *text)
{
    return tx_str_append(s, text, strlen(text));
}

tx_status tx_str_printf(tx_str *s, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    tx_status st = n < 0 ? TX_FAIL(TX_ERR_ARG, "cannot format text") : tx_str_reserve(s, s->len + (size_t)n);
    if (!st) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
    return st;
}

tx_status tx_str_printable(tx_str *s)
{
    tx_str shown = { 0 };
    if (!s->data) return TX_OK;
    size_t n = 4 * strlen(s->data);
    TX_TRY(tx_str_reserve(&shown, n));
    tx_printable(shown.data, n + 1, s->data);
    shown.len = strlen(shown.data);
    tx_str_free(s);
    *s = shown;
    return TX_OK;
}

tx_status tx_str_put_word(tx_str *s, const char *word)
{
    const char *p = word;
    while (*p && (isalnum((unsigned char)*p) || strchr("_-./:=,@%+^", *p))) p++;
    if (*word && !*p) return tx_str_puts(s, word);
    TX_TRY(tx_str_puts(s, "'"));
    for (p = word; *p; p++) TX_TRY(*p == '\'' ? tx_str_puts(s, "'\\''") : tx_str_append(s, p, 1));
    return tx_str_puts(s, "'");
}

void tx_str_free(tx_str *s)
{
    tx_free(s->data);
    *s = (tx_str){ 0 };
}

int tx_str_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n >= 64 || m >= 64) return INT_MAX;
    int row[64];
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]), drop = row[j] + 1, insert = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < drop ? (change < insert ? change : insert) : (drop < insert ? drop : insert);
        }
    }
    return row[m];
}

int tx_str_another(size_t n)
{
    return n < 4 ? 2 : n < 9 ? 3 : (int)(n > 60 ? 60 : n) / 3 + 1;
}

const char *tx_bytes_text(char buf[24], double bytes)
{
    static const char *const unit[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    int i = 0;
    for (; bytes >= 1024 && i < 6; i++) bytes /= 1024;
    snprintf(buf, 24, i ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return buf;
}

tx_status tx_str_put_f64(tx_str *out, double v)
{
    char buf[40];
    int digits = 1;
    if (!isfinite(v)) return tx_str_puts(out, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    for (; digits < DBL_DECIMAL_DIG; digits++) {
        snprintf(buf, sizeof buf, "%.*e", digits - 1, v);
        if (strtod(buf, NULL) == v) break;
    }
    snprintf(buf, sizeof buf, "%.*e", digits - 1, v);
    int exponent = atoi(strchr(buf, 'e') + 1);
    if (v != 0 && (exponent < -4 || exponent >= 16)) return tx_str_puts(out, buf);
    int decimals = digits - 1 - exponent;
    return tx_str_printf(out, "%.*f", decimals < 1 ? 1 : decimals, v);
}
