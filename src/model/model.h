/* model.h - what a model is to the rest of triax: a parameter table, a forward and a backward. What its parameters are
 * called elsewhere is in hf_format.h. A new model is a folder beside gpt/ and a line in model_registry.c. */
#ifndef TX_MODEL_MODEL_H
#define TX_MODEL_MODEL_H

#include "config/config.h"
#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/param.h"

/* One micro-batch as a model sees it: s-major, as Megatron lays activations out. */
typedef struct tx_batch {
    tx_tensor token, position; /* [s, b] i32 */
    tx_tensor first_key; /* [s, b] i32: where each position's document begins; absent: attention reaches back to 0 */
    tx_tensor label;     /* [s*b] i32, -1 = ignored */
    tx_tensor weight;    /* [s*b] fp32: derivative of the objective by each token's loss */
    tx_tensor loss;      /* [s*b] fp32, out, nats */
    tx_dropout_key dropout;
} tx_batch;

/* What generation needs of one call: new tokens in, logits of the last position out. */
typedef struct tx_decode {
    tx_tensor token, position; /* [s, b] i32 */
    tx_tensor logits;          /* [b, padded vocabulary], out */
    tx_kv_cache *kv;           /* one per layer */
} tx_decode;

typedef struct tx_model {
    const struct tx_model_type *type;
    tx_params params;
    tx_dtype dtype;  /* of parameters and activations */
    tx_dtype stream; /* of the residual stream: dtype, or fp32 */
    int64_t n_layers, hidden, n_heads, max_positions;
    int64_t n_groups; /* key and value heads */
    int64_t head_dim;
    int64_t ffn, mlp_in;    /* width inside the MLP, and rows of its first matrix: twice as many with a gate */
    int64_t vocab_size;     /* real tokens: what the tokenizer has */
    int64_t vocab_padded;   /* rows of the embedding: a multiple of --make-vocab-size-divisible-by */
    int64_t n_valid;        /* columns that take part in the softmax: vocab_size, or vocab_padded as upstream does */
    double label_smoothing; /* of the training loss */
    tx_recompute recompute;
} tx_model;

typedef struct tx_model_type {
    const char *name;
    /* Sizes from the options, vocabulary from the tokenizer; declares the parameters, allocates no weights. */
    tx_status (*create)(tx_model **out, const tx_config *cfg, int64_t vocab_size);
    void (*destroy)(tx_model *m);
    /* Loss of every token; with `train` also pushes on c->acts what bwd pops, and the head's gradients are done. */
    tx_status (*fwd)(tx_ctx *c, tx_model *m, const tx_batch *batch, bool train);
    tx_status (*bwd)(tx_ctx *c, tx_model *m, const tx_batch *batch);
    tx_status (*decode)(tx_ctx *c, tx_model *m, const tx_decode *d);
} tx_model_type;

const tx_model_type *tx_model_type_find(const char *name); /* NULL if there is none */

/* Rows of the vocabulary after padding: Megatron's rule. */
int64_t tx_vocab_padded(int64_t vocab_size, int64_t multiple);

/* FLOPs of one forward and backward over s*b tokens: 3 × 2 × (multiply-adds of all matrix products, attention counted
 * in full as Megatron-DeepSpeed does). With full recomputation one forward more, as it counts, whatever its method and
 * number of layers; selective recomputes no matrix product here. */
double tx_model_flops(const tx_model *m, int64_t s, int64_t b);

#endif
