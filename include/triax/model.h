/* model.h - user-defined models, which the engine (engine.h) trains. A model is a list of layers, each with its
 * parameters, a forward and a backward. One tensor is passed from each layer to the next, as in DeepSpeed's
 * PipelineModule:
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
 * A model of one layer is a whole network in two functions. With several layers, triax can gather and release their
 * parameters layer by layer (ZeRO-3), recompute layers in backward (--recompute-granularity full), and distribute the
 * layers over pipeline stages.
 *
 * A layer's functions call ops (ops.h), which run on the device of the ctx, or loop over the data themselves. A model
 * with such loops must set host_only and must skip them while tx_ctx_is_dry: the engine plans its memory in a dry run
 * of forward and backward, with tensors whose data must not be read or written. What a function pushes must therefore
 * depend on sizes only, never on numbers. */
#ifndef TRIAX_MODEL_H
#define TRIAX_MODEL_H

#include "triax/ops.h"
#include "triax/random.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ---- */

/* Initial values. TX_INIT_NORMAL has the spec's std; TX_INIT_SCALED divides that by sqrt(2 --num-layers); TX_INIT_OWN
 * calls tx_client_model.initial. TX_INIT_KAIMING is uniform within 1 / sqrt(columns). */
typedef enum tx_init {
    TX_INIT_ZERO,
    TX_INIT_ONE,
    TX_INIT_NORMAL,
    TX_INIT_SCALED,
    TX_INIT_OWN,
    TX_INIT_KAIMING
} tx_init;
typedef enum tx_decay { TX_NO_DECAY, TX_DECAY } tx_decay; /* whether weight decay applies */

/* How a parameter is split over the tensor-parallel ranks: each has all of it, or a part of its rows or columns. */
typedef enum tx_division { TX_WHOLE, TX_ROWS, TX_COLUMNS } tx_division;

typedef struct tx_param_spec {
    const char *name; /* name inside its layer; "<layer>.<name>" in checkpoints, less than 128 characters */
    int64_t dim[2];   /* of the whole parameter; [1] is 0 for a vector. A parameter with more dimensions is given as
                       * a matrix: a convolution's as [out, in * height * width] */
    tx_init init;
    double std; /* for TX_INIT_NORMAL and _SCALED; 0: --init-method-std */
    tx_decay decay;
    tx_division division;
    /* "<layer>.<name>" of a parameter of an earlier layer, or NULL. This parameter is then that parameter: it is
     * initialised, trained and saved under that name, and the backward of both layers accumulates into one gradient.
     * Only `name` and `dim` of this spec are used. With a pipeline, tied parameters must be on the same stage, or on
     * the first and the last. */
    const char *tied;
} tx_param_spec;

/* A parameter as a layer's functions get it. */
typedef struct tx_weight {
    tx_tensor value; /* [dims], of the dtype of the run: fp32, bf16 or fp16 */
    tx_tensor grad;  /* [dims] fp32: backward accumulates into it */
    bool fresh;      /* internal; false for user-defined models */
    bool frozen;     /* internal, likewise: it is not trained, and has no gradient */
} tx_weight;

/* ---- a layer ---- */

/* The arguments of a layer's function. Tensors that are present are contiguous, and in the memory of the ctx's
 * device. */
typedef struct tx_layer_call {
    void *user;              /* the layer's */
    const tx_weight *weight; /* [n_params], in the order of the layer's table */
    const tx_tensor *input;  /* the model's inputs [n_inputs], each [b, as declared]; only in the first and the last
                              * layer, else absent */
    tx_tensor x, y;          /* forward: input and output, the output with the shape that the layer declares;
                              * backward: the same tensors. x is absent in the first layer, y in the last */
    tx_tensor dy, dx;        /* backward: gradients of y (in) and x (out), present in the same layers; dx is written,
                              * not accumulated */
    tx_tensor loss;          /* forward of the last layer: [b, losses_per_sample] fp32, out. Losses that do not count
                              * are 0 */
    tx_tensor loss_weight;   /* last layer, same shape: the factor for the gradient of each loss, which includes the
                              * loss scale and the means */
    void *saved;             /* saved_size bytes that forward leaves for backward: tensors that it has pushed */
    int64_t b;               /* samples of the micro-batch */
    tx_dtype dtype;          /* of values and of the tensors between layers */
    bool train;              /* forward: a backward follows */
    int layer;               /* the layer's number, from 0, and its name */
    const char *name;
    uint64_t seed, sample; /* --seed; global number of the micro-batch's first sample */
    uint32_t step;         /* iteration, from 1: for tx_rng, and tx_layer_dropout */
} tx_layer_call;

typedef tx_status tx_layer_fn(tx_ctx *c, const tx_layer_call *k);

typedef struct tx_layer {
    const char *name; /* unique in the model: "encoder.layers.0" */
    const tx_param_spec *param;
    int n_params;
    int n_dims;               /* shape of one sample of the output: y is [b, dim...] */
    int64_t dim[TX_MAX_DIMS]; /* of dtype. 1 to TX_MAX_DIMS - 1; the last layer has no y */
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

/* Writes the initial values of the TX_INIT_OWN parameter "<layer>.<name>": elements [first, first + n) of the whole
 * parameter, in memory order. It must be a pure function of its arguments: each rank asks for its part, and several
 * threads of a rank may call it at the same time.
 * @x [n] */
typedef void tx_initial_fn(void *user, const char *name, int64_t first, int64_t n, float *x);

typedef struct tx_client_model {
    size_t size;      /* sizeof(tx_client_model) */
    const char *name; /* in checkpoints: those of a model with another name are refused */
    tx_input input[TX_MAX_INPUTS];
    int n_inputs;
    const tx_layer *layer;
    int n_layers;
    int64_t losses_per_sample; /* 0 means 1. The objective is the mean over all losses of the global batch */
    const char *loss_name;     /* for the log; NULL: "loss" */
    bool host_only;            /* a layer's function reads or writes tensor data itself: --device gpu is refused */
    double flops_per_sample;   /* of forward, for the throughput in the log; 0: unknown */
    tx_initial_fn *initial;    /* for TX_INIT_OWN */
    void *user;                /* initial's */
} tx_client_model;

/* ---- for layers' functions ---- */

/* Whether this is the dry run that plans memory: tensor data must not be read or written. */
TX_API bool tx_ctx_is_dry(const tx_ctx *c);
TX_API int tx_ctx_threads(const tx_ctx *c); /* that a loop may use */

/* Allocates a tensor on the activation stack, for what forward keeps for its backward and for a function's
 * temporaries. What forward pushes stays until the layer's backward is done. Temporaries that were pushed last can be
 * released earlier with tx_ctx_pop(c, mark). Without `train`, and in backward, everything is released when the
 * function returns. */
TX_API tx_tensor tx_ctx_push(tx_ctx *c, tx_dtype t, int n_dims, const int64_t *dim);
TX_API size_t tx_ctx_mark(const tx_ctx *c);
TX_API void tx_ctx_pop(tx_ctx *c, size_t mark);

/* Copies a tensor's numbers to host memory, after the work that computes them has finished. Does nothing in a dry run.
 * @x contiguous
 * @to [numel] */
TX_API tx_status tx_ctx_read(tx_ctx *c, void *to, tx_tensor x);

/* A mask for the dropout and attention ops. It is a pure function of the seed, the iteration, the samples, the layer
 * and `site`, a name that the program chooses. It is the same in every parallel layout and when a layer is recomputed.
 * Without `train` it keeps everything.
 * @s_global as in tx_dropout: the positions of a sample, or 1 */
TX_API tx_dropout tx_layer_dropout(const tx_layer_call *k, const char *site, double p, int64_t s_global);

/* ---- checkpoint(function): recomputes a piece of a layer, and keeps only its inputs ----
 *
 * DeepSpeed's and torch's checkpoint, for a piece smaller than a layer (whole layers: --checkpoint-activations). After
 * the piece's forward, what it pushed is released. In the layer's backward its forward runs again, and then its
 * backward:
 *
 *      typedef struct saved { tx_tensor h; tx_kept_piece piece; } saved;
 *      static const tx_piece mlp = { .forward = mlp_forward, .backward = mlp_backward,
 *                                    .saved_size = sizeof(mlp_saved) };
 *      // the layer's forward
 *      s->h = tx_ctx_push(...);
 *      st = tx_checkpoint_forward(c, k, &mlp, &s->piece, &s->h, 1, &y, 1);
 *      // its backward
 *      dh = tx_ctx_push(...);
 *      st = tx_checkpoint_backward(c, k, &s->piece, &dy, &dh); */

enum { TX_MAX_PIECE = 4 };

/* The arguments of a piece's functions. Tensors are contiguous, and in the memory of the ctx's device. */
typedef struct tx_piece_call {
    const tx_layer_call *layer; /* the arguments of the layer's function: weights and their gradients, seed, dtype */
    void *user;                 /* the piece's */
    tx_tensor input[TX_MAX_PIECE], output[TX_MAX_PIECE];
    int n_inputs, n_outputs;
    const tx_tensor *doutput; /* backward: [n_outputs], gradients of the outputs */
    const tx_tensor *dinput;  /* backward: [n_inputs], out: written, not accumulated */
    void *saved;              /* saved_size bytes that forward leaves for backward: tensors that it has pushed */
} tx_piece_call;

typedef tx_status tx_piece_fn(tx_ctx *c, const tx_piece_call *p);

/* A piece. What its forward does may depend only on its inputs and on the arguments of the layer's call, sizes and
 * random numbers included, so that the second run gives the same bits. */
typedef struct tx_piece {
    tx_piece_fn *forward, *backward;
    size_t saved_size; /* at most TX_PIECE_SAVED */
    void *user;
    /* A tracker that forward draws from (random.h), or NULL. For the second run it is set back to its state before the
     * first, and restored afterwards, so numbers drawn in between stay drawn. */
    tx_random_tracker *random;
} tx_piece;

enum { TX_PIECE_SAVED = 4096 };

/* What is kept of a piece between forward and backward. It is part of what the layer saves (tx_layer.saved_size). */
typedef struct tx_kept_piece {
    const tx_piece *piece;
    tx_piece_call call; /* its tensors */
    tx_random_tracker random;
} tx_kept_piece;

/* Runs a piece's forward inside the layer's forward. Inputs and outputs are in memory that the layer owns. With
 * `train`, inputs must stay unchanged until the layer's backward is done with the piece. The call owns nothing, and is
 * collective only if the piece's forward is.
 * @kept NULL without `train`
 * TX_ERR_ARG: more than TX_MAX_PIECE tensors, or an invalid piece; else what the piece's forward returns. */
TX_API tx_status tx_checkpoint_forward(tx_ctx *c, const tx_layer_call *k, const tx_piece *piece, tx_kept_piece *kept,
                                       const tx_tensor *input, int n_inputs, const tx_tensor *output, int n_outputs);

/* Inside the layer's backward: runs the piece's forward again, into its own memory, then the piece's backward.
 * @doutput [n_outputs]
 * @dinput [n_inputs], out */
TX_API tx_status tx_checkpoint_backward(tx_ctx *c, const tx_layer_call *k, const tx_kept_piece *kept,
                                        const tx_tensor *doutput, const tx_tensor *dinput);

/* Tensor parallelism: this rank's number among the ranks that share a layer's tensors, how many there are, and the sum
 * of x over them, which all of them get (collective; does nothing with one rank). */
TX_API int tx_ctx_tensor_rank(const tx_ctx *c);
TX_API int tx_ctx_tensor_size(const tx_ctx *c);
TX_API tx_status tx_ctx_tensor_sum(tx_ctx *c, tx_tensor x);

#ifdef __cplusplus
}
#endif
#endif
