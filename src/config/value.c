/* value.c - the value of one option: from text, its bounds, and back to text. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/option_table.h"

/* ---------------------------------------------------------------- numbers */

/* Copies a decimal number without the underscores that may stand between digits; false if it is not one. Hexadecimal,
 * "inf" and "nan", which strtod would read, do not get past this. */
static bool number_clean(char *buf, size_t cap, const char *text)
{
    static const char digits[] = "0123456789";
    size_t n = 0;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '_') {
            if (!i || !strchr(digits, text[i - 1]) || !text[i + 1] || !strchr(digits, text[i + 1])) return false;
            continue;
        }
        if (!strchr("0123456789+-.eE", text[i]) || n + 1 >= cap) return false;
        buf[n++] = text[i];
    }
    buf[n] = 0;
    return n > 0;
}

bool tx__number_parse(const char *text, double *out)
{
    char buf[64], *end;
    if (!number_clean(buf, sizeof buf, text)) return false;
    double v = strtod(buf, &end);
    if (*end || end == buf || !isfinite(v)) return false;
    *out = v;
    return true;
}

bool tx__integer_parse(const char *text, int64_t *out)
{
    char buf[64], *end;
    if (!number_clean(buf, sizeof buf, text)) return false;
    errno = 0;
    long long v = strtoll(buf, &end, 10);
    if (!*end && end != buf) {
        if (errno) return false;
        *out = v;
        return true;
    }
    double d; /* 2e6: what a double holds exactly */
    if (!tx__number_parse(text, &d) || d != trunc(d) || fabs(d) > 9007199254740992.0) return false;
    *out = (int64_t)d;
    return true;
}

bool tx_size_parse(const char *text, size_t *bytes)
{
    static const char letters[] = "KMGTP";
    char number[64];
    size_t n = strspn(text, "0123456789._");
    double v;
    if (n >= sizeof number) return false;
    memcpy(number, text, n);
    number[n] = 0;
    if (!tx__number_parse(number, &v)) return false;
    const char *unit = text + n, *letter = *unit ? strchr(letters, toupper((unsigned char)*unit)) : NULL;
    if (letter) {
        unit++;
        v *= pow(strcmp(unit, "B") ? 1024 : 1000, (double)(letter - letters + 1));
        if (!strcmp(unit, "iB")) unit = "";
    }
    if ((*unit && strcmp(unit, "B") != 0) || !(v >= 1 && v < 9e18)) return false;
    *bytes = (size_t)v;
    return true;
}

bool tx_share_parse(const char *text, double *share)
{
    char number[64];
    size_t n = strspn(text, "0123456789.");
    bool percent = !strcmp(text + n, "%");
    double v;
    if (n >= sizeof number || (!percent && (text[n] || !strchr(text, '.')))) return false;
    memcpy(number, text, n);
    number[n] = 0;
    if (!tx__number_parse(number, &v)) return false;
    v /= percent ? 100 : 1;
    if (!(v > 0 && v <= 1)) return false;
    *share = v;
    return true;
}

int tx_weighted_count(const tx_list *l)
{
    return l->n == 1 ? 1 : l->n / 2;
}

const char *tx_weighted_at(const tx_list *l, int i, double *weight)
{
    double w = 1;
    bool ok = l->n == 1 || tx__number_parse(l->item[2 * i], &w);
    TX_ASSERT(ok); /* rule_datasets_are_one_or_pairs */
    if (weight) *weight = w;
    return l->item[l->n > 1 ? 2 * i + 1 : 0];
}

bool tx__in_bounds(const tx_option *o, double v)
{
    return v >= o->lo && v <= o->hi;
}

/* ---------------------------------------------------------------- storing */

static void list_free(tx_list *l)
{
    for (int i = 0; i < l->n; i++) tx_free(l->item[i]);
    tx_free(l->item);
    *l = (tx_list){ 0 };
}

static tx_status list_set(tx_list *l, int n, const char *const *values)
{
    tx_list fresh = { 0 };
    tx_status st;
    TX_GOTO(tx_alloc(&fresh.item, (size_t)n, sizeof *fresh.item, "a list of option values"));
    for (; fresh.n < n; fresh.n++)
        TX_GOTO(tx_memdup0(&fresh.item[fresh.n], values[fresh.n], strlen(values[fresh.n]), "an option's value"));
    list_free(l);
    *l = fresh;
    return TX_OK;
out:
    list_free(&fresh);
    return st;
}

tx_status tx_config_set_text(char **member, const char *text)
{
    char *copy = NULL;
    if (text) TX_TRY(tx_memdup0(&copy, text, strlen(text), "an option's value"));
    tx_free(*member);
    *member = copy;
    return TX_OK;
}

tx_status tx_config_set_item(tx_list *member, const char *item)
{
    return list_set(member, 1, &item);
}

tx_status tx__option_allowed(tx_str *out, const tx_option *o)
{
    if (o->words) {
        TX_TRY(tx_str_puts(out, strchr(o->words, '|') ? "one of " : "only "));
        for (const char *w = o->words; *w; w++) TX_TRY(*w == '|' ? tx_str_puts(out, ", ") : tx_str_append(out, w, 1));
        return TX_OK;
    }
    const char *unit = o->unit ? o->unit : "", *gap = *unit ? " " : "";
    if (o->kind != TX_OPTION_I64 && o->kind != TX_OPTION_F64) return TX_OK;
    /* bounds this far up only keep products from overflowing; nobody needs to read them */
    if (o->hi >= 1e6) return tx_str_printf(out, "at least %.12g%s%s", o->lo, gap, unit);
    return tx_str_printf(out, "%.12g to %.12g%s%s", o->lo, o->hi, gap, unit);
}

/* "--lr abc is not a number; allowed: at least 0" */
static tx_status refuse(const tx_option *o, const char *value, const char *what)
{
    tx_str allowed = { 0 };
    tx_status st = tx__option_allowed(&allowed, o);
    if (!st) st = TX_FAIL(TX_ERR_ARG, "--%s %.60s %s; allowed: %s", o->flag, value, what, allowed.data);
    tx_str_free(&allowed);
    return st;
}

static tx_status refuse_bounds(const tx_option *o, const char *value, double v)
{
    if (v < o->lo) return refuse(o, value, "is too small");
    return TX_FAIL(TX_ERR_ARG, "--%s %.60s is too large; allowed: at most %.12g%s%s", o->flag, value, o->hi,
                   *o->unit ? " " : "", o->unit);
}

static tx_status set_list(tx_list *l, const tx_option *o, int n, const char *const *values)
{
    if (n < o->lo || n > o->hi) {
        if (o->lo == o->hi)
            return TX_FAIL(TX_ERR_ARG, "--%s takes %.0f values (%s), not %d", o->flag, o->lo, o->unit, n);
        return TX_FAIL(TX_ERR_ARG, "--%s takes %.0f to %.0f values (%s), not %d", o->flag, o->lo, o->hi, o->unit, n);
    }
    return list_set(l, n, values);
}

tx_status tx__option_set(tx_config *cfg, const tx_option *o, int n, const char *const *values)
{
    void *at = tx__member(cfg, o);
    int64_t i;
    double d;
    int word;
    char first[64];
    switch (o->kind) {
    case TX_OPTION_I64:
        if (!tx__integer_parse(tx__first_of_pair(o, values[0], first, sizeof first), &i))
            return refuse(o, values[0], "is not a whole number");
        if (!tx__in_bounds(o, (double)i)) return refuse_bounds(o, values[0], (double)i);
        *(int64_t *)at = i;
        return TX_OK;
    case TX_OPTION_F64:
        if (!tx__number_parse(values[0], &d)) return refuse(o, values[0], "is not a number");
        if (!tx__in_bounds(o, d)) return refuse_bounds(o, values[0], d);
        *(double *)at = d;
        return TX_OK;
    case TX_OPTION_ENUM:
        word = tx__enum_of(o, tx__word_of(o, values[0]));
        if (!word) return refuse(o, values[0], "is unknown");
        *(int *)at = word;
        return TX_OK;
    case TX_OPTION_STR:
        return tx_config_set_text(at, values[0]);
    case TX_OPTION_LIST:
        return set_list(at, o, n, values);
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        *(bool *)at = o->kind == TX_OPTION_FLAG;
        return TX_OK;
    default:
        TX_ASSERT(tx__has_member(o));
        return TX_OK;
    }
}

tx_status tx__option_reset(tx_config *cfg, const tx_option *o, const char *initial)
{
    void *at = tx__member(cfg, o);
    if (initial) return tx__option_set(cfg, o, 1, &initial);
    switch (o->kind) {
    case TX_OPTION_I64:
        *(int64_t *)at = 0;
        break;
    case TX_OPTION_F64:
        *(double *)at = 0;
        break;
    case TX_OPTION_ENUM:
        *(int *)at = 0;
        break;
    case TX_OPTION_LIST:
        list_free(at);
        break;
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        *(bool *)at = o->kind == TX_OPTION_FLAG_OFF;
        break;
    default:
        return tx_config_set_text(at, NULL);
    }
    return TX_OK;
}

tx_status tx__option_copy(tx_config *to, const tx_config *from, const tx_option *o)
{
    void *at = tx__member(to, o);
    const void *old = tx__member_const(from, o);
    const tx_list *list = old;
    switch (o->kind) {
    case TX_OPTION_I64:
        *(int64_t *)at = *(const int64_t *)old;
        return TX_OK;
    case TX_OPTION_F64:
        *(double *)at = *(const double *)old;
        return TX_OK;
    case TX_OPTION_ENUM:
        *(int *)at = *(const int *)old;
        return TX_OK;
    case TX_OPTION_LIST:
        list_free(at);
        return list->n ? list_set(at, list->n, (const char *const *)list->item) : TX_OK;
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        *(bool *)at = *(const bool *)old;
        return TX_OK;
    default:
        return tx_config_set_text(at, *(char *const *)old);
    }
}

bool tx__is_unset(const tx_config *cfg, const tx_option *o)
{
    const void *at = tx__member_const(cfg, o);
    const char *initial;
    tx__command_takes(cfg->command, o, &initial);
    switch (o->kind) {
    case TX_OPTION_I64:
        return !initial && !tx__is_given(cfg, o) && !*(const int64_t *)at;
    case TX_OPTION_F64:
        return !initial && !tx__is_given(cfg, o) && *(const double *)at == 0;
    case TX_OPTION_STR:
        return !*(char *const *)at;
    case TX_OPTION_ENUM:
        return !*(const int *)at;
    case TX_OPTION_LIST:
        return !((const tx_list *)at)->n;
    default:
        return false;
    }
}

/* ---------------------------------------------------------------- as Python prints it */

/* repr(str) for what can be on a command line: quotes and backslashes; other bytes as they are. */
static tx_status format_quoted(tx_str *out, const char *s)
{
    char quote = strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'';
    TX_TRY(tx_str_append(out, &quote, 1));
    for (; *s; s++) {
        if (*s == quote || *s == '\\') TX_TRY(tx_str_puts(out, "\\"));
        TX_TRY(tx_str_append(out, s, 1));
    }
    return tx_str_append(out, &quote, 1);
}

static tx_status format_list(tx_str *out, const tx_list *l)
{
    TX_TRY(tx_str_puts(out, "["));
    for (int i = 0; i < l->n; i++) {
        if (i) TX_TRY(tx_str_puts(out, ", "));
        TX_TRY(format_quoted(out, l->item[i]));
    }
    return tx_str_puts(out, "]");
}

tx_status tx__option_format(tx_str *out, const tx_config *cfg, const tx_option *o)
{
    const void *at = tx__member_const(cfg, o);
    if (tx__is_unset(cfg, o)) return tx_str_puts(out, "None");
    switch (o->kind) {
    case TX_OPTION_I64:
        return tx_str_printf(out, "%lld", (long long)*(const int64_t *)at);
    case TX_OPTION_F64:
        return tx_str_put_f64(out, *(const double *)at);
    case TX_OPTION_ENUM:
        return tx_str_puts(out, tx__enum_word(o, *(const int *)at));
    case TX_OPTION_LIST:
        return format_list(out, at);
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        return tx_str_puts(out, *(const bool *)at ? "True" : "False");
    default:
        return tx_str_puts(out, *(char *const *)at);
    }
}
