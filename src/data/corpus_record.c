/* corpus_record.c - the texts of a record. A line that is plainly right is walked over once (json_members.c); any other
 * is Jansson's, and what Python reads and Jansson does not is mended first. */
#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/json.h"
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

/* Where the string whose content begins at p[i] ends: at its quote, or n. */
static size_t string_end(const char *p, size_t i, size_t n)
{
    while (i < n && p[i] != '"') i += p[i] == '\\' ? 2 : 1;
    return i < n ? i : n;
}

static bool is_name(const char *p, size_t behind, size_t n)
{
    while (behind < n && (p[behind] == ' ' || p[behind] == '\t')) behind++;
    return behind < n && p[behind] == ':';
}

/* Python's strings may hold unpaired surrogates and its names NUL. */
static void mend_string(char *p, const char *end, bool name, char stand_in, bool *surrogates)
{
    for (size_t k; p < end; p += k) {
        bool lone;
        k = 1;
        if (*p != '\\') continue;
        k = tx__json_escape(p, end, &lone);
        if (!lone && (!name || k != 6 || memcmp(p, "\\u0000", 6))) continue;
        memcpy(p + 2, (const char[]){ 'f', 'f', 'f', stand_in }, 4);
        *surrogates |= lone;
    }
}

/* A copy of the line in which every number is "0" and blanks: numbers are never looked at, and so those too large for
 * Jansson and those that only Python writes do not matter. U+FFFE or U+FFFD, by its last digit, takes the place of an
 * unpaired surrogate, and of NUL in a member's name. Columns stay what they are. */
static tx_status mend(tx_str *out, const tx_record *r, char stand_in, bool *surrogates)
{
    const char *line = r->data;
    size_t n = r->n;
    TX_TRY(tx_str_append(out, line, n));
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '"') {
            size_t end = string_end(line, i + 1, n);
            mend_string(out->data + i + 1, out->data + end, is_name(line, end + 1, n), stand_in, surrogates);
            i = end;
            continue;
        }
        if (i && !strchr(" \t:,[", line[i - 1])) continue; /* inside of something else */
        size_t k = python_number_length(line + i, n - i);
        if (!k || (i + k < n && !strchr(" \t,]}", line[i + k]))) continue;
        memset(out->data + i, ' ', k);
        out->data[i] = '0';
        i += k - 1;
    }
    return TX_OK;
}

/* NULL for what is not JSON, and *e says why. */
static tx_status parse_mended(json_t **out, const tx_record *r, char stand_in, bool *surrogates, json_error_t *e)
{
    tx_str mended = { 0 };
    tx_status st = mend(&mended, r, stand_in, surrogates);
    if (!st) *out = tx_json_load(mended.data, mended.len, JSON_ALLOW_NUL, e);
    tx_str_free(&mended);
    return st;
}

/* The member of that name; where there is none, "a.b" is b of the object a. */
static json_t *member_of(const json_t *object, const char *name)
{
    char first[256];
    json_t *v = json_object_get(object, name);
    for (const char *dot = strchr(name, '.'); !v && dot; dot = strchr(dot + 1, '.')) {
        size_t n = (size_t)(dot - name);
        if (n >= sizeof first) break;
        memcpy(first, name, n);
        first[n] = 0;
        const json_t *inside = json_object_get(object, first);
        if (json_is_object(inside)) v = member_of(inside, dot + 1);
    }
    return v;
}

/* A wanted text has a surrogate if it depends on what stands in for one. */
static tx_status check_surrogates(const json_t *object, const tx_record *r, const wanted *keys)
{
    json_t *other = NULL;
    json_error_t e;
    bool seen = false;
    tx_status st = parse_mended(&other, r, 'd', &seen, &e);
    for (int k = 0; k < keys->n && !st; k++) {
        json_t *a = member_of(object, keys->name[k]), *b = member_of(other, keys->name[k]);
        if (a && !json_equal(a, b))
            st = TX_FAIL(
                TX_ERR_FORMAT,
                "%s: line %lld: member \"%s\" has an unpaired surrogate, which is no character; correct the line",
                r->file, (long long)r->line, keys->name[k]);
    }
    json_decref(other);
    return st;
}

/* ---- JSON lines ---- */

/* @keys whose texts have no unpaired surrogate; NULL: no text has */
static tx_status parse_line(json_t **out, const tx_record *r, const wanted *keys)
{
    json_error_t e;
    if (!r->n || r->data[strspn(r->data, " \t")] == 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: is blank, every line must be a JSON object; correct the line",
                       r->file, (long long)r->line);
    if (r->n >= 3 && !memcmp(r->data, "\xef\xbb\xbf", 3))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: line %lld: begins with a byte order mark, which JSON does not have; remove it", r->file,
                       (long long)r->line);
    const char *nul = memchr(r->data, 0, r->n); /* Jansson skips it between values */
    if (nul)
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld, column %td: a NUL byte; correct the line", r->file,
                       (long long)r->line, nul - r->data + 1);
    *out = tx_json_load(r->data, r->n, JSON_ALLOW_NUL, &e);
    if (*out) return TX_OK;
    bool surrogates = false;
    TX_TRY(parse_mended(out, r, 'e', &surrogates, &e));
    if (*out && surrogates && !keys)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: line %lld: has an unpaired surrogate, which is no character; correct the line", r->file,
                       (long long)r->line);
    if (*out) return surrogates && !r->pass_surrogates ? check_surrogates(*out, r, keys) : TX_OK;
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

static tx_status check_object(const json_t *object, const tx_record *r)
{
    if (json_is_object(object)) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: is %s, not a JSON object; correct the line", r->file,
                   (long long)r->line, type_name(object));
}

static tx_status check_members(const json_t *object, const tx_record *r, const wanted *keys)
{
    TX_TRY(check_object(object, r));
    for (int k = 0; k < keys->n; k++) {
        const json_t *v = member_of(object, keys->name[k]);
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
    TX_GOTO(parse_line(&object, r, keys));
    TX_GOTO(check_members(object, r, keys));
    for (int k = 0; k < keys->n; k++) TX_GOTO(give_value(member_of(object, keys->name[k]), k, fn, user));
out:
    json_decref(object);
    return st;
}

/* ---- JSON lines that are plainly right ---- */

/* Who gets a record's texts. */
typedef struct receiver {
    tx_item_fn *fn;
    void *user;
    char *buf; /* memory for escaped ones; owned */
    size_t n;  /* bytes that it has to have */
} receiver;

static tx_status give_string(receiver *to, tx_json_string s, int key, int64_t item)
{
    if (!s.escaped) return to->fn(to->user, key, item, s.data, s.n);
    if (!to->buf) TX_TRY(tx_realloc(&to->buf, to->n, 1, "a text"));
    size_t n_text = tx__json_unescape(to->buf, s);
    return to->fn(to->user, key, item, to->buf, n_text);
}

/* *done = false, and nothing happened, for any other line. */
static tx_status texts_at_once(const tx_record *r, const wanted *keys, tx_item_fn *fn, void *user, bool *done)
{
    tx_json_member member[MAX_KEYS];
    receiver to = { .fn = fn, .user = user, .n = r->n };
    tx_status st = TX_OK;
    *done = keys->n <= MAX_KEYS && tx__json_members(r->data, r->n, keys->name, keys->n, member);
    for (int k = 0; k < keys->n && *done; k++) {
        tx_json_string s = member[k].text;
        if (s.data) {
            TX_GOTO(give_string(&to, s, k, -1));
            continue;
        }
        const char *at = member[k].list;
        for (int64_t i = 0; tx__json_list_next(&at, r->data + r->n, &s); i++) TX_GOTO(give_string(&to, s, k, i));
    }
out:
    tx_free(to.buf);
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

tx_status tx_record_object(const tx_record *r, json_t **out)
{
    json_t *object = NULL;
    if (!r->json)
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: does not begin with {: every line must be a JSON object", r->file,
                       (long long)r->line);
    tx_status st = parse_line(&object, r, NULL);
    if (!st) st = check_object(object, r);
    if (st)
        json_decref(object);
    else
        *out = object;
    return st;
}
