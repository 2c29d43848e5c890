/* json.c - says of two errors more than Jansson: where a comma is missing, which is between two values side by side,
 * the second of which ends where it stopped; and which key is given twice. */
#include "base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind the token at i: a string, a bracket, comma or colon, or a number or word. */
static size_t behind_token(const char *text, size_t n, size_t i)
{
    if (text[i] == '"') {
        for (i++; i < n && text[i] != '"'; i++) i += text[i] == '\\';
        return i < n ? i + 1 : n;
    }
    if (strchr("{}[],:", text[i])) return i + 1;
    while (i < n && text[i] && !strchr(" \t\r\n{}[],:\"", text[i])) i++;
    return i;
}

/* The value before which a comma is missing, from *begin to *end, at which Jansson stopped, and the end of the one
 * before. */
static bool find_comma(const char *text, size_t n, size_t stopped, size_t *place, size_t *begin, size_t *end)
{
    size_t behind = 0;
    for (size_t i = 0; i < n && i < stopped && text[i];) {
        if (strchr(" \t\r\n", text[i])) {
            i++;
            continue;
        }
        *begin = i;
        *place = behind;
        *end = i = behind_token(text, n, i);
        if (behind && *end == stopped && !strchr("}],:", text[*begin])) return true;
        behind = strchr("{[,:", text[*begin]) ? 0 : i; /* of a value, else no comma can stand here */
    }
    return false;
}

static void place_of(const char *text, size_t at, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n')
            ++*line, *column = 1;
        else
            *column += ((unsigned char)text[i] & 0xC0) != 0x80; /* characters */
    }
}

/* Where a text is in its objects and arrays. */
struct place {
    const char *key; /* the last one of an object; NULL: of an array */
    size_t n_key;
    size_t index; /* of an array */
};
enum { MAX_DEPTH = 16 };

/* Writes down which key ends at `stopped`: "memory.gib", "ops[3].op"; of what lies deeper than MAX_DEPTH the outer
 * part. */
static void name_key(char *out, size_t cap, const char *text, size_t n, size_t stopped)
{
    struct place at[MAX_DEPTH] = { { 0 } };
    size_t depth = 0, end, written = 0;
    for (size_t i = 0; i < n && i < stopped; i = end) {
        struct place *in = &at[depth && depth <= MAX_DEPTH ? depth - 1 : 0];
        end = strchr(" \t\r\n", text[i]) ? i + 1 : behind_token(text, n, i);
        if (text[i] == '{' || text[i] == '[') {
            if (depth++ < MAX_DEPTH) at[depth - 1] = (struct place){ text[i] == '{' ? "" : NULL, 0, 0 };
        } else if (text[i] == '}' || text[i] == ']')
            depth -= depth > 0;
        else if (text[i] == ',' && depth <= MAX_DEPTH)
            in->index++;
        else if (text[i] == '"' && depth <= MAX_DEPTH && in->key)
            in->key = text + i + 1, in->n_key = end - i - 2;
    }
    *out = 0;
    for (size_t d = 0; d < depth && d < MAX_DEPTH && written < cap; d++)
        if (at[d].key)
            written +=
                (size_t)snprintf(out + written, cap - written, "%s%.*s", d ? "." : "", (int)at[d].n_key, at[d].key);
        else
            written += (size_t)snprintf(out + written, cap - written, "[%zu]", at[d].index);
}

json_t *tx_json_load(const char *text, size_t n, size_t flags, json_error_t *e)
{
    json_t *root = json_loadb(text, n, flags, e);
    size_t cap = sizeof e->text - 1; /* in the last byte is the code of the error */
    size_t place, begin, end, blank = 0;
    if (root) return root;
    if (json_error_code(e) == json_error_duplicate_key) {
        char key[100];
        name_key(key, sizeof key, text, n, (size_t)e->position);
        snprintf(e->text, cap, "the key \"%s\" is given twice", key);
        return NULL;
    }
    while (blank < n && text[blank] && strchr(" \t\r\n", text[blank])) blank++;
    if (blank == n) snprintf(e->text, cap, "it is empty");
    if (blank < n && text[blank] && !strncmp(e->text, "'[' or '{' expected", 19)) { /* a file of another kind */
        place_of(text, blank, &e->line, &e->column);
        snprintf(e->text, cap, "JSON begins with { or [, this does not");
    }
    bool object = !strncmp(e->text, "'}' expected", 12);
    if (!object && strncmp(e->text, "']' expected", 12) != 0) return NULL;
    if (!find_comma(text, n, (size_t)e->position, &place, &begin, &end)) return NULL;
    if (object && text[begin] != '"') return NULL; /* no name of a member */
    place_of(text, place, &e->line, &e->column);
    int shown = end - begin <= 60 ? (int)(end - begin) : 0;
    snprintf(e->text, cap, "a comma is missing%s%.*s", shown ? " before " : "", shown, text + begin);
    return NULL;
}

const char *tx_json_shown(char text[48], const json_t *value)
{
    char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    snprintf(text, 48, "%.40s%s", dump ? dump : "?", dump && strlen(dump) > 40 ? "..." : "");
    free(dump);
    return text;
}
