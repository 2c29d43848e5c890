/* fields.h - reads members of a JSON object and checks them against bounds. Shared inside this room.
 *
 *  If there is no such member, *out is left as it was. TX_ERR_ARG: its type is another, or it is out of bounds; the
 *  message is `rule`, or if that is NULL, one made of the name and the bounds. */
#ifndef TX_SERVE_FIELDS_H
#define TX_SERVE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx__fields {
    const json_t *object;
    bool null_is_absent;
} tx__fields;

/* Parses a JSON object; the caller owns *out. TX_ERR_FORMAT names the place of a mistake. */
tx_status tx__fields_parse(json_t **out, const char *body, size_t n);

/* Checks that every member's name is among known[0..n). */
tx_status tx__fields_known(const tx__fields *f, const char *const *known, size_t n);

const json_t *tx__field(const tx__fields *f, const char *name); /* NULL: there is none */

tx_status tx__field_int(const tx__fields *f, const char *name, int64_t lo, int64_t hi, const char *rule, int64_t *out);
tx_status tx__field_bool(const tx__fields *f, const char *name, bool *out);

/* From lo to hi, both allowed, or with `above` all but lo itself. */
typedef struct tx__bounds {
    double lo, hi;
    bool above;
} tx__bounds;

tx_status tx__field_number(const tx__fields *f, const char *name, tx__bounds bounds, const char *rule, double *out);

#endif
