/* corpus_record.c - the texts of a record. JSON is Jansson's; what Python reads and Jansson does not is mended first.
 */
#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <utf8proc.h>

#include "data/corpus.h"

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

static tx_status check_members(const json_t *object, const tx_record *r, const char *const *keys, int n_keys)
{
    if (!json_is_object(object))
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: is %s, not a JSON object; correct the line", r->file,
                       (long long)r->line, type_name(object));
    for (int k = 0; k < n_keys; k++) {
        const json_t *v = json_object_get(object, keys[k]);
        if (!v)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: line %lld: has no member \"%s\"; give the right --json-keys or correct the line",
                           r->file, (long long)r->line, keys[k]);
        if (!json_is_string(v))
            return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: member \"%s\" is %s, not a string; correct the line", r->file,
                           (long long)r->line, keys[k], type_name(v));
    }
    return TX_OK;
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

tx_status tx_record_texts(const tx_record *r, const char *const *keys, int n_keys, tx_text_fn *fn, void *user)
{
    json_t *object = NULL;
    tx_status st;
    if (!r->json) {
        TX_TRY(check_utf8(r));
        return fn(user, 0, r->data, r->n);
    }
    TX_GOTO(parse_line(&object, r));
    TX_GOTO(check_members(object, r, keys, n_keys));
    for (int k = 0; k < n_keys; k++) {
        const json_t *v = json_object_get(object, keys[k]);
        TX_GOTO(fn(user, k, json_string_value(v), json_string_length(v)));
    }
out:
    json_decref(object);
    return st;
}
