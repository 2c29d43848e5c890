/* optim_settings.c - what a client has set of its optimizer behind the options' back, in checkpoints. */
#include <math.h>
#include <string.h>

#include "train/trainer.h"

static bool is_number(const json_t *v, double least, double below)
{
    return json_is_number(v) && json_number_value(v) >= least && json_number_value(v) < below;
}

/* With momentum that a schedule moves the betas are the schedule's. */
static bool moves_betas(const tx_trainer *t)
{
    return t->ds_schedule.cycles_momentum != 0;
}

bool tx__trainer_has_settings(const tx_trainer *t)
{
    const tx_optim *o = &t->zero.optim;
    double betas[2];
    tx_optim_betas_of(o->type, t->cfg, betas);
    for (int i = 0; i <= t->client->n_groups; i++)
        if (t->setting[i].lr >= 0 || t->setting[i].weight_decay >= 0) return true;
    if (o->momentum != tx_optim_momentum(t->cfg) || t->lr_override >= 0) return true;
    return !moves_betas(t) && (o->betas[0] != betas[0] || o->betas[1] != betas[1]);
}

tx_status tx__trainer_settings_to_json(const tx_trainer *t, json_t **out)
{
    const tx_optim *o = &t->zero.optim;
    json_t *groups = json_array();
    int failed = !groups;
    for (int i = 0; i <= t->client->n_groups && !failed; i++) {
        const tx_optim_setting *s = &t->setting[i];
        const char *pattern = i ? t->client->group[i - 1].pattern : "";
        failed = json_array_append_new(
            groups, json_pack("{s:s, s:f, s:f}", "pattern", pattern, "lr", s->lr, "weight_decay", s->weight_decay));
    }
    json_t *all = failed ? NULL
                         : json_pack("{s:[f, f], s:f, s:f, s:O}", "betas", o->betas[0], o->betas[1], "momentum",
                                     o->momentum, "lr", t->lr_override, "param_groups", groups);
    json_decref(groups);
    if (!all) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the optimizer's settings in a checkpoint");
    *out = all;
    return TX_OK;
}

tx_status tx__trainer_settings_from_json(tx_trainer *t, const json_t *saved, bool apply)
{
    const json_t *groups = json_object_get(saved, "param_groups"), *betas = json_object_get(saved, "betas"),
                 *momentum = json_object_get(saved, "momentum"), *lr = json_object_get(saved, "lr");
    size_t n = (size_t)t->client->n_groups + 1;
    bool good = json_array_size(groups) == n && json_array_size(betas) == 2 && is_number(momentum, 0, 1) &&
                is_number(lr, -1, INFINITY);
    for (size_t k = 0; k < 2 && good; k++) good = is_number(json_array_get(betas, k), 0, 1);
    for (size_t i = 0; i < n && good; i++) {
        const json_t *g = json_array_get(groups, i);
        const char *pattern = json_string_value(json_object_get(g, "pattern"));
        good = pattern && !strcmp(pattern, i ? t->client->group[i - 1].pattern : "") &&
               is_number(json_object_get(g, "lr"), -1, INFINITY) &&
               is_number(json_object_get(g, "weight_decay"), -1, INFINITY);
    }
    if (!good)
        return TX_FAIL(TX_ERR_FORMAT,
                       "the optimizer's settings that are to be loaded are not of this run's %d parameter "
                       "groups",
                       (int)n);
    for (size_t i = 0; i < n && apply; i++) {
        const json_t *g = json_array_get(groups, i);
        t->setting[i] = (tx_optim_setting){ json_number_value(json_object_get(g, "lr")),
                                            json_number_value(json_object_get(g, "weight_decay")) };
    }
    if (!apply) return TX_OK;
    t->lr_override = json_number_value(lr);
    t->zero.optim.momentum = json_number_value(momentum);
    for (size_t k = 0; k < 2 && !moves_betas(t); k++)
        t->zero.optim.betas[k] = json_number_value(json_array_get(betas, k));
    return TX_OK;
}
