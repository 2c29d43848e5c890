/* relaxed_json.h - JSON as people write configurations: with comments (#, // and slash-star) and commas after a last
 * member; and the place of each member in the file, which Jansson does not report.
 *
 *  Not all of what hjson reads: names and strings have quotes here. */
#ifndef TX_CONFIG_RELAXED_JSON_H
#define TX_CONFIG_RELAXED_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

typedef struct tx__json_place {
    int line, column; /* from 1, in characters */
} tx__json_place;

/* The object in a file. *text becomes the file's text with blanks for comments and such commas, so that places are the
 * file's; *out is owned by the caller. TX_ERR_FORMAT names file, line and column; a repeated name is one. */
tx_status tx__relaxed_json_read(const char *path, tx_str *text, json_t **out);

/* One member: its path from the root ("fp16.enabled"), its own name, the last part of that, and where the name stands.
 * *enter, false at the call: go on with the members of `value`, an object. */
typedef tx_status tx__member_fn(void *user, const char *path, const char *name, tx__json_place at, const json_t *value,
                                bool *enter);

/* Calls member() for the members of what tx__relaxed_json_read gave, in the file's order; stops at a failure and gives
 * it back. */
tx_status tx__relaxed_json_walk(const tx_str *text, const json_t *root, tx__member_fn *member, void *user);

#endif
