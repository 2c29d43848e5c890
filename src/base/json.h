/* json.h - reading JSON, with errors that name what is wrong. */
#ifndef TX_BASE_JSON_H
#define TX_BASE_JSON_H

#include <jansson.h>

/* json_loadb(). A missing comma, which Jansson reports as "'}' expected near '"next"'" after the next word, is reported
 * as a missing comma, with the line and column where it belongs. *e also reports a text of blanks as empty, another
 * kind of file as one that does not begin as JSON does, and of a key that is given twice all of its path. */
json_t *tx_json_load(const char *text, size_t n, size_t flags, json_error_t *e);

/* A value as it stands in the file, shortened, for messages; returns `text`. */
const char *tx_json_shown(char text[48], const json_t *value);

#endif
