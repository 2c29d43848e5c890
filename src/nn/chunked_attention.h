/* chunked_attention.h - attention of a layer that computes its positions in chunks (FPDT, arXiv:2408.16978), and what
 * such a layer keeps of all of them:
 *
 *                 | kv 0  | kv 1  | kv 2  |
 *      queries 2  |   *   |   *   |   *   |
 *      queries 1  |   *   |   *   |
 *      queries 0  |   *   |
 *
 *  Queries of chunk i see keys and values of chunks j <= i. Each pair is one call of attention, and their results are
 *  joined. Windows leave out pairs without a key that is seen.
 *
 *  Forward computes chunks from the first to the last; it keeps keys, values, outputs and log-sum-exps of all. Backward
 * goes from the last to the first: when it comes to chunk i, the gradients of its keys and values have all
 * contributions of later chunks, and its own queries' complete them.
 *
 *  Where ranks divide a sample's positions they divide those of each chunk, in a row. With --cp-comm-type a2a attention
 * of a chunk then has the rank's heads of all of its positions (nn/ulysses.c), and with allgather the queries of the
 * rank's positions, and keys and values of all, which are gathered once and kept (nn/ring_attention.c).
 *
 *  All that is kept may be in the host's memory, c->host, or in a file (tx_arena.dir): chunks are copied from and to
 * it, and the numbers are the same. */
#ifndef TX_NN_CHUNKED_ATTENTION_H
#define TX_NN_CHUNKED_ATTENTION_H

#include "backend/ops.h"
#include "config/config.h"

/* Of one layer. */
typedef struct tx_chunks {
    tx_chunking how;
    int64_t s;       /* positions of the sample */
    int64_t n_ranks; /* that divide those of each chunk */
    int64_t n_parts; /* of a chunk's queries, of which attention has the one numbered */
    int64_t part;
    tx_tensor x;   /* [s / n_ranks, b, h], with how.inputs, for backward: the layer's input */
    tx_tensor kv;  /* [s, b, 2 groups d]: of a position the keys of all groups, then their values */
    tx_tensor o;   /* [s / n_parts, b, heads d] */
    tx_tensor lse; /* [s / n_parts b heads]: chunk after chunk, in each as attention has it */
    tx_tensor dkv; /* as kv, wide: gradients, of the queries so far */
    int64_t first; /* of the chunk that is computed now, its first position */
    bool again;    /* it has been computed: its results are there */
} tx_chunks;

/* Shapes of attention in a layer. */
typedef struct tx_chunk_shape {
    tx_dtype dtype;
    int64_t s, n_ranks, n_parts, part, b;
    int64_t n_heads, n_groups, d; /* of this rank's attention */
    tx_tensor x;                  /* whose shape and dtype an input has that is kept; absent: none is */
} tx_chunk_shape;

/* Some of the heads, and the groups that they belong to; others' belong to none of these. */
typedef struct tx_chunk_heads {
    int64_t first, n, group, n_groups, d;
} tx_chunk_heads;

/* Pushes what forward keeps; and in backward dkv. */
void tx_chunks_push(tx_ctx *c, tx_chunks *a, tx_chunking how, const tx_chunk_shape *of);
void tx_chunks_push_gradients(tx_ctx *c, tx_chunks *a);

/* What is kept of some heads alone. */
tx_chunks tx_chunks_of_heads(const tx_chunks *a, const tx_chunk_heads *h);

/* Positions of the chunk that begins at `first`; and the first one of the queries that attention has of it. */
int64_t tx_chunk_positions(const tx_chunks *a, int64_t first);
int64_t tx_chunk_first_query(const tx_chunks *a, int64_t first);

/* Copies a chunk of what is kept from or to x. */
tx_status tx_chunk_keep(tx_ctx *c, const tx_chunks *a, tx_tensor kept, int64_t first, tx_tensor x);
tx_status tx_chunk_fetch(tx_ctx *c, const tx_chunks *a, tx_tensor x, tx_tensor kept, int64_t first);

/* o and lse of the chunk's queries, whose keys and values are kept; with a->again o and lse are fetched.
 * @call  as of a sequence that is the chunk alone   @max likewise, or NULL */
tx_status tx_chunked_attention_fwd(tx_ctx *c, const tx_chunks *a, const tx_attention_fwd_args *call,
                                   const tx_max_logits_args *max);

/* dq, dk and dv of the chunk; those of later chunks have been computed. Of keys and values that are fewer than the
 * chunk's only the shape is read, and dk and dv are all of the chunk's. */
tx_status tx_chunked_attention_bwd(tx_ctx *c, const tx_chunks *a, const tx_attention_bwd_args *call);

#endif
