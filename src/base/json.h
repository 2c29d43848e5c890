/* json.h - reading JSON, with errors that name a missing comma as such. */
#ifndef TX_BASE_JSON_H
#define TX_BASE_JSON_H

#include <jansson.h>

/* Like json_loadb(), with better errors in *e. For a missing comma, which Jansson reports as "'}' expected near
 * '"next"'" at the end of the next member, it says so, with the line and column where the comma belongs. An empty text
 * is reported as empty, and another kind of file as not beginning like JSON. */
json_t *tx_json_load(const char *text, size_t n, size_t flags, json_error_t *e);

#endif
