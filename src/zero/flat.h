/* flat.h - how the flat buffers of a parameter table are divided over the ranks. Pure.
 *
 *      bucket    a run of units (nn/param.h); parameters in it stand side by side, each on a multiple of TX_PARAM_ALIGN
 *      part      a bucket is cut in as many equal parts as its group has ranks, and rank r keeps the r-th
 *
 *      whole buffer   | bucket 0: part 0 | part 1 | bucket 1: part 0 | part 1 | ...
 *      kept by 1                         | part 1 |                  | part 1 |          side by side in a kept buffer
 *
 *  So each rank keeps as much of every layer as the others, and none is a hot spot. A bucket's group is that of its
 *  parameters (tx_param.reduce_group): its gradients are summed over these ranks, and its parts are kept by them.
 *  Parameters of different groups are in different buckets: experts that ranks divide, and all else.
 *
 *  Parameters that are not trained (tx_param.frozen) are in buckets of their own, behind all others: buffers of
 * gradients, masters and state end where those begin.
 *
 *  Layers of one model chunk share a bucket of at most bucket_size elements (a layer at least). The word embeddings,
 *  other embeddings and the head have buckets of their own, because their gradients are complete at other times, and
 *  because the two ends of a pipeline divide a tied matrix alike. With `each` (ZeRO-3) a layer has a bucket of its own,
 *  and the small parameters of a chunk's layers share one bucket, which stays gathered. */
#ifndef TX_ZERO_FLAT_H
#define TX_ZERO_FLAT_H

#include "nn/param.h"
#include "parallel/grid.h"

typedef struct tx_bucket {
    int group;             /* tx_group_kind: the ranks that it is summed over and divided over */
    int64_t offset, numel; /* elements of a whole buffer */
    int64_t at;            /* where this rank's part begins in a kept buffer */
    int kind;        /* of pool buffer: the buckets of a kind share them, one after the other. A group's layers are of
                      * one kind; every other bucket has a kind of its own */
    bool persistent; /* always gathered */
    bool frozen;
    int n_units;    /* that have parameters in it */
    int first, end; /* of the kept fragments */
} tx_bucket;

/* This rank's number among the ranks of a group; 0 ranks is 1. */
typedef struct tx_flat_ranks {
    int n, rank;
} tx_flat_ranks;

typedef struct tx_flat_spec {
    tx_flat_ranks ranks[TX_N_GROUPS];
    int64_t bucket_size; /* elements */
    int64_t align;       /* of a part; a multiple of TX_PARAM_ALIGN */
    bool each;
    int64_t small, small_all; /* elements of a persistent parameter at most, and of all of them together */
} tx_flat_spec;

typedef struct tx_flat {
    tx_flat_ranks ranks[TX_N_GROUPS];
    tx_bucket *bucket;
    int n_buckets, n_kinds;
    int n_trained;                 /* buckets; the others are frozen */
    int64_t trained, kept_trained; /* elements of a whole and of a kept buffer where the frozen ones begin */
    int *of_row;                   /* a row's bucket */
    tx_fragments kept;             /* bucket by bucket, in the order of memory */
} tx_flat;

/* Gives every parameter of the table its place, and the table its size. TX_ERR_NOMEM. */
tx_status tx_flat_open(tx_flat *f, tx_params *ps, const tx_flat_spec *spec);
void tx_flat_close(tx_flat *f); /* a zeroed one is fine */

/* Elements of a part of a bucket, and where this rank's part begins: in the bucket, and in a whole buffer. */
static inline int64_t tx_bucket_part(const tx_flat *f, const tx_bucket *b)
{
    return b->numel / f->ranks[b->group].n;
}
static inline int64_t tx_bucket_own_in(const tx_flat *f, const tx_bucket *b)
{
    return f->ranks[b->group].rank * tx_bucket_part(f, b);
}
static inline int64_t tx_bucket_own(const tx_flat *f, const tx_bucket *b)
{
    return b->offset + tx_bucket_own_in(f, b);
}

#endif
