/* json_part.h - reading the parts of a tokenizer.json that are one step or a Sequence of steps. */
#ifndef TX_TOKEN_JSON_PART_H
#define TX_TOKEN_JSON_PART_H

#include <jansson.h>
#include <stdbool.h>

#include "token/vocab.h"

#define TX__MAX_STEPS 32

typedef struct tx__part {
    const char *file, *name; /* name: of the key at the top */
    const char *list;        /* the key of a Sequence's steps */
    const char *known;       /* types, for the message */
    tx_status (*step)(struct tx__part *p, json_t *step, const char *type, const char *place);
    void *to;
} tx__part;

/* Calls p->step for each step of root[p->name], in order. Without that key, or with null, for none. */
tx_status tx__part_read(tx__part *p, json_t *root);

/* TX_ERR_UNSUPPORTED, with the types that are read. */
tx_status tx__part_unknown(const tx__part *p, json_t *step, const char *place);

/* An error if the object at `place` has a key that is not among `keys`, which end with NULL. */
tx_status tx__json_only(json_t *object, const char *file, const char *place, const char *const *keys);

/* object[key] as a truth value. Where there is no such key: `missing`, or an error if that is negative. */
tx_status tx__json_bool(bool *out, json_t *object, const char *key, int missing, const char *file, const char *place);

/* A string of the file, borrowed. */
typedef struct tx__json_str {
    const char *text;
    size_t n;
} tx__json_str;

/* object[key] as a string. Where there is none, or null: `missing`, or an error if that is
 * NULL. */
tx_status tx__json_text(tx__json_str *out, json_t *object, const char *key, const char *missing, const char *file,
                        const char *place);

/* The same for a string that is one character. */
tx_status tx__json_char(tx__json_str *out, json_t *object, const char *key, const char *missing, const char *file,
                        const char *place);

/* A value as it is shown in a message: a string in quotes, numbers, or what kind of value it is. */
tx__shown tx__json_show(json_t *value);

#endif
