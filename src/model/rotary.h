/* rotary.h - the rotary positions of a model's layers, from its options: what nn/attention.h has of them. */
#ifndef TX_MODEL_ROTARY_H
#define TX_MODEL_ROTARY_H

#include "config/config.h"
#include "nn/attention.h"

/* The model's frequencies, those of most layers [n / 2] and behind them those of layers with a window [n / 2], n being
 * tx_config_rotary_dim. The caller frees them. NULL: it has no rotary positions. TX_ERR_NOMEM, TX_ERR_ARG: a head has
 * more than the op takes. */
tx_status tx_rotary_create(double **frequency, const tx_config *cfg);

/* Layer `layer`, from 0, is turned so; it borrows the frequencies. */
void tx_rotary_set(tx_attention *w, const double *frequency, const tx_config *cfg, int64_t layer);

#endif
