/* preprocess_output.h - the datasets that preprocess-data writes: one for each key, made of one or more parts.
 *
 *  Megatron's --partitions P deals the lines out to P parts and joins these at the end, so a document stands where its
 *  part does: 0, P, 2P, ..., then 1, P+1, ... A part is a temporary dataset beside the result. */
#ifndef TX_DATA_PREPROCESS_OUTPUT_H
#define TX_DATA_PREPROCESS_OUTPUT_H

#include "data/indexed.h"

typedef struct tx_output {
    int n_keys, n_parts;
    const char *const *key;      /* borrowed */
    char **name;                 /* [n_keys]: the datasets' prefixes */
    char **part_name;            /* [n_keys][n_parts], NULL with one part */
    tx_indexed_builder **part;   /* [n_keys][n_parts] */
    tx_indexed_builder **joined; /* [n_keys], NULL with one part */
    tx_indexed *source; /* [n_keys][n_parts], NULL with one part: the parts with documents, while they are joined */
} tx_output;

/* That the folder of an --output-prefix is there. */
tx_status tx__output_has_folder(const char *prefix);

/* What is to be written: <prefix>_<key>_<level>.bin/.idx for each key. */
typedef struct tx_output_spec {
    const char *prefix, *level;
    const char *const *key; /* [n_keys]; outlives the output */
    int n_keys, n_parts;
    int64_t vocab_size;
} tx_output_spec;

/* Starts the datasets. Nothing is there under their names before tx__output_publish. *o is zeroed before, and
 * deinitialized by tx__output_discard whatever happens. */
tx_status tx__output_open(tx_output *o, const tx_output_spec *spec);

/* Appends a document to a part: n items, sizes[i] ids each. */
tx_status tx__output_add(tx_output *o, int key, int part, const int32_t *ids, const size_t *sizes, size_t n);

int64_t tx__output_docs(const tx_output *o, int key);
int64_t tx__output_tokens(const tx_output *o);

/* Puts all datasets under their names, or none. Every key has a document. */
tx_status tx__output_publish(tx_output *o);

/* Removes what is not published. */
void tx__output_discard(tx_output *o);

#endif
