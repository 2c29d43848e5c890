/* schedule.c - Megatron's learning-rate and weight-decay formulas. */
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

static tx_decay_style style_of(const char *word)
{
    if (!strcmp(word, "linear")) return TX_DECAY_LINEAR;
    if (!strcmp(word, "cosine")) return TX_DECAY_COSINE;
    if (!strcmp(word, "inverse-square-root")) return TX_DECAY_INVERSE_SQRT;
    return TX_DECAY_CONSTANT;
}

tx_schedule tx_schedule_from_config(const tx_config *cfg)
{
    double batch = (double)cfg->global_batch_size;
    double total = cfg->train_samples ? (double)cfg->train_samples : (double)cfg->train_iters * batch;
    double decay = cfg->lr_decay_samples ? (double)cfg->lr_decay_samples : (double)cfg->lr_decay_iters * batch;
    double warmup = cfg->lr_warmup_samples ? (double)cfg->lr_warmup_samples : (double)cfg->lr_warmup_iters * batch;
    if (cfg->lr_warmup_fraction > 0) warmup = cfg->lr_warmup_fraction * decay;
    bool constant_wd = !strcmp(cfg->weight_decay_incr_style, "constant");
    return (tx_schedule){
        .lr_style = style_of(cfg->lr_decay_style),
        .wd_style = style_of(cfg->weight_decay_incr_style),
        .max_lr = cfg->lr,
        .min_lr = cfg->min_lr,
        .start_wd = constant_wd ? cfg->weight_decay : cfg->start_weight_decay,
        .end_wd = constant_wd ? cfg->weight_decay : cfg->end_weight_decay,
        .warmup = warmup,
        .decay = decay,
        .wd_incr = total,
    };
}

double tx_schedule_lr(const tx_schedule *s, double n)
{
    if (s->warmup > 0 && n <= s->warmup) return s->max_lr * n / s->warmup;
    if (s->lr_style == TX_DECAY_CONSTANT) return s->max_lr;
    if (n > s->decay) return s->min_lr;
    if (s->lr_style == TX_DECAY_INVERSE_SQRT) {
        double lr = s->max_lr * sqrt(fmax(s->warmup, 1)) / sqrt(fmax(n, 1));
        return fmax(s->min_lr, lr);
    }
    double r = (n - s->warmup) / (s->decay - s->warmup);
    double coeff = s->lr_style == TX_DECAY_LINEAR ? 1 - r : 0.5 * (cos(PI * r) + 1);
    return s->min_lr + coeff * (s->max_lr - s->min_lr);
}

double tx_schedule_wd(const tx_schedule *s, double n)
{
    if (s->wd_style == TX_DECAY_CONSTANT || n > s->wd_incr) return s->end_wd;
    double r = n / s->wd_incr;
    double coeff = s->wd_style == TX_DECAY_LINEAR ? r : 0.5 * (cos(PI * (1 - r)) + 1);
    return s->start_wd + coeff * (s->end_wd - s->start_wd);
}
