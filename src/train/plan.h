/* plan.h - how much memory a run needs, before it is allocated: a dry run of the real step on the real backend.
 *
 * Parameters, batch and arenas are addresses that are never read or written, so a model of any size can be planned on
 * any machine, in milliseconds. The trainer starts with the same calls, then allocates what they found.
 *
 *      plan_open  ->  plan_step  ->  [ fit.h: --memory-limit ]  ->  take                 the last two: the trainer only
 */
#ifndef TX_TRAIN_PLAN_H
#define TX_TRAIN_PLAN_H

#include "backend/trace.h"
#include "config/config.h"
#include "model/model.h"
#include "optim/optim.h"
#include "parallel/volume.h"
#include "train/client.h"
#include "train/stage.h"
#include "zero/zero.h"

/* In bytes; master weights count as optimizer. Not included: the program with its libraries, the vocabulary, the
 * data's index, one batch of ids. */
typedef struct tx_memory {
    size_t params, persistent,
        gathered;          /* the last two with ZeRO-3: what stays whole, and what is gathered for a time */
    size_t grads, buckets; /* buckets: gradients on their way to the rank that keeps them */
    size_t optimizer, activations, workspace;
    size_t teacher;          /* weights of the model that teaches (--kd, --mos) */
    size_t host_activations; /* in the host's memory, which on a CPU is where all of it lies */
    size_t host, passing;    /* what is offloaded to it; buffers for what is on a disk */
    size_t saving;           /* the copy that --async-save writes; a parameter, with --save-format */
    size_t nvme;             /* on a disk: no part of the total */
    size_t nvme_activations; /* likewise, in the place of host_activations */
    size_t gpu_free;         /* what the GPU has for this rank, of which it may be one of several; 0: there is no GPU */
} tx_memory;
size_t tx_memory_total(const tx_memory *m);

/* What is on a disk. */
size_t tx_memory_disk(const tx_memory *m);

/* The part that is in GPU memory, if there is a GPU; the rest is in host memory. */
size_t tx_memory_gpu(const tx_memory *m);

/* What --memory-limit applies to: GPU memory if there is a GPU, else the total. */
size_t tx_memory_limited(const tx_memory *m);

/* Model states: parameters, gradients and optimizer states, including what is offloaded. Buffers in which ZeRO gathers
 * and reduces are not included. */
size_t tx_memory_states(const tx_memory *m);

/* The same by ZeRO's formula, arXiv:1910.02054 §5, with this run's bytes per element: "4 Psi + 12 Psi / N". */
typedef struct tx_zero_formula {
    int stage, n_ranks; /* of the partitioning */
    int64_t n_params;   /* Psi: parameters of the rank's layers, before partitioning */
    int n_expert_ranks; /* the same of experts that ranks divide, which are among n_params */
    int64_t n_expert_params;
    int64_t n_frozen;              /* more of them, which are not trained: */
    int frozen;                    /* bytes per parameter, on every rank, or partitioned with stage 3 */
    int whole, divided;            /* bytes per parameter that are on every rank, and that are partitioned */
    int64_t n_each;                /* numbers of state that are on every rank */
    int64_t n_some, n_expert_some; /* parameters with 4 more bytes of state, which others have not; partitioned */
} tx_zero_formula;
double tx_zero_formula_bytes(const tx_zero_formula *f);

typedef enum tx_param_kind {
    TX_PARAM_EMBEDDING, /* and of an untied output layer */
    TX_PARAM_ATTENTION,
    TX_PARAM_MLP,
    TX_PARAM_NORM,
    TX_PARAM_HEADS, /* BERT's heads, without their norm and the word embedding */
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
    double flops_layers; /* of these, without the head's */
    double flops_again;  /* recomputed in addition (tx_model_flops_again) */
    double flops_told;   /* as --flops-formula counts */
    double flops_2021;   /* as --flops-formula megatron-2021 counts */
} tx_run_plan;

/* FLOPs of an iteration of b samples of s tokens by --flops-formula: what the log's TFLOPs, the metrics file and a plan
 * show. */
double tx_flops_told(const tx_config *cfg, const tx_model *m, int64_t s, int64_t b);

/* What a training run of a complete config needs on the ranks of a pipeline stage. It plans the stage's first rank on
 * the other axes, which needs the most. Allocates the tables of the model, but no numbers; the ranks need not exist.
 * TX_ERR_ARG: sizes are too large to count; TX_ERR_UNSUPPORTED: the backend lacks an op; TX_ERR_NOMEM. */
tx_status tx_plan_stage(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage);

/* The same, and what the stage does in an iteration of a few micro-batches (backend/trace.h), whose calls name their
 * group by an element of tx_group_names. The caller frees the trace, also after a failure. */
tx_status tx_plan_traced(tx_run_plan *out, tx_trace *t, const tx_config *cfg, int64_t vocab_size, int stage);

/* Sets one of host_activations and nvme_activations. */
void tx__plan_host_stacks(tx_memory *m, const tx_config *cfg, size_t bytes);

/* The plan of the stage that needs the most memory. */
tx_status tx_plan_run(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size);

/* ---- the parts of it, for fit.c ---- */

/* tx_plan_stage without the parameter counts. */
tx_status tx__plan_sizes(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage);

/* The stages that tx_plan_run looks at, which are enough: first, second, last. Returns how many. */
enum { TX__PLAN_STAGES = 3 };
int tx__plan_stages(const tx_config *cfg, int stage[TX__PLAN_STAGES]);

/* ---- the steps of it, for the trainer ---- */

/* Makes a context in its dry run and a model without weights. The caller frees both, also on failure; they may then be
 * zeroed. */
tx_status tx__plan_open(tx_ctx *c, tx_model **m, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid,
                        const tx_client *client);

/* A dry run of a step: what tx__plan_open has made, the run's settings, and what tx__plan_step opens. */
typedef struct tx_dry_step {
    tx_ctx *c;
    tx_model *m;
    const tx_config *cfg;
    const tx_client *client;
    bool train;        /* forward, backward and update after the evaluation */
    bool every_length; /* with a curriculum steps of all its lengths, since a shorter one may take more workspace; with
                        * --random-ltd of all numbers of tokens, which are kept beside the whole */
    tx_stage *stage;
    tx_zero *zero;
} tx_dry_step;

/* Opens the stage and this rank's share of the training state, and runs the step. Of many micro-batches it runs only
 * as many as are needed, and scales the groups' communication volumes to all of them.
 * @sizes for the formulas of these volumes; NULL allowed */
tx_status tx__plan_step(tx_memory *out, tx_volume_sizes *sizes, const tx_dry_step *d);

/* Numbers of a checkpoint that this rank saves: weights, the optimizer's buffers, errors of compression. */
int64_t tx__plan_saved_numel(const tx_zero *z);

/* Number of elements in --async-save's copy of what the rank saves; 0: there is no copy. */
int64_t tx__plan_copy_numel(const tx_zero *z);

tx_memory tx__plan_memory(const tx_zero *z, size_t activations, size_t workspace);

/* The sizes for the formulas, for a rank with n_micro micro-batches of samples of s tokens per iteration. */
tx_volume_sizes tx__plan_volume_sizes(const tx_model *m, const tx_config *cfg, const tx_grid *g, int64_t n_micro,
                                      int64_t s, const tx_zero *z);

/* And of the model that teaches, if there is one. */
tx_volume_teacher tx__plan_teacher_volume(const tx_teacher *t, const tx_grid *g, int64_t s);

tx_zero_formula tx__plan_formula(const tx_zero *z);

#endif
