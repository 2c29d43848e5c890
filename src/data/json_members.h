/* json_members.h - where the wanted members of a JSON line are, found in one walk and without a copy.
 *
 *  It accepts only lines that are plainly right. Any other line is for Jansson, whose answer counts. What it says
 *  yes to, Jansson reads the same way (tests/fuzz/fuzz_json_members.c). */
#ifndef TX_DATA_JSON_MEMBERS_H
#define TX_DATA_JSON_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

/* A string as it stands in the line, between its quotes. data NULL: none. */
typedef struct tx_json_string {
    const char *data;
    size_t n;
    bool escaped; /* has backslashes: tx__json_unescape makes the text */
} tx_json_string;

typedef struct tx_json_member {
    tx_json_string text; /* a member that is a string */
    const char *list;    /* one that is an array of strings and nothing else: after the '[' */
} tx_json_member;

/* Finds member[k] for each of keys[0..n_keys) in the object in line[0..n), the last one where a name comes twice.
 * false: not a line of this kind. */
bool tx__json_members(const char *line, size_t n, const char *const *keys, int n_keys, tx_json_member *member);

/* The string at *at, which is .list of a member that was found, or where the last call left it; false after the last.
 */
bool tx__json_list_next(const char **at, const char *line_end, tx_json_string *out);

/* Bytes of the escape at p, a backslash, up to end: 12 for a pair of surrogates, 6 for any other \uXXXX, else 2. *lone:
 * it is a surrogate that is not one of a pair. */
size_t tx__json_escape(const char *p, const char *end, bool *lone);

/* The text of a string into buf, which has room for s.n bytes and is not where the string is; returns its length. */
size_t tx__json_unescape(char *buf, tx_json_string s);

#endif
