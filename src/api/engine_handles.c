/* engine_handles.c - what a client asks an engine for, and what it may set: numbers, the optimizer, the scheduler. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine_internal.h"
#include "base/alloc.h"
#include "base/json.h"

int64_t tx_engine_iteration(const tx_engine *e)
{
    return e->trainer->iteration;
}

double tx_engine_lr(const tx_engine *e)
{
    return tx_trainer_lr(e->trainer);
}

double tx_engine_loss(const tx_engine *e)
{
    return e->trainer->iteration_loss;
}

double tx_engine_grad_norm(const tx_engine *e)
{
    return e->trainer->grad_norm;
}

int64_t tx_engine_n_params(const tx_engine *e)
{
    return tx_params_count(&e->trainer->model->params);
}

tx_engine_memory tx_engine_memory_of(const tx_engine *e)
{
    tx_memory m = tx_trainer_memory(e->trainer);
    return (tx_engine_memory){ .params = (int64_t)(m.params + m.persistent + m.gathered + m.teacher),
                               .grads = (int64_t)(m.grads + m.buckets),
                               .optimizer = (int64_t)m.optimizer,
                               .activations = (int64_t)(m.activations + m.host_activations),
                               .workspace = (int64_t)(m.workspace + m.passing + m.saving),
                               .offloaded_cpu = (int64_t)m.host,
                               .offloaded_nvme = (int64_t)tx_memory_disk(&m),
                               .total = (int64_t)tx_memory_total(&m) };
}

const tx_tokenizer *tx_engine_tokenizer(const tx_engine *e)
{
    return e->tokenizer;
}

tx_status tx_engine_set_lr(tx_engine *e, double lr)
{
    if (!isfinite(lr) || lr < 0) return TX_FAIL(TX_ERR_ARG, "%g is no learning rate", lr);
    e->trainer->lr_override = lr;
    return TX_OK;
}

double tx_engine_cur_scale(const tx_engine *e)
{
    return e->trainer->scaler.scale;
}

int64_t tx_engine_micro_steps(const tx_engine *e)
{
    return e->micro_steps;
}

int64_t tx_engine_skipped_steps(const tx_engine *e)
{
    return e->trainer->skipped;
}

int tx_engine_global_rank(const tx_engine *e)
{
    const tx_grid *g = e->trainer->grid;
    return g->size == 1 ? 0 : tx_comm_world_rank(tx_grid_group(g, TX_GROUP_WORLD), g->rank);
}

int tx_engine_world_size(const tx_engine *e)
{
    return e->trainer->grid->size;
}

int tx_engine_data_parallel_rank(const tx_engine *e)
{
    return tx_grid_rank(e->trainer->grid, TX_AXIS_DATA);
}

int tx_engine_data_parallel_size(const tx_engine *e)
{
    return tx_grid_size(e->trainer->grid, TX_AXIS_DATA);
}

int64_t tx_engine_train_micro_batch_size(const tx_engine *e)
{
    return e->trainer->cfg->micro_batch_size;
}

int64_t tx_engine_train_batch_size(const tx_engine *e)
{
    return tx_trainer_batch_size(e->trainer);
}

int tx_engine_tensor_parallel_rank(const tx_engine *e)
{
    return tx_grid_rank(e->trainer->grid, TX_AXIS_TENSOR);
}

int tx_engine_tensor_parallel_size(const tx_engine *e)
{
    return tx_grid_size(e->trainer->grid, TX_AXIS_TENSOR);
}

int tx_engine_pipeline_parallel_rank(const tx_engine *e)
{
    return tx_grid_rank(e->trainer->grid, TX_AXIS_PIPELINE);
}

int tx_engine_pipeline_parallel_size(const tx_engine *e)
{
    return tx_grid_size(e->trainer->grid, TX_AXIS_PIPELINE);
}

int64_t tx_engine_gradient_accumulation_steps(const tx_engine *e)
{
    return tx__trainer_n_micro(e->trainer);
}

int64_t tx_engine_global_samples(const tx_engine *e)
{
    return e->trainer->consumed_train_samples;
}

bool tx_engine_was_step_applied(const tx_engine *e)
{
    const tx_trainer *t = e->trainer;
    return t->iteration && !t->micro && t->want == TX_WANT_FORWARD && t->last_step == TX_STEP_TAKEN;
}

tx_status tx_engine_zero_grad(tx_engine *e)
{
    tx_trainer *t = e->trainer;
    if (t->want != TX_WANT_FORWARD)
        return TX_FAIL(TX_ERR_STATE, "gradients are forgotten in front of a forward, not between forward and step");
    t->grads_begin = true;
    return TX_OK;
}

/* ---- the optimizer ---- */

tx_optimizer *tx_engine_optimizer(tx_engine *e)
{
    return &e->optimizer;
}

const char *tx_optimizer_name(const tx_optimizer *o)
{
    return tx_optim_name(&o->t->zero.optim);
}

int64_t tx_optimizer_steps(const tx_optimizer *o)
{
    return o->t->zero.optim.t;
}

int tx_optimizer_n_groups(const tx_optimizer *o)
{
    return o->t->client->n_groups + 1;
}

/* *at: its place among the settings, whose first is that of the parameters that no pattern matches. */
static tx_status find_group(const tx_optimizer *o, int group, int *at)
{
    int n = tx_optimizer_n_groups(o);
    if (group < 0 || group >= n) return TX_FAIL(TX_ERR_ARG, "there is no parameter group %d of %d", group, n);
    *at = group + 1 < n ? group + 1 : 0;
    return TX_OK;
}

tx_status tx_optimizer_group_at(const tx_optimizer *o, int group, tx_optimizer_group *out)
{
    const tx_trainer *t = o->t;
    int at;
    TX_TRY(find_group(o, group, &at));
    const tx_param_group *own = at ? &t->client->group[at - 1] : NULL;
    const tx_optim_range range = { .decay = true,
                                   .group = at,
                                   .lr_scale = own ? own->lr_scale : 1,
                                   .decay_scale = own ? own->weight_decay_scale : 1 };
    tx_optim_step all = tx_optim_next(&t->zero.optim, tx_trainer_lr(t), t->weight_decay);
    tx_optim_step s = tx_optim_step_of(&all, &range);
    *out = (tx_optimizer_group){ .pattern = own ? own->pattern : NULL,
                                 .lr = s.lr,
                                 .weight_decay = s.weight_decay,
                                 .betas = { s.betas[0], s.betas[1] },
                                 .eps = tx_optim_eps_of(t->zero.optim.type, t->cfg),
                                 .momentum = s.momentum };
    return TX_OK;
}

static tx_status require_not_negative(const char *what, double x)
{
    if (isfinite(x) && x >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%g is no %s", x, what);
}

tx_status tx_optimizer_set_lr(tx_optimizer *o, int group, double lr)
{
    int at;
    TX_TRY(find_group(o, group, &at));
    TX_TRY(require_not_negative("learning rate", lr));
    o->t->setting[at].lr = lr;
    return TX_OK;
}

tx_status tx_optimizer_set_weight_decay(tx_optimizer *o, int group, double weight_decay)
{
    int at;
    TX_TRY(find_group(o, group, &at));
    TX_TRY(require_not_negative("weight decay", weight_decay));
    o->t->setting[at].weight_decay = weight_decay;
    return TX_OK;
}

static bool is_less_than_one(double x)
{
    return x >= 0 && x < 1;
}

tx_status tx_optimizer_set_betas(tx_optimizer *o, double beta1, double beta2)
{
    if (!is_less_than_one(beta1) || !is_less_than_one(beta2))
        return TX_FAIL(TX_ERR_ARG, "betas are at least 0 and less than 1, not %g and %g", beta1, beta2);
    o->t->zero.optim.betas[0] = beta1;
    o->t->zero.optim.betas[1] = beta2;
    return TX_OK;
}

tx_status tx_optimizer_set_momentum(tx_optimizer *o, double momentum)
{
    if (!is_less_than_one(momentum))
        return TX_FAIL(TX_ERR_ARG, "momentum is at least 0 and less than 1, not %g", momentum);
    o->t->zero.optim.momentum = momentum;
    return TX_OK;
}

/* A JSON object's text. Takes the object, which may be NULL: there was no memory for it. */
static tx_status give_text(char **out, json_t *object, const char *what)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    tx_status st =
        text ? tx_memdup0(out, text, strlen(text), what) : TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", what);
    free(text);
    json_decref(object);
    return st;
}

static tx_status read_state(json_t **out, const char *text, const char *what)
{
    json_error_t e;
    *out = text ? tx_json_load(text, strlen(text), JSON_REJECT_DUPLICATES, &e) : NULL;
    if (*out && json_is_object(*out)) return TX_OK;
    json_decref(*out);
    return TX_FAIL(TX_ERR_FORMAT, "the state of %s that is to be loaded is no JSON object", what);
}

tx_status tx_optimizer_state(const tx_optimizer *o, char **state)
{
    json_t *all;
    TX_TRY(tx__trainer_settings_to_json(o->t, &all));
    return give_text(state, all, "the optimizer's state");
}

tx_status tx_optimizer_load_state(tx_optimizer *o, const char *state)
{
    json_t *saved;
    TX_TRY(read_state(&saved, state, "an optimizer"));
    tx_status st = tx__trainer_settings_from_json(o->t, saved, true);
    json_decref(saved);
    return st;
}

/* ---- the scheduler ---- */

tx_lr_scheduler *tx_engine_lr_scheduler(tx_engine *e)
{
    return &e->scheduler;
}

const char *tx_lr_scheduler_name(const tx_lr_scheduler *s)
{
    const tx_trainer *t = s->t;
    if (t->client->lr) return "client";
    return t->ds_schedule.kind ? tx_ds_schedule_kind_word(t->ds_schedule.kind) : "OptimizerParamScheduler";
}

double tx_lr_scheduler_lr(const tx_lr_scheduler *s)
{
    return s->t->lr;
}

int64_t tx_lr_scheduler_last_step(const tx_lr_scheduler *s)
{
    const tx_trainer *t = s->t;
    return tx_trainer_counts_steps(t) ? t->schedule_steps - 1 : t->place.samples;
}

tx_status tx_lr_scheduler_step(tx_lr_scheduler *s, int64_t increment)
{
    tx_trainer *t = s->t;
    if (increment < 1 || increment > (int64_t)1 << 40)
        return TX_FAIL(TX_ERR_ARG, "a scheduler steps by 1 or more, not %lld", (long long)increment);
    if (tx_trainer_counts_steps(t))
        t->schedule_steps += increment;
    else
        tx_schedule_advance(&t->schedule, &t->place, increment, t->place.tokens);
    tx__trainer_move_schedule(t);
    return TX_OK;
}

tx_status tx_lr_scheduler_state(const tx_lr_scheduler *s, char **state)
{
    static const char what[] = "the scheduler's state";
    const tx_trainer *t = s->t;
    const tx_schedule_place *p = &t->place;
    json_t *all;
    if (tx_trainer_counts_steps(t))
        return give_text(state, json_pack("{s:I}", "last_batch_iteration", (json_int_t)t->schedule_steps - 1), what);
    all = json_pack("{s:I, s:I, s:I}", "num_steps", (json_int_t)p->samples, "num_tokens", (json_int_t)p->tokens,
                    "warmup_tokens", (json_int_t)p->warmup_tokens);
    return give_text(state, all, what);
}

/* The place of Megatron's scheduler. */
static tx_status read_place(const json_t *saved, tx_schedule_place *out)
{
    static const char *const key[] = { "num_steps", "num_tokens", "warmup_tokens" };
    int64_t n[3];
    for (int i = 0; i < 3; i++) {
        const json_t *v = json_object_get(saved, key[i]);
        n[i] = json_integer_value(v);
        if (!json_is_integer(v) || n[i] < 0) return TX_FAIL(TX_ERR_FORMAT, "the scheduler's state has no %s", key[i]);
    }
    *out = (tx_schedule_place){ n[0], n[1], n[2] };
    return TX_OK;
}

tx_status tx_lr_scheduler_load_state(tx_lr_scheduler *s, const char *state)
{
    tx_trainer *t = s->t;
    json_t *saved;
    TX_TRY(read_state(&saved, state, "a scheduler"));
    tx_status st =
        tx_trainer_counts_steps(t) ? tx_ds_schedule_steps(saved, &t->schedule_steps) : read_place(saved, &t->place);
    json_decref(saved);
    if (!st) tx__trainer_move_schedule(t);
    return st;
}
