/* corpus_record.c - the texts of a record. A line that is plainly right is walked over once (json_members.c); any other
 * is Jansson's, and what Python reads and Jansson does not is mended first. */
#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "data/corpus.h"
#include "data/json_members.h"

#define MAX_KEYS 64 /* with more, lines take the slow way */

typedef struct wanted {
    const char *const *name;
    int n;
} wanted;

/* ---- what Python's json takes beyond the standard ---- */

/* Length of the JSON number at p[0..n), 0 if there is none. */
static size_t number_length(const char *p, size_t n)
{
    size_t i = n && p[0] == '-', begin = i;
    while (i < n && isdigit((unsigned char)p[i])) i++;
    if (i == begin || (p[begin] == '0' && i > begin + 1)) return 0;
    if (i + 1 < n && p[i] == '.' && isdigit((unsigned char)p[i + 1]))
        for (i++; i < n && isdigit((unsigned char)p[i]);) i++;
    if (i < n && (p[i] | 0x20) == 'e') {
        size_t k = i + 1;
        if (k < n && (p[k] == '+' || p[k] == '-')) k++;
        if (k < n && isdigit((unsigned char)p[k])) {
            while (k < n && isdigit((unsigned char)p[k])) k++;
            i = k;
        }
    }
    return i;
}

/* Length of a number or of one of the words for the numbers that JSON has not. */
static size_t python_number_length(const char *p, size_t n)
{
    static const char *const word[] = { "NaN", "Infinity", "-Infinity" };
    for (size_t i = 0; i < 3; i++) {
        size_t k = strlen(word[i]);
        if (k <= n && !memcmp(p, word[i], k)) return k;
    }
    return number_length(p, n);
}

/* A copy of the line in which every number is "0" and blanks: numbers are never looked at, and so those too large for
 * Jansson and those that only Python writes do not matter. Columns stay what they are. */
static tx_status blank_numbers(tx_str *out, const char *line, size_t n)
{
    TX_TRY(tx_str_append(out, line, n));
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (line[i] == '\\')
                i++;
            else if (line[i] == '"')
                in_string = false;
            continue;
        }
        in_string = line[i] == '"';
        if (i && !strchr(" \t:,[", line[i - 1])) continue; /* inside of something else */
        size_t k = python_number_length(line + i, n - i);
        if (!k || (i + k < n && !strchr(" \t,]}", line[i + k]))) continue;
        memset(out->data + i, ' ', k);
        out->data[i] = '0';
        i += k - 1;
    }
    return TX_OK;
}

/* ---- JSON lines ---- */

static tx_status parse_line(json_t **out, const tx_record *r)
{
    json_error_t e;
    if (!r->n || r->data[strspn(r->data, " \t")] == 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: is blank, every line must be a JSON object; correct the line",
                       r->file, (long long)r->line);
    if (r->n >= 3 && !memcmp(r->data, "\xef\xbb\xbf", 3))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: line %lld: begins with a byte order mark, which JSON does not have; remove it", r->file,
                       (long long)r->line);
    *out = json_loadb(r->data, r->n, JSON_ALLOW_NUL, &e);
    if (*out) return TX_OK;
    tx_str mended = { 0 };
    tx_status st = blank_numbers(&mended, r->data, r->n);
    if (!st) *out = json_loadb(mended.data, mended.len, JSON_ALLOW_NUL, &e);
    tx_str_free(&mended);
    if (st || *out) return st;
    return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld, column %d: %s; every line must be a JSON object: correct the line",
                   r->file, (long long)r->line, e.column, e.text);
}

static const char *type_name(const json_t *v)
{
    static const char *const name[] = { "an object", "an array", "a string", "a number",
                                        "a number",  "true",     "false",    "null" };
    return name[json_typeof(v)];
}

static tx_status check_list(const json_t *list, const tx_record *r, const char *key)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: line %lld: entry %zu of member \"%s\" is %s, not a string; correct the line", r->file,
                           (long long)r->line, i + 1, key, type_name(json_array_get(list, i)));
    return TX_OK;
}

static tx_status check_members(const json_t *object, const tx_record *r, const wanted *keys)
{
    if (!json_is_object(object))
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: is %s, not a JSON object; correct the line", r->file,
                       (long long)r->line, type_name(object));
    for (int k = 0; k < keys->n; k++) {
        const json_t *v = json_object_get(object, keys->name[k]);
        if (!v)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: line %lld: has no member \"%s\"; give the right --json-keys or correct the line",
                           r->file, (long long)r->line, keys->name[k]);
        if (json_is_array(v)) {
            TX_TRY(check_list(v, r, keys->name[k]));
            continue;
        }
        if (!json_is_string(v))
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: line %lld: member \"%s\" is %s, not a string or an array of strings; correct the line",
                           r->file, (long long)r->line, keys->name[k], type_name(v));
    }
    return TX_OK;
}

static tx_status give_value(const json_t *v, int key, tx_item_fn *fn, void *user)
{
    if (json_is_string(v)) return fn(user, key, -1, json_string_value(v), json_string_length(v));
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *s = json_array_get(v, i);
        TX_TRY(fn(user, key, (int64_t)i, json_string_value(s), json_string_length(s)));
    }
    return TX_OK;
}

static tx_status texts_by_jansson(const tx_record *r, const wanted *keys, tx_item_fn *fn, void *user)
{
    json_t *object = NULL;
    tx_status st;
    TX_GOTO(parse_line(&object, r));
    TX_GOTO(check_members(object, r, keys));
    for (int k = 0; k < keys->n; k++) TX_GOTO(give_value(json_object_get(object, keys->name[k]), k, fn, user));
out:
    json_decref(object);
    return st;
}

/* ---- JSON lines that are plainly right ---- */

/* Hands a string out; *buf is memory for escaped ones, n bytes. */
static tx_status give_string(tx_json_string s, int key, int64_t item, char **buf, size_t n, tx_item_fn *fn, void *user)
{
    if (!s.escaped) return fn(user, key, item, s.data, s.n);
    if (!*buf) TX_TRY(tx_realloc(buf, n, 1, "a text"));
    size_t n_text = tx__json_unescape(*buf, s);
    return fn(user, key, item, *buf, n_text);
}

/* *done = false, and nothing happened, for any other line. */
static tx_status texts_at_once(const tx_record *r, const wanted *keys, tx_item_fn *fn, void *user, bool *done)
{
    tx_json_member member[MAX_KEYS];
    char *buf = NULL;
    tx_status st = TX_OK;
    *done = keys->n <= MAX_KEYS && tx__json_members(r->data, r->n, keys->name, keys->n, member);
    for (int k = 0; k < keys->n && *done; k++) {
        tx_json_string s = member[k].text;
        if (s.data) {
            TX_GOTO(give_string(s, k, -1, &buf, r->n, fn, user));
            continue;
        }
        const char *at = member[k].list;
        for (int64_t i = 0; tx__json_list_next(&at, r->data + r->n, &s); i++)
            TX_GOTO(give_string(s, k, i, &buf, r->n, fn, user));
    }
out:
    tx_free(buf);
    return st;
}

/* ---- plain text ---- */

static tx_status check_utf8(const tx_record *r)
{
    int64_t line = r->line;
    for (size_t i = 0; i < r->n;) {
        unsigned char b = (unsigned char)r->data[i];
        if (b < 0x80) {
            line += b == '\n';
            i++;
            continue;
        }
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)r->data + i, (utf8proc_ssize_t)(r->n - i), &c);
        if (k < 1)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: line %lld: byte 0x%02x is not UTF-8; convert the file (iconv -t utf-8) "
                           "or correct the line",
                           r->file, (long long)line, b);
        i += (size_t)k;
    }
    return TX_OK;
}

tx_status tx_record_items(const tx_record *r, const char *const *keys, int n_keys, tx_item_fn *fn, void *user)
{
    wanted w = { keys, n_keys };
    bool done;
    if (!r->json) {
        TX_TRY(check_utf8(r));
        return fn(user, 0, -1, r->data, r->n);
    }
    tx_status st = texts_at_once(r, &w, fn, user, &done);
    return done ? st : texts_by_jansson(r, &w, fn, user);
}
