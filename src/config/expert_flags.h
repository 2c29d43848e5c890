/* expert_flags.h - the flags that are about layers with experts alone, and what they are to other flags: for rules, and
 * for the line of those that have no effect. */
#ifndef TX_CONFIG_EXPERT_FLAGS_H
#define TX_CONFIG_EXPERT_FLAGS_H

#include "config/config.h"

enum {
    TX__OF_CORE = 1,      /* Megatron Core's: they need --moe-router-topk */
    TX__OF_DEEPSPEED = 2, /* DeepSpeed's: not beside it */
    TX__NEEDS = 4,        /* refused where no layer has experts */
    TX__NO_EFFECT = 8     /* named there */
};

/* The i-th flag, from 0, of all that the user has typed and that are one of `what`; NULL: there are no more. */
const char *tx__expert_flag(const tx_config_given *given, unsigned what, int i);

#endif
