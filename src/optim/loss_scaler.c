/* loss_scaler.c - the loss scale from step to step. */
#include "optim/loss_scaler.h"

#include <math.h>

tx_loss_scaler tx_loss_scaler_from_config(const tx_config *cfg)
{
    tx_loss_scaler s = { .kind = TX_SCALE_NONE, .scale = 1 };
    if (cfg->given.loss_scale && (cfg->fp16 || cfg->bf16))
        s = (tx_loss_scaler){ .kind = TX_SCALE_CONSTANT, .scale = cfg->loss_scale };
    else if (cfg->fp16)
        s = (tx_loss_scaler){ .kind = TX_SCALE_DYNAMIC,
                              .scale = cfg->initial_loss_scale,
                              .min = cfg->min_loss_scale,
                              .window = (int64_t)cfg->loss_scale_window,
                              .hysteresis = cfg->hysteresis,
                              .tolerance = cfg->hysteresis };
    return s;
}

void tx_loss_scaler_update(tx_loss_scaler *s, bool overflow)
{
    if (s->kind != TX_SCALE_DYNAMIC) return;
    if (overflow) {
        s->clean = 0;
        if (--s->tolerance <= 0) s->scale = fmax(s->scale / 2, s->min);
    } else if (++s->clean == s->window) {
        s->clean = 0;
        s->tolerance = s->hysteresis;
        s->scale *= 2;
    }
}

bool tx_loss_scaler_can_fall(const tx_loss_scaler *s)
{
    return s->kind == TX_SCALE_DYNAMIC && s->scale > s->min;
}

tx_status tx_loss_scaler_to_json(const tx_loss_scaler *s, json_t **out)
{
    *out = json_pack("{s:f, s:I, s:I}", "scale", s->scale, "growth_tracker", (json_int_t)s->clean, "hysteresis_tracker",
                     (json_int_t)s->tolerance);
    return *out ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for the loss scale");
}

tx_status tx_loss_scaler_from_json(tx_loss_scaler *s, const json_t *saved)
{
    const json_t *scale = json_object_get(saved, "scale"), *clean = json_object_get(saved, "growth_tracker"),
                 *tolerance = json_object_get(saved, "hysteresis_tracker");
    if (s->kind != TX_SCALE_DYNAMIC || !saved) return TX_OK;
    if (!json_is_number(scale) || !isfinite(json_number_value(scale)) || json_number_value(scale) <= 0 ||
        !json_is_integer(clean) || !json_is_integer(tolerance) || json_integer_value(clean) < 0)
        return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's loss scale is not one");
    s->scale = json_number_value(scale);
    s->clean = json_integer_value(clean) % s->window; /* a shorter window than the checkpoint's begins anew */
    s->tolerance = json_integer_value(tolerance);
    return TX_OK;
}
