/* model.h - what a model is to the rest of triax: a parameter table, a forward and a backward. What its parameters are
 * called elsewhere is in hf_format.h. A new model is a folder beside gpt/ and a line in model_registry.c. */
#ifndef TX_MODEL_MODEL_H
#define TX_MODEL_MODEL_H

#include "config/config.h"
#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/param.h"
#include "parallel/grid.h"
#include "parallel/pp_schedule.h"

/* One micro-batch as a model sees it: s-major, as Megatron lays activations out. A pipeline's stage computes one chunk
 * of the model at a time, for several micro-batches in turn; each such pair has a slot, where what backward needs is
 * kept (tx_model_type.hold), and a tx_batch of its own. Between chunks tensors are [s, b, h] of the residual stream's
 * dtype, s being the positions of a rank (parallel/tp.h). */
typedef struct tx_batch {
    tx_tensor token, position; /* [s, b] i32 */
    tx_tensor first_key; /* [s, b] i32: where each position's document begins; absent: attention reaches back to 0 */
    tx_tensor label;     /* [s*b] i32, -1 = ignored */
    tx_tensor weight;    /* [s*b] fp32: derivative of the objective by each token's loss */
    tx_tensor loss;      /* [s*b] fp32, out, nats */
    tx_dropout_key dropout;
    int chunk, slot;
    tx_tensor x; /* input of a chunk that is not the first; the caller's, until the slot's bwd, or where the
                  * layers' inputs move (nn/kept_input.h) until fwd has come back */
    tx_tensor y; /* set by fwd: the output of a chunk that is not the last. On the activation stack, as d */
    tx_tensor d; /* set by fwd with train: where the caller puts the gradient of y, and bwd then that of x */
    const tx_unit_hooks *units; /* told of parameters as they are used; or NULL */
    bool last;                  /* of the chunk's micro-batches of an iteration */
} tx_batch;

/* For models: calls the hooks, if there are any. */
tx_status tx_unit_use(const tx_batch *batch, int unit, int next);
tx_status tx_unit_leave(const tx_batch *batch, int unit, bool again);
tx_status tx_unit_touch(const tx_batch *batch, int unit);
tx_status tx_unit_done(const tx_batch *batch, int unit);

/* New tokens of b sequences through this stage's part of the model: the residual stream in and out, so that logits are
 * asked for where they are wanted. */
typedef struct tx_decode {
    tx_tensor token, position; /* [s, b] i32; the first stage's */
    tx_tensor x;               /* [s, b, h], what the stage before gave; not the first stage's */
    tx_tensor y;               /* [s, b, h], out, of the stream's dtype: behind this stage's layers */
    tx_kv_cache *kv;           /* one per layer of this stage */
} tx_decode;

enum { TX_MAX_CHUNKS = 64 };

/* What --profile-backward times, of layers that are computed again. */
typedef enum tx_group_time { TX_GROUP_FORWARD, TX_GROUP_AGAIN, TX_GROUP_BACKWARD, TX_N_GROUP_TIMES } tx_group_time;

typedef struct tx_model {
    const struct tx_model_type *type;
    tx_params params; /* of this rank */
    tx_dtype dtype;   /* of parameters and activations */
    tx_dtype stream;  /* of the residual stream: dtype, or fp32 */
    int64_t n_layers, hidden, n_heads, max_positions;
    bool learns_positions; /* a table of max_positions: nothing can be longer */
    int64_t n_groups;      /* key and value heads */
    int64_t head_dim;
    int64_t ffn, mlp_in;    /* width inside the MLP, and rows of its first matrix: twice as many with a gate */
    int64_t vocab_size;     /* real tokens: what the tokenizer has */
    int64_t vocab_padded;   /* rows of the embedding: a multiple of --make-vocab-size-divisible-by */
    int64_t n_valid;        /* columns that take part in the softmax: vocab_size, or vocab_padded as upstream does */
    double label_smoothing; /* of the training loss */
    tx_recompute recompute; /* n_layers: of each chunk */
    int n_chunks;           /* what this pipeline stage has of the layers */
    tx_pp_chunk chunk[TX_MAX_CHUNKS];
    double group_seconds[TX_N_GROUP_TIMES]; /* since the model was made; AGAIN with fetching what was kept */
} tx_model;

typedef struct tx_model_type {
    const char *name;
    /* Sizes from the options, vocabulary from the tokenizer; declares the parameters of a rank of the grid (NULL: of
     * one alone), allocates no weights. */
    tx_status (*create)(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid);
    void (*destroy)(tx_model *m);
    tx_status (*hold)(tx_model *m, int n_slots); /* room for so many; one after create. TX_ERR_NOMEM */
    /* The batch's chunk; the last one gives the loss of every token. With `train` also pushes on c->acts what bwd pops,
     * and the head's gradients are done. Without, y lies there above the caller's mark. */
    tx_status (*fwd)(tx_ctx *c, tx_model *m, tx_batch *batch, bool train);
    tx_status (*bwd)(tx_ctx *c, tx_model *m, tx_batch *batch);
    /* The chunk that a stage has, which is one. Ranks have all positions: no sequence parallelism. */
    tx_status (*decode)(tx_ctx *c, tx_model *m, const tx_decode *d);
    /* The last stage's: from rows of its y to what comes next.  @logits [rows, this tensor rank's part of the padded
     * vocabulary] fp32, out; the row stride may exceed the row   @y [rows, h] */
    tx_status (*logits)(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y);
} tx_model_type;

const tx_model_type *tx_model_type_find(const char *name); /* NULL if there is none */

/* Rows of the vocabulary after padding: Megatron's rule. */
int64_t tx_vocab_padded(int64_t vocab_size, int64_t multiple);

/* FLOPs of one forward and backward over s*b tokens: 3 × 2 × (multiply-adds of all matrix products, attention counted
 * in full as Megatron-DeepSpeed does). With full recomputation one forward more, as it counts, whatever its method and
 * number of layers; selective recomputes no matrix product here. */
double tx_model_flops(const tx_model *m, int64_t s, int64_t b);

#endif
