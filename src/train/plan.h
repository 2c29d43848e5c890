/* plan.h - what a run takes, before it takes it (DESIGN idea 8): the real step on the real backend, run dry.
 * Parameters, batch and arenas are addresses that nothing touches, so a model of any size is planned on any machine, in
 * milliseconds. The trainer begins with the same calls, and takes what they found.
 *
 *      plan_open  ->  plan_step  ->  [ fit.h: --memory-limit ]  ->  take                 the last two: the trainer only
 */
#ifndef TX_TRAIN_PLAN_H
#define TX_TRAIN_PLAN_H

#include "config/config.h"
#include "model/model.h"
#include "optim/optim.h"
#include "parallel/volume.h"
#include "train/client.h"
#include "train/stage.h"
#include "zero/zero.h"

/* Bytes; master weights count to the optimizer. Not in it: the program with its libraries, the vocabulary, the data's
 * index, one batch of ids. */
typedef struct tx_memory {
    size_t params, persistent,
        gathered;          /* the last two with ZeRO-3: what stays whole, and what is gathered for a time */
    size_t grads, buckets; /* buckets: gradients on their way to the rank that keeps them */
    size_t optimizer, activations, workspace;
    size_t host_activations; /* in the host's memory, which on a CPU is where all of it lies */
    size_t host, passing;    /* what is offloaded to it; buffers for what is on a disk */
    size_t saving;           /* the copy that --async-save writes; a parameter, with --save-format */
    size_t nvme;             /* on a disk: no part of the total */
    size_t gpu_free;         /* what the GPU has for this rank, of which it may be one of several; 0: there is no GPU */
} tx_memory;
size_t tx_memory_total(const tx_memory *m);

/* Of it what lies in a GPU's memory, where there is one; the rest is in the host's. */
size_t tx_memory_gpu(const tx_memory *m);

/* What --memory-limit is of: with a GPU that, else the total. */
size_t tx_memory_limited(const tx_memory *m);

/* Model states: parameters, gradients, optimizer, also what is offloaded of them; what ZeRO gathers or has on its way
 * is not among them. */
size_t tx_memory_states(const tx_memory *m);

/* The same by the formula of ZeRO, arXiv:1910.02054 §5, with the bytes an element has here: "4 Psi + 12 Psi / N". */
typedef struct tx_zero_formula {
    int stage, n_ranks; /* of the division */
    int64_t n_params;   /* Psi: parameters of the rank's layers, before they are divided */
    int whole, divided; /* bytes of each that every rank has, and that the ranks divide */
} tx_zero_formula;
double tx_zero_formula_bytes(const tx_zero_formula *f);

typedef enum tx_param_kind {
    TX_PARAM_EMBEDDING, /* the output layer too, where it has its own */
    TX_PARAM_ATTENTION,
    TX_PARAM_MLP,
    TX_PARAM_NORM,
    TX_PARAM_HEADS, /* a BERT's, but for their norm and the words' matrix */
    TX_N_PARAM_KINDS
} tx_param_kind;
extern const char *const tx_param_kind_names[TX_N_PARAM_KINDS];

typedef struct tx_run_plan {
    tx_memory memory; /* of a rank of the pipeline stage */
    tx_zero_formula formula;
    int stage;
    int64_t first_layer, n_layers;      /* of the stage; of its first chunk the first one's number */
    tx_volume volume;                   /* what it moves in an iteration */
    tx_volume_sizes sizes;              /* and the formulas' sizes for that */
    double sent;                        /* bytes of that; after tx_plan_run the most of any stage */
    int64_t n_params[TX_N_PARAM_KINDS]; /* real ones, of the whole model */
    int64_t n_padding;                  /* zeros that pad the vocabulary */
    int64_t vocab_padded;
    int64_t tokens;      /* of an iteration at the full global batch size */
    double flops;        /* the model's (tx_model_flops) */
    double flops_layers; /* of these, all but the head's */
    double flops_again;  /* on top of them (tx_model_flops_again) */
    double flops_told;   /* as --flops-formula counts */
} tx_run_plan;

/* FLOPs of an iteration of b samples by --flops-formula: what the log's TFLOPs, the metrics file and a plan show. */
double tx_flops_told(const tx_config *cfg, const tx_model *m, int64_t b);

/* What a training run of a complete config takes on the ranks of a pipeline stage (the first one along the other axes,
 * which nothing there exceeds). Allocates the tables of the model, no numbers; the ranks need not exist.
 * TX_ERR_ARG: sizes beyond what can be counted; TX_ERR_UNSUPPORTED: the backend has no such op; TX_ERR_NOMEM. */
tx_status tx_plan_stage(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage);

/* The stage that takes most memory. */
tx_status tx_plan_run(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size);

/* ---- the parts of it, for fit.c ---- */

/* tx_plan_stage without the numbers of parameters. */
tx_status tx__plan_sizes(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage);

/* The stages that tx_plan_run looks at, which are enough: first, second, last. Returns how many. */
enum { TX__PLAN_STAGES = 3 };
int tx__plan_stages(const tx_config *cfg, int stage[TX__PLAN_STAGES]);

/* How many of an iteration's micro-batches a plan runs; with p more the memory is the same. */
int64_t tx__plan_micro_batches(int64_t n_micro, int64_t p, int64_t n_chunks);

/* ---- the steps of it, for the trainer ---- */

/* A context in its dry run and a model without weights; both are the caller's also on failure, zeroed or not. */
tx_status tx__plan_open(tx_ctx *c, tx_model **m, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid,
                        const tx_client *client);

/* A step that is run dry: what tx__plan_open has made, the run's, and what tx__plan_step opens. */
typedef struct tx_dry_step {
    tx_ctx *c;
    tx_model *m;
    const tx_config *cfg;
    const tx_client *client;
    bool train; /* forward, backward and update after the evaluation */
    tx_stage *stage;
    tx_zero *zero;
} tx_dry_step;

/* Opens the stage and the rank's share of the training state, and runs the step. Of many micro-batches it runs as many
 * as show everything, and sets the groups' volumes to what all of them move.
 * @sizes those of the formulas for these volumes; NULL allowed */
tx_status tx__plan_step(tx_memory *out, tx_volume_sizes *sizes, const tx_dry_step *d);

/* Elements of --async-save's copy of what the rank saves; 0: there is none. */
int64_t tx__plan_copy_numel(const tx_zero *z);

tx_memory tx__plan_memory(const tx_zero *z, size_t activations, size_t workspace);

/* The formulas' sizes for a rank, whose iterations have so many micro-batches. */
tx_volume_sizes tx__plan_volume_sizes(const tx_model *m, const tx_config *cfg, const tx_grid *g, int64_t n_micro,
                                      const tx_zero *z);

tx_zero_formula tx__plan_formula(const tx_zero *z);

#endif
