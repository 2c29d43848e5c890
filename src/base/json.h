/* json.h - reading JSON, with errors that name a missing comma as such. */
#ifndef TX_BASE_JSON_H
#define TX_BASE_JSON_H

#include <jansson.h>

/* json_loadb(). Where a comma is missing, which Jansson calls "'}' expected near '"next"'" at the end of what comes
 * next, *e says that, and line and column are where it belongs; so it does of a text of blanks that it is empty,
 * and of another kind of file that it does not begin as JSON does. */
json_t *tx_json_load(const char *text, size_t n, size_t flags, json_error_t *e);

#endif
