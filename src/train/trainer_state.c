/* trainer_state.c - a trainer's state into checkpoints and out of them. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "train/base_weights.h"
#include "train/products.h"
#include "train/trainer.h"
#include "zero/compressed.h"
#include "zero/loco.h"
#include "zero/zero_parts.h"

#define SCHEDULE_KEY "opt_param_scheduler" /* upstream's names for them */
#define LR_KEY       "lr_scheduler"
#define SETTINGS_KEY "optimizer_settings"
#define SCALER_KEY   "grad_scaler"
#define PRODUCTS_KEY "gpu_products"
#define OPTIM_KEY    "client_optimizer"
#define INTERVAL_KEY "log_sums"
#define RATES_KEY    "passed_rates"
#define LOCO_KEY     "loco_scale"

tx_status tx_trainer_require_idle(const tx_trainer *t, const char *what)
{
    if (!t->micro && t->want == TX_WANT_FORWARD) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "%s only between iterations", what);
}

/* A tx_ckpt_move: numbers on a disk or in a device's memory. */
static tx_status move(void *user, const tx_ckpt_window *w, bool store)
{
    const tx_fragment *f = w->fragment;
    return tx_zero_part_move(user, w->part, f->at + (w->first - f->first), w->n, w->buf, store);
}

/* The weights and, if they are wanted, the optimizer's buffers, as checkpoints name them; returns how many.
 * @room of all of the table, for the weights where no masters are kept; else NULL */
static int state_parts(tx_zero *z, float *room, bool with_optim, tx_ckpt_part *part)
{
    tx_zero_part own[TX_ZERO_MAX_PARTS];
    int n = tx_zero_parts(z, with_optim, own);
    for (int i = 0; i < n; i++)
        part[i] = (tx_ckpt_part){ .name = own[i].name ? own[i].name : TX_CKPT_MODEL,
                                  .flat = own[i].flat,
                                  .whole = own[i].whole,
                                  .move = move,
                                  .user = z,
                                  .rows = own[i].rows,
                                  .kept = own[i].of_rows };
    if (room) part->flat = room;
    if (room) part->whole = true;
    return n;
}

/* ---- what ranks have of their own (zero/compressed.h), in checkpoints of our own format ---- */

#define OF_RANKS(x)                                                                                                   \
    {                                                                                                                 \
        x "0", x "1", x "2", x "3", x "4", x "5", x "6", x "7", x "8", x "9", x "10", x "11", x "12", x "13", x "14", \
            x "15"                                                                                                    \
    }
static const char *const of_worker[TX_ERRORS_MAX_KINDS][TX_ERRORS_MAX_RANKS] = {
    OF_RANKS(TX_CKPT_WORKER "error_"), OF_RANKS(TX_CKPT_WORKER "exp_avg_"),
    OF_RANKS(TX_CKPT_WORKER "momentum_accumulator_")
};
#define SERVER_ERROR TX_CKPT_SERVER "error"

/* More parts behind the *n there are. Collective over the data-parallel ranks. */
static tx_status add_errors(tx_trainer *t, tx_ckpt_part *part, int *n)
{
    tx_zero *z = &t->zero;
    const tx_optim_signs next = tx_optim_signs_of(&z->optim);
    int kinds = tx_zero_error_kinds(z, &next), workers = tx_zero_n_workers(z);
    float *at = NULL;
    if (!kinds || t->cfg->no_save_optim) return TX_OK;
    if (tx_save_kind(t->cfg) != TX_CKPT_NATIVE) {
        if (next.left_out && workers > 1)
            tx_warn_once("--save-format %s: errors of compression of %d %s are not saved, as DeepSpeed sets them back "
                         "when it loads%s; the native format keeps them",
                         tx_checkpoint_format_word(t->cfg->save_format), workers,
                         t->cfg->onebit_worker_size > 1 ? "workers (--onebit-worker-size)" : "data-parallel ranks",
                         next.apart ? ", nor is what each rank moved alone: all go on from the first one's weights"
                                    : "");
        return TX_OK;
    }
    TX_TRY(tx_zero_gather_errors(z, kinds, &at));
    if (!at) return TX_OK;
    for (int i = 0; i <= kinds * workers; i++, at += t->model->params.numel)
        part[(*n)++] = (tx_ckpt_part){ .name = i < kinds * workers ? of_worker[i / workers][i % workers] : SERVER_ERROR,
                                       .flat = at,
                                       .whole = true };
    return TX_OK;
}

/* The errors of quantized gradients (zero/loco.h): numbers of this rank. */
static tx_status move_near(void *user, const tx_ckpt_window *w, bool store)
{
    return tx_zero_loco_move(user, 0, &(tx_fragment){ w->fragment->row, w->first, w->n, 0 }, w->buf, store);
}

static tx_status move_far(void *user, const tx_ckpt_window *w, bool store)
{
    return tx_zero_loco_move(user, 1, &(tx_fragment){ w->fragment->row, w->first, w->n, 0 }, w->buf, store);
}

static int loco_parts(tx_zero *z, tx_ckpt_part *part)
{
    int n = 0;
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++) {
        tx_ckpt_part p = { .move = hop ? move_far : move_near, .user = z, .rows = z->ps };
        if (tx_zero_loco_part(z, hop, &p.name, &p.kept)) part[n++] = p;
    }
    return n;
}

static int saved_loco_parts(tx_trainer *t, tx_ckpt_part *part)
{
    if (t->cfg->no_save_optim || tx_save_kind(t->cfg) != TX_CKPT_NATIVE) return 0;
    return loco_parts(&t->zero, part);
}

/* Those that a checkpoint has of as many ranks, and rows of them; the others begin at 0. */
static tx_status want_loco(tx_trainer *t, const tx_source *from, tx_ckpt_part *part, int *n_parts)
{
    tx_zero *z = &t->zero;
    const json_t *scale = json_object_get(from->run, LOCO_KEY);
    int n = loco_parts(z, part + *n_parts);
    bool there = n > 0 && from->native && json_is_number(scale);
    char next[40];
    if (!z->quantized.loco) return TX_OK;
    for (int i = 0; i < n && there; i++) there = tx_checkpoint_has(from->native, part[*n_parts + i].name);
    for (int hop = 0; hop < TX_LOCO_HOPS && there; hop++) {
        tx_zero_loco_next(z, hop, next);
        there = !tx_checkpoint_has(from->native, next);
    }
    TX_TRY(tx_zero_loco_restore(z, there ? json_number_value(scale) : 0));
    if (there) *n_parts += n;
    if (!there && !t->grid->rank && from->state.optim_step)
        tx_warn(
            "%s: has no errors of quantized gradients of %d data-parallel ranks, in such rows: they begin at 0 again",
            from->path, tx_grid_sharers(t->grid));
    return TX_OK;
}

/* Whether a checkpoint has those of as many workers. */
static bool has_errors(const tx_trainer *t, const tx_source *from, int kinds)
{
    int workers = tx_zero_n_workers(&t->zero);
    if (!kinds || !from->native || !tx_checkpoint_has(from->native, SERVER_ERROR)) return false;
    return tx_checkpoint_has(from->native, of_worker[kinds - 1][workers - 1]) &&
           (workers == TX_ERRORS_MAX_RANKS || !tx_checkpoint_has(from->native, of_worker[0][workers]));
}

/* What the update after a checkpoint is. */
static tx_optim_signs signs_after(const tx_trainer *t, const tx_source *from)
{
    const tx_optim then = { .type = t->zero.optim.type, .cfg = t->cfg, .t = from->state.optim_step };
    return tx_optim_signs_of(&then);
}

/* Parts that are read along, to `room`, where a checkpoint has them; returns how many kinds. DeepSpeed sets them back
 * each time: they are of so many workers.   @room [TX_ERRORS_MAX_KINDS + 1, table's elements]; the last one is the
 * servers' */
static int want_errors(tx_trainer *t, const tx_source *from, float *room, tx_ckpt_part *part, int *n)
{
    const tx_optim_signs next = signs_after(t, from);
    int worker = tx_zero_worker(&t->zero), kinds = tx_zero_error_kinds(&t->zero, &next);
    int64_t numel = t->model->params.numel;
    if (has_errors(t, from, kinds)) {
        for (int k = 0; k < kinds; k++)
            part[(*n)++] = (tx_ckpt_part){ .name = of_worker[k][worker], .flat = room + k * numel, .whole = true };
        part[(*n)++] =
            (tx_ckpt_part){ .name = SERVER_ERROR, .flat = room + TX_ERRORS_MAX_KINDS * numel, .whole = true };
        return kinds;
    }
    if (next.left_out && !t->grid->rank && tx_zero_n_workers(&t->zero) > 1)
        tx_warn("%s: has no errors of compression of %d %s: they begin at 0 again, as DeepSpeed's do%s", from->path,
                tx_zero_n_workers(&t->zero),
                t->cfg->onebit_worker_size > 1 ? "workers (--onebit-worker-size)" : "data-parallel ranks",
                next.apart ? ", and all ranks go on from the weights of the first" : "");
    return 1;
}

/* Rates since the data-parallel ranks had the same weights; *out NULL: they have. */
static tx_status rates_to_json(const tx_trainer *t, json_t **out)
{
    const tx_optim *o = &t->zero.optim;
    *out = NULL;
    if (!tx_optim_signs_of(o).apart) return TX_OK;
    json_t *all = json_array();
    int failed = !all;
    for (int i = 0; i < o->n_groups && !failed; i++) {
        const tx_optim_rates *r = &o->rates[i];
        failed = json_array_append_new(all, json_pack("[f, f, f]", r->lr[0], r->lr[1], r->own));
    }
    *out = all;
    return failed ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for sums of learning rates in a checkpoint") : TX_OK;
}

/* @rates [optim.n_groups], or NULL: they are looked at only */
static tx_status rates_from_json(const tx_trainer *t, const tx_source *from, tx_optim_rates *rates)
{
    const json_t *saved = json_object_get(from->run, RATES_KEY);
    const tx_optim *o = &t->zero.optim;
    bool apart = signs_after(t, from).apart;
    if (!o->type->n_alone || (!saved && !apart)) return TX_OK;
    if (!from->native) { /* all ranks go on from the same weights */
        for (int i = 0; i < o->n_groups && rates; i++) rates[i] = (tx_optim_rates){ { 0 }, 0 };
        return TX_OK;
    }
    if (!saved || !apart)
        return TX_FAIL(
            TX_ERR_ARG,
            "%s: was saved where data-parallel ranks had %s weights, which --var-freeze-step, "
            "--local-step-scaler and --local-step-clipper say otherwise of update %lld; give those of the run",
            from->path, saved ? "different" : "the same", (long long)from->state.optim_step);
    bool good = json_array_size(saved) == (size_t)o->n_groups;
    for (int i = 0; i < o->n_groups && good; i++) {
        const json_t *one = json_array_get(saved, (size_t)i);
        double x[3];
        for (size_t k = 0; k < 3; k++) {
            good = good && json_is_number(json_array_get(one, k));
            x[k] = json_number_value(json_array_get(one, k));
        }
        if (rates) rates[i] = (tx_optim_rates){ { x[0], x[1] }, x[2] };
    }
    if (good) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: its %s are not of this run's %d parameter groups", from->path, RATES_KEY,
                   o->n_groups);
}

/* ---- the sums of the next log line ---- */

static const char *const interval_key[] = { "advanced_iterations", "skipped_iterations", "nan_iterations" };

/* *out NULL: the last line has shown everything. Jansson writes a real with 17 digits, from which it is read back
 * exactly. A sum that is not finite is null, since JSON has no other way, and read back as NaN. */
static tx_status interval_to_json(const tx_trainer *t, json_t **out)
{
    const tx_interval *v = &t->interval;
    const int64_t n[] = { v->taken, v->skipped, v->nan };
    *out = NULL;
    if (v->complete || !(v->taken + v->skipped)) return TX_OK;
    json_t *losses = json_object(), *all = json_object();
    int failed = 0;
    for (int k = 0; k < t->model->n_losses; k++)
        failed |= json_object_set_new(losses, t->model->loss_name[k],
                                      isfinite(v->loss_sum[k]) ? json_real(v->loss_sum[k]) : json_null());
    if (t->expert)
        failed |= json_object_set_new(losses, TX_MOE_LOSS,
                                      isfinite(v->moe_loss_sum) ? json_real(v->moe_loss_sum) : json_null());
    failed |= json_object_set_new(all, "losses", losses);
    for (int i = 0; i < 3; i++) failed |= json_object_set_new(all, interval_key[i], json_integer(n[i]));
    if (!failed) {
        *out = all;
        return TX_OK;
    }
    json_decref(all);
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the log's sums in a checkpoint");
}

/* @saved NULL: a checkpoint that was saved right after a line, by an older triax or by another program.
 * @iteration that it was saved at: an interval has no more iterations than were done */
static tx_status interval_from_json(tx_interval *out, const tx_model *m, const json_t *saved, int64_t iteration)
{
    const json_t *losses = json_object_get(saved, "losses");
    int64_t n[3];
    int scored = tx_model_n_scored(m); /* what else there is may not have been trained with before */
    bool good = true;
    *out = (tx_interval){ 0 };
    if (!saved) return TX_OK;
    for (int i = 0; i < 3; i++) {
        const json_t *count = json_object_get(saved, interval_key[i]);
        n[i] = json_integer_value(count);
        good = good && json_is_integer(count) && n[i] >= 0 && n[i] <= iteration;
    }
    for (int k = 0; k < m->n_losses; k++) {
        const json_t *sum = json_object_get(losses, m->loss_name[k]);
        good = good && (json_is_number(sum) || json_is_null(sum) || (k >= scored && !sum));
        out->loss_sum[k] = json_is_number(sum) ? json_number_value(sum) : NAN;
    }
    const json_t *moe = json_object_get(losses, TX_MOE_LOSS);
    out->moe_loss_sum = json_is_null(moe) ? NAN : json_number_value(moe);
    if (!good || n[0] + n[1] > iteration || n[2] > n[1])
        return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's %s are not the sums of a log line", INTERVAL_KEY);
    out->taken = n[0];
    out->skipped = n[1];
    out->nan = n[2];
    return TX_OK;
}

/* The options that are kept, and beside them what this room and the data room keep. */
static tx_status config_to_save(const tx_trainer *t, json_t **out)
{
    json_t *config, *schedule = NULL, *lr = NULL, *settings = NULL, *scaler = NULL, *interval = NULL, *rates = NULL;
    TX_TRY(tx_config_to_json(t->cfg, &config));
    tx_status st;
    TX_GOTO(tx_schedule_to_json(&t->schedule, &schedule));
    if (tx_trainer_counts_steps(t)) TX_GOTO(tx_ds_schedule_to_json(&t->ds_schedule, t->schedule_steps, &lr));
    if (t->cfg->megatron_padded_logits) /* a size of the model's, which another layout must not round up */
        json_object_set_new(config, "pad_vocab_size_to", json_integer(t->model->n_valid));
    TX_GOTO(interval_to_json(t, &interval));
    TX_GOTO(rates_to_json(t, &rates));
    if (tx__trainer_has_settings(t)) TX_GOTO(tx__trainer_settings_to_json(t, &settings));
    if (t->scaler.kind == TX_SCALE_DYNAMIC) TX_GOTO(tx_loss_scaler_to_json(&t->scaler, &scaler));
    if (t->client->model && json_object_set_new(config, TX_CLIENT_MODEL, json_string(t->client->model->name)))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
    if (t->client->optimizer && json_object_set_new(config, OPTIM_KEY, json_string(t->client->optimizer->name)))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
    if (st) goto out;
    if (json_object_set(config, SCHEDULE_KEY, schedule) || (lr && json_object_set(config, LR_KEY, lr)) ||
        (settings && json_object_set(config, SETTINGS_KEY, settings)) ||
        (scaler && json_object_set(config, SCALER_KEY, scaler)) ||
        (interval && json_object_set(config, INTERVAL_KEY, interval)) ||
        (rates && json_object_set(config, RATES_KEY, rates)) ||
        (t->zero.quantized.loco && json_object_set_new(config, LOCO_KEY, json_real(t->zero.loco.scale))) ||
        (t->blend_phase && json_object_set(config, "blend_phase", t->blend_phase)) ||
        (t->products && *t->products && json_object_set_new(config, PRODUCTS_KEY, json_string(t->products))))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
out:
    json_decref(schedule);
    json_decref(lr);
    json_decref(settings);
    json_decref(scaler);
    json_decref(interval);
    json_decref(rates);
    if (st)
        json_decref(config);
    else
        *out = config;
    return st;
}

/* A checkpoint of parameters that went bad would be the one that the run goes on from. */
static tx_status require_finite(tx_trainer *t)
{
    double norm;
    const char *bad;
    TX_TRY(tx_optim_value_norm(&t->ctx, &t->zero.optim, &norm, &bad));
    if (!bad) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC,
                   "iteration %lld is not saved: %s is not finite; go on from an older checkpoint with a lower --lr",
                   (long long)t->iteration, bad);
}

/* What a group has in common: experts that ranks divide among them are the same in another group than all else.
 * @row [2 n] what this rank has of each of the n rows, and room */
static tx_status compare_over(tx_trainer *t, tx_replica *row, int group, tx_in_common what)
{
    const tx_params *ps = &t->model->params;
    tx_replica *some = row + ps->n;
    for (int i = 0; i < ps->n; i++) {
        bool experts = ps->param[i].reduce_group == TX_GROUP_EXPERT_DATA;
        some[i] = row[i];
        if (experts != (group == TX_GROUP_EXPERT_DATA)) some[i].has = false;
    }
    tx_status st = tx_replicas_compare(ps, some, tx_grid_group(t->grid, group), what);
    return tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), st);
}

/* Ranks that have the same tensors have the same numbers in them. All agree after each kind of group: a rank that goes
 * on must not wait for one that does not. */
static tx_status compare_replicas(tx_trainer *t, tx_replica *row)
{
    tx_comm *world = tx_grid_group(t->grid, TX_GROUP_WORLD);
    TX_TRY(tx_comm_agree(world, tx_zero_hash_masters(&t->zero, row)));
    TX_TRY(compare_over(t, row, TX_GROUP_TENSOR, TX_UNSPLIT));
    TX_TRY(compare_over(t, row, TX_GROUP_ENDS, TX_BY_NAME));
    if (t->zero.mics) TX_TRY(compare_over(t, row, TX_GROUP_FAR, TX_BY_NAME));
    if (tx_zero_kept(&t->zero)) TX_TRY(tx_comm_agree(world, tx_zero_hash_values(&t->zero, row)));
    TX_TRY(compare_over(t, row, tx_optim_signs_of(&t->zero.optim).apart ? TX_GROUP_NEAR : TX_GROUP_DATA, TX_BY_NAME));
    return t->grid->expert ? compare_over(t, row, TX_GROUP_EXPERT_DATA, TX_BY_NAME) : TX_OK;
}

static tx_status require_replicas(tx_trainer *t)
{
    tx_replica *row = NULL;
    if (t->grid->size == 1) return TX_OK;
    tx_status st = tx_alloc(&row, 2 * (size_t)t->model->params.n, sizeof *row, "hashes of parameters");
    st = tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), st);
    if (!st) st = compare_replicas(t, row);
    tx_free(row);
    return st;
}

/* Takes `path`. */
static void set_origin(tx_trainer *t, char *path, bool own)
{
    tx_free(t->origin);
    t->origin = path;
    t->origin_own = own;
}

tx_status tx_trainer_set_origin(tx_trainer *t, const char *path)
{
    char *copy;
    TX_TRY(tx_memdup0(&copy, path, strlen(path), "a path"));
    set_origin(t, copy, false);
    return TX_OK;
}

/* ---- saving ---- */

static tx_ckpt_state place_of(const tx_trainer *t)
{
    return (tx_ckpt_state){
        .iteration = t->iteration,
        .consumed_train_samples = t->consumed_train_samples,
        .consumed_valid_samples = t->consumed_valid_samples,
        .consumed_train_tokens = t->consumed_train_tokens,
        .schedule_samples = t->place.samples,
        .schedule_tokens = t->place.tokens,
        .schedule_warmup_tokens = t->place.warmup_tokens,
        .optim_step = t->zero.optim.t,
        .skipped = t->skipped,
        .seed = (uint64_t)t->cfg->seed,
        .vocab_size = t->model->vocab_size,
        .tokenizer = t->tokenizer,
    };
}

int64_t tx__trainer_save_bytes(const tx_trainer *t, int64_t *passing)
{
    const tx_zero *z = &t->zero;
    int64_t numel = tx_zero_savers(z) ? tx_checkpoint_numel(&t->model->params, tx_zero_kept(z)) : 0;
    int64_t all = tx_zero_savers(z) ? tx__plan_saved_numel(z) : 0;
    *passing = tx_save_bytes_passing(t->cfg, all);
    return tx_save_bytes(t->cfg, numel, all);
}

tx_status tx_trainer_snapshot(tx_trainer *t, tx_snapshot *out, bool copy)
{
    tx_zero *z = &t->zero;
    *out = (tx_snapshot){ .config = NULL };
    TX_TRY(tx_trainer_require_idle(t, "a checkpoint is saved"));
    TX_TRY(tx_zero_settle(&t->zero));
    tx__trainer_note(t, "saving a checkpoint");
    TX_TRY(tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), require_finite(t)));
    TX_TRY(require_replicas(t));
    TX_TRY(tx__trainer_agree_products(t));
    tx_ckpt_part own[TX_CKPT_MAX_PARTS];
    out->state = place_of(t);
    out->n_parts = state_parts(z, NULL, !t->cfg->no_save_optim, own);
    TX_TRY(tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), add_errors(t, own, &out->n_parts)));
    out->n_parts += saved_loco_parts(t, own + out->n_parts);
    memcpy(out->part, own, sizeof own);
    tx_status st = config_to_save(t, &out->config);
    if (!st && copy && tx_zero_savers(z))
        st = tx_checkpoint_copy(out->part, t->copy, &t->model->params, tx_zero_kept(z), own, out->n_parts);
    st = tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), st);
    if (st) tx_snapshot_free(out);
    return st;
}

void tx_snapshot_free(tx_snapshot *s)
{
    json_decref(s->config);
    *s = (tx_snapshot){ .config = NULL };
}

tx_status tx__trainer_save_begin(tx_trainer *t, const tx_snapshot *what, const char *dir, tx_save **out)
{
    const tx_zero *z = &t->zero;
    const tx_save_args a = { .cfg = t->cfg,
                             .grid = t->grid,
                             .dir = dir,
                             .state = &what->state,
                             .config = what->config,
                             .ps = &t->model->params,
                             .kept = tx_zero_kept(z),
                             .part = what->part,
                             .n_parts = what->n_parts,
                             .group = tx_zero_savers(z) };
    return tx_save_begin(out, &a);
}

/* That an old checkpoint cannot be removed is worth a line, not a failure: behind the next save it is tried again. */
tx_status tx__trainer_saved(tx_trainer *t, const char *dir, const tx_ckpt_state *state)
{
    char path[4096], *origin;
    const tx_ckpt_kind kind = tx_save_kind(t->cfg);
    if (t->replaces_run && t->grid->rank == 0) {
        t->replaces_run = tx_checkpoint_remove_others(dir, kind, state->iteration, t->loaded) != TX_OK;
        if (t->replaces_run) tx_warn("--overwrite-run: not all of the other run is removed: %s", tx_last_error());
    }
    if (t->cfg->keep_last && t->grid->rank == 0 &&
        tx_checkpoint_prune(dir, kind, state->iteration, t->cfg->keep_last, t->loaded))
        tx_warn("--keep-last: %s", tx_last_error());
    if (t->cfg->no_save_optim) return TX_OK; /* the run cannot go on from it */
    TX_TRY(tx_checkpoint_path_of(path, sizeof path, dir, kind, state->iteration, state->tag));
    TX_TRY(tx_memdup0(&origin, path, strlen(path), "a path"));
    set_origin(t, origin, true);
    return TX_OK;
}

/* *saved: what was, whose tag is the caller's */
static tx_status save_now(tx_trainer *t, const char *dir, const char *tag, json_t *client_state, tx_ckpt_state *saved)
{
    tx_snapshot what;
    tx_save *save = NULL;
    TX_TRY(tx_trainer_snapshot(t, &what, false));
    what.state.tag = tag;
    tx_status st = TX_OK;
    if (client_state && json_object_set(what.config, TX_CLIENT_STATE, client_state))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the client's state");
    st = tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), st);
    if (!st) st = tx__trainer_save_begin(t, &what, dir, &save);
    for (bool more = save != NULL; !st && more;) {
        tx_save_write(save);
        st = tx_save_finish(save, &more);
    }
    *saved = what.state;
    tx_snapshot_free(&what);
    return tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), st);
}

tx_status tx_trainer_save(tx_trainer *t, const char *dir, const char *tag, json_t *client_state)
{
    tx_ckpt_state saved;
    TX_TRY(save_now(t, dir, tag, client_state, &saved));
    return tx__trainer_saved(t, dir, &saved);
}

tx_status tx_trainer_save_apart(tx_trainer *t, const char *dir)
{
    tx_ckpt_state saved;
    return save_now(t, dir, NULL, NULL, &saved);
}

/* ---- loading ---- */

/* With a learning rate of DeepSpeed's or the client's own the schedule is that of weight decay alone. */
static tx_status ignore_lr(tx_schedule *s, const json_t *saved)
{
    tx_schedule own = *s;
    TX_TRY(tx_schedule_from_json(s, saved));
    s->wd_style = own.wd_style;
    s->start_wd = own.start_wd;
    s->end_wd = own.end_wd;
    s->wd_incr = own.wd_incr;
    return TX_OK;
}

/* The schedule of a run that goes on, as the options choose between the flags' and the saved one. */
static tx_status resumed_schedule(const tx_trainer *t, const tx_source *from, tx_schedule *out)
{
    const json_t *saved = json_object_get(from->run, SCHEDULE_KEY);
    tx_schedule_choice choice = t->cfg->override_opt_param_scheduler         ? TX_SCHEDULE_OWN
                                : t->cfg->use_checkpoint_opt_param_scheduler ? TX_SCHEDULE_SAVED
                                                                             : TX_SCHEDULE_SAME;
    *out = t->schedule;
    if (!saved && json_object_get(from->run, LR_KEY)) return TX_OK; /* DeepSpeed's own schedules keep nothing of it */
    if (tx_trainer_counts_steps(t) && saved) TX_TRY(ignore_lr(out, saved));
    return tx_schedule_resume(out, saved, choice);
}

/* The same of DeepSpeed's; and how often it, or the client's, was stepped, which older checkpoints and other programs'
 * have as the number of updates. */
static tx_status resumed_ds_schedule(const tx_trainer *t, const tx_source *from, tx_ds_schedule *out, int64_t *steps)
{
    const json_t *saved = json_object_get(from->run, LR_KEY);
    const tx_config *cfg = t->cfg;
    *out = t->ds_schedule;
    *steps = from->state.optim_step;
    if (saved) TX_TRY(tx_ds_schedule_steps(saved, steps));
    if (t->client->lr) return TX_OK;
    return tx_ds_schedule_resume(out, saved, cfg->override_opt_param_scheduler,
                                 cfg->use_checkpoint_opt_param_scheduler);
}

/* Where the run stands in itself and in its data. */
static void resume_place(tx_trainer *t, const tx_source *from, const tx_interval *interval)
{
    const tx_ckpt_state *s = &from->state;
    t->iteration = s->iteration;
    t->consumed_train_samples = s->consumed_train_samples;
    t->consumed_valid_samples = s->consumed_valid_samples;
    t->consumed_train_tokens = s->consumed_train_tokens;
    t->skipped = s->skipped;
    t->interval = *interval;
    json_decref(t->blend_phase);
    t->blend_phase = json_deep_copy(json_object_get(from->run, "blend_phase"));
}

/* What is kept of weights and, if they are wanted, of the optimizer's buffers. */
static tx_status read_state(tx_trainer *t, tx_source *from, bool with_optim)
{
    tx_zero *z = &t->zero;
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    tx_zero_part own[TX_ZERO_MAX_PARTS];
    float *room = NULL, *errors = NULL;
    tx_status st;
    bool compressed = with_optim && z->compressed.on;
    int kinds = 0;
    int64_t numel = t->model->params.numel;
    tx_zero_parts(z, false, own);
    if (!own->kept) TX_TRY(tx_alloc(&room, (size_t)t->model->params.numel, sizeof *room, "the weights in fp32"));
    int n = state_parts(z, room, with_optim, part);
    if (compressed)
        TX_GOTO(tx_alloc(&errors, (TX_ERRORS_MAX_KINDS + 1) * (size_t)numel, sizeof *errors,
                         "what compression leaves out"));
    if (compressed) kinds = want_errors(t, from, errors, part, &n);
    if (with_optim) TX_GOTO(want_loco(t, from, part, &n));
    TX_GOTO(tx__trainer_begins_adapters(t, from) ? tx__trainer_read_base(t, from, part)
                                                 : tx_source_read(from, t->model, tx_zero_kept(z), part, n));
    if (compressed) TX_GOTO(tx_zero_set_errors(z, kinds, errors, errors + TX_ERRORS_MAX_KINDS * numel));
    TX_GOTO(room ? tx_zero_set_weights(z, room) : tx_zero_publish(z));
    st = tx__trainer_read_bias(t, room);
out:
    tx_free(errors);
    tx_free(room);
    return st;
}

tx_status tx_trainer_read_weights(tx_trainer *t, tx_source *from)
{
    TX_TRY(tx_zero_settle(&t->zero));
    return read_state(t, from, false);
}

/* A client's model is read from its own checkpoints. */
static tx_status require_model(const tx_trainer *t, const tx_source *from)
{
    const char *saved = json_string_value(json_object_get(from->run, TX_CLIENT_MODEL));
    const char *own = t->client->model ? t->client->model->name : NULL;
    if (saved == own || (saved && own && !strcmp(saved, own))) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE, "%s is of %s%s, not of %s%s", from->path, saved ? "the model " : "a GPT or BERT",
                   saved ? saved : "", own ? "the model " : "a GPT or BERT", own ? own : "");
}

/* Names of buffers tell most optimizers apart; those of LAMB are Adam's. */
static tx_status require_optimizer(const tx_trainer *t, const tx_source *from)
{
    enum tx_optimizer_kind own = t->cfg->optimizer, saved = from->optimizer;
    if (t->client->optimizer || !saved || saved == own) return TX_OK;
    const tx_optim_type *a = tx_optim_type_of(own), *b = tx_optim_type_of(saved);
    bool same = a->keeps->n == b->keeps->n;
    for (int k = 0; k < a->keeps->n && same; k++) same = !strcmp(a->keeps->state[k].name, b->keeps->state[k].name);
    if (!same) return TX_OK; /* what reads it says what is missing */
    return TX_FAIL(TX_ERR_NOTFOUND,
                   "%s: holds the state of another optimizer (%s, not %s); give --no-load-optim or --finetune to go on "
                   "without it, or the --optimizer it was saved with",
                   from->path, tx_optimizer_kind_word(saved), tx_optimizer_kind_word(own));
}

tx_status tx_trainer_load(tx_trainer *t, tx_source *from)
{
    TX_TRY(tx_trainer_require_idle(t, "a checkpoint is loaded"));
    TX_TRY(tx_zero_settle(&t->zero));
    TX_TRY(require_model(t, from));
    const tx_config *cfg = t->cfg;
    bool begins = cfg->finetune || tx__trainer_begins_adapters(t, from);
    tx_schedule schedule = t->schedule;
    bool optim = t->train && !begins && !cfg->no_load_optim, lr_state = optim && !cfg->no_load_lr_state;
    bool resumes = t->train && !begins && !cfg->reset_iteration;
    tx_ds_schedule ds_schedule = t->ds_schedule;
    int64_t schedule_steps = t->schedule_steps;
    if (optim) TX_TRY(require_optimizer(t, from));
    if (lr_state) TX_TRY(resumed_ds_schedule(t, from, &ds_schedule, &schedule_steps));
    if (lr_state) TX_TRY(resumed_schedule(t, from, &schedule));
    tx_loss_scaler scaler = t->scaler;
    if (optim) TX_TRY(tx_loss_scaler_from_json(&scaler, json_object_get(from->run, SCALER_KEY)));
    const json_t *settings = optim ? json_object_get(from->run, SETTINGS_KEY) : NULL;
    if (settings) TX_TRY(tx__trainer_settings_from_json(t, settings, false));
    if (optim) TX_TRY(rates_from_json(t, from, NULL));
    tx_interval interval = { 0 };
    if (resumes)
        TX_TRY(
            interval_from_json(&interval, t->model, json_object_get(from->run, INTERVAL_KEY), from->state.iteration));
    char *origin = NULL, *loaded = NULL;
    TX_TRY(tx_memdup0(&origin, from->path, strlen(from->path), "a path"));
    tx_status st = tx_memdup0(&loaded, from->path, strlen(from->path), "a path");
    if (!st) st = read_state(t, from, optim);
    if (st) {
        tx_free(origin);
        tx_free(loaded);
        return st;
    }
    set_origin(t, origin, false);
    tx_free(t->loaded);
    t->loaded = loaded;
    t->scaler = scaler;
    TX_TRY(tx_products_take(&t->ctx, json_string_value(json_object_get(from->run, PRODUCTS_KEY)), from->path));
    if (begins) return TX_OK;
    const tx_ckpt_state *s = &from->state;
    if (!cfg->reset_iteration) resume_place(t, from, &interval);
    if (optim) t->zero.optim.t = s->optim_step;
    if (settings) TX_TRY(tx__trainer_settings_from_json(t, settings, true));
    if (optim) TX_TRY(rates_from_json(t, from, t->rates));
    if (lr_state) {
        t->schedule = schedule;
        t->ds_schedule = ds_schedule;
        t->schedule_steps = schedule_steps;
        t->place = (tx_schedule_place){ s->schedule_samples, s->schedule_tokens, s->schedule_warmup_tokens };
    }
    if (t->train) t->n_micro = tx__trainer_n_micro(t);
    tx__trainer_move_schedule(t);
    return TX_OK;
}
