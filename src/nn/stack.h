/* stack.h - runs a list of layers forward and backward. A model is such a list (model/model.h): GPT's is
 *
 *      embedding | block 0 | block 1 | ... | final norm | head
 *        before  |             body        |       after
 *
 *  The output of a layer is the input of the next one. A pipeline stage has one chunk of the list or several. The stack
 * does once what every list needs; a layer only computes:
 *
 *      recomputation   layers of the body are kept, or in groups computed again in backward (tx_recompute). Selective
 *                      recomputation is inside a layer
 *      kept inputs     the input of such a group may be partitioned over tensor ranks or moved to the host's memory
 *                      (nn/kept_input.h)
 *      memory          outputs and gradients between layers, and the marks of the activation stack
 *      units           which parameters are used, and when (tx_unit_hooks): ZeRO gathers and releases by it
 *      a divided       gradients of weights may be put off (nn/wgrad_store.h), and their hooks with them
 *        backward
 *
 *  Two kinds of lists. With `stream` all that goes between the layers of the body has one shape, the residual stream's,
 * and backward writes the gradient of a layer's input over that of its output. Without, each output has its own shape
 * and gradients alternate between two places on the scratch arena.
 *
 *  On the activation stack, of one micro-batch in one chunk:
 *
 *      | gradients | y 0 | saved 0 | y 1 | saved 1 | ...     layers that are kept
 *      | gradients | y of group 0 | y of group 1 | ...       groups that are computed again
 *
 *  What a group needs while it runs without being kept or is computed again, and what a layer's backward pushes, is at
 *  the top, which stacks may share (tx_ctx_begin_top). */
#ifndef TX_NN_STACK_H
#define TX_NN_STACK_H

#include "config/config.h"
#include "nn/param.h"
#include "nn/wgrad_store.h"

enum { TX_MAX_CHUNKS = 64 };

/* Where in its chunk a layer stands; in this order. */
typedef enum tx_stack_part {
    TX_BEFORE_BODY,
    TX_IN_BODY,   /* recomputation counts these, from 0 in each chunk */
    TX_AFTER_BODY /* without the memory that layers are lent (tx_stack.lend) */
} tx_stack_part;

struct tx_stack_layer;

/* What a layer's functions work on. Tensors are contiguous; those that are not there are absent. */
typedef struct tx_stack_call {
    const struct tx_stack_layer *layer;
    void *model;       /* the stack's */
    const void *batch; /* the pass's */
    tx_tensor x, y;    /* input and output. x is absent in the model's first layer, y in the one that makes losses */
    tx_tensor dy, dx;  /* their gradients: read, and written. With `stream` they may be the same memory */
    tx_tensor
        spare;   /* before the body, of a stack with `stream`: memory for one stream of the weights' type that is
                  * free during the call. Forward: absent without `train`. Backward: absent where dy has that type */
    void *saved; /* saved_size bytes that forward leaves for backward; tensors in it lie on the activation stack */
    bool train;  /* a backward follows */
} tx_stack_call;

typedef tx_status tx_stack_fn(tx_ctx *c, const tx_stack_call *k);

/* The functions of a kind of layer. */
typedef struct tx_layer_kind {
    tx_stack_part part;
    /* Shape of y, without data; n_dims 0: there is none. Of the call layer, model and batch are set. */
    tx_tensor (*output)(tx_ctx *c, const tx_stack_call *k);
    tx_stack_fn *fwd; /* pushes what backward needs; NULL: the layer's output is its input, and only its units count */
    tx_stack_fn *bwd; /* NULL (after the body): forward with `train` also does the backward; it writes dx */
    bool divides;     /* of the body: gradients of its weights are made by nn/wgrad_store.h alone, so may be put off */
} tx_layer_kind;

/* What happens to a unit of parameters around a layer (tx_unit_hooks): first all are gathered, then their gradients
 * begin, then the layer's function runs, then all are released, then gradients are complete; each in the order of the
 * layer's rows. A unit may stand in several rows. */
enum {
    TX_GATHER_FWD = 1,   /* values are read from here on, in forward */
    TX_GRADS_FWD = 2,    /* with `train`: forward contributes to gradients (pre_backward) */
    TX_RELEASE_FWD = 4,  /* values are not read any more */
    TX_COMPLETE_FWD = 8, /* with `train`: the gradients of this micro-batch are complete (post_backward) */
    TX_GATHER_BWD = 16,  /* the same in backward */
    TX_GRADS_BWD = 32,
    TX_RELEASE_BWD = 64,
    TX_COMPLETE_BWD = 128,
    TX_NOT_AHEAD = 256, /* backward does not prefetch it */
    TX_OWN_UNIT = TX_GATHER_FWD | TX_RELEASE_FWD | TX_GATHER_BWD | TX_GRADS_BWD | TX_RELEASE_BWD | TX_COMPLETE_BWD
};

typedef struct tx_stack_unit {
    int unit; /* of the parameter table */
    unsigned does;
} tx_stack_unit;

/* One row of the list. */
typedef struct tx_stack_layer {
    const tx_layer_kind *kind;
    void *params;      /* the layer's, for its functions */
    size_t saved_size; /* per slot */
    int number;        /* its number in the model, from 1; where `name` is set */
    const char *name;  /* noted in the context before its units are used (tx_at_part); NULL: it does that itself */
    const tx_stack_unit *unit; /* [n_units]; tx_stack_add copies them */
    int n_units;
    int first_unit;  /* the stack's: where they are in its list of all */
    size_t saved_at; /* the stack's: where in a slot's memory */
} tx_stack_layer;

/* What is timed of groups of layers that are computed again (--profile-backward). */
typedef enum tx_group_time { TX_GROUP_FORWARD, TX_GROUP_AGAIN, TX_GROUP_BACKWARD, TX_N_GROUP_TIMES } tx_group_time;

typedef struct tx_stack_chunk {
    int first, body, after, end; /* layers: [first, body) before the body, [body, after) in it, [after, end) after it */
    size_t saved_size;
} tx_stack_chunk;

typedef struct tx_stack {
    void *model;
    const tx_params *params; /* the model's table */
    /* Shape of the residual stream in a rank, or NULL. */
    tx_tensor (*stream)(tx_ctx *c, const void *model, const void *batch);
    /* Pushes on the scratch arena what the layers up to the end of the body use in turn; or NULL. @x as the stream */
    void (*lend)(tx_ctx *c, void *model, tx_tensor x);
    bool keeps_inputs;   /* layers of the body keep what their backward reads of their inputs, which need not stay. With
                          * `stream`, while none is computed again */
    bool ahead_of_group; /* the last layer of a group that is computed again prefetches what backward uses next */
    tx_stack_layer *layer;
    tx_stack_unit *unit;
    int n_layers, layers_cap, n_units, units_cap;
    tx_stack_chunk chunk[TX_MAX_CHUNKS];
    int n_chunks;
    struct tx_stack_slot *slot;
    double group_seconds[TX_N_GROUP_TIMES]; /* since the stack was made; AGAIN with fetching what was kept */
} tx_stack;

/* A micro-batch's way through a chunk. */
typedef struct tx_stack_pass {
    int chunk, slot;
    bool train;
    bool last;       /* of the chunk's micro-batches of an iteration */
    bool loss_again; /* backward: what the chunk's last layer read in forward has changed, so that runs again */
    const tx_recompute *recompute;
    const tx_unit_hooks *units; /* or NULL */
    tx_wgrad_store *wgrads;     /* backward: for tx_stack_weights; NULL: nothing is put off */
    tx_dtype dtype;             /* of parameters and activations */
    const void *batch;          /* for the layers' functions */
    tx_tensor x;                /* input of a chunk that is not the first; decode: also absent in the first */
    tx_tensor y;                /* out: output of the body. decode: room for it */
    tx_tensor d; /* out of forward with train: where the caller puts the gradient of y, and backward then that of x */
} tx_stack_pass;

/* Makes a list: chunks one after the other, and in each its layers. TX_ERR_NOMEM */
void tx_stack_begin_chunk(tx_stack *s);
tx_status tx_stack_add(tx_stack *s, const tx_stack_layer *layer);

/* Memory for what forward leaves of so many micro-batches at a time, in the place of what there was. TX_ERR_NOMEM */
tx_status tx_stack_hold(tx_stack *s, int n_slots);
void tx_stack_deinit(tx_stack *s); /* safe on a zeroed one */

/* With train, pushes on c->acts and c->host what backward pops; without, y lies there above the caller's mark. */
tx_status tx_stack_fwd(tx_ctx *c, tx_stack *s, tx_stack_pass *p);

/* From the gradients of the last layer's forward, or that of y in p->d, to all parameters' and that of x in p->d. */
tx_status tx_stack_bwd(tx_ctx *c, tx_stack *s, tx_stack_pass *p);

/* The rest of a backward with p->wgrads: gradients of the parameters of layers that divide theirs. Of the pass chunk,
 * last, units and wgrads are read. */
tx_status tx_stack_weights(tx_ctx *c, tx_stack *s, const tx_stack_pass *p);

/* The only chunk of a stack with `stream`, up to the end of its body, without hooks and for no backward. Uses slot 0.
 */
tx_status tx_stack_decode(tx_ctx *c, tx_stack *s, const tx_stack_pass *p);

#endif
