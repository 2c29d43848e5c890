/* deepspeed_optimizers.h - what optimizer.type of DeepSpeed's JSON may say, and optimizer.params with it. */
#ifndef TX_CONFIG_DEEPSPEED_OPTIMIZERS_H
#define TX_CONFIG_DEEPSPEED_OPTIMIZERS_H

#include "config/config.h"

typedef struct tx__ds_optimizer {
    enum tx_optimizer_kind kind;
    const char *word, *name, *other; /* ours, DeepSpeed's, and another that it has, or NULL */
    const char *params;              /* "betas|eps" */
} tx__ds_optimizer;

/* NULL: there is none of that name. */
const tx__ds_optimizer *tx__ds_optimizer_of(const char *name);

/* "Adam (also AdamW), SGD and Lion" */
const char *tx__ds_optimizer_list(char *buf, size_t cap);

/* Whether it has the parameter; else all that it has are in `takes`. */
bool tx__ds_optimizer_takes(const tx__ds_optimizer *o, const char *param, char takes[256]);

#endif
