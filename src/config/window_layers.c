/* window_layers.c - which layers have the window of --window-size, and what scores are scaled by. */
#include <math.h>

#include "config/config.h"
#include "config/layer_pattern.h"

int64_t tx_config_window(const tx_config *cfg, int64_t layer)
{
    tx_layer_pattern p;
    if (!cfg->window_attn_skip_freq || !cfg->window_size) return cfg->window_size;
    if (!tx_layer_pattern_read(cfg->window_attn_skip_freq, layer, &p)) return 0; /* the rules have checked it */
    bool has = p.listed ? p.at : (layer + 1) % p.n != 0;
    return has ? cfg->window_size : 0;
}

double tx_config_attention_scale(const tx_config *cfg)
{
    return cfg->attention_scale > 0 ? cfg->attention_scale : 1.0 / sqrt((double)cfg->kv_channels);
}
