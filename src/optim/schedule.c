/* schedule.c - Megatron's learning-rate and weight-decay formulas. */
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

#define PI 3.14159265358979323846

static const char *const words[] = {
    [TX_DECAY_CONSTANT] = "constant",
    [TX_DECAY_LINEAR] = "linear",
    [TX_DECAY_COSINE] = "cosine",
    [TX_DECAY_INVERSE_SQRT] = "inverse-square-root",
    [TX_DECAY_WSD] = "WSD",
    [TX_DECAY_EXPONENTIAL] = "exponential",
    [TX_DECAY_MINUS_SQRT] = "minus_sqrt",
};

const char *tx_decay_style_word(tx_decay_style style)
{
    return words[style];
}

bool tx_decay_style_find(tx_decay_style *out, const char *word)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], word)) {
            *out = (tx_decay_style)i;
            return true;
        }
    return false;
}

/* Of an option, whose words are all known here. */
static tx_decay_style style_of(const char *word)
{
    tx_decay_style style = TX_DECAY_CONSTANT;
    TX_ASSERT(tx_decay_style_find(&style, word));
    return style;
}

tx_schedule tx_schedule_from_config(const tx_config *cfg)
{
    double batch = (double)cfg->global_batch_size;
    double total = cfg->train_samples ? (double)cfg->train_samples : (double)cfg->train_iters * batch;
    double decay = cfg->lr_decay_samples ? (double)cfg->lr_decay_samples : (double)cfg->lr_decay_iters * batch;
    double warmup = cfg->lr_warmup_samples ? (double)cfg->lr_warmup_samples : (double)cfg->lr_warmup_iters * batch;
    double wsd =
        cfg->lr_wsd_decay_samples ? (double)cfg->lr_wsd_decay_samples : (double)cfg->lr_wsd_decay_iters * batch;
    if (cfg->lr_warmup_fraction > 0) warmup = cfg->lr_warmup_fraction * decay;
    bool constant_wd = style_of(cfg->weight_decay_incr_style) == TX_DECAY_CONSTANT;
    return (tx_schedule){
        .lr_style = style_of(cfg->lr_decay_style),
        .wsd_style = style_of(cfg->lr_wsd_decay_style),
        .wd_style = style_of(cfg->weight_decay_incr_style),
        .init_lr = cfg->lr_warmup_init,
        .max_lr = cfg->lr,
        .min_lr = cfg->min_lr,
        .start_wd = constant_wd ? cfg->weight_decay : cfg->start_weight_decay,
        .end_wd = constant_wd ? cfg->weight_decay : cfg->end_weight_decay,
        .warmup = warmup,
        .decay = decay,
        .wsd_decay = wsd,
        .wd_incr = total,
        .warmup_tokens = (double)cfg->lr_warmup_tokens,
        .decay_tokens = (double)cfg->lr_decay_tokens,
    };
}

/* The part of max_lr - min_lr that is left when r of a fall, 0 to 1, has passed. */
static double left(tx_decay_style style, double r)
{
    switch (style) {
    case TX_DECAY_LINEAR:
        return 1 - r;
    case TX_DECAY_COSINE:
        return 0.5 * (cos(PI * r) + 1);
    case TX_DECAY_EXPONENTIAL:
        return 2 * pow(0.5, r) - 1;
    case TX_DECAY_MINUS_SQRT:
        return 1 - sqrt(r);
    default:
        return 1;
    }
}

/* How far a stretch of a schedule has come: n of which `warmup` is warm-up and `decay` the end. */
typedef struct progress {
    double n, warmup, decay;
} progress;

double tx_schedule_lr(const tx_schedule *s, const tx_schedule_place *at)
{
    progress samples = { (double)at->samples, s->warmup, s->decay };
    progress tokens = { (double)at->tokens, s->warmup_tokens > 0 ? s->warmup_tokens : (double)at->warmup_tokens,
                        s->decay_tokens };
    progress up = s->warmup_tokens > 0 ? tokens : samples, down = s->decay_tokens > 0 ? tokens : samples;
    if (up.warmup > 0 && up.n <= up.warmup) return s->init_lr + (s->max_lr - s->init_lr) * up.n / up.warmup;
    if (s->lr_style == TX_DECAY_CONSTANT) return s->max_lr;
    if (down.n > down.decay || down.decay <= down.warmup)
        return s->min_lr; /* a warm-up in samples may outlast tokens */
    if (s->lr_style == TX_DECAY_INVERSE_SQRT) {
        progress by = s->decay_tokens > 0 && up.warmup > 0 ? tokens : up;
        return fmax(s->min_lr, s->max_lr * sqrt(fmax(by.warmup, 1)) / sqrt(fmax(by.n, 1)));
    }
    double r = (down.n - down.warmup) / (down.decay - down.warmup);
    tx_decay_style style = s->lr_style;
    if (style == TX_DECAY_WSD) {
        double begin = down.decay - s->wsd_decay;
        r = (down.n - begin) / s->wsd_decay;
        style = down.n <= begin ? TX_DECAY_CONSTANT : s->wsd_style;
    }
    return s->min_lr + left(style, r) * (s->max_lr - s->min_lr);
}

double tx_schedule_wd(const tx_schedule *s, const tx_schedule_place *at)
{
    double n = (double)at->samples;
    if (s->wd_style == TX_DECAY_CONSTANT || n > s->wd_incr) return s->end_wd;
    double r = n / s->wd_incr;
    double coeff = s->wd_style == TX_DECAY_LINEAR ? r : 0.5 * (cos(PI * (1 - r)) + 1);
    return s->start_wd + coeff * (s->end_wd - s->start_wd);
}

void tx_schedule_advance(const tx_schedule *s, tx_schedule_place *at, int64_t samples, int64_t tokens)
{
    at->samples += samples;
    at->tokens = tokens;
    if ((double)at->samples <= s->warmup) at->warmup_tokens = tokens;
}
