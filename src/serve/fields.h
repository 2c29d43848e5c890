/* fields.h - members of a JSON object, read with their bounds. Shared inside this room.
 *
 *  A member that is not there leaves *out as it was. TX_ERR_ARG: one of another kind or beyond the bounds, with `rule`
 *  as the sentence, or where that is NULL one that is made of the name and the bounds. */
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

/* One JSON object; *out is the caller's. TX_ERR_FORMAT says where it is none. */
tx_status tx__fields_parse(json_t **out, const char *body, size_t n);

/* Every member's name is among known[0..n). */
tx_status tx__fields_known(const tx__fields *f, const char *const *known, size_t n);

const json_t *tx__field(const tx__fields *f, const char *name); /* NULL: not there */

tx_status tx__field_int(const tx__fields *f, const char *name, int64_t lo, int64_t hi, const char *rule, int64_t *out);
tx_status tx__field_bool(const tx__fields *f, const char *name, bool *out);

/* From lo to hi, both allowed, or with `above` all but lo itself. */
typedef struct tx__bounds {
    double lo, hi;
    bool above;
} tx__bounds;

tx_status tx__field_number(const tx__fields *f, const char *name, tx__bounds bounds, const char *rule, double *out);

#endif
