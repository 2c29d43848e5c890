/* hf_format.h - the Hugging Face models that triax reads and writes: a table of names and row orders each, and their
 * config.json. A new one is a file beside its model's and a line in hf_format.c.
 *
 *  The flags of a model's shape are the rows of options.def that are marked SHAPE, each at its default. A format's
 * table of sizes says what config.json calls some of them; `read` sets those that are not at their default, and
 * `unsaid` lists those that mean nothing in a model of the format. */
#ifndef TX_MODEL_HF_FORMAT_H
#define TX_MODEL_HF_FORMAT_H

#include <jansson.h>

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
    TX_HF_SEGMENTS /* none: its rows are what two kinds of segments add to every token. The first is added to all of
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

/* A size in config.json. */
typedef struct tx_hf_size {
    const char *option, *theirs; /* "num_layers", "n_layer" */
    const char *also;            /* what other versions call it, which is written too; NULL: the same */
    size_t at;                   /* of tx_model's member, int64_t */
    bool optional; /* left out or null: what --ffn-hidden-size, --kv-channels and --num-key-value-heads are then */
} tx_hf_size;
#define TX_HF_SIZE(option, theirs, member)                      \
    {                                                           \
        option, theirs, NULL, offsetof(tx_model, member), false \
    }
#define TX_HF_SIZE_OR(option, theirs, member)                  \
    {                                                          \
        option, theirs, NULL, offsetof(tx_model, member), true \
    }

typedef struct tx_hf_format {
    const char *model_type;        /* in config.json */
    const char *sign;              /* a tensor that tells its files from others of this model_type; NULL: none has to */
    const char *model;             /* ours: --model-type */
    const char *prefix;            /* of all names but those that begin with '/'; files of the bare model lack it */
    const char *layers;            /* then "layers.0." */
    const tx_hf_name *top, *layer; /* both end with a row of NULLs */
    const tx_hf_extra *extra;      /* NULLs at the end */
    const tx_hf_old *old;          /* or NULL; NULLs at the end */
    const char *partial;           /* of the error where a tensor without the prefix is missing; or NULL */
    /* Whether a model is one of these; the same on all ranks. */
    bool (*fits)(const tx_model *m);
    const tx_hf_size *sizes;   /* NULLs at the end; "vocab_size" among them */
    const char *const *unsaid; /* options of the shape that config.json says nothing of; NULL at the end */
    /* Sets in `options` what else config.json says, sizes being there; and members of config.json beside the sizes. */
    tx_status (*read)(json_t *options, const json_t *config);
    tx_status (*write)(json_t *config, const tx_model *m);
} tx_hf_format;

/* config.json to option values (for tx_config_from_json) plus "vocab_size", and back. Caller json_decref()s *out. */
tx_status tx_hf_options(const tx_hf_format *f, json_t **out, const json_t *config);
tx_status tx_hf_config(const tx_hf_format *f, json_t **out, const tx_model *m);

/* Whether there is a tensor of that name. */
typedef bool tx_hf_has(const void *user, const char *name);

/* By the model_type of a config.json and the tensors beside it; TX_ERR_UNSUPPORTED lists those there are. */
tx_status tx_hf_format_find(const tx_hf_format **out, const char *model_type, tx_hf_has *has, const void *user);

/* What a model can be written as. TX_ERR_UNSUPPORTED: Hugging Face has no model with its options. */
tx_status tx_hf_format_of(const tx_hf_format **out, const tx_model *m);

/* One tensor there. */
typedef struct tx_hf_part {
    const tx_param *param;
    const tx_hf_name *row;
    char name[TX_PARAM_NAME_MAX];
    int n_dims;
    int64_t dim[2]; /* there, of the whole; rows that pad the vocabulary are not */
} tx_hf_part;

enum { TX_HF_MAX_PARTS = 3 };

/* The tensors that hold parameter p, and their number; 0 of an adapter (peft_format.h). */
int tx_hf_parts(const tx_hf_format *f, const tx_model *m, const tx_param *p, tx_hf_part out[TX_HF_MAX_PARTS]);

/* Whether that tensor's elements, or its rows, lie in another order than ours. */
bool tx_hf_reorders(const tx_hf_part *part);

/* Copies between the tensor there and the whole parameter here.   @ours [whole], not this rank's shard */
void tx_hf_copy(const tx_model *m, const tx_hf_part *part, float *theirs, float *ours, bool to_hf);

/* For read and write: takes `values` (NULL: no memory), whose members become members of o. */
tx_status tx_hf_set(json_t *o, json_t *values);

/* For read: a positive whole number of 31 bits; the same, or `fallback` when it is not there or null; a number, a
 * bool or a word, or `fallback` when it is not there. TX_ERR_FORMAT: it is something else. */
tx_status tx_hf_get_size(const json_t *config, const char *key, int64_t *out);
tx_status tx_hf_get_size_or(const json_t *config, const char *key, int64_t fallback, int64_t *out);
tx_status tx_hf_get_number(const json_t *config, const char *key, double fallback, double *out);
tx_status tx_hf_get_bool(const json_t *config, const char *key, bool fallback, bool *out);
tx_status tx_hf_get_word(const json_t *config, const char *key, const char *fallback, const char **out);

#endif
