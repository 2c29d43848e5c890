/* context_attention.h - the middle of a layer's attention, from queries, keys and values to what the projection reads;
 * also where ranks divide the positions of samples (parallel/cp.h), each of which then has those of its own positions:
 *
 *      o = softmax(scale q kᵀ + biases + mask) v
 *
 *  ulysses.c         --cp-comm-type a2a: each rank gets all positions of some heads by all-to-alls. arXiv:2309.14509
 *  ring_attention.c  p2p: keys and values go around a ring, arXiv:2310.01889; allgather: each rank gets all of them
 *
 *  With a2a+p2p heads are exchanged in rows of ranks, and keys and values then go around rings of these.
 *  Generation has a way of its own, whatever the training's was: each rank keeps the keys and values of some heads, of
 * all positions (ulysses.c). */
#ifndef TX_NN_CONTEXT_ATTENTION_H
#define TX_NN_CONTEXT_ATTENTION_H

#include "nn/attention_types.h"

/* Some of the positions, with keys of some of them. */
typedef struct tx_core_part {
    bool is;            /* else all */
    int64_t q_at, k_at; /* as in ops.h */
    bool without_sink;  /* another part has it */
} tx_core_part;

typedef struct tx_core_attention {
    const tx_attention *w;
    const tx_attention_call *call; /* seen, dropout, max_logits, kv */
    int64_t first_head;            /* number of q's first head among this tensor rank's */
    tx_tensor q, k, v;             /* [s, b, groups, r, d], twice [s, b, groups, d]; any strides but the last */
    tx_tensor o;                   /* [s, b, groups, r, d]; forward writes it */
    tx_tensor lse;                 /* [b, groups, r, s], likewise; absent in generation, or with a2a */
    tx_tensor d_o, dq, dk, dv;     /* as o, q, k, v; backward writes the last three */
    tx_core_part part;             /* of tx_core_attention_fwd and _bwd */
} tx_core_attention;

/* Keys or values [s, b, groups, 1, d], as heads are cut, without the dimension of one head. */
static inline tx_tensor tx_one_a_group(tx_tensor x)
{
    x.n_dims = 4;
    x.dim[3] = x.dim[4];
    x.stride[3] = 1;
    return x;
}

/* On one rank; of some of the layer's heads. What the call's `seen` and `dropout` say is of all positions. */
tx_status tx_core_attention_fwd(tx_ctx *c, const tx_core_attention *k);
tx_status tx_core_attention_bwd(tx_ctx *c, const tx_core_attention *k);

/* Whether ranks divide positions; and whether they exchange heads, so that forward pushes on c->acts what backward
 * needs of q, k, v and lse. */
bool tx_context_is_divided(const tx_ctx *c);
bool tx_context_by_heads(const tx_ctx *c, const tx_attention *w);

/* The heads of which this rank has the attention, and their groups. */
typedef struct tx_context_heads {
    int64_t n, n_groups;
} tx_context_heads;
tx_context_heads tx_context_own_heads(const tx_ctx *c, const tx_attention *w);

/* Collective over TX_GROUP_CONTEXT. */
tx_status tx_context_attention_fwd(tx_ctx *c, const tx_core_attention *k, tx_context_saved *a);
tx_status tx_context_attention_bwd(tx_ctx *c, const tx_core_attention *k, const tx_context_saved *a);

/* Heads of a position that n_ranks of them send each other, each its own, too: queries, keys and values, and what
 * becomes of the queries. @heads, @groups of a tensor-parallel rank */
int64_t tx_context_heads_sent(int64_t heads, int64_t groups, int64_t n_ranks);

/* Of a tensor-parallel rank's heads: the groups whose keys and values rank `rank` of n keeps in generation. */
int64_t tx_context_groups_kept(int64_t heads, int64_t groups, int64_t n_ranks, int64_t rank);

/* For src/nn/ only: ulysses.c and ring_attention.c. */
tx_status tx__ulysses_generate(tx_ctx *c, const tx_core_attention *k);
tx_status tx__ulysses_fwd(tx_ctx *c, const tx_core_attention *k, tx_context_saved *a);
tx_status tx__ulysses_bwd(tx_ctx *c, const tx_core_attention *k, const tx_context_saved *a);
tx_status tx__ring_fwd(tx_ctx *c, const tx_core_attention *k);
tx_status tx__ring_bwd(tx_ctx *c, const tx_core_attention *k);
tx_status tx__gathered_fwd(tx_ctx *c, const tx_core_attention *k);
tx_status tx__gathered_bwd(tx_ctx *c, const tx_core_attention *k);

#endif
