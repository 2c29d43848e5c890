/* json_members.c - a walk over a JSON line. Functions take the place where something begins and return the place behind
 * it, NULL for what is not plainly right. */
#include "data/json_members.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

typedef const unsigned char *place;

#define MAX_DEPTH 64 /* of nesting; Jansson allows more */

/* ---- strings ---- */

/* Skips bytes that mean themselves: ASCII but for quotes, backslashes and controls. */
static place skip_plain(place p, place end)
{
    const uint64_t ones = UINT64_MAX / 255, high = ones * 0x80;
    for (; end - p >= 8; p += 8) {
        uint64_t v, quote, slash;
        memcpy(&v, p, 8);
        quote = v ^ (ones * '"');
        slash = v ^ (ones * '\\');
        /* a high bit wherever v has one, is below a blank, or where the differences are 0; above the first such byte a
         * borrow may set more, below it none */
        uint64_t hit = (v | ((v - ones * 0x20) & ~v) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & high;
        if (hit) return p + __builtin_ctzll(hit) / 8; /* the first byte in memory is the lowest */
    }
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') p++;
    return p;
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of \uXXXX; -1: they are not. */
static int32_t hex4(place p, place end)
{
    int32_t v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int h = hex_value(p[i]);
        if (h < 0) return -1;
        v = v << 4 | h;
    }
    return v;
}

static bool is_high_surrogate(int32_t v)
{
    return v >= 0xD800 && v < 0xDC00;
}

static bool is_low_surrogate(int32_t v)
{
    return v >= 0xDC00 && v < 0xE000;
}

size_t tx__json_escape(const char *p, const char *end, bool *lone)
{
    int32_t v = end - p > 1 && p[1] == 'u' ? hex4((place)p + 2, (place)end) : -1;
    *lone = is_high_surrogate(v) || is_low_surrogate(v);
    if (v < 0) return 2;
    bool pair = is_high_surrogate(v) && end - p >= 12 && p[6] == '\\' && p[7] == 'u' &&
                is_low_surrogate(hex4((place)p + 8, (place)end));
    if (pair) *lone = false;
    return pair ? 12 : 6;
}

static place skip_escape(place p, place end)
{
    if (end - p < 2) return NULL;
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 2;
    case 'u':
        break;
    default:
        return NULL;
    }
    bool lone;
    if (hex4(p + 2, end) < 0) return NULL;
    size_t n = tx__json_escape((const char *)p, (const char *)end, &lone);
    return lone ? NULL : p + n;
}

/* p is behind the opening quote. */
static place skip_string(place p, place end, tx_json_string *s)
{
    *s = (tx_json_string){ .data = (const char *)p };
    while (p && (p = skip_plain(p, end)) < end) {
        if (*p == '"') {
            s->n = (size_t)((const char *)p - s->data);
            return p + 1;
        }
        if (*p == '\\') {
            s->escaped = true;
            p = skip_escape(p, end);
        } else if (*p >= 0x80) {
            uint32_t c;
            p += tx__utf8_next(p, (size_t)(end - p), &c);
            if (c == TX__NO_CHAR) return NULL;
        } else {
            return NULL;
        }
    }
    return NULL;
}

/* ---- everything else ---- */

/* Line ends are not in a line. */
static place skip_blanks(place p, place end)
{
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p;
}

static place skip_digits(place p, place end)
{
    place begin = p;
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p > begin ? p : NULL;
}

static place skip_number(place p, place end)
{
    if (*p == '-') p++;
    if (p < end && *p == '0')
        p++;
    else
        p = skip_digits(p, end);
    if (p && p < end && *p == '.') p = skip_digits(p + 1, end);
    if (p && p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        p = skip_digits(p, end);
    }
    return p;
}

static place skip_word(place p, place end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && !memcmp(p, word, n) ? p + n : NULL;
}

static place skip_object(place p, place end, int depth, const char *const *keys, int n_keys, tx_json_member *member);
static place skip_array(place p, place end, int depth, bool *only_strings);

/* *m becomes what the value is. */
static place skip_value(place p, place end, int depth, tx_json_member *m)
{
    *m = (tx_json_member){ 0 };
    bool only_strings;
    if (p == end || !depth) return NULL;
    switch (*p) {
    case '"':
        return skip_string(p + 1, end, &m->text);
    case '{':
        return skip_object(p + 1, end, depth - 1, NULL, 0, NULL);
    case '[': {
        place behind = skip_array(p + 1, end, depth - 1, &only_strings);
        if (behind && only_strings) m->list = (const char *)p + 1;
        return behind;
    }
    case 't':
        return skip_word(p, end, "true");
    case 'f':
        return skip_word(p, end, "false");
    case 'n':
        return skip_word(p, end, "null");
    default:
        return skip_number(p, end);
    }
}

/* p is behind the '['. */
static place skip_array(place p, place end, int depth, bool *only_strings)
{
    *only_strings = true;
    p = skip_blanks(p, end);
    if (p < end && *p == ']') return p + 1;
    for (;;) {
        tx_json_member m;
        p = skip_value(skip_blanks(p, end), end, depth, &m);
        if (!p) return NULL;
        *only_strings = *only_strings && m.text.data;
        p = skip_blanks(p, end);
        if (p == end) return NULL;
        if (*p == ']') return p + 1;
        if (*p++ != ',') return NULL;
    }
}

static void take_member(tx_json_string name, tx_json_member m, const char *const *keys, int n_keys,
                        tx_json_member *member)
{
    for (int k = 0; k < n_keys; k++)
        if (strlen(keys[k]) == name.n && !memcmp(keys[k], name.data, name.n)) member[k] = m;
}

/* p is behind the '{'. Names with backslashes are Jansson's: they may be a wanted name in disguise, or hold a NUL. */
static place skip_object(place p, place end, int depth, const char *const *keys, int n_keys, tx_json_member *member)
{
    p = skip_blanks(p, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        tx_json_string name;
        tx_json_member m;
        p = skip_blanks(p, end);
        if (p == end || *p != '"') return NULL;
        p = skip_string(p + 1, end, &name);
        if (!p || name.escaped) return NULL;
        p = skip_blanks(p, end);
        if (p == end || *p != ':') return NULL;
        p = skip_value(skip_blanks(p + 1, end), end, depth, &m);
        if (!p) return NULL;
        take_member(name, m, keys, n_keys, member);
        p = skip_blanks(p, end);
        if (p == end) return NULL;
        if (*p == '}') return p + 1;
        if (*p++ != ',') return NULL;
    }
}

bool tx__json_members(const char *line, size_t n, const char *const *keys, int n_keys, tx_json_member *member)
{
    place p = (place)line, end = p + n;
    memset(member, 0, (size_t)n_keys * sizeof *member);
    p = skip_blanks(p, end);
    if (p == end || *p != '{') return false;
    p = skip_object(p + 1, end, MAX_DEPTH, keys, n_keys, member);
    if (!p || skip_blanks(p, end) != end) return false;
    for (int k = 0; k < n_keys; k++)
        if (!member[k].text.data && !member[k].list) return false;
    return true;
}

bool tx__json_list_next(const char **at, const char *line_end, tx_json_string *out)
{
    place end = (place)line_end, p = skip_blanks((place)*at, end);
    if (*p == ',') p = skip_blanks(p + 1, end);
    if (*p == ']') return false;
    p = skip_string(p + 1, end, out);
    *at = (const char *)p;
    return true;
}

/* ---- texts ---- */

static size_t put_utf8(char *buf, uint32_t c)
{
    if (c < 0x80) {
        buf[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) buf[i] = (char)(0x80 | (c & 0x3F));
    buf[0] = (char)((0xF00u >> n & 0xFF) | c); /* 110xxxxx, 1110xxxx, 11110xxx */
    return n;
}

static char short_escape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* a quote or a slash */
    }
}

/* Copies what is before the next backslash, 8 bytes at a time: lines are short, and each ends in one. Returns where the
 * backslash is, or end; *q is where to go on. to has room for all up to end. */
static const char *copy_to_slash(char **q, const char *p, const char *end)
{
    const uint64_t ones = UINT64_MAX / 255, high = ones * 0x80;
    char *to = *q;
    for (; end - p >= 8; p += 8, to += 8) {
        uint64_t v, slash;
        memcpy(&v, p, 8);
        memcpy(to, &v, 8);
        slash = v ^ (ones * '\\');
        slash = (slash - ones) & ~slash & high; /* as in skip_plain */
        if (slash) {
            *q = to + __builtin_ctzll(slash) / 8;
            return p + __builtin_ctzll(slash) / 8;
        }
    }
    while (p < end && *p != '\\') *to++ = *p++;
    *q = to;
    return p;
}

size_t tx__json_unescape(char *buf, tx_json_string s)
{
    const char *p = s.data, *end = p + s.n;
    char *q = buf;
    for (;;) {
        p = copy_to_slash(&q, p, end);
        if (p == end) return (size_t)(q - buf);
        char escape = p[1];
        p += 2;
        if (escape != 'u') {
            *q++ = short_escape(escape);
            continue;
        }
        int32_t v = hex4((place)p, (place)end);
        p += 4;
        if (is_high_surrogate(v)) {
            v = 0x10000 + ((v - 0xD800) << 10) + (hex4((place)p + 2, (place)end) - 0xDC00);
            p += 6;
        }
        q += put_utf8(q, (uint32_t)v);
    }
}
