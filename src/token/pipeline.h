/* pipeline.h - the parts of a tokenizer.json around its model. */
#ifndef TX_TOKEN_PIPELINE_H
#define TX_TOKEN_PIPELINE_H

#include <jansson.h>

#include "token/cuts.h"
#include "token/decode_steps.h"
#include "token/normal_steps.h"

#define TX__MAX_ENDS 16

/* Ids that are added at one end of every text. */
typedef struct tx__ends {
    int32_t id[TX__MAX_ENDS];
    size_t n;
} tx__ends;

/* Zeroed = empty. */
typedef struct tx__pipeline {
    tx__normalizer normalizer;
    tx__cuts cuts;
    tx__ends before, after; /* the post-processor's; not checked against the vocabulary */
    tx__text_decoder decoder;
    bool symbols; /* the model is given bytes, in symbols */
    bool bytes;   /* symbols are the last step, so that a model of all byte symbols may be given the bytes themselves */
} tx__pipeline;

/* Reads "normalizer", "pre_tokenizer", "post_processor" and "decoder". Anything that is not known is
 * TX_ERR_UNSUPPORTED, and the error names its place. */
tx_status tx__pipeline_read(tx__pipeline *out, json_t *root, const char *file);
void tx__pipeline_free(tx__pipeline *p);

/* For a model that is given bytes: takes the last steps away, the symbols and the cut before them, which it returns;
 * the model does them together. */
tx__split_fn *tx__pipeline_take_split(tx__pipeline *p);

#endif
