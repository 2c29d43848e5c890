/* transformer.h - what the models have in common: embedding, layers and final norm, as much of them as a pipeline's
 * stage has. A model is one of these and a head.
 *
 *      x0 = drop(word[token] + pos[position] + kind[type]);  x_{l+1} = block_l(x_l);  y = norm(x_L)
 *
 *  Learned positions may be absent: rotary ones turn queries and keys inside the blocks. With --post-layernorm the sum
 * of the embedding is normalised, and x_L is y. Vaswani et al. arXiv:1706.03762; Megatron-LM arXiv:1909.08053. */
#ifndef TX_MODEL_TRANSFORMER_H
#define TX_MODEL_TRANSFORMER_H

#include "model/model.h"
#include "nn/block.h"
#include "nn/kept_input.h"

/* What the forward of a micro-batch through a chunk left for its backward; tensors lie on the activation stack. s is
 * the positions of a rank. */
typedef struct tx_transformer_saved {
    tx_block_saved *block; /* of the chunk's layers; in one piece with all slots'. The x of a group that is computed
                            * again is what is kept of its input (nn/kept_input.h) */
    tx_norm_saved embedding_norm, final_norm;
    tx_tensor e;      /* [s, b, h], input of the embedding's norm */
    tx_tensor x;      /* [s, b, h], input of the final norm, or what is behind the chunk's last layer */
    tx_tensor y;      /* [s, b, h], output of the final norm */
    tx_tensor dy;     /* [s, b, h], gradient of y, which the head writes */
    tx_tensor d;      /* [s, b, h], of x; dy's memory where the stream has dy's dtype */
    size_t mark;      /* of the stack before forward */
    size_t head_mark; /* of the stack behind the layers */
    size_t host_mark; /* of the host's stack before forward */
} tx_transformer_saved;

/* What the embedding normalises: with --embed-layernorm word[token] alone, before anything is added. */
typedef enum tx_embedding_norm { TX_NORM_NOTHING, TX_NORM_WORDS, TX_NORM_SUM } tx_embedding_norm;

typedef struct tx_transformer {
    tx_model base;   /* first: a tx_model * is a tx_transformer * */
    unsigned traits; /* of the whole model, also of what other stages have */
    tx_weight word, pos, kind;
    tx_embedding_norm normed;
    tx_norm embedding_norm, final_norm;
    tx_block *block; /* this stage's, chunk by chunk */
    struct {
        int words, embedding; /* the words' matrix, which may be the head's as well; positions, types and a norm */
        int layers;           /* the first one of block[]; the others follow */
        int norm;             /* behind the layers: the final norm, and what the model adds to it */
        int head;             /* the matrix that makes logits */
    } unit;                   /* of the parameter table; -1: not on this stage */
    int n_blocks;
    int at[TX_MAX_CHUNKS]; /* where a chunk's layers begin among them */
    double p_drop;
    tx_transformer_saved *saved; /* one a slot */
} tx_transformer;

/* What a model may be without, beside its blocks' traits (block.h), and what its own head has (from TX_HEAD_TRAITS on).
 * A word embedding that is the head as well is written by the head first. */
enum {
    TX_WITH_POS = 256,
    TX_WITH_KIND = 512,
    TX_WITH_WORD_NORM = 1024,
    TX_WITH_SUM_NORM = 2048,
    TX_WITH_WORDS = 4096,
    TX_WITH_HEAD = 8192,
    TX_WITH_FINAL_NORM = 16384,
    TX_HEAD_TRAITS = 1 << 16
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

tx_status tx_transformer_hold(tx_transformer *t, int n_slots); /* tx_model_type's */
void tx_transformer_deinit(tx_transformer *t);

/* ---- transformer.c: computing ---- */

/* Embedding and layers of the batch's chunk, to batch->y. With `train` the head may then push what its own backward
 * needs, and writes saved->dy; without, tx_transformer_end comes behind it. */
tx_status tx_transformer_fwd(tx_ctx *c, tx_transformer *t, tx_batch *batch, bool train);
/* Behind the last chunk's: saved->y. Its unit is the caller's to use and to leave. */
tx_status tx_transformer_norm_fwd(tx_ctx *c, tx_transformer *t, const tx_batch *batch);
void tx_transformer_end(tx_ctx *c, tx_transformer *t, const tx_batch *batch);

/* From saved->dy to saved->d, likewise. */
tx_status tx_transformer_norm_bwd(tx_ctx *c, tx_transformer *t, const tx_batch *batch);
/* Layers and embedding, from saved->d, which becomes the gradient of the chunk's input. Pops all that forward pushed.
 */
tx_status tx_transformer_bwd(tx_ctx *c, tx_transformer *t, tx_batch *batch);

/* tx_model_type.decode. */
tx_status tx_transformer_decode(tx_ctx *c, tx_transformer *t, const tx_decode *d);
/* The final norm of some rows of y, pushed.  @y [rows, h] */
tx_status tx_transformer_norm_rows(tx_ctx *c, tx_transformer *t, tx_tensor *normed, tx_tensor y);

/* The unit of the chunk's last layer, or -1: what backward uses next. */
int tx_transformer_last_unit(const tx_transformer *t, const tx_batch *batch);

/* Rows of the vocabulary that this tensor rank has. */
tx_table_shard tx_transformer_words_here(const tx_ctx *c, const tx_transformer *t);

#endif
