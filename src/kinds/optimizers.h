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
    TX_OPTIMIZER_MOMENTS = 1,  /* keeps Adam's two averages, of --adam-beta1 and --adam-beta2 */
    TX_OPTIMIZER_UPSTREAM = 2, /* Megatron's and DeepSpeed's checkpoints hold its state: of one row */
    TX_OPTIMIZER_NORMS = 4     /* its update needs norms of whole tensors: optim.h's `measure` goes before it */
};

/*   X(constant, word, its tx_optim_type (optim/optim.h), DeepSpeed's name, another name in DeepSpeed's JSON or NULL,
 *     traits) */
#define TX_OPTIMIZERS(X)                                                                                       \
    X(TX_OPTIMIZER_ADAM, "adam", tx_optim_adam, "Adam", "AdamW", TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_UPSTREAM) \
    X(TX_OPTIMIZER_SGD, "sgd", tx_optim_sgd, "SGD", NULL, TX_OPTIMIZER_PLAIN)                                  \
    X(TX_OPTIMIZER_LAMB, "lamb", tx_optim_lamb, "Lamb", "FusedLamb", TX_OPTIMIZER_MOMENTS | TX_OPTIMIZER_NORMS)

#define TX_OPTIMIZERS_HELP                                                                                        \
    "adam: with decoupled weight decay; sgd: with momentum, weight decay as part of the gradient; "               \
    "lamb: Adam's direction with weight decay, of each tensor as long as --lamb-max-coeff lets it be beside the " \
    "weights."

TX_KIND(optimizer_kind, TX_OPTIMIZERS)

/* clang-format off */
#define TX_OPTIMIZER_TRAITS(constant, word, type, name, other, traits) case constant: return (traits);
#define TX_OPTIMIZER_NAME(constant, word, type, name, other, traits) case constant: return name;
#define TX_OPTIMIZER_IF_UPSTREAM(constant, word, type, name, other, traits) \
    if ((traits) & TX_OPTIMIZER_UPSTREAM) return constant;
/* clang-format on */

/* Traits, 0 of 0; DeepSpeed's name; the row whose state Megatron's and DeepSpeed's checkpoints hold. */
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

static inline enum tx_optimizer_kind tx_optimizer_upstream(void)
{
    TX_OPTIMIZERS(TX_OPTIMIZER_IF_UPSTREAM)
    return (enum tx_optimizer_kind)0;
}

#endif
