/* text_pattern.c - strings and regular expressions in texts. */
#include "token/text_pattern.h"

#include <oniguruma.h>
#include <pthread.h>
#include <string.h>

#include "base/utf8.h"
#include "token/vocab.h"

#define MOST_RETRIES 100000000 /* of one search, about a second */

static pthread_once_t onig_once = PTHREAD_ONCE_INIT;

static void onig_begin(void)
{
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    onig_initialize(&utf8, 1);
    onig_set_retry_limit_in_search(MOST_RETRIES); /* that of one place to begin at is Oniguruma's own, a tenth of it */
}

static tx_status compile(tx__text_pattern *out, const char *regex, size_t n, const char *file, const char *place)
{
    OnigErrorInfo info;
    OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
    const OnigUChar *p = (const OnigUChar *)regex;
    pthread_once(&onig_once, onig_begin);
    int code = onig_new(&out->regex, p, p + n, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
    if (code == ONIG_NORMAL) return TX_OK;
    out->regex = NULL;
    if (code == ONIGERR_MEMORY) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a regular expression");
    int len = onig_error_code_to_str(text, code, &info);
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.pattern.Regex is not an expression that Oniguruma reads: %s", file,
                   place, tx__show((const char *)text, len > 0 ? (size_t)len : 0).text);
}

tx_status tx__text_pattern_read(tx__text_pattern *out, json_t *object, const char *file, const char *place)
{
    json_t *pattern = json_object_get(object, "pattern"), *regex = json_object_get(pattern, "Regex");
    json_t *string = json_object_get(pattern, "String"), *value = regex ? regex : string;
    *out = (tx__text_pattern){ 0 };
    if (json_object_size(pattern) != 1 || !json_is_string(value))
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.pattern is neither {\"String\": \"...\"} nor {\"Regex\": \"...\"}", file,
                       place);
    if (regex) return compile(out, json_string_value(regex), json_string_length(regex), file, place);
    if (!json_string_length(string)) return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s.pattern.String is empty", file, place);
    return tx_str_append(&out->literal, json_string_value(string), json_string_length(string));
}

void tx__text_pattern_free(tx__text_pattern *p)
{
    tx_str_free(&p->literal);
    if (p->regex) onig_free(p->regex);
    *p = (tx__text_pattern){ 0 };
}

/* Moves to the next stretch of UTF-8 from m->end on. */
static bool next_stretch(tx__matches *m)
{
    uint32_t c;
    size_t at = m->end, len;
    while (at < m->n && (len = tx__utf8_next(m->text + at, m->n - at, &c)) && c == TX__NO_CHAR) at += len;
    m->begin = m->at = at;
    while (at < m->n) {
        if (m->text[at] < 0x80) {
            at++;
            continue;
        }
        len = tx__utf8_next(m->text + at, m->n - at, &c);
        if (c == TX__NO_CHAR) break;
        at += len;
    }
    m->end = at;
    m->any = false;
    return m->begin < m->end;
}

void tx__matches_begin(tx__matches *m, const tx__text_pattern *pattern, const unsigned char *text, size_t n)
{
    *m = (tx__matches){ .pattern = pattern, .text = text, .n = n };
    if (pattern->regex)
        next_stretch(m);
    else
        m->end = n;
}

static bool next_literal(tx__matches *m, size_t *start, size_t *stop)
{
    const tx_str *s = &m->pattern->literal;
    const unsigned char *p = s->len ? memmem(m->text + m->at, m->n - m->at, s->data, s->len) : NULL;
    if (!p) return false;
    *start = (size_t)(p - m->text);
    m->at = *stop = *start + s->len;
    return true;
}

static tx_status next_regex(tx__matches *m, OnigRegion *region, size_t *start, size_t *stop, bool *found)
{
    for (*found = false; m->begin < m->end;) {
        const OnigUChar *begin = m->text + m->begin, *end = m->text + m->end;
        int at = m->at > m->end
                     ? ONIG_MISMATCH
                     : onig_search(m->pattern->regex, begin, end, m->text + m->at, end, region, ONIG_OPTION_NONE);
        if (at == ONIG_MISMATCH) {
            if (!next_stretch(m)) break;
            continue;
        }
        if (at == ONIGERR_MEMORY) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a regular expression");
        if (at < 0)
            return TX_FAIL(TX_ERR_ARG, "a regular expression of the tokenizer takes too long on a text of %zu bytes",
                           m->n);
        *start = m->begin + (size_t)region->beg[0];
        *stop = m->begin + (size_t)region->end[0];
        if (*start == *stop && m->any && m->last_end == *stop) {
            uint32_t c;
            m->at += m->at < m->end ? tx__utf8_next(m->text + m->at, m->end - m->at, &c) : 1;
            continue;
        }
        m->at = m->last_end = *stop;
        m->any = *found = true;
        break;
    }
    return TX_OK;
}

tx_status tx__matches_next(tx__matches *m, size_t *start, size_t *stop, bool *found)
{
    if (!m->pattern->regex) {
        *found = next_literal(m, start, stop);
        return TX_OK;
    }
    if (m->begin >= m->end) {
        *found = false;
        return TX_OK;
    }
    OnigRegion *region = onig_region_new();
    if (!region) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a regular expression");
    tx_status st = next_regex(m, region, start, stop, found);
    onig_region_free(region, 1);
    return st;
}
