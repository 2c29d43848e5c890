/* parts.h - buffers as tx_checkpoint_save and tx_checkpoint_read take them. */
#ifndef TX_TESTS_CHECKPOINT_PARTS_H
#define TX_TESTS_CHECKPOINT_PARTS_H

#include "checkpoint/checkpoint.h"

static inline tx_ckpt_part whole_part(const char *name, float *flat)
{
    return (tx_ckpt_part){ .name = name, .flat = flat, .whole = true };
}

/* Two arguments each: the parts of what has buf[3], and the weights alone. */
#define ALL_PARTS(m)                                                                                  \
    (const tx_ckpt_part[]){ whole_part(TX_CKPT_MODEL, (m).buf[0]), whole_part("exp_avg", (m).buf[1]), \
                            whole_part("exp_avg_sq", (m).buf[2]) },                                   \
        3
#define WEIGHTS(x) (const tx_ckpt_part[]){ whole_part(TX_CKPT_MODEL, x) }, 1

#endif
