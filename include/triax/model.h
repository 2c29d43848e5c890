/* model.h - a user-defined model, which the engine (engine.h) trains: layers, each with its parameters, a forward
 * and a backward. What goes from one layer to the next is one tensor, as in DeepSpeed's PipelineModule:
 *
 *      input --> layer 0 --x--> layer 1 --x--> ... --x--> last layer --> loss
 *
 *      static const tx_param_spec fc[] = { { .name = "weight", .dim = { 10, 784 }, .init = TX_INIT_NORMAL,
 *                                            .decay = TX_DECAY },
 *                                          { .name = "bias", .dim = { 10 }, .init = TX_INIT_ZERO } };
 *      static const tx_layer layer[] = {
 *          { .name = "classifier", .param = fc, .n_params = 2, .forward = forward, .backward = backward,
 *            .saved_size = sizeof(saved) },
 *      };
 *      static const tx_client_model model = {
 *          .size = sizeof(tx_client_model), .name = "classifier", .layer = layer, .n_layers = 1,
 *          .input = { { TX_F32, 1, { 784 } }, { TX_I32, 1, { 1 } } }, .n_inputs = 2,
 *      };
 *
 *  A model of one layer is a whole network in two functions. With several, triax gathers and drops their parameters
 * one after the other (ZeRO-3), computes them again in backward (--recompute-granularity full), and divides them over
 * pipeline stages.
 *
 *  A layer's functions use ops (ops.h), which run where ctx computes, or loops of their own over tensors' data. The
 * second needs host_only and has to leave out its loops while tx_ctx_is_dry: the engine plans its memory by calling
 * forward and backward with tensors whose data are addresses that nothing may touch. So what a function pushes depends
 * on sizes alone, never on numbers. */
#ifndef TRIAX_MODEL_H
#define TRIAX_MODEL_H

#include "triax/ops.h"
#include "triax/random.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ---- */

/* Initial values: normal ones have the spec's std; scaled ones that by sqrt(2 --num-layers). */
typedef enum tx_init { TX_INIT_ZERO, TX_INIT_ONE, TX_INIT_NORMAL, TX_INIT_SCALED, TX_INIT_OWN } tx_init;
typedef enum tx_decay { TX_NO_DECAY, TX_DECAY } tx_decay; /* whether weight decay is for it */

/* How the tensor-parallel ranks have it: all of it each, or a part of its rows or columns. */
typedef enum tx_division { TX_WHOLE, TX_ROWS, TX_COLUMNS } tx_division;

typedef struct tx_param_spec {
    const char *name; /* inside its layer; "<layer>.<name>" in checkpoints, below 128 characters */
    int64_t dim[2];   /* of the whole parameter; [1] is 0 of a vector. What has more dimensions is given as a matrix: a
                       * convolution's as [out, in * height * width] */
    tx_init init;
    double std; /* of TX_INIT_NORMAL and _SCALED; 0: --init-method-std */
    tx_decay decay;
    tx_division division;
    /* "<layer>.<name>" of a layer in front, or NULL: it is that parameter, under which name it is initialised, trained
     * and saved, and both layers' backward add to one gradient. Of this spec name and dim are read. With a pipeline
     * those that are tied are on one stage, or on its first and last. */
    const char *tied;
} tx_param_spec;

/* What a layer sees of a parameter. */
typedef struct tx_weight {
    tx_tensor value; /* [dims], of the run's type: fp32, bf16 or fp16 */
    tx_tensor grad;  /* [dims] fp32: for backward, which adds to it */
    bool fresh;      /* triax's own; false for clients */
} tx_weight;

/* ---- a layer ---- */

/* What a layer's function works on. Tensors that are there are contiguous, and where ctx computes. */
typedef struct tx_layer_call {
    void *user;              /* the layer's */
    const tx_weight *weight; /* [n_params], in the order of the layer's table */
    const tx_tensor *input;  /* [n_inputs], each [b, as declared]: of the model's first and last layer, else absent */
    tx_tensor x, y;          /* forward: in and out, out of the shape that the layer declares; backward: as they were.
                              * x is absent in the first layer, y in the last */
    tx_tensor dy, dx;        /* backward: gradients in and out, in the same layers; dx is written, not added to */
    tx_tensor loss;          /* forward of the last layer: [b, losses_per_sample] fp32, out. What does not count is 0 */
    tx_tensor loss_weight;   /* the last layer's, likewise: what the gradient of each loss is to be multiplied with,
                              * loss scale and means included */
    void *saved;             /* saved_size bytes that forward leaves for backward: tensors that it has pushed */
    int64_t b;               /* samples of the micro-batch */
    tx_dtype dtype;          /* of values and of what goes between layers */
    bool train;              /* forward: a backward will follow */
    int layer;               /* number of the layer, from 0; and its name */
    const char *name;
    uint64_t seed, sample; /* --seed; global number of the micro-batch's first sample */
    uint32_t step;         /* iteration, from 1: for tx_rng, and tx_layer_dropout */
} tx_layer_call;

typedef tx_status tx_layer_fn(tx_ctx *c, const tx_layer_call *k);

typedef struct tx_layer {
    const char *name; /* of its own in the model: "encoder.layers.0" */
    const tx_param_spec *param;
    int n_params;
    int n_dims; /* of what it gives to the next layer, of one sample: y is [b, dim...] of dtype; not the */
    int64_t dim[TX_MAX_DIMS]; /* last layer's. 1 to TX_MAX_DIMS - 1 */
    tx_layer_fn *forward, *backward;
    size_t saved_size;
    void *user;
} tx_layer;

/* ---- the model ---- */

enum { TX_MAX_INPUTS = 8 };

/* One sample of an input. */
typedef struct tx_input {
    tx_dtype dtype;
    int n_dims; /* 1 to TX_MAX_DIMS - 1 */
    int64_t dim[TX_MAX_DIMS];
} tx_input;

/* The initial values of the TX_INIT_OWN parameter "<layer>.<name>": elements [first, first + n) of the whole one, in
 * the order of memory. A pure function of its arguments: ranks ask for their parts, and several threads of a rank at
 * once, each for some of them.   @x [n] */
typedef void tx_initial_fn(void *user, const char *name, int64_t first, int64_t n, float *x);

typedef struct tx_client_model {
    size_t size;      /* sizeof(tx_client_model) */
    const char *name; /* in checkpoints: another model's are refused */
    tx_input input[TX_MAX_INPUTS];
    int n_inputs;
    const tx_layer *layer;
    int n_layers;
    int64_t losses_per_sample; /* 0 is 1. The objective is the mean over all losses of the global batch */
    const char *loss_name;     /* in the log; NULL: "loss" */
    bool host_only;            /* a layer's function reads or writes tensors' data itself: --device gpu is refused */
    double flops_per_sample;   /* of forward, for throughput in the log; 0: not known */
    tx_initial_fn *initial;    /* of TX_INIT_OWN */
    void *user;                /* initial's */
} tx_client_model;

/* ---- for layers' functions ---- */

/* Whether this is the plan: nothing may be read or written. */
TX_API bool tx_ctx_is_dry(const tx_ctx *c);
TX_API int tx_ctx_threads(const tx_ctx *c); /* that a loop may use */

/* Memory on the activation stack, for what forward leaves for its backward and for what a function needs itself. What
 * forward pushes stays until the layer's backward is done; what it needs no longer, and has pushed last, goes with
 * tx_ctx_pop(c, mark). Without `train`, and in backward, everything goes when the function comes back. */
TX_API tx_tensor tx_ctx_push(tx_ctx *c, tx_dtype t, int n_dims, const int64_t *dim);
TX_API size_t tx_ctx_mark(const tx_ctx *c);
TX_API void tx_ctx_pop(tx_ctx *c, size_t mark);

/* A tensor's numbers to the host's memory, once they are there; nothing in the plan.   @x contiguous   @to [numel] */
TX_API tx_status tx_ctx_read(tx_ctx *c, void *to, tx_tensor x);

/* A mask for dropout and attention ops: a pure function of the seed, iteration, samples, layer and `site`, a name of
 * the program's; the same in every layout, and when a layer is computed again. Without `train` it keeps all.
 * @s_global as tx_dropout says: positions of a sample, or 1 */
TX_API tx_dropout tx_layer_dropout(const tx_layer_call *k, const char *site, double p, int64_t s_global);

/* ---- checkpoint(function): a piece of a layer's forward that keeps nothing but its inputs ----
 *
 *  DeepSpeed's and torch's checkpoint, for a piece smaller than a layer (whole layers: --checkpoint-activations). Its
 * forward runs, and what it has pushed goes at once; in the layer's backward it runs again, and then its backward:
 *
 *      typedef struct saved { tx_tensor h; tx_kept_piece piece; } saved;
 *      static const tx_piece mlp = { .forward = mlp_forward, .backward = mlp_backward,
 *                                    .saved_size = sizeof(mlp_saved) };
 *      // the layer's forward                                              // its backward
 *      s->h = tx_ctx_push(...);                                            dh = tx_ctx_push(...);
 *      st = tx_checkpoint_forward(c, k, &mlp, &s->piece, &s->h, 1, &y, 1);        st = tx_checkpoint_backward(c, k,
 * &s->piece, &dy, &dh);  */

enum { TX_MAX_PIECE = 4 };

/* What a piece's functions work on; tensors are contiguous, and where ctx computes. */
typedef struct tx_piece_call {
    const tx_layer_call *layer; /* the call of the layer's function: its weights and their gradients, seed, dtype */
    void *user;                 /* the piece's */
    tx_tensor input[TX_MAX_PIECE], output[TX_MAX_PIECE];
    int n_inputs, n_outputs;
    const tx_tensor *doutput; /* backward: [n_outputs], gradients of the outputs */
    const tx_tensor *dinput;  /* backward: [n_inputs], out: written, not added to */
    void *saved;              /* saved_size bytes that forward leaves for backward: tensors that it has pushed */
} tx_piece_call;

typedef tx_status tx_piece_fn(tx_ctx *c, const tx_piece_call *p);

/* Of sizes and random numbers what forward does has to follow from its inputs and the layer's call alone, so that the
 * second time gives the same bits. */
typedef struct tx_piece {
    tx_piece_fn *forward, *backward;
    size_t saved_size; /* at most TX_PIECE_SAVED */
    void *user;
    /* A tracker that forward draws from (random.h): put back for the second time, and left then as it was before; NULL:
     * none. Kept by value, so whatever is drawn in between stays drawn. */
    tx_random_tracker *random;
} tx_piece;

enum { TX_PIECE_SAVED = 4096 };

/* What is kept of a piece, in what the layer saves (tx_layer.saved_size). */
typedef struct tx_kept_piece {
    const tx_piece *piece;
    tx_piece_call call; /* its tensors */
    tx_random_tracker random;
} tx_kept_piece;

/* Runs a piece's forward, in a layer's. Inputs and outputs lie in memory of the layer's: where `train` is, inputs until
 * the layer's backward is done with the piece, unchanged.   @kept NULL without `train`
 * TX_ERR_ARG: more than TX_MAX_PIECE tensors, or a piece that cannot be; else what forward gives. Owns nothing. Not
 * collective, but for what forward is. */
TX_API tx_status tx_checkpoint_forward(tx_ctx *c, const tx_layer_call *k, const tx_piece *piece, tx_kept_piece *kept,
                                       const tx_tensor *input, int n_inputs, const tx_tensor *output, int n_outputs);

/* In the layer's backward: forward again, into memory of its own, and the piece's backward.
 * @doutput [n_outputs]   @dinput [n_inputs], out */
TX_API tx_status tx_checkpoint_backward(tx_ctx *c, const tx_layer_call *k, const tx_kept_piece *kept,
                                        const tx_tensor *doutput, const tx_tensor *dinput);

/* Tensor parallelism: this rank's place among those that share a layer's tensors; and the sum of x over them, in all of
 * them (collective; nothing with one). */
TX_API int tx_ctx_tensor_rank(const tx_ctx *c);
TX_API int tx_ctx_tensor_size(const tx_ctx *c);
TX_API tx_status tx_ctx_tensor_sum(tx_ctx *c, tx_tensor x);

#ifdef __cplusplus
}
#endif
#endif
