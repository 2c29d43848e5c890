/* relaxed_json.c - blanks what JSON does not have, lets Jansson read the rest, and walks text and values side by side:
 * Jansson keeps members in the file's order. */
#include "config/relaxed_json.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

enum { MAX_BYTES = 1 << 20 };

/* ---------------------------------------------------------------- comments and commas */

/* Behind the string that begins at *p; an unfinished one ends with the text. */
static char *behind_string(char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end) p++;
    return p < end ? p + 1 : p;
}

/* Behind the comment that begins at *p; NULL if none does. One that is not closed is left for Jansson to refuse. */
static char *behind_comment(char *p, char *end)
{
    bool slashes = end - p > 1 && p[0] == '/' && p[1] == '/', star = end - p > 1 && p[0] == '/' && p[1] == '*';
    if (star) {
        char *close = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
        return close ? close + 2 : NULL;
    }
    if (*p != '#' && !slashes) return NULL;
    char *line_end = memchr(p, '\n', (size_t)(end - p));
    return line_end ? line_end : end;
}

static void blank_comments(char *p, char *end)
{
    while (p < end) {
        char *behind = behind_comment(p, end);
        if (!behind) {
            p = *p == '"' ? behind_string(p, end) : p + 1;
            continue;
        }
        for (; p < behind; p++)
            if (*p != '\n') *p = ' ';
    }
}

/* A comma goes when a member or an item stands before it and its bracket closes behind it. */
static void blank_last_commas(char *p, char *end)
{
    char *comma = NULL, before = 0;
    while (p < end) {
        if (strchr(" \t\r\n", *p) && *p) {
            p++;
            continue;
        }
        if (comma && (*p == '}' || *p == ']')) *comma = ' ';
        comma = *p == ',' && before && !strchr("{[,", before) ? p : NULL;
        before = *p;
        p = *p == '"' ? behind_string(p, end) : p + 1;
    }
}

/* ---------------------------------------------------------------- places */

typedef struct walk {
    const char *p;
    tx__json_place at;
    tx_str path;
    tx__member_fn *member;
    void *user;
} walk;

static void step(walk *w)
{
    if (!*w->p) return;
    if (*w->p == '\n') w->at = (tx__json_place){ w->at.line + 1, 0 };
    w->p++;
    if (((unsigned char)*w->p & 0xC0) != 0x80) w->at.column++; /* not inside a character */
}

/* Jansson takes a NUL after a number for the number's end, and the rest is never looked at as text here. */
static tx_status refuse_nul(const char *path, const tx_str *text)
{
    const char *nul = text->len ? memchr(text->data, 0, text->len) : NULL;
    walk w = { .p = text->data, .at = { 1, 1 } };
    if (!nul) return TX_OK;
    while (w.p < nul) step(&w);
    return TX_FAIL(TX_ERR_FORMAT, "%s: line %d, column %d: a NUL byte, which is no text", path, w.at.line, w.at.column);
}

static const char *kind_of(const json_t *value)
{
    return json_is_array(value) ? "a list" : "no object";
}

tx_status tx__relaxed_json_read(const char *path, tx_str *text, json_t **out)
{
    json_error_t e;
    TX_TRY(tx_file_read(path, MAX_BYTES, text));
    TX_TRY(refuse_nul(path, text));
    blank_comments(text->data, text->data + text->len);
    blank_last_commas(text->data, text->data + text->len);
    json_t *root = tx_json_load(text->data ? text->data : "", text->len, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %d, column %d: %s", path, e.line, e.column > 0 ? e.column : 1, e.text);
    if (!json_is_object(root)) {
        tx_status st = TX_FAIL(TX_ERR_FORMAT, "%s: line 1, column 1: holds %s, not an object { \"key\": value, ... }",
                               path, kind_of(root));
        json_decref(root);
        return st;
    }
    *out = root;
    return TX_OK;
}

static void skip_space(walk *w)
{
    while (*w->p && strchr(" \t\r\n", *w->p)) step(w);
}

static void skip_string(walk *w)
{
    for (step(w); *w->p && *w->p != '"'; step(w))
        if (*w->p == '\\') step(w);
    step(w);
}

static void skip_value(walk *w)
{
    int depth = 0;
    do {
        if (*w->p == '"') {
            skip_string(w);
            continue;
        }
        depth += (*w->p == '{' || *w->p == '[') - (*w->p == '}' || *w->p == ']');
        step(w);
    } while (*w->p && (depth || !strchr(",}] \t\r\n", *w->p)));
}

static tx_status walk_object(walk *w, const json_t *object)
{
    void *i = json_object_iter((json_t *)object);
    size_t outside = w->path.len;
    tx_status st = TX_OK;
    for (step(w); i && !st; i = json_object_iter_next((json_t *)object, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        bool enter = false;
        skip_space(w);
        tx__json_place at = w->at;
        skip_string(w);
        skip_space(w);
        step(w); /* the colon */
        skip_space(w);
        TX_TRY(tx_str_printf(&w->path, "%s%s", outside ? "." : "", name));
        st = w->member(w->user, w->path.data, name, at, value, &enter);
        if (!st && enter && json_is_object(value))
            st = walk_object(w, value);
        else
            skip_value(w);
        w->path.data[w->path.len = outside] = 0;
        skip_space(w);
        if (*w->p == ',') step(w);
    }
    if (!st) {
        skip_space(w);
        step(w); /* the bracket */
    }
    return st;
}

tx_status tx__relaxed_json_walk(const tx_str *text, const json_t *root, tx__member_fn *member, void *user)
{
    walk w = { .p = text->data, .at = { 1, 1 }, .member = member, .user = user };
    skip_space(&w);
    tx_status st = walk_object(&w, root);
    tx_str_free(&w.path);
    return st;
}
