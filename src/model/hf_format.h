/* hf_format.h - the Hugging Face models that triax reads and writes: a table of names and row orders each, and one of
 * config.json's members. A new one is a file beside its model's, or rows of a relative's, and a line in hf_format.c.
 *
 *  A model is one of a family if config.json that is written for it and read again says the model's own options
 * (tx_config_shape_of): an option that a family has no word for cannot be lost. */
#ifndef TX_MODEL_HF_FORMAT_H
#define TX_MODEL_HF_FORMAT_H

#include <jansson.h>

#include "model/hf_keys.h"
#include "model/model.h"

/* Which rows of our matrix, or elements of our bias, a tensor there holds. */
typedef enum tx_hf_rows {
    TX_HF_ALL,
    TX_HF_VOCAB, /* the rows that take part in the softmax */
    TX_HF_QKV,   /* of query_key_value all, in another order: every head's q, then every k, then every v */
    TX_HF_Q,     /* its queries, */
    TX_HF_K,     /* its keys, */
    TX_HF_V,     /* its values: see attention.h for our order */
    TX_HF_FIRST, /* the first half */
    TX_HF_SECOND,
    TX_HF_BEHIND_2, /* all, behind two rows there that are no position's and are written as 0 */
    TX_HF_SEGMENTS  /* none: its rows are what two kinds of segments add to every token. The first is added to all of
                     * ours, as the model has one segment; there it is 0 then */
} tx_hf_rows;

/* A row of a table: one tensor there. A parameter of ours that is cut in several has several rows. '#' in both names is
 * a number, an expert's. */
typedef struct tx_hf_name {
    const char *ours, *theirs;
    tx_hf_rows rows;
    bool transposed; /* theirs is [in, out] */
} tx_hf_name;

/* How a name of the table ends in old files. */
typedef struct tx_hf_old {
    const char *now, *then;
} tx_hf_old;

/* A tensor that may be there beside the table's, by the end of its name. */
typedef struct tx_hf_extra {
    const char *end, *why; /* why: no parameter comes from it */
} tx_hf_extra;

typedef struct tx_hf_format {
    const char *model_type;        /* in config.json */
    const char *architecture;      /* likewise: the class; NULL: `more` says it */
    const char *sign;              /* a tensor that tells its files from others of this model_type; NULL: none has to */
    const char *model;             /* ours: --model-type */
    const char *prefix;            /* of all names but those that begin with '/'; files of the bare model lack it */
    const char *layers;            /* then "layers.0." */
    const tx_hf_name *top, *layer; /* both end with a row of NULLs */
    const tx_hf_extra *extra;      /* NULLs at the end */
    const tx_hf_old *old;          /* or NULL; NULLs at the end */
    const char *partial;           /* of the error where a tensor without the prefix is missing; or NULL */
    const tx_hf_key *keys;         /* of config.json, but vocab_size */
    /* Members that say how the model was trained, and warnings; or NULL. */
    tx_status (*more)(json_t *config, const tx_model *m);
} tx_hf_format;

/* config.json to option values (for tx_config_from_json) plus "vocab_size", and back. Caller json_decref()s *out. */
tx_status tx_hf_options(const tx_hf_format *f, json_t **out, const json_t *config);
tx_status tx_hf_config(const tx_hf_format *f, json_t **out, const tx_model *m);

/* Whether there is a tensor of that name. */
typedef bool tx_hf_has(const void *user, const char *name);

/* By the model_type of a config.json and the tensors beside it; TX_ERR_UNSUPPORTED lists those there are. */
tx_status tx_hf_format_find(const tx_hf_format **out, const char *model_type, tx_hf_has *has, const void *user);

/* What a model is written as: --hf-model-type, or the first that it is one of. TX_ERR_UNSUPPORTED: Hugging Face has no
 * model with its options; the message says what the nearest one lacks. */
tx_status tx_hf_format_of(const tx_hf_format **out, const tx_model *m);

/* for tests: all families, by number from 0, to feed each a hostile config.json; NULL behind the last. */
const tx_hf_format *tx_hf_format_at(int i);

/* One tensor there. */
typedef struct tx_hf_part {
    const tx_param *param;
    const tx_hf_name *row;
    char name[TX_PARAM_NAME_MAX];
    int n_dims;
    int64_t dim[2]; /* there, of the whole; rows that pad the vocabulary are not */
} tx_hf_part;

enum { TX_HF_MAX_PARTS = 3 };

/* The tensors that hold parameter p, and their number; 0 of an adapter (peft_format.h), and where it has none. */
int tx_hf_parts(const tx_hf_format *f, const tx_model *m, const tx_param *p, tx_hf_part out[TX_HF_MAX_PARTS]);

/* Whether that tensor's elements, or its rows, lie in another order than ours. */
bool tx_hf_reorders(const tx_hf_part *part);

/* Copies between the tensor there and the whole parameter here.   @ours [whole], not this rank's shard */
void tx_hf_copy(const tx_model *m, const tx_hf_part *part, float *theirs, float *ours, bool to_hf);

#endif
