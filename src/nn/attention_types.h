/* attention_types.h - what a layer's self-attention is, works on and leaves for backward (attention.h). */
#ifndef TX_NN_ATTENTION_TYPES_H
#define TX_NN_ATTENTION_TYPES_H

#include "config/config.h"
#include "nn/chunked_attention.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/lora.h"
#include "nn/norm.h"

typedef struct tx_attention {
    tx_linear qkv;                     /* [(n_heads + 2 n_groups) d, h] */
    tx_linear proj;                    /* [h, n_heads d], summed over tensor ranks */
    tx_loras qkv_lora, proj_lora;      /* beside these */
    bool qk_norm;                      /* each query and each key is normalised, before it is turned, */
    bool qk_norm_whole;                /* or those of all heads and of all ranks at once (arXiv:2501.00656), */
    tx_norm q_norm, k_norm;            /* by these [d]: all heads' (arXiv:2010.04245, arXiv:2302.05442); or of each */
    int64_t n_heads, n_groups, d;      /* heads of this tensor rank */
    int64_t n_heads_whole, first_head; /* of all ranks, and the number of this one's first: they name random numbers */
    int64_t n_rot;                     /* elements of a head that rotary positions turn (ops.h, rope); 0: none */
    double rope_theta;                 /* of these the base, ... */
    const double *rope_frequency;      /* ... and [n_rot / 2], borrowed; NULL: the base says them */
    double rope_scale, rope_grows_by;  /* as ops.h has them */
    int64_t rope_grows_from;
    bool rope_interleaved;
    bool alibi; /* biases of positions (ops.h) of the whole layer's heads; causal */
    bool causal;
    double scale;            /* of scores */
    tx_attention_kind kind;  /* but for its sink; of the layer: another may have another window */
    tx_weight sink;          /* [n_heads]; without one its value is absent */
    double p_drop;           /* of the probabilities */
    enum tx_cp_comm context; /* how ranks that divide the positions see all of them (context_attention.h) */
    int layer;               /* from 1; names the random stream */
} tx_attention;

/* The keys that queries see, as in ops.h; either may be absent. */
typedef struct tx_keys {
    tx_tensor first; /* [s, b] i32: from this one on */
    tx_tensor n;     /* [b] i32: so many of a sample, all; not with a causal layer */
} tx_keys;

/* Where ranks divide the positions and exchange heads: what this rank has of all positions. */
typedef struct tx_context_saved {
    tx_tensor qkv, o; /* [s, b, heads of q, k and v, d], [s, b, heads, d] */
    tx_tensor lse;    /* [b heads s] */
} tx_context_saved;

/* What backward needs; tensors lie on the activation stack. */
typedef struct tx_attention_saved {
    tx_tensor qkv;  /* [s, b, (heads + 2 groups) d], q and k turned; gone where `context` has them */
    tx_tensor q, k; /* with a norm: [s b heads, d], [s b groups, d], before it; of the whole [s b, heads d], [s b,
                     * groups d] */
    tx_norm_saved q_norm, k_norm;
    tx_tensor o;   /* [s, b, heads d], heads side by side, before the projection */
    tx_tensor lse; /* [b, groups, r, s] */
    tx_context_saved context;
} tx_attention_saved;

/* A layer's keys and values of the positions already seen, for generation, and which of them a call continues. */
typedef struct tx_kv_cache {
    tx_tensor k, v; /* [positions, slots, groups, d], any strides but the last */
    tx_past past;
    tx_tensor own_from; /* [b] i32: where ranks divide the positions of a call in a row, this one's first; absent: all
                         * of them have all of these. Of the cache each has some heads (context_attention.h) */
} tx_kv_cache;

/* What a layer's attention works on. Of sums over tensor ranks a rank has its own part. */
typedef struct tx_attention_call {
    tx_tensor x, y;     /* [s, b, h]; forward writes y */
    tx_tensor dy, dx;   /* [s, b, h]; backward writes dx, which may be dy's memory */
    tx_keys seen;       /* which keys a query sees */
    tx_tensor position; /* [s, b] i32, for rotary positions, of all ranks that divide them; absent: those that the rank
                         * has (parallel/cp.h) */
    tx_tensor max_logits;          /* [groups, heads of a group] fp32, as in ops.h, which forward adds to; or absent */
    const tx_dropout_key *dropout; /* of the probabilities */
    tx_kv_cache *kv; /* NULL: training and scoring; else the s new positions are appended to the cache and see all of
                      * their sequence */
    const tx_chunks *chunks; /* NULL: x has all positions; else those of a chunk */
} tx_attention_call;

#endif
