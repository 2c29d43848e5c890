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

static void rule_parameters_are_the_schedules(const tx__check *k)
{
    const char *name = tx_ds_schedule_kind_word(k->c->lr_schedule);
    for (size_t i = 0; i < tx__n_options && !k->bad->lr_schedule; i++) {
        const tx_option *o = &tx__options[i];
        if (o->group != TX_GROUP_DS_SCHEDULE || !tx__has_member(o) || !tx__is_given(k->c, o)) continue;
        if (!strcmp(o->flag, "lr-schedule") || (name && tx__word_in(schedules_of(o->flag), name))) continue;
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

const tx__rule tx__rules_schedule[] = {
    { "engine", rule_parameters_are_the_schedules },
    { "engine", rule_schedules_have_what_they_need },
    { NULL, NULL },
};
