/* rules_schedule.c - rules across options: DeepSpeed's schedules of the learning rate, each of which has parameters of
 * its own. */
#include <string.h>

#include "config/rules.h"

/* The schedules that have it. */
static const char *schedules_of(const char *flag)
{
    static const char *const rows[][2] = { { "lr-range-test-", "LRRangeTest" },
                                           { "cycle-", "OneCycle" },
                                           { "no-cycle-", "OneCycle" },
                                           { "decay-", "OneCycle" },
                                           { "warmup-min-lr", "WarmupLR|WarmupDecayLR" },
                                           { "warmup-max-lr", "WarmupLR|WarmupDecayLR" },
                                           { "warmup-min-ratio", "WarmupCosineLR" },
                                           { "cos-min-ratio", "WarmupCosineLR" },
                                           { "total-num-steps", "WarmupDecayLR|WarmupCosineLR" },
                                           { "warmup-", "WarmupLR|WarmupDecayLR|WarmupCosineLR" } };
    size_t i = 0;
    while (strncmp(flag, rows[i][0], strlen(rows[i][0]))) i++;
    return rows[i][1];
}

/* Whether any option of the group is given, whose rows stand together: advice.c asks a million times. */
static bool names_any(const tx_config_given *g)
{
    const bool *first = &g->lr_schedule, *last = &g->cos_min_ratio;
    while (first < last && !*first) first++;
    return *first;
}

static void rule_parameters_are_the_schedules(const tx__check *k)
{
    const char *name = tx_ds_schedule_kind_word(k->c->lr_schedule);
    if (!names_any(k->g)) return;
    for (size_t i = 0; i < tx__n_options && !k->bad->lr_schedule; i++) {
        const tx_option *o = &tx__options[i];
        if (o->group != TX_GROUP_DS_SCHEDULE || !tx__has_member(o) || !tx__is_given(k->c, o)) continue;
        if (!strcmp(o->flag, "lr-schedule") || !strcmp(o->flag, "deepspeed-scheduler")) continue;
        if (name && tx__word_in(schedules_of(o->flag), name)) continue;
        if (name)
            tx__violate(k->v, "--%s is none of --lr-schedule %s's: it is of %s; leave it out", o->flag, name,
                        schedules_of(o->flag));
        else
            tx__violate(k->v, "--%s needs --lr-schedule %s", o->flag, schedules_of(o->flag));
    }
}

static void rule_schedules_have_what_they_need(const tx__check *k)
{
    const tx_config_given *g = &k->c->given;
    if (!k->c->lr_schedule || k->bad->lr_schedule) return;
    enum tx_ds_schedule_kind kind = k->c->lr_schedule;
    bool counts = kind == TX_DS_WARMUP_DECAY || kind == TX_DS_WARMUP_COSINE;
    const struct {
        bool needed, have;
        const char *flag, *key;
    } all[] = { { kind == TX_DS_ONE_CYCLE, g->cycle_min_lr, "cycle-min-lr", "scheduler.params.cycle_min_lr" },
                { kind == TX_DS_ONE_CYCLE, g->cycle_max_lr, "cycle-max-lr", "scheduler.params.cycle_max_lr" },
                { counts, g->total_num_steps, "total-num-steps", "scheduler.params.total_num_steps" },
                { kind == TX_DS_WARMUP_COSINE, g->lr, "lr", "optimizer.params.lr" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].needed && !all[i].have)
            tx__violate(k->v, "--lr-schedule %s needs --%s (%s)", tx_ds_schedule_kind_word(kind), all[i].flag,
                        all[i].key);
}

/* DeepSpeed itself takes such pairs, and goes the other way. */
static void rule_lowest_is_below_highest(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *bad = k->bad;
    enum tx_ds_schedule_kind kind = c->lr_schedule;
    bool cycle = kind == TX_DS_ONE_CYCLE, warms = kind == TX_DS_WARMUP || kind == TX_DS_WARMUP_DECAY;
    const char *warm_flag;
    double warm = tx_config_warmup_max_lr(c, &warm_flag);
    const struct {
        bool applies;
        double low, high;
        const char *low_flag, *high_flag;
    } all[] = {
        { cycle && k->g->cycle_min_lr && k->g->cycle_max_lr && !bad->cycle_min_lr && !bad->cycle_max_lr,
          c->cycle_min_lr, c->cycle_max_lr, "cycle-min-lr", "cycle-max-lr" },
        { cycle && c->cycle_momentum && !bad->cycle_min_mom && !bad->cycle_max_mom, c->cycle_min_mom, c->cycle_max_mom,
          "cycle-min-mom", "cycle-max-mom" },
        { warms && !bad->warmup_min_lr && !bad->warmup_max_lr && !bad->lr, c->warmup_min_lr, warm, "warmup-min-lr",
          warm_flag },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all && !bad->lr_schedule; i++)
        if (all[i].applies && all[i].low > all[i].high)
            tx__violate(k->v, "--%s %g is more than --%s %g", all[i].low_flag, all[i].low, all[i].high_flag,
                        all[i].high);
}

static void rule_scheduler_is_there(const tx__check *k)
{
    if (k->c->deepspeed_scheduler && !k->c->lr_schedule && !k->bad->lr_schedule)
        tx__violate(k->v, "--deepspeed-scheduler needs the section scheduler, with a type, in the file of "
                          "--deepspeed_config");
}

static void rule_one_schedule(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *name = tx_ds_schedule_kind_word(c->lr_schedule);
    for (size_t i = 0; i < tx__n_options && name; i++) {
        const tx_option *o = &tx__options[i];
        if (o->group != TX_GROUP_LR || o->kept != TX_KEPT_SCHEDULE || !tx__has_member(o) || !tx__is_given(c, o))
            continue;
        if (strcmp(o->flag, "lr") != 0)
            tx__violate(k->v, "--%s is of Megatron's schedule, in whose place --lr-schedule %s stands: leave it out",
                        o->flag, name);
    }
}

const tx__rule tx__rules_schedule[] = {
    { "training", rule_parameters_are_the_schedules },
    { "training", rule_schedules_have_what_they_need },
    { "training", rule_lowest_is_below_highest },
    { "training", rule_scheduler_is_there },
    { "pretrain", rule_one_schedule },
    { NULL, NULL },
};
