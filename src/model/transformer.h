/* transformer.h - what the models have in common: embedding, layers and final norm, as much of them as a pipeline's
 * stage has. A model is one of these and a head.
 *
 *      x0 = drop(scale word[token] + pos[position] + kind[type]);  x_{l+1} = block_l(x_l);  y = norm(x_L)
 *
 *  Learned positions may be absent: rotary ones turn queries and keys inside the blocks. With --post-layernorm the sum
 * of the embedding is normalised, and x_L is y. Vaswani et al. arXiv:1706.03762; Megatron-LM arXiv:1909.08053. */
#ifndef TX_MODEL_TRANSFORMER_H
#define TX_MODEL_TRANSFORMER_H

#include "model/model.h"
#include "model/token_exchange.h"
#include "nn/chunked_block.h"

/* What the embedding's forward left for its backward; tensors lie on the activation stack. */
typedef struct tx_embedding_saved {
    tx_tensor e; /* [s, b, h], input of the norm */
    tx_norm_saved norm;
} tx_embedding_saved;

/* What a layer's forward left. */
typedef struct tx_layer_saved {
    tx_block_saved block;
    tx_tensor x;            /* [r, b, h], where it computed some tokens: they, */
    tx_token_exchange some; /* and where ranks divide positions: how they come and go */
    tx_chunks chunks;       /* where it computed positions in chunks */
} tx_layer_saved;

/* What the embedding normalises: with --embed-layernorm word[token] alone, before anything is added. */
typedef enum tx_embedding_norm { TX_NORM_NOTHING, TX_NORM_WORDS, TX_NORM_SUM } tx_embedding_norm;

typedef struct tx_transformer {
    tx_model base;   /* first: a tx_model * is a tx_transformer * */
    unsigned traits; /* of the whole model, also of what other stages have */
    tx_weight word, pos, kind;
    tx_embedding_norm normed;
    tx_norm embedding_norm, final_norm;
    double embedding_scale; /* of the words */
    tx_halves halves;       /* of the blocks */
    bool puts_off;          /* blocks leave gradients of weights for later (--enable-zbh1-pipeline) */
    tx_block *block;        /* this stage's, chunk by chunk */
    double *frequency;      /* of rotary positions (rotary.h) */
    tx_moe *moe;            /* of its blocks with experts, in their order */
    tx_mlp *expert;         /* of all of those */
    int n_moe;
    struct {
        int words, embedding; /* the words' matrix, which may be the head's as well; positions, types and a norm */
        int layers;           /* the first one of block[]; the others follow */
        int norm;             /* after the layers: the final norm, and what the model adds to it */
        int head;             /* the matrix that makes logits */
    } unit;                   /* of the parameter table; -1: not on this stage */
    int n_blocks;
    tx_block_rooms lent; /* to the blocks, while the stack runs */
    double p_drop;
} tx_transformer;

/* What a model may be without, beside its blocks' traits (block.h), and what its own head has (from TX_HEAD_TRAITS on).
 * A word embedding that is the head as well is written by the head first. */
enum {
    TX_WITH_POS = 1 << 16,
    TX_WITH_KIND = 1 << 17,
    TX_WITH_WORD_NORM = 1 << 18,
    TX_WITH_SUM_NORM = 1 << 19,
    TX_WITH_WORDS = 1 << 20,
    TX_WITH_HEAD = 1 << 21,
    TX_WITH_FINAL_NORM = 1 << 22,
    TX_HEAD_TRAITS = 1 << 24
};

/* What of a model its head decides. */
typedef struct tx_head_shape {
    double share;      /* of the positions, that it reads */
    int64_t before;    /* multiply-adds for each of them, before the logits */
    int64_t n_types;   /* rows of `kind`; 0: there is none */
    bool no_direction; /* attention is not causal */
    unsigned traits;
} tx_head_shape;

/* ---- transformer_create.c: making one ---- */

/* Sizes and this rank's layers from the options, into a zeroed t; then the model declares its parameters. On failure,
 * too, tx_transformer_deinit.  @dims out, for the model's own rows */
tx_status tx_transformer_create(tx_transformer *t, const tx_model_type *type, const tx_config *cfg, int64_t vocab_size,
                                const tx_grid *grid, const tx_head_shape *head, tx_dims *dims);

/* Declares embedding, layers and final norm; where this stage has that, rows that the caller declares next join its
 * unit. tied: the head's matrix is the words'. */
tx_status tx_transformer_declare(tx_transformer *t, const tx_grid *grid, const tx_dims *dims, bool tied);
/* Then, if tied: the last stage's copy of the words. Sets unit.head on a stage with a head. */
tx_status tx_transformer_declare_tied(tx_transformer *t, const tx_grid *grid, const tx_dims *dims);
/* Behind all of them: initial values that the options change. */
void tx_transformer_declared(tx_transformer *t);

/* Lists embedding and blocks of all chunks, whose units are declared; what is after the body of the last one is the
 * caller's to list. TX_ERR_NOMEM */
tx_status tx_transformer_list(tx_transformer *t);
/* The final norm, next in the list. Without one the stream goes through.   @does to its unit */
tx_status tx_transformer_list_norm(tx_transformer *t, unsigned does);

void tx_transformer_deinit(tx_transformer *t);

/* ---- transformer.c: computing ---- */

extern const tx_layer_kind tx_embedding_layer, tx_block_layer, tx_final_norm_layer, tx_no_norm_layer;

/* tx_stack.stream and .lend */
tx_tensor tx_transformer_stream(tx_ctx *c, const void *model, const void *batch);
void tx_transformer_lend(tx_ctx *c, void *model, tx_tensor x);

/* The final norm of some rows of the body's output, pushed.  @y [rows, h] */
tx_status tx_transformer_norm_rows(tx_ctx *c, tx_transformer *t, tx_tensor *normed, tx_tensor y);

#endif
