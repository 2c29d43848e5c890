/* flat.h - how the flat buffers of a parameter table are divided over the data-parallel ranks (DESIGN idea 7). Pure.
 *
 *      bucket    a run of units (nn/param.h); parameters in it stand side by side, each on a multiple of TX_PARAM_ALIGN
 *      part      a bucket is cut in as many equal parts as there are ranks, and rank r keeps the r-th
 *
 *      whole buffer   | bucket 0: part 0 | part 1 | bucket 1: part 0 | part 1 | ...
 *      kept by 1                         | part 1 |                  | part 1 |          side by side in a kept buffer
 *
 *  So each rank keeps as much of every layer as the others, and none is a hot spot. Layers of one model chunk share a
 *  bucket of at most bucket_size elements (a layer at least); the words' matrix, other embeddings and the head have
 * their own, because their gradients are complete at other times, and because the two ends of a pipeline divide a tied
 * matrix alike. With `each` (ZeRO-3) a layer has a bucket of its own, and what is small of a chunk's layers one
 * together, which stays gathered. */
#ifndef TX_ZERO_FLAT_H
#define TX_ZERO_FLAT_H

#include "nn/param.h"

typedef struct tx_bucket {
    int64_t offset, numel; /* elements of a whole buffer */
    int kind; /* of memory for one at a time: buckets of a kind take turns in it. 0: layers; all others are alone */
    bool persistent;
    int n_units;    /* that have parameters in it */
    int first, end; /* of the kept fragments */
} tx_bucket;

typedef struct tx_flat_spec {
    int n_ranks, rank;
    int64_t bucket_size; /* elements */
    int64_t align;       /* of a part; a multiple of TX_PARAM_ALIGN */
    bool each;
    int64_t small, small_all; /* elements of a parameter that stays, and of all that do */
} tx_flat_spec;

typedef struct tx_flat {
    int n_ranks, rank;
    tx_bucket *bucket;
    int n_buckets, n_kinds;
    int *of_row;       /* a row's bucket */
    tx_fragments kept; /* bucket by bucket, in the order of memory */
} tx_flat;

/* Gives every parameter of the table its place, and the table its size. TX_ERR_NOMEM. */
tx_status tx_flat_open(tx_flat *f, tx_params *ps, const tx_flat_spec *spec);
void tx_flat_close(tx_flat *f); /* a zeroed one is fine */

/* Elements of a part of a bucket, and where this rank's begins: in a whole buffer, and in a kept one. */
static inline int64_t tx_bucket_part(const tx_flat *f, const tx_bucket *b)
{
    return b->numel / f->n_ranks;
}
static inline int64_t tx_bucket_own(const tx_flat *f, const tx_bucket *b)
{
    return b->offset + f->rank * tx_bucket_part(f, b);
}
static inline int64_t tx_bucket_at(const tx_flat *f, const tx_bucket *b)
{
    return b->offset / f->n_ranks;
}

#endif
