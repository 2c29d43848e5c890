/* relaxed_json.h - JSON with comments and trailing commas, and where each member is in the file.
 *
 * Comments are #, // and slash-star. Jansson does not report the places of members. This is less than hjson: names and
 * strings must have quotes. */
#ifndef TX_CONFIG_RELAXED_JSON_H
#define TX_CONFIG_RELAXED_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

typedef struct tx__json_place {
    int line, column; /* from 1, in characters */
} tx__json_place;

/* Reads the object in a file. *text is set to the file's text with comments and trailing commas replaced by blanks, so
 * that places are those in the file. The caller owns *out. TX_ERR_FORMAT names file, line and column; a repeated name
 * is an error, too. */
tx_status tx__relaxed_json_read(const char *path, tx_str *text, json_t **out);

/* Visits one member: its path from the root ("fp16.enabled"), its own name (the last part of the path), and the place
 * of the name. *enter is false at the call; set it to visit the members of `value`, an object. */
typedef tx_status tx__member_fn(void *user, const char *path, const char *name, tx__json_place at, const json_t *value,
                                bool *enter);

/* Calls member() for all members read by tx__relaxed_json_read, in the file's order. Stops at the first failure and
 * returns it. */
tx_status tx__relaxed_json_walk(const tx_str *text, const json_t *root, tx__member_fn *member, void *user);

#endif
