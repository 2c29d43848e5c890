/* model.h - what a model is to the rest of triax: a parameter table and a list of layers (nn/stack.h), and how samples
 * become a batch for them. What its parameters are called in Hugging Face's files is in hf_format.h. A new model is a
 * folder beside gpt/ and a row in kinds/models.h. */
#ifndef TX_MODEL_MODEL_H
#define TX_MODEL_MODEL_H

#include "config/config.h"
#include "data/samples.h"
#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/stack.h"
#include "parallel/grid.h"
#include "parallel/pp_schedule.h"
#include "triax/model.h"

/* What makes logits: formed x wᵀ + bias. */
typedef struct tx_model_head {
    tx_tensor w, bias; /* [this tensor rank's v, h], [v] or absent */
    tx_logit_form form;
} tx_model_head;

/* A teacher's head, and what it reads. */
typedef struct tx_teaching {
    tx_tensor x; /* [s*b, its h] */
    tx_model_head head;
} tx_teaching;

/* One micro-batch as a model sees it: s-major, as Megatron lays activations out. A pipeline's stage computes one chunk
 * of the model at a time, for several micro-batches in turn; each such pair has a slot, where what backward needs is
 * kept (tx_model_hold), and a tx_batch of its own. Between chunks tensors are [s, b, h] of the residual stream's
 * dtype, s being the positions of a rank (parallel/tp.h). */
typedef struct tx_batch {
    tx_tensor token, position; /* [s, b] i32 */
    tx_tensor type;            /* [s, b] i32: which segment of its sample a token is of; absent: there is one */
    tx_tensor first_key; /* [s, b] i32: where each position's document begins; absent: attention reaches back to 0.
                          * Where ranks divide samples, of all of their positions */
    tx_tensor n_keys; /* [b] i32: tokens of each sample, the rest pads; absent: all are. Attention has no direction */
    tx_tensor label;  /* [n] i32, -1 = ignored; n is s*b, or with `row` at most what is predicted of a micro-batch */
    tx_tensor weight; /* [n] fp32: derivative of the objective by each token's loss */
    tx_tensor loss;   /* [n] fp32, out, nats */
    tx_tensor row;    /* [b + n] i32: the rows of [s*b] that the head reads: every sample's first, then those of
                       * label; absent: all */
    int64_t n_labels; /* with `row`: what is predicted. Labels from there on are -1, and their row is the first */
    tx_tensor kept;   /* [layers, r, b] i32, of a chunk's layers with --random-ltd, in their order: the positions of
                       * the tokens that they compute, rising; absent, or as many as there are: all of them */
    tx_tensor kept_first; /* [layers, r, b] i32, with first_key: where documents begin among these tokens */
    tx_tensor kept_n;     /* [layers, b] i32, with n_keys: how many of a sample's are among them, at least 1 */
    tx_tensor pair_label, pair_weight; /* [b] i32, fp32: the same of the binary head, if there is one */
    tx_tensor other_loss;              /* out, fp32: the second of a model's losses, if it has two: [b] of the binary
                                        * head, or [n] with z_weight, which only training computes */
    tx_tensor input[TX_MAX_INPUTS];    /* of a user-defined model, instead of all above but weight and loss */
    int64_t n_samples;                 /* likewise */
    tx_dropout_key dropout;
    tx_tensor taught;    /* [n] fp32, out: what a model with a teacher learns from it, the last of its losses; training
                          * alone */
    tx_teaching teacher; /* the caller's, of that */
    tx_tensor features;  /* the caller's, absent: of a teacher's last chunk, [s*b, h], out: what its head reads, and no
                          * loss is computed */
    double scale;        /* tx_batch_rule's, for layers that have losses of their own */
    tx_kv_cache *kv;     /* generation: one per layer of this stage; else NULL */
    int chunk, slot;
    tx_tensor x; /* input of a chunk that is not the first; the caller's, until the slot's bwd, or where the
                  * layers' inputs move (nn/kept_input.h) until fwd has come back */
    tx_tensor y; /* set by fwd: the output of a chunk that is not the last. On the activation stack, as d */
    tx_tensor d; /* set by fwd with train: where the caller puts the gradient of y, and bwd then that of x */
    const tx_unit_hooks *units; /* called as parameters are used; or NULL */
    tx_wgrad_store *wgrads;     /* bwd: for tx_model_weights, to which it leaves gradients of weights; or NULL */
    bool last;                  /* of the chunk's micro-batches of an iteration */
    bool
        reweighted; /* of a user-defined model: `weight` has changed since fwd, so bwd runs what read it in fwd again */
} tx_batch;

/* New tokens of b sequences through this stage's part of the model: the residual stream in and out, so that logits are
 * asked for where they are wanted. */
typedef struct tx_decode {
    tx_tensor token, position; /* [s, b] i32; the first stage's */
    tx_tensor x;               /* [s, b, h], what the stage before gave; not the first stage's */
    tx_tensor y;               /* [s, b, h], out, of the stream's dtype: after this stage's layers */
    tx_kv_cache *kv;           /* one per layer of this stage */
} tx_decode;

enum { TX_MAX_LOSSES = 3, TX_BATCH_BUFFERS = 16 + TX_MAX_INPUTS };

/* The losses of some tokens, or of some samples. */
typedef struct tx_loss_sum {
    double sum; /* nats */
    int64_t n;
} tx_loss_sum;

/* How samples become a batch. */
typedef struct tx_batch_rule {
    int64_t s;   /* positions of a sample in `rows`, of which the batch has the first ones; 0: as many as the batch */
    int32_t eod; /* token after which a document ends, or -1 */
    bool eod_mask_loss, reset_position_ids;
    bool places;     /* rows are of conversations: [s] tx_finetune_place, which say labels and positions (GPT) */
    int64_t n_parts; /* ranks that divide the positions of a sample: rows are whole, the batch has one part; 0 is 1 */
    tx_position_runs at; /* of the batch's rows */
    double scale; /* of the objective, which is the mean of each loss over the micro-batch, summed over the losses */
} tx_batch_rule;

/* Positions of a sample that ranks together have, and which row of the batch's n has position i; -1: another rank. */
static inline int64_t tx_batch_whole(const tx_batch_rule *rule, int64_t n)
{
    return rule->n_parts > 1 ? n * rule->n_parts : n;
}
static inline int64_t tx_batch_row(const tx_batch_rule *rule, int64_t n, int64_t i)
{
    return rule->n_parts > 1 ? tx_position_row(&rule->at, n, i) : i;
}

typedef struct tx_model {
    const struct tx_model_type *type;
    struct tx_model_shape *shape; /* owned; NULL of a user-defined model */
    tx_params params;             /* of this rank */
    tx_stack stack;               /* its layers on this rank */
    tx_dtype dtype;               /* of parameters and activations */
    tx_dtype stream;              /* of the residual stream: dtype, or fp32 */
    int64_t n_layers, hidden, n_heads, max_positions;
    tx_positions positions; /* learned: a table of max_positions, nothing can be longer */
    bool lengths_matter;    /* to rotary positions: of a longer text they are others (dynamic NTK) */
    int64_t n_groups;       /* key and value heads */
    int64_t head_dim;
    int64_t ffn, mlp_in; /* width inside the MLP, and rows of its first matrix: twice as many with a gate */
    double mlp_products; /* multiply-adds of a token in the feed-forward half of a layer, in the mean over all layers */
    int64_t window, n_windowed; /* --window-size, and how many layers of the whole model have it */
    tx_moe_shape experts;       /* of the first layer that has some; n_experts 1: none has */
    int64_t vocab_size;         /* real tokens: what the tokenizer has */
    int64_t vocab_padded;       /* rows of the embedding: a multiple of --make-vocab-size-divisible-by */
    int64_t n_valid;      /* columns that take part in the softmax: vocab_size, or vocab_padded as upstream does */
    bool frozen;          /* but for adapters nothing is trained: backward makes no gradients of weights */
    double head_products; /* multiply-adds of the head's matrix products, for each position of the sequence */
    int n_losses;
    const char *loss_name[TX_MAX_LOSSES]; /* as Megatron logs them: "lm loss"; the objective is their sum */
    double label_smoothing;               /* of the training loss */
    double z_weight;                      /* of the output layer's z-loss, loss_name[1] of training; 0: there is none */
    double kd_factor, kd_temp;            /* with is_taught: of what a teacher adds, the last of training's losses */
    bool is_taught;
    int64_t kd_positions;   /* of a sample, that its sum over tokens is divided by: all of --seq-length; */
    int64_t kd_counted;     /* of these, a rank's */
    double sample_flops;    /* of a user-defined model: FLOPs of a sample's forward; 0: not known */
    tx_initial initial;     /* likewise: of its TX_INIT_OWN parameters */
    tx_tensor expert_sums;  /* [this stage's layers with experts, tx_moe_n_sums] fp32: what backward adds
                             * up for the log, once data are there; n_dims 0: no layer has experts */
    tx_tensor expert_bias;  /* [this stage's layers with experts, experts] fp32: what experts are chosen
                             * with, whatever the model's type, once data are there; n_dims 0: with
                             * nothing */
    int64_t n_dropping;     /* layers with --random-ltd, of the whole model */
    int64_t most_dropping;  /* of them, those of this stage's chunk that has most */
    tx_tensor max_logits;   /* [this stage's layers, heads of this rank] fp32: the largest scores of
                             * attention that forwards of training have seen, once data are there;
                             * n_dims 0: nobody asks */
    tx_recompute recompute; /* n_layers: of each chunk */
    tx_chunking chunking;   /* whether layers compute their positions in chunks */
    int64_t n_again;        /* layers that are computed again, of the whole model */
    int n_chunks;           /* what this pipeline stage has of the layers */
    tx_pp_chunk chunk[TX_MAX_CHUNKS];
} tx_model;

/* A model's options of its shape as they are meant (tx_config_shape_of), and what Hugging Face calls it. */
typedef struct tx_model_shape {
    json_t *options; /* owned */
    char family[64]; /* --hf-model-type; empty: whichever it is */
    int format;      /* hf_format.c's, once somebody has asked; -1 */
} tx_model_shape;

/* How many losses an evaluation has: the first ones. A z-loss is none, nor is a teacher's. */
static inline int tx_model_n_scored(const tx_model *m)
{
    return m->z_weight > 0 || m->is_taught ? 1 : m->n_losses;
}

typedef struct tx_model_type {
    const char *name;          /* as --model-type has it: "GPT" */
    const tx_samples *samples; /* what it is trained on */
    /* The vocabulary of its usual tokenizer, which a plan takes where nothing else is known: tokens, and whose it is.
     */
    int64_t usual_tokens;
    const char *usual_tokenizer;
    const char *prefix; /* of its description in a plan: "BERT, ", or "" */
    /* In Megatron-DeepSpeed: whether it has a PipelineModule of the model, and --tokenizer-type where none is known. */
    bool upstream_pipeline;
    const char *upstream_tokenizer;
    /* Sizes from the options, vocabulary from the tokenizer; declares the parameters of a rank of the grid (NULL: of
     * one alone), allocates no weights. */
    tx_status (*create)(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid);
    void (*destroy)(tx_model *m);
    /* The batch's own tensors, contiguous and at TX_DRY_ADDRESS: shapes for b samples of s positions. */
    void (*shape)(const tx_model *m, const tx_config *cfg, tx_batch *batch, int64_t s, int64_t b);
    /* What goes between pipeline stages of a model of one chunk a stage: the input of this rank's and its output,
     * absent at the ends; NULL: [s, b, h] of the stream */
    void (*between)(const tx_model *m, int64_t b, tx_tensor *front, tx_tensor *behind);
    /* Samples become the batch.  @rows [b][row_len] i32, or of a user-defined model [n_inputs] pointers.
     * TX_ERR_FORMAT: an id that is not in the vocabulary */
    tx_status (*collate)(const tx_model *m, tx_batch *batch, const void *rows, const tx_batch_rule *rule);
    /* After the last chunk's forward: of the first n_samples samples.  @sum [n_losses] */
    void (*losses)(const tx_model *m, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum);
    /* The chunk that a stage has, which is one. Ranks have all positions: no sequence parallelism. NULL: the model does
     * not continue text. */
    tx_status (*decode)(tx_ctx *c, tx_model *m, const tx_decode *d);
    /* The last stage's: from rows of its y to what comes next.  @logits [rows, this tensor rank's part of the padded
     * vocabulary] fp32, out; the row stride may exceed the row   @y [rows, h] */
    tx_status (*logits)(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y);
    tx_model_head (*head)(const tx_model *m); /* the last stage's: what makes them. NULL: it cannot teach */
    /* Likewise of the binary head, from the first position of each sample; NULL, or m->n_losses 1: there is none.
     * @logits [b, 2] fp32, out   @y [b, h] */
    tx_status (*pair_logits)(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y);
} tx_model_type;

const tx_model_type *tx_model_type_of(const tx_config *cfg); /* by --model-type, which the options have checked */

/* expert_bias as the weights have it.   @bias [its elements]   @weights a flat buffer of all of the table */
void tx_model_read_bias(const tx_model *m, float *bias, const float *weights);

/* ---- model_run.c: a batch through the layers ---- */

/* Memory for what forward leaves of so many micro-batches at a time; of one after create. TX_ERR_NOMEM */
tx_status tx_model_hold(tx_model *m, int n_slots);

/* The batch's chunk; the last one gives the loss of every token. With `train` also pushes on c->acts what bwd pops, and
 * the gradients of the layer that makes losses are done. Without, y lies there above the caller's mark. */
tx_status tx_model_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train);
tx_status tx_model_bwd(tx_ctx *c, tx_model *m, tx_batch *batch);

/* What a backward left in batch->wgrads. Of the batch its chunk, last and units are read, too. */
tx_status tx_model_weights(tx_ctx *c, tx_model *m, tx_batch *batch);

/* ---- token_draw.c: tokens that pass layers by (--random-ltd) ---- */

/* Shapes of the batch's kept tokens, r of a sample's s, of all ranks.   As tx_model_type.shape, after it. */
void tx_routing_shape(const tx_model *m, tx_batch *batch, int64_t r, int64_t s);

/* The tokens of each of the chunk's layers, by the batch's dropout key, and what of its masks is of them; nothing where
 * layers compute all tokens. A sample's tokens depend on (seed, iteration, sample, layer, s, r) alone. */
void tx_routing_draw(const tx_model *m, const tx_config *cfg, tx_batch *batch);

/* r different numbers below s, all sets alike, rising.   @at [r], `step` apart */
void tx_routing_sample(int32_t *at, int64_t step, int64_t r, int64_t s, const tx_rng *rng, uint64_t sample);

/* tx_model_type.decode of models with a residual stream. */
tx_status tx_model_decode(tx_ctx *c, tx_model *m, const tx_decode *d);

/* tx_layer_kind.output of a layer that makes losses. */
tx_tensor tx_no_output(tx_ctx *c, const tx_stack_call *k);

/* client/: a rank's part of a user-defined model, whose declaration outlives it. TX_ERR_ARG: it cannot be. */
tx_status tx_client_model_create(tx_model **out, const tx_config *cfg, const tx_client_model *client,
                                 const tx_grid *grid);

/* Where the tensors of a batch are that are its own, absent ones too. */
void tx_batch_buffers(tx_batch *batch, tx_tensor *own[TX_BATCH_BUFFERS]);

/* TX_ERR_FORMAT unless 0 <= id < vocab_size. */
tx_status tx_check_id(const tx_model *m, int32_t id);

/* Rows of the vocabulary after padding: Megatron's rule. */
int64_t tx_vocab_padded(int64_t vocab_size, int64_t multiple);

/* FLOPs of a multiply-add of weights, forward and backward. */
static inline double tx_model_weight_flops(const tx_model *m)
{
    return m->frozen ? 4 : 6;
}

/* Keys that a token of a layer is multiplied with, in the mean over all layers, as FLOPs count them: all s of them,
 * also where it sees those before it alone; of a layer with a window twice those that it sees, which is as much where
 * the window is as long as the sequence. */
double tx_model_keys(const tx_model *m, int64_t s);

/* Model FLOPs of one forward and backward over s*b tokens: 3 × 2 × (multiply-adds of all matrix products, attention
 * counted in full as all published counts do); of weights that are not trained 2 × 2, and nothing of adapters. What is
 * computed again is not in them. */
double tx_model_flops(const tx_model *m, int64_t s, int64_t b);

/* What of them is not computed where layers with --random-ltd see r of s tokens. */
double tx_model_flops_spared(const tx_model *m, int64_t s, int64_t r, int64_t b);

/* The forwards of layers that are computed again: hardware FLOPs are the sum of both. 0 with selective recomputation,
 * which repeats no matrix product here. */
double tx_model_flops_again(const tx_model *m, int64_t s, int64_t b);

/* 24 f b s l h² (1 + s/6h + V/16lh), arXiv:2104.04473 eq. 3, V padded; f is 3, or 4 with any recomputation, as
 * Megatron-DeepSpeed's throughput_calculator has it. 0 of a user-defined model. */
double tx_model_flops_2021(const tx_model *m, int64_t s, int64_t b);

#endif
