/* rotary.c - the frequencies of rotary positions and their scalings. Llama's and YaRN's (arXiv:2309.00071 §3) are
 * Hugging Face's and Megatron Core's. */
#include "model/rotary.h"

#include <math.h>

#include "base/alloc.h"

#define TWO_PI 6.283185307179586

/* 0 below lo, 1 above hi, and a line in between. */
static double ramp(double x, double lo, double hi)
{
    double at = (x - lo) / (hi - lo);
    return at < 0 ? 0 : at > 1 ? 1 : at;
}

/* Llama 3.1: f is stretched by as much of the factor as it turns seldom in a text of the original length. */
static double llama3(const tx_config *cfg, double f)
{
    double turns = (double)cfg->rope_original_positions * f / TWO_PI;
    double stays = ramp(turns, cfg->rope_low_freq_factor, cfg->rope_high_freq_factor);
    return f * (stays + (1 - stays) / cfg->rope_scaling_factor);
}

/* The pair of n / 2 whose wave turns so often in a text of the original length, as a fraction. */
static double pair_that_turns(const tx_config *cfg, double often, double n)
{
    return n * log((double)cfg->rope_original_positions / (often * TWO_PI)) / (2 * log(cfg->rope_theta));
}

/* Pairs below `lo` stay, those above `hi` are stretched. */
static void yarn_range(const tx_config *cfg, double n, double *lo, double *hi)
{
    *lo = pair_that_turns(cfg, cfg->yarn_beta_fast, n);
    *hi = pair_that_turns(cfg, cfg->yarn_beta_slow, n);
    if (cfg->yarn_correction_range_round_to_int) {
        *lo = floor(*lo);
        *hi = ceil(*hi);
    }
    *lo = fmax(*lo, 0);
    *hi = fmin(*hi, n - 1);
    if (*lo == *hi) *hi += 0.001;
}

/* The model's own: n / 2 of them. */
static void fill(double *frequency, const tx_config *cfg, int64_t n)
{
    double lo = 0, hi = 0;
    if (cfg->rope_scaling_type == TX_ROPE_SCALING_YARN) yarn_range(cfg, (double)n, &lo, &hi);
    for (int64_t i = 0; i < n / 2; i++) {
        double f = pow(cfg->rope_theta, -(double)i / (double)(n / 2)), factor = cfg->rope_scaling_factor;
        switch (cfg->rope_scaling_type) {
        case TX_ROPE_SCALING_NONE:
        case TX_ROPE_SCALING_DYNAMIC: /* grows with the length */
            break;
        case TX_ROPE_SCALING_LINEAR:
            f /= factor;
            break;
        case TX_ROPE_SCALING_YARN:
            f *= 1 - ramp((double)i, lo, hi) * (1 - 1 / factor);
            break;
        case TX_ROPE_SCALING_LLAMA3:
            f = llama3(cfg, f);
            break;
        }
        frequency[i] = f;
    }
}

tx_status tx_rotary_create(double **frequency, const tx_config *cfg)
{
    int64_t n = cfg->use_rotary_position_embeddings ? tx_config_rotary_dim(cfg) : 0;
    *frequency = NULL;
    if (!n) return TX_OK;
    if (n > TX_MAX_ROT)
        return TX_FAIL(TX_ERR_ARG,
                       "--rotary-percent %g of a head's width %lld is %lld: rotary positions turn at most %d numbers",
                       cfg->rotary_percent, (long long)cfg->kv_channels, (long long)n, TX_MAX_ROT);
    TX_TRY(tx_alloc(frequency, (size_t)n, sizeof **frequency, "frequencies of rotary positions"));
    fill(*frequency, cfg, n);
    for (int64_t i = 0; i < n / 2; i++)
        (*frequency)[n / 2 + i] =
            cfg->window_rotary_base > 0 ? pow(cfg->window_rotary_base, -(double)i / (double)(n / 2)) : (*frequency)[i];
    return TX_OK;
}

/* What YaRN multiplies queries and keys with. */
static double yarn_scale(const tx_config *cfg)
{
    double log_factor = log(fmax(cfg->rope_scaling_factor, 1));
    if (cfg->yarn_attention_factor > 0) return cfg->yarn_attention_factor;
    return (0.1 * cfg->yarn_mscale * log_factor + 1) / (0.1 * cfg->yarn_mscale_all_dim * log_factor + 1);
}

void tx_rotary_set(tx_attention *w, const double *frequency, const tx_config *cfg, int64_t layer)
{
    int64_t n = frequency && !tx_config_skips_rope(cfg, layer) ? tx_config_rotary_dim(cfg) : 0;
    bool own = cfg->window_rotary_base > 0 && tx_config_window(cfg, layer) > 0;
    w->n_rot = n;
    w->rope_theta = own ? cfg->window_rotary_base : cfg->rope_theta;
    w->rope_frequency = own && frequency ? frequency + n / 2 : frequency;
    w->rope_interleaved = cfg->rotary_interleaved;
    w->rope_scale = !own && cfg->rope_scaling_type == TX_ROPE_SCALING_YARN ? yarn_scale(cfg) : 1;
    w->rope_grows_by = !own && cfg->rope_scaling_type == TX_ROPE_SCALING_DYNAMIC ? cfg->rope_scaling_factor : 0;
    w->rope_grows_from = cfg->rope_original_positions;
}
