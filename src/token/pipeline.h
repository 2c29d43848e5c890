/* pipeline.h - the steps of a tokenizer.json that come before BPE merges: normal forms and cuts. */
#ifndef TX_TOKEN_PIPELINE_H
#define TX_TOKEN_PIPELINE_H

#include <jansson.h>
#include <stdarg.h>

#include "token/byte_bpe.h"
#include "token/normalize.h"

#define TX__MAX_STEPS 8
#define TX__MAX_ENDS  16

/* Ids that are added at one end of every text. */
typedef struct tx__ends {
    int32_t id[TX__MAX_ENDS];
    size_t n;
} tx__ends;

typedef struct tx__pipeline {
    tx__normal_form form[TX__MAX_STEPS]; /* one after the other */
    size_t n_forms;
    tx__split_fn *cut[TX__MAX_STEPS]; /* each cuts what the one before it left; the last makes the words */
    size_t n_cuts;
    tx__ends before, after; /* the post-processor's; not checked against the vocabulary */
    bool prefix_space;      /* a blank is added before the input of the last cut, unless it begins with one */
} tx__pipeline;

/* Reads "normalizer", "pre_tokenizer" and "post_processor", and checks that "decoder", if there is one, is the byte
 * level's. Anything else is TX_ERR_UNSUPPORTED, and the error names its place. */
tx_status tx__pipeline_read(tx__pipeline *out, json_t *root, const char *file);

/* An error if the object at `place` has a key that is not among `keys`, which end with NULL. */
tx_status tx__json_only(json_t *object, const char *file, const char *place, const char *const *keys);

/* object[key] as a truth value. Where there is no such key: `missing`, or an error if that is negative. */
tx_status tx__json_bool(bool *out, json_t *object, const char *key, int missing, const char *file, const char *place);

/* A value as it is shown in a message: a string in quotes, numbers, or what kind of value it is. */
tx__shown tx__json_show(json_t *value);

#endif
