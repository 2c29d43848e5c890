/* step_record.h - what a run reports: one record of numbers for each step, logged interval or evaluation.
 *
 * The training loop fills it; the log, TensorBoard's files and the metrics file are written from it. */
#ifndef TX_BASE_STEP_RECORD_H
#define TX_BASE_STEP_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* Where the time goes: Megatron's names of the timers, the --timing-log-level that shows them, and the metrics file's
 * name, NULL for a sum or a part of others. One pass over the gradients finds their norm and what is not finite: it is
 * clipping's, or the check's where nothing is clipped; scaling is done within the inner step. */
#define TX_TIMERS(X)                                           \
    X(FORWARD_BACKWARD, "forward-backward", 1, NULL)           \
    X(FORWARD, "forward-compute", 2, "forward")                \
    X(BACKWARD, "backward-compute", 2, "backward")             \
    X(BATCH, "batch-generator", 2, "data")                     \
    X(SUMS, "all-grads-sync", 1, "communication")              \
    X(CHECK, "optimizer-unscale-and-check-inf", 2, NULL)       \
    X(CLIP, "optimizer-clip-main-grad", 2, NULL)               \
    X(COUNT_ZEROS, "optimizer-count-zeros", 2, NULL)           \
    X(INNER_STEP, "optimizer-inner-step", 2, NULL)             \
    X(OPTIMIZER, "optimizer", 1, "optimizer")                  \
    X(EVALUATE, "evaluate", 1, "evaluation") /* triax's own */ \
    X(SAVE, "save-checkpoint", 0, "saving")

typedef enum tx_timer {
#define X(id, name, level, key) TX_TIMER_##id,
    TX_TIMERS(X)
#undef X
        TX_N_TIMERS
} tx_timer;

/* Sizes of what the optimizer holds, over all parameters: norms and the largest value. Names as in Megatron's tags. */
#define TX_OPTIM_STATES(X) \
    X(variance)            \
    X(variance_sqrt)       \
    X(momentum)            \
    X(weight)

typedef struct tx_magnitude {
    double l2, l1, abs_max;
} tx_magnitude;

typedef struct tx_optim_states {
#define X(name) tx_magnitude name;
    TX_OPTIM_STATES(X)
#undef X
} tx_optim_states;

typedef struct tx_named_number {
    const char *name;
    double value;
} tx_named_number;

typedef enum tx_record_kind {
    TX_RECORD_STEP,      /* one iteration: loss, norms and rate are its own; no times and speeds */
    TX_RECORD_INTERVAL,  /* a line of the log: means over the iterations since the last one */
    TX_RECORD_EVALUATION /* name and loss, and where the run stands */
} tx_record_kind;

enum { TX_RECORD_LOSSES = 4 };

/* What a layer's router did in an iteration, over all ranks. */
typedef struct tx_expert_record {
    int64_t layer, n_experts; /* the layer's number, from 1 */
    double aux_loss, z_loss;  /* means over the micro-batches, without their coefficients; the first is 1 where all
                               * experts have the same load */
    double dropped;           /* choices that experts had no room for */
    const double *load;       /* [n_experts] how many tokens chose each, dropped ones too */
} tx_expert_record;

/* The same of all layers together. */
typedef struct tx_expert_means {
    double aux_loss, z_loss; /* means over the layers */
    double dropped;          /* share of the choices */
    double imbalance;        /* the largest load by the mean load, of the worst layer */
} tx_expert_means;
tx_expert_means tx_expert_means_of(const tx_expert_record *r, int n);

typedef struct tx_step_record {
    tx_record_kind kind;
    const char *name;            /* evaluation: "validation", "test", the data's group, or a task of --eval-tasks */
    const tx_named_number *more; /* other numbers of a task; NULL: it is not a task */
    int n_more;
    bool final; /* evaluation: the closing one, when training is over */
    int64_t iteration, train_iters;
    int64_t consumed_samples, consumed_tokens;
    int64_t global_batch_size, seq_length; /* seq_length: tokens of a sample that the iteration was trained on, with
                                            * --random-ltd in the mean over layers */
    int64_t curriculum_length;             /* tokens of a sample, of --curriculum-schedule; 0: there is none */
    int64_t reserved_length;               /* of them, those of layers with --random-ltd; 0: there are none */
    double layer_theta;                    /* of --progressive-layer-drop; 0: there is none */
    double lr, weight_decay;
    double decoupled_lr;                              /* negative: there is none */
    double loss;                                      /* "lm loss"; NaN: no step advanced */
    tx_named_number other_loss[TX_RECORD_LOSSES - 1]; /* of a model that has more, as Megatron names them: "sop loss" */
    int n_other_losses;
    double grad_norm; /* of the last iteration, before clipping */
    double loss_scale;
    double params_norm, num_zeros; /* negative: not requested */
    double max_attention_logit;    /* likewise */
    const tx_optim_states *optim;  /* NULL: not requested */
    const tx_expert_record
        *expert; /* [n_expert_layers] of the last iteration, or of an evaluation; NULL: there are none */
    int n_expert_layers;
    tx_expert_means experts; /* of those; of an evaluation, too */
    int64_t skipped, nan;    /* iterations of the interval */

    /* interval only */
    double elapsed_ms; /* of an iteration, evaluation and saving left out; this and what follows: of this process */
    double samples_per_second, tokens_per_second;
    double tflops;               /* of one rank, by --flops-formula */
    double hardware_tflops;      /* with what is computed again; NaN: nothing is, or the formula has it in tflops */
    double peak_share;           /* tflops by what the rank's device can do at most; NaN: that is not known */
    double time_ms[TX_N_TIMERS]; /* an iteration's share */
    int64_t memory_bytes;        /* allocated for training */
    int64_t peak_resident_bytes; /* peak resident memory of the process */
} tx_step_record;

typedef void tx_record_fn(void *user, const tx_step_record *r);

#endif
