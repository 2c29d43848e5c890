/* moe.h - a feed-forward half of many experts, of which a router chooses some for each token (arXiv:1701.06538;
 * DeepSpeed-MoE arXiv:2201.05596; Mixtral arXiv:2401.04088):
 *
 *      y = Σ_j weight_j expert_j(x)          j the k experts that the token has chosen
 *        + shared(x), or g(x) shared(x)      an expert that takes all tokens; g a sigmoid (Qwen2-MoE)
 *      y = c_0 that + c_1 mlp(x)             residual experts (--mlp-type residual); c a softmax of two
 *
 *  The three are gates: a product with a row for each choice, scores, and rows that are summed by weight. Rows are
 * packed by expert, and never padded:
 *
 *      x [T, h] --order--> packed [n, h] --experts--> made [n, h] --weights, sums--> y [T, h]
 *
 *  n is T k where nothing is dropped. The host reads how many rows each expert has.
 *  All tensor ranks have all tokens and make the same choices. The experts' matrices are split over them as an MLP's,
 * and y and dx are a rank's parts of sums. Or experts are whole, and each tensor rank takes its part of the tokens to
 * them: then the other tokens' rows of y and dx are zeros, which are parts of sums as well.
 *  Ranks that divide the positions of samples choose as one that has all (route.h), and pack their own tokens' rows.
 *  Where ranks divide a layer's experts (TX_GROUP_EXPERT of parallel/grid.h), packed rows travel to the ranks of their
 * experts and what is made of them back, each by an all-to-all; and so do their gradients (GShard arXiv:2006.16668). */
#ifndef TX_NN_MOE_H
#define TX_NN_MOE_H

#include "nn/dispatch.h"
#include "nn/dropout.h"
#include "nn/experts.h"

/* A product with a row for each of a few choices, and how a token chooses. */
typedef struct tx_gate {
    tx_linear w; /* [choices, h] */
    tx_router how;
} tx_gate;

typedef struct tx_gate_saved {
    tx_tensor logits, probs;  /* [T, choices]; wide */
    tx_tensor choice, weight; /* [T, k] i32; wide */
    tx_tensor chosen, stats;  /* [choices] i32; [choices + 1] wide: route_fwd's */
    int64_t first, rows;      /* tokens whose rows this rank packs: all, or a tensor rank's part of them */
    tx_tensor row, source;    /* [rows k] i32, of expert_order */
    tx_tensor count;          /* [choices] i32: packed rows; in the host's memory */
    int64_t n;                /* their sum */
} tx_gate_saved;

typedef struct tx_moe {
    tx_gate router;
    tx_weight bias;                   /* [experts], added to scores to choose by; or nothing */
    tx_experts experts;               /* this rank's */
    int64_t first;                    /* number of the first one of them */
    int64_t n_experts;                /* of the layer */
    int64_t ffn, shared_ffn;          /* widths inside an expert, and inside the shared one */
    double train_factor, eval_factor; /* of an expert's capacity; 0: nothing is dropped */
    int64_t min_capacity;
    bool wide_capacity;        /* it is reckoned in fp64, as Megatron Core does */
    double aux_coeff, z_coeff; /* of the auxiliary loss and the z-loss in the objective */
    bool has_bias, has_shared, has_shared_gate, has_residual; /* a shared expert or a residual MLP, not both */
    tx_mlp shared, residual;
    tx_gate shared_gate; /* of one choice */
    tx_gate coefficient; /* of two: what the experts make, what the residual MLP makes */
    bool recompute;      /* packed rows are not kept, but those from other ranks: backward packs them again */
    int layer;           /* from 1 */
} tx_moe;

typedef struct tx_moe_saved {
    tx_gate_saved router, shared_gate, coefficient;
    tx_dispatch dispatch; /* where ranks divide the experts */
    tx_tensor packed;     /* [n, h], for this rank's experts; with recompute and all experts here only its shape */
    tx_tensor made;       /* [n, h], by the experts of this rank's tokens */
    tx_tensor all;        /* [T, h], of the shared expert; [2 T, h], of all experts and of the residual MLP */
    tx_experts_saved experts;
    tx_mlp_saved shared, residual;
} tx_moe_saved;

/* What is added up for the log over the micro-batches of an iteration: the auxiliary loss and the z-loss, each without
 * its coefficient, how many choices were dropped, and how many each expert had before that. */
enum { TX_MOE_AUX, TX_MOE_Z, TX_MOE_DROPPED, TX_MOE_LOAD };
static inline int64_t tx_moe_n_sums(int64_t n_experts)
{
    return TX_MOE_LOAD + n_experts;
}

/* What a layer is told of the pass. */
typedef struct tx_moe_pass {
    int64_t b;      /* samples */
    bool train;     /* training's capacity, not evaluation's */
    bool generates; /* nothing is dropped */
    double scale;   /* backward: of the objective, to which the layer's own losses are added */
    tx_tensor bias; /* [experts] fp32: the layer's, in place of its values, whose type may be too narrow; or absent */
    tx_tensor sums; /* [tx_moe_n_sums or more] fp32, which backward adds to, or in evaluation forward; or absent */
} tx_moe_pass;

typedef struct tx_moe_call {
    tx_tensor x, y;   /* [T, h]; y may be x's memory */
    tx_tensor dx, dy; /* backward; dx may be dy's memory */
    const tx_moe_pass *pass;
    const tx_dropout_key *random;
} tx_moe_call;

/* Declares a layer's rows, "encoder.layers.0.mlp.router.weight", ...; of the experts those of this rank.
 * @prefix "encoder.layers.0.mlp."   @dims f and u are an expert's, and so are n_tp, tp_rank and reduce_group
 * @all_dims of what takes all tokens: the shared expert, or the residual MLP. TX_ERR_NOMEM */
tx_status tx_moe_declare(tx_params *ps, const char *prefix, tx_moe *w, const tx_dims *dims, const tx_dims *all_dims);

/* Tokens that an expert takes at most, in DeepSpeed's arithmetic, which is fp32's; and in Megatron Core's. 0 without a
 * factor: all.   @factor times the choices of a token   @choices of all tokens */
int64_t tx_moe_capacity(int64_t tokens, int64_t n_experts, double factor, int64_t least);
int64_t tx_moe_wide_capacity(int64_t choices, int64_t n_experts, double factor);

/* Writes y. Pushes a's tensors. */
tx_status tx_moe_fwd(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, const tx_moe_call *k);

/* Writes dx, accumulates the weights' gradients. */
tx_status tx_moe_bwd(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, const tx_moe_call *k);

#endif
