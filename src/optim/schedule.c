/* schedule.c - learning rate and weight decay by the formulas of kinds/schedules.h. */
#include "optim/schedule.h"

#include <math.h>

#include "base/status.h"

#define PI 3.14159265358979323846

tx_schedule tx_schedule_from_config(const tx_config *cfg)
{
    double batch = (double)cfg->global_batch_size;
    double total = cfg->train_samples ? (double)cfg->train_samples : (double)cfg->train_iters * batch;
    double decay = cfg->lr_decay_samples ? (double)cfg->lr_decay_samples : (double)cfg->lr_decay_iters * batch;
    double warmup = cfg->lr_warmup_samples ? (double)cfg->lr_warmup_samples : (double)cfg->lr_warmup_iters * batch;
    double wsd =
        cfg->lr_wsd_decay_samples ? (double)cfg->lr_wsd_decay_samples : (double)cfg->lr_wsd_decay_iters * batch;
    if (cfg->lr_warmup_fraction > 0) warmup = cfg->lr_warmup_fraction * decay;
    bool constant_wd = cfg->weight_decay_incr_style == TX_WD_INCR_CONSTANT;
    return (tx_schedule){
        .lr_style = cfg->lr_decay_style,
        .wsd_style = cfg->lr_wsd_decay_style,
        .wd_style = cfg->weight_decay_incr_style,
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
        .decoupled = cfg->given.decoupled_lr,
        .decoupled_lr = cfg->decoupled_lr,
        .decoupled_min_lr = cfg->given.decoupled_min_lr ? cfg->decoupled_min_lr
                            : cfg->given.decoupled_lr   ? cfg->min_lr
                                                        : 0,
    };
}

/* Where a schedule stands, counted in samples or in tokens: n of which `warmup` is warm-up and `decay` the end. */
typedef struct progress {
    double n, warmup, decay;
} progress;

/* Both counts may play a part: `up` is the one of the warm-up, `down` the one of the decay. */
typedef struct progress_of_lr {
    progress up, down, tokens;
    bool over; /* the decay */
} progress_of_lr;

/* clang-format off */
#define PART(constant, word, part) case constant: return part;
/* clang-format on */

/* The part of max_lr - min_lr that is left when r of a WSD's decay, 0 to 1, has passed. */
static double left_of_wsd(enum tx_wsd_decay_style style, double r)
{
    switch (style) {
        TX_WSD_DECAY_STYLES(PART)
    }
    TX_ASSERT(false && "a style of --lr-wsd-decay-style");
    return 0;
}

static double wsd_lr(const tx_schedule *s, const progress_of_lr *p)
{
    double begin = p->down.decay - s->wsd_decay, r = (p->down.n - begin) / s->wsd_decay;
    if (p->over) return s->min_lr;
    return s->min_lr + (p->down.n <= begin ? 1 : left_of_wsd(s->wsd_style, r)) * (s->max_lr - s->min_lr);
}

static double inverse_sqrt_lr(const tx_schedule *s, const progress_of_lr *p)
{
    progress by = s->decay_tokens > 0 && p->up.warmup > 0 ? p->tokens : p->up;
    if (p->over) return s->min_lr;
    return fmax(s->min_lr, s->max_lr * sqrt(fmax(by.warmup, 1)) / sqrt(fmax(by.n, 1)));
}

#define FALLS(part) (p->over ? s->min_lr : s->min_lr + (part) * (s->max_lr - s->min_lr))

static double lr_after_warmup(const tx_schedule *s, const progress_of_lr *p)
{
    double r = p->over ? 1 : (p->down.n - p->down.warmup) / (p->down.decay - p->down.warmup);
    switch (s->lr_style) {
        TX_LR_DECAY_STYLES(PART)
    }
    TX_ASSERT(false && "a style of --lr-decay-style");
    return 0;
}

double tx_schedule_lr(const tx_schedule *s, const tx_schedule_place *at)
{
    progress samples = { (double)at->samples, s->warmup, s->decay };
    progress tokens = { (double)at->tokens, s->warmup_tokens > 0 ? s->warmup_tokens : (double)at->warmup_tokens,
                        s->decay_tokens };
    progress_of_lr p = { .up = s->warmup_tokens > 0 ? tokens : samples,
                         .down = s->decay_tokens > 0 ? tokens : samples,
                         .tokens = tokens };
    if (p.up.warmup > 0 && p.up.n <= p.up.warmup) return s->init_lr + (s->max_lr - s->init_lr) * p.up.n / p.up.warmup;
    /* a warm-up in samples may outlast a decay in tokens */
    p.over = p.down.n > p.down.decay || p.down.decay <= p.down.warmup;
    return lr_after_warmup(s, &p);
}

double tx_schedule_decoupled_lr(const tx_schedule *s, const tx_schedule_place *at)
{
    tx_schedule own = *s;
    own.max_lr = s->decoupled_lr;
    own.min_lr = s->decoupled_min_lr;
    return s->decoupled ? tx_schedule_lr(&own, at) : -1;
}

/* The part of the way from start_wd to end_wd that is done at r of it, 0 to 1. */
static double done_of_wd(enum tx_wd_incr_style style, double r)
{
    switch (style) {
        TX_WD_INCR_STYLES(PART)
    }
    TX_ASSERT(false && "a style of --weight-decay-incr-style");
    return 1;
}

double tx_schedule_wd(const tx_schedule *s, const tx_schedule_place *at)
{
    double n = (double)at->samples;
    if (s->wd_style == TX_WD_INCR_CONSTANT || n > s->wd_incr) return s->end_wd;
    return s->start_wd + done_of_wd(s->wd_style, n / s->wd_incr) * (s->end_wd - s->start_wd);
}

void tx_schedule_advance(const tx_schedule *s, tx_schedule_place *at, int64_t samples, int64_t tokens)
{
    at->samples += samples;
    at->tokens = tokens;
    if ((double)at->samples <= s->warmup) at->warmup_tokens = tokens;
}
