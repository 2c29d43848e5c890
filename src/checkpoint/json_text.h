/* json_text.h - reading JSON that may be hostile: one way to parse, one way to say what is wrong. Shared inside the
 * checkpoint room. */
#ifndef TX_CHECKPOINT_JSON_TEXT_H
#define TX_CHECKPOINT_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Parses one JSON object; *out is the caller's (json_decref). Duplicate keys, NUL characters, invalid UTF-8 and
 * anything but white space after the object are errors that name `path` and the position. */
tx_status tx__json_parse(json_t **out, const char *path, const char *bytes, size_t n);

/* The same for a whole file of at most max_bytes. */
tx_status tx__json_load(json_t **out, const char *path, size_t max_bytes);

/* Whether v is an integer >= 0; its value. */
bool tx__json_size(const json_t *v, int64_t *out);

/* Whether v is an array of min..cap integers >= 0; their values in out[cap] and their number in *n. */
bool tx__json_sizes(const json_t *v, int min, int cap, int64_t *out, int *n);

/* Whether a text from a file can be quoted in a one-line message: 1..max bytes, no control characters. */
bool tx__is_printable(const char *text, size_t max);

/* Whether `text` names a file of the folder itself: printable, no '/', no leading '.'. */
bool tx__is_plain_file_name(const char *text);

#endif
