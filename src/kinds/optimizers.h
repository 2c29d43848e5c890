/* optimizers.h - the optimizers: --optimizer.
 *
 *  An optimizer more is a row here, with its part of the help, and a file in optim/ that defines the row's type. Where
 * its update is an op that there is, that is all. */
#ifndef TX_KINDS_OPTIMIZERS_H
#define TX_KINDS_OPTIMIZERS_H

#include "kinds/kind.h"

/* Traits. */
enum {
    TX_OPTIMIZER_PLAIN = 0,
    TX_OPTIMIZER_MOMENTS = 1,      /* keeps Adam's two averages */
    TX_OPTIMIZER_BETAS = 2,        /* has decays of averages, which torch calls betas */
    TX_OPTIMIZER_MEGATRON = 4,     /* Megatron has it, and so its checkpoints a place for its state */
    TX_OPTIMIZER_DEEPSPEED = 8,    /* DeepSpeed's checkpoints have one */
    TX_OPTIMIZER_UNIVERSAL = 16,   /* its universal ones, too */
    TX_OPTIMIZER_NORMS = 32,       /* its update needs norms of whole tensors: optim.h's `measure` goes before it */
    TX_OPTIMIZER_MATRICES = 64,    /* an update of a layer's matrix needs all of it (zero/matrices.h) */
    TX_OPTIMIZER_COMPRESSED = 128, /* after a while ranks send signs in place of gradients (zero/compressed.h) */
    TX_OPTIMIZER_FACTORS = 256 /* keeps averages of matrices' rows and columns (zero/factors.h), where layers compute */
};

/* Of which tensors a buffer of state has numbers. */
typedef enum tx_state_of {
    TX_STATE_OF_ALL,    /* one for each element of every tensor */
    TX_STATE_OF_OTHERS, /* the same, but nothing of matrices that are updated whole (TX_OPTIMIZER_MATRICES) */
    TX_STATE_OF_ROWS, /* one for each row of every matrix (TX_OPTIMIZER_FACTORS); and of columns; and all of vectors */
    TX_STATE_OF_COLUMNS,
    TX_STATE_OF_VECTORS,
    TX_STATE_OF_TENSORS /* one for each tensor */
} tx_state_of;

typedef struct tx_optimizer_buffer {
    const char *name; /* torch's, Megatron's and DeepSpeed's, and in checkpoints: "exp_avg" */
    tx_state_of of;
} tx_optimizer_buffer;

/*   X(constant, word, its tx_optim_type (optim/optim.h), DeepSpeed's name or NULL, another name in DeepSpeed's JSON or
 * NULL, what optimizer.params there may have beside lr, weight_decay and max_grad_norm, traits, its buffers of
 * state...)
 */
/* clang-format off */
#define TX_OPTIMIZERS(X)                                                                                            \
    X(TX_OPTIMIZER_ADAM, "adam", tx_optim_adam, "Adam", "AdamW",                                                    \
      "betas|eps|torch_adam|adam_w_mode|bias_correction|amsgrad|fused|foreach|set_grad_none|fp32_optimizer_states", \
      TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_BETAS | TX_OPTIMIZER_MEGATRON | TX_OPTIMIZER_DEEPSPEED |                  \
          TX_OPTIMIZER_UNIVERSAL,                                                                                   \
      { "exp_avg", TX_STATE_OF_ALL }, { "exp_avg_sq", TX_STATE_OF_ALL })                                            \
    X(TX_OPTIMIZER_SGD, "sgd", tx_optim_sgd, "SGD", NULL,                                                           \
      "momentum|nesterov|dampening|maximize|fused|foreach|differentiable",                                          \
      TX_OPTIMIZER_MEGATRON | TX_OPTIMIZER_DEEPSPEED | TX_OPTIMIZER_UNIVERSAL,                                      \
      { "momentum_buffer", TX_STATE_OF_ALL })                                                                       \
    X(TX_OPTIMIZER_LION, "lion", tx_optim_lion, "Lion", NULL, "betas|set_grad_none|fp32_optimizer_states",          \
      TX_OPTIMIZER_BETAS | TX_OPTIMIZER_MEGATRON | TX_OPTIMIZER_DEEPSPEED | TX_OPTIMIZER_UNIVERSAL,                 \
      { "exp_avg", TX_STATE_OF_ALL })                                                                               \
    X(TX_OPTIMIZER_ADAGRAD, "adagrad", tx_optim_adagrad, "Adagrad", NULL,                                           \
      "eps|lr_decay|initial_accumulator_value|amsgrad|maximize|fused|foreach|differentiable|fp32_optimizer_states", \
      TX_OPTIMIZER_DEEPSPEED,                                                                                       \
      { "sum", TX_STATE_OF_ALL })                                                                                   \
    X(TX_OPTIMIZER_LAMB, "lamb", tx_optim_lamb, "Lamb", "FusedLamb",                                                \
      "betas|eps|bias_correction|eps_inside_sqrt|max_coeff|min_coeff|amsgrad",                                      \
      TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_BETAS | TX_OPTIMIZER_DEEPSPEED | TX_OPTIMIZER_NORMS,                      \
      { "exp_avg", TX_STATE_OF_ALL }, { "exp_avg_sq", TX_STATE_OF_ALL })                                            \
    X(TX_OPTIMIZER_MUON, "muon", tx_optim_muon, "Muon", NULL,                                                       \
      "betas|eps|momentum|muon_lr|adam_lr|ns_method|per_head_muon|adam_w_mode|torch_adam",                          \
      TX_OPTIMIZER_BETAS | TX_OPTIMIZER_MATRICES,                                                                   \
      { "muon_exp_avg", TX_STATE_OF_ALL }, { "muon_exp_avg_sq", TX_STATE_OF_OTHERS })                               \
    X(TX_OPTIMIZER_ADAFACTOR, "adafactor", tx_optim_adafactor, NULL, NULL, "",                                        \
      TX_OPTIMIZER_NORMS | TX_OPTIMIZER_FACTORS, { "exp_avg_sq_row", TX_STATE_OF_ROWS },                              \
      { "exp_avg_sq_col", TX_STATE_OF_COLUMNS }, { "exp_avg_sq", TX_STATE_OF_VECTORS })                               \
    X(TX_OPTIMIZER_ONEBIT_ADAM, "onebitadam", tx_optim_onebit_adam, "OneBitAdam", NULL,                             \
      "freeze_step|cuda_aware|comm_backend_name|betas|eps|bias_correction|eps_inside_sqrt|amsgrad",                 \
      TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_BETAS | TX_OPTIMIZER_DEEPSPEED | TX_OPTIMIZER_COMPRESSED, \
      { "exp_avg", TX_STATE_OF_ALL }, { "exp_avg_sq", TX_STATE_OF_ALL }) \
    X(TX_OPTIMIZER_ZEROONE_ADAM, "zerooneadam", tx_optim_zeroone_adam, "ZeroOneAdam", NULL,                         \
      "var_freeze_step|var_update_scaler|local_step_scaler|local_step_clipper|cuda_aware|comm_backend_name|betas|"  \
      "eps|bias_correction|eps_inside_sqrt|amsgrad",                                                                \
      TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_BETAS | TX_OPTIMIZER_DEEPSPEED | TX_OPTIMIZER_COMPRESSED, \
      { "exp_avg", TX_STATE_OF_ALL }, { "exp_avg_sq", TX_STATE_OF_ALL }, { "momentum_accumulator", TX_STATE_OF_ALL }, \
      { "shared_weights", TX_STATE_OF_ALL }) \
    X(TX_OPTIMIZER_ONEBIT_LAMB, "onebitlamb", tx_optim_onebit_lamb, "OneBitLamb", NULL,                             \
      "freeze_step|cuda_aware|comm_backend_name|betas|eps|bias_correction|eps_inside_sqrt|amsgrad|max_coeff|"       \
      "min_coeff|coeff_beta|factor_max|factor_min|factor_threshold",                                                \
      TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_BETAS | TX_OPTIMIZER_DEEPSPEED | TX_OPTIMIZER_NORMS |                     \
          TX_OPTIMIZER_COMPRESSED,                                                                                  \
      { "exp_avg", TX_STATE_OF_ALL }, { "exp_avg_sq", TX_STATE_OF_ALL }, { "exp_avg_sq_fresh", TX_STATE_OF_ALL },   \
      { "lamb_coeff_freeze", TX_STATE_OF_TENSORS }, { "last_factor", TX_STATE_OF_TENSORS },                         \
      { "scaling_coeff", TX_STATE_OF_TENSORS })

#define TX_OPTIMIZERS_HELP \
    "adam: with decoupled weight decay, or with --no-decoupled-weight-decay as part of the gradient; sgd: with momentum, "   \
    "perhaps Nesterov's, and weight decay as part of the gradient; lion: the sign of an average, with decoupled weight "     \
    "decay; adagrad: divided by the root of the sum of all squares so far, with weight decay as part of the gradient; "      \
    "lamb: Adam's direction with weight decay, for each tensor scaled by the norm of its weights over the direction's; " \
    "muon: matrices of layers by momentum that is made orthogonal, all else by adam, with --lr for both; " \
    "adafactor: divided by roots of averages of squares, of matrices by rows and columns, with steps in proportion to " \
    "the weights; " \
    "onebitadam: Adam that after --onebit-freeze-step sends signs in place of gradients; zerooneadam: Adam that sends " \
    "signs in place of gradients in more and more updates, and after --var-freeze-step in some only; onebitlamb: LAMB " \
    "that after --onebit-freeze-step sends signs in place of gradients, and scales frozen coefficients."

TX_KIND(optimizer_kind, TX_OPTIMIZERS)

/* What makes up for LAMB's moments, which begin with 0: --lamb-bias-correction. */
#define TX_LAMB_CORRECTIONS(X) \
    X(TX_LAMB_CORRECT_RATE, "rate") \
    X(TX_LAMB_CORRECT_MOMENTS, "moments") \
    X(TX_LAMB_CORRECT_NONE, "none")

TX_KIND(lamb_correction, TX_LAMB_CORRECTIONS)

#define TX_OPTIMIZER_TRAITS(constant, word, type, name, other, params, traits, ...) case constant: return (traits);
#define TX_OPTIMIZER_NAME(constant, word, type, name, other, params, traits, ...) case constant: return name;
/* clang-format on */

/* Traits, 0 of 0; DeepSpeed's name. */
static inline unsigned tx_optimizer_traits(enum tx_optimizer_kind kind)
{
    switch (kind) {
        TX_OPTIMIZERS(TX_OPTIMIZER_TRAITS)
    }
    return 0;
}

static inline const char *tx_optimizer_deepspeed_name(enum tx_optimizer_kind kind)
{
    switch (kind) {
        TX_OPTIMIZERS(TX_OPTIMIZER_NAME)
    }
    return NULL;
}

#endif
