/* loss_scaler.h - the factor on the loss that keeps small gradients out of half precision's zeros.
 *
 *  Rules as in Megatron-LM (Micikevicius et al., arXiv:1710.03740 §4): a dynamic scale starts at --initial-loss-scale.
 *
 *      overflow   the step is skipped; tolerance--; at 0 and below  scale = max(scale / 2, --min-loss-scale)
 *      clean      after --loss-scale-window clean steps in a row    scale = 2 scale, tolerance = --hysteresis
 *
 *  --loss-scale makes it constant. fp32, and bf16 without --loss-scale, have none: a scale of 1 that stays. */
#ifndef TX_OPTIM_LOSS_SCALER_H
#define TX_OPTIM_LOSS_SCALER_H

#include <jansson.h>

#include "config/config.h"

typedef struct tx_loss_scaler {
    enum { TX_SCALE_NONE, TX_SCALE_CONSTANT, TX_SCALE_DYNAMIC } kind;
    double scale;
    double min;
    int64_t window, hysteresis;
    int64_t clean;     /* steps since the last overflow or growth */
    int64_t tolerance; /* overflows until the scale falls */
} tx_loss_scaler;

tx_loss_scaler tx_loss_scaler_from_config(const tx_config *cfg);

/* After every step. @overflow: a gradient was not finite */
void tx_loss_scaler_update(tx_loss_scaler *s, bool overflow);

/* Whether an overflow is part of the game: the scale can still fall. */
bool tx_loss_scaler_can_fall(const tx_loss_scaler *s);

/* What a checkpoint keeps of it, and back: only into a dynamic one. Megatron's names. TX_ERR_FORMAT. */
tx_status tx_loss_scaler_to_json(const tx_loss_scaler *s, json_t **out);
tx_status tx_loss_scaler_from_json(tx_loss_scaler *s, const json_t *saved);

#endif
