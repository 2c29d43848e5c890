/* deepspeed_write.c - mp_rank_NN_model_states.pt, and what DeepSpeed's optimizers keep besides the numbers of
 * parameters. The order of keys is the engine's. */
#include "convert/deepspeed_write.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

bool tx__has_zero(const tx_conversion *c)
{
    return c->with_optim && (c->zero_stage > 0 || (c->dtype == TX_ST_BF16 && !tx__is_compressed(c)));
}

bool tx__is_compressed(const tx_conversion *c)
{
    return tx_optimizer_traits(c->src->optimizer) & TX_OPTIMIZER_COMPRESSED;
}

tx_status tx__ds_rank_open(tx__rank *r, const tx_conversion *c, tx__place at)
{
    return tx__rank_open(r, c, at, c->pipeline || c->n_pp > 1, c->zero_stage == 3);
}

/* ---- the optimizer ---- */

int64_t tx__ds_padded(const tx__group *g)
{
    int64_t align = 2 * (int64_t)g->n_parts;
    return (g->numel + align - 1) / align * align;
}

tx_py *tx__ds_flat(tx__file *f, const tx__rank *r, const tx__group *g, int part, int64_t begin, int64_t end)
{
    tx__shard_range *span;
    int n = 0;
    int64_t at = 0;
    const int64_t numel = end - begin;
    if (tx_alloc(&span, (size_t)g->n + 1, sizeof *span, "a list of tensors")) return NULL;
    for (int i = 0; i < g->n; i++) {
        const tx__rank_row *row = &r->row[r->order[g->first + i]];
        int64_t from = begin > at ? begin - at : 0, to = end - at < row->shard.numel ? end - at : row->shard.numel;
        if (from < to)
            span[n++] =
                (tx__shard_range){ .part = part, .row = row->row, .shard = &row->shard, .first = from, .n = to - from };
        at += row->shard.numel;
    }
    int64_t zeros = end - (begin > at ? begin : at);
    if (zeros > 0) span[n++] = (tx__shard_range){ .row = -1, .n = zeros };
    tx_py *t = tx__file_tensor(f, TX_PT_F32, 1, &numel, span, n);
    tx_free(span);
    return t;
}

tx_py *tx__ds_flat_state(tx__file *f, const tx__rank *r, const tx__group *g, int64_t begin, int64_t end)
{
    const tx_py *state[TX_OPTIM_MAX_STATE];
    for (int k = 0; k < tx__optim_of(f->c)->keeps->n; k++)
        if (!tx__has_buffer(f, k))
            state[k] = NULL;
        else if (!(state[k] = tx__ds_flat(f, r, g, tx__state_part(f->c, k), begin, end)))
            f->short_of_memory = true;
    return tx__optim_state(f, state, end - begin);
}

tx_py *tx__ds_param_groups(tx__file *f, const tx__rank *r)
{
    tx_py *groups = tx_py_list(f->a);
    if (f->c->zero_stage == 3) /* sub-groups of one */
        return tx__append(f, groups, tx__param_group(f, &r->group[0], 0, r->n_groups));
    for (int g = 0; g < r->n_groups; g++) tx__append(f, groups, tx__param_group(f, &r->group[g], g, 1));
    return groups;
}

tx_py *tx__ds_zero_stage(tx__file *f)
{
    tx_py *args = tx__append(f, tx_py_tuple(f->a), tx_py_of_int(f->a, f->c->zero_stage));
    return tx__object(f, "deepspeed.runtime.zero.config", "ZeroStageEnum", args, NULL);
}

/* The iterations since the scale changed are the difference of two counts there. */
static tx_py *loss_scaler(tx__file *f)
{
    tx_py_arena *a = f->a;
    const char *module = "deepspeed.runtime.fp16.loss_scaler";
    tx__loss_scale s = { .scale = 1 };
    if (f->c->dtype == TX_ST_F16) s = tx__loss_scale_of(f);
    tx_py *o = tx_py_dict(a);
    tx__set(f, o, "cur_scale", tx_py_of_float(a, s.scale));
    tx__set(f, o, "dynamic", tx_py_of_bool(a, s.dynamic));
    if (!s.dynamic) return tx__object(f, module, "LossScaler", NULL, o);
    int64_t now = f->c->src->state.iteration;
    tx__set(f, o, "cur_iter", tx_py_of_int(a, now));
    tx__set(f, o, "last_overflow_iter", tx_py_of_int(a, now - 1 - s.growth));
    tx__set(f, o, "scale_factor", tx_py_of_float(a, 2));
    tx__set(f, o, "scale_window", tx_py_of_int(a, (int64_t)tx__option(f, "loss_scale_window")));
    tx__set(f, o, "min_scale", tx_py_of_float(a, tx__option(f, "min_loss_scale")));
    tx__set(f, o, "delayed_shift", tx_py_of_int(a, (int64_t)tx__option(f, "hysteresis")));
    tx__set(f, o, "cur_hysteresis", tx_py_of_int(a, s.hysteresis));
    tx__set(f, o, "consecutive_hysteresis", tx_py_of_bool(a, false));
    tx__set(f, o, "raise_error_at_min_scale", tx_py_of_bool(a, true));
    tx__set(f, o, "dtype", tx_py_of_global(a, "torch", "float16"));
    return tx__object(f, module, "DynamicLossScaler", NULL, o);
}

/* Zeros: parameters are not aligned each by itself. */
static tx_py *no_paddings(tx__file *f, const tx__rank *r)
{
    tx_py *all = tx_py_list(f->a);
    for (int g = 0; g < r->n_groups; g++) {
        tx_py *list = tx_py_list(f->a);
        for (int i = 0; i < r->group[g].n; i++) tx__append(f, list, tx_py_of_int(f->a, 0));
        tx__append(f, all, list);
    }
    return all;
}

static void set_paddings(tx__file *f, tx_py *o, const tx__rank *r)
{
    tx_py *paddings = tx_py_list(f->a), *counts = tx_py_list(f->a);
    for (int i = 0; i < r->n_groups; i++) {
        const tx__group *g = &r->group[i];
        int64_t n = g->part == g->n_parts - 1 ? tx__ds_padded(g) - g->numel : 0;
        tx__append(f, paddings, tx_py_of_int(f->a, n));
        tx__append(f, counts, tx_py_of_int(f->a, g->n_parts));
    }
    tx__set(f, o, "group_paddings", paddings);
    if (f->c->zero_stage) tx__set(f, o, "param_alignment_paddings", no_paddings(f, r));
    tx__set(f, o, "partition_count", counts);
    tx__set(f, o, "ds_version", tx_py_of_str(f->a, TX__DS_VERSION));
}

tx_py *tx__ds_global_state(tx__file *f, const tx__rank *r)
{
    const tx_conversion *c = f->c;
    tx_py *o = tx_py_dict(f->a);
    if (c->zero_stage == 3) tx__set(f, o, "zero_stage", tx__ds_zero_stage(f));
    if (c->zero_stage) { /* bf16 without ZeRO has no scale */
        tx__set(f, o, "loss_scaler", loss_scaler(f));
        tx__set(f, o, "dynamic_loss_scale", tx_py_of_bool(f->a, c->dtype == TX_ST_F16 && tx__loss_scale_of(f).dynamic));
        tx__set(f, o, "overflow", tx_py_of_bool(f->a, false));
    }
    if (c->zero_stage == 3) return tx__set(f, o, "partition_count", tx_py_of_int(f->a, c->n_dp));
    tx__set(f, o, "clip_grad", tx_py_of_float(f->a, tx__option(f, "clip_grad")));
    if (c->zero_stage) tx__set(f, o, "zero_stage", tx__ds_zero_stage(f));
    set_paddings(f, o, r);
    return o;
}

/* ---- without ZeRO it is in the model's file ---- */

static void set_loss_scale(tx__file *f, tx_py *o)
{
    const tx__loss_scale s = tx__loss_scale_of(f);
    tx_py_arena *a = f->a;
    int64_t now = f->c->src->state.iteration;
    tx__set(f, o, "dynamic_loss_scale", tx_py_of_bool(a, s.dynamic));
    tx__set(f, o, "cur_scale", tx_py_of_float(a, s.scale));
    tx__set(f, o, "cur_iter", tx_py_of_int(a, now));
    tx__set(f, o, "last_overflow_iter", tx_py_of_int(a, now - 1 - s.growth));
    tx__set(f, o, "scale_factor", tx_py_of_float(a, 2));
    tx__set(f, o, "scale_window", tx_py_of_int(a, (int64_t)tx__option(f, "loss_scale_window")));
}

/* FP16_UnfusedOptimizer, of those that want tensors: masters are tensors, too. */
static tx_py *unfused_fp16(tx__file *f, const tx__rank *r)
{
    tx_py *o = tx_py_dict(f->a), *groups = tx_py_list(f->a);
    for (int g = 0; g < r->n_groups; g++) {
        tx_py *masters = tx_py_list(f->a);
        for (int i = r->group[g].first; i < r->group[g].first + r->group[g].n; i++)
            tx__append(f, masters, tx__file_shard(f, TX_PT_F32, 0, &r->row[r->order[i]]));
        tx__append(f, groups, masters);
    }
    set_loss_scale(f, o);
    tx__set(f, o, "optimizer_state_dict", tx__torch_optimizer(f, r));
    return tx__set(f, o, "fp32_groups", groups);
}

/* FP16_Optimizer: groups are flat, and not padded. Of bf16 it has no scale. */
static tx_py *flat_fp16(tx__file *f, const tx__rank *r)
{
    tx_py_arena *a = f->a;
    tx_py *o = tx_py_dict(a), *inner = tx_py_dict(a), *state = tx_py_dict(a), *groups = tx_py_list(a);
    for (int i = 0; i < r->n_groups; i++) {
        const tx__group *g = &r->group[i];
        tx__set_at(f, state, i, tx__ds_flat_state(f, r, g, 0, g->numel));
        tx__append(f, groups, tx__ds_flat(f, r, g, 0, 0, g->numel));
    }
    tx__set(f, inner, "state", state);
    tx__set(f, inner, "param_groups", tx__ds_param_groups(f, r));
    if (f->c->dtype == TX_ST_F16) set_loss_scale(f, o);
    tx__set(f, o, "optimizer_state_dict", inner);
    tx__set(f, o, "fp32_groups_flat", groups);
    return tx__set(f, o, "clip_grad", tx_py_of_float(a, tx__option(f, "clip_grad")));
}

tx_py *tx__ds_plain_optimizer(tx__file *f, const tx__rank *r)
{
    if (!f->c->with_optim || tx__has_zero(f->c)) return tx_py_none(f->a);
    if (f->c->dtype == TX_ST_F32) return tx__torch_optimizer(f, r);
    return tx_optimizer_traits(f->c->src->optimizer) & TX_OPTIMIZER_NORMS ? unfused_fp16(f, r) : flat_fp16(f, r);
}

/* ---- model states ---- */

tx_py *tx__ds_config(tx__file *f)
{
    const tx_conversion *c = f->c;
    tx_py_arena *a = f->a;
    tx_py *o = tx_py_dict(a), *zero = tx_py_dict(a), *on = tx_py_dict(a);
    tx__set(f, on, "enabled", tx_py_of_bool(a, true));
    tx__set(f, zero, "stage", tx_py_of_int(a, c->zero_stage));
    int64_t batch = (int64_t)tx__option(f, "global_batch_size"), micro = (int64_t)tx__option(f, "micro_batch_size");
    if (batch > 0) tx__set(f, o, "train_batch_size", tx_py_of_int(a, batch));
    if (micro > 0) tx__set(f, o, "train_micro_batch_size_per_gpu", tx_py_of_int(a, micro));
    tx__set(f, o, "gradient_clipping", tx_py_of_float(a, tx__option(f, "clip_grad")));
    tx__set(f, o, "zero_optimization", zero);
    if (c->dtype != TX_ST_F32) tx__set(f, o, c->dtype == TX_ST_BF16 ? "bf16" : "fp16", on);
    return o;
}

static tx_py *param_shapes(tx__file *f, const tx__rank *r)
{
    tx_py *all = tx_py_list(f->a);
    if (!tx__has_zero(f->c)) return tx_py_none(f->a);
    for (int g = 0; g < r->n_groups; g++) {
        tx_py *group = tx_py_ordered_dict(f->a);
        for (int i = 0; i < r->group[g].n; i++) {
            const tx__rank_row *row = &r->row[r->order[r->group[g].first + i]];
            tx__set(f, group, row->name, tx__torch_size(f, &row->shard));
        }
        tx__append(f, all, group);
    }
    return all;
}

static void set_int(tx__file *f, tx_py *dict, const char *key, int64_t v)
{
    tx__set(f, dict, key, tx_py_of_int(f->a, v));
}

/* The state of DeepSpeed's RandomLTDScheduler, which loads it where its own file has random-LTD enabled. */
static const tx_py *random_ltd(tx__file *f)
{
    const tx_config *cfg = f->c->cfg;
    int64_t n = f->c->src->state.iteration, tokens = 0, last, layers = tx_config_n_dropping(cfg);
    if (!cfg->random_ltd) return tx_py_none(f->a);
    for (int64_t i = 1; i <= n; i = last + 1) {
        int64_t each = tx_config_reserved_length(cfg, i, &last) * layers;
        each += cfg->random_ltd_max_value * (cfg->num_layers - layers);
        if (last > n) last = n;
        tokens += (last - i + 1) * cfg->global_batch_size * each;
    }
    tx_py *state = tx_py_dict(f->a);
    set_int(f, state, "consumed_layer_tokens", tokens);
    set_int(f, state, "current_steps", n - 1);
    set_int(f, state, "current_value", tx_config_reserved_length(cfg, n ? n : 1, &last));
    set_int(f, state, "min_value", cfg->random_ltd_min_value);
    set_int(f, state, "max_value", cfg->random_ltd_max_value);
    return state;
}

static void set_parameters(tx__file *f, tx_py *root, const tx__rank *r)
{
    tx_py_arena *a = f->a;
    bool has_experts = f->c->m->experts.n_experts > 1;
    bool stage_3 = f->c->zero_stage == 3, partitions = f->c->zero_stage >= 2 && tx__has_zero(f->c);
    tx__set(f, root, "module", r->pipeline ? tx_py_none(a) : tx__module(f, r, stage_3, false));
    tx__set(f, root, "buffer_names", tx_py_list(a));
    tx__set(f, root, "optimizer", has_experts ? tx_py_none(a) : tx__ds_plain_optimizer(f, r));
    tx__set(f, root, "param_shapes", param_shapes(f, r));
    tx__set(f, root, "frozen_param_shapes", partitions ? tx_py_ordered_dict(a) : tx_py_none(a));
    tx__set(f, root, "shared_params", tx_py_dict(a));
    tx__set(f, root, "frozen_param_fragments", partitions ? tx_py_ordered_dict(a) : tx_py_none(a));
    const tx_py *scheduler = f->c->with_optim ? tx__scheduler(f) : NULL;
    tx__set(f, root, "lr_scheduler", scheduler ? scheduler : tx_py_none(a));
    tx__set(f, root, "data_sampler", tx_py_none(a));
    tx__set(f, root, "random_ltd", random_ltd(f));
}

/* Of each layer that has some. */
static void set_experts(tx__file *f, tx_py *root)
{
    tx_py *list = tx_py_list(f->a);
    for (int64_t i = 0; i < f->c->m->n_layers; i++) {
        int64_t n = tx_config_moe(f->c->cfg, i).n_experts;
        if (n > 1) tx__append(f, list, tx_py_of_int(f->a, n));
    }
    tx__set(f, root, "num_experts", list);
    tx__set(f, root, "ds_autoep_layers", tx_py_none(f->a));
}

static void set_run(tx__file *f, tx_py *root, const tx__rank *r)
{
    const tx_conversion *c = f->c;
    const tx_ckpt_state *s = &c->src->state;
    tx_py *degrees = tx_py_dict(f->a);
    set_int(f, root, "skipped_steps", s->skipped);
    set_int(f, root, "global_steps", s->iteration);
    set_int(f, root, "global_samples", s->consumed_train_samples);
    set_int(f, root, "dp_world_size", c->n_dp);
    set_int(f, root, "mp_world_size", (int64_t)c->n_tp * c->n_pp);
    set_int(f, degrees, "pp_degree", c->n_pp);
    set_int(f, degrees, "tp_degree", c->n_tp);
    tx__set(f, root, "checkpoint_parallel_dimensions", degrees);
    tx__set(f, root, "ds_config", tx__ds_config(f));
    tx__set(f, root, "ds_version", tx_py_of_str(f->a, TX__DS_VERSION));
    tx__set(f, root, "universal_checkpoint_info", tx__universal_info(f, r->pipeline, true));
    if (c->m->experts.n_experts > 1) set_experts(f, root);
    tx__set(f, root, "args", tx__args(f));
    tx__set(f, root, "checkpoint_version", tx_py_of_float(f->a, 3.0));
    set_int(f, root, "iteration", s->iteration);
    set_int(f, root, "tokens", s->consumed_train_tokens);
}

tx_status tx__ds_write_states(tx_conversion *c, const char *dir, const tx__rank *r, int dp)
{
    char name[96];
    tx__file f;
    int n = dp < 0 ? 0 : snprintf(name, sizeof name, "zero_pp_rank_%d_", dp);
    snprintf(name + n, sizeof name - (size_t)n, "mp_rank_%02d_model_states.pt", r->mp);
    TX_TRY(tx__file_begin(&f, c));
    tx_py *root = tx_py_dict(f.a);
    set_parameters(&f, root, r);
    set_run(&f, root, r);
    return tx__file_end(&f, dir, name, root);
}
