/* engine.c - the public engine over one trainer. */
#include "triax/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine_internal.h"
#include "api/run_common.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "base/args.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "convert/source.h"
#include "train/hf_export.h"

tx_status tx__engine_restore(tx_engine *e, tx_source *src)
{
    tx_trainer *t = e->trainer;
    if (src->type && src->type->resumes) {
        TX_TRY(tx_trainer_load(t, src));
        tx_info("  successfully loaded checkpoint from %s at iteration %lld", src->path, (long long)t->iteration);
    } else if (src->type) {
        TX_TRY(tx__trainer_take_weights(t, src));
        TX_TRY(tx_trainer_set_origin(t, src->dir));
        tx_info("  successfully loaded weights from %s; the run starts at iteration 0", src->dir);
    }
    return TX_OK;
}

/* The vocabulary of the model, which a source may know better than the caller. */
static tx_status find_vocab_size(const tx_source *src, int64_t least, bool force, int64_t *vocab_size)
{
    bool resumes = src->type && src->type->resumes;
    int64_t known = resumes ? src->state.vocab_size : src->vocab_size;
    if (known && (known == least || force)) *vocab_size = known;
    if (known && known != *vocab_size && resumes)
        return TX_FAIL(
            TX_ERR_SHAPE,
            "--load %s: the model has %lld tokens, the tokenizer %lld: name the tokenizer it was trained with",
            src->dir, (long long)known, (long long)*vocab_size);
    if (src->vocab_size && src->vocab_size < *vocab_size)
        return TX_FAIL(TX_ERR_SHAPE, "--load %s: the model has %lld tokens, fewer than the tokenizer's %lld", src->dir,
                       (long long)src->vocab_size, (long long)*vocab_size);
    if (known) *vocab_size = known;
    return TX_OK;
}

static tx_status open_trainer(tx_engine *e, tx_source *src, const tx__engine_vocabulary *v, const tx_grid *grid)
{
    int64_t vocab_size = v->size;
    TX_TRY(tx_source_options(src, e->cfg, true));
    TX_TRY(tx_source_teacher(e->cfg, e->kept.hash, grid ? tx_grid_group(grid, TX_GROUP_WORLD) : &tx_comm_self));
    TX_TRY(find_vocab_size(src, v->least, e->cfg->force_vocabulary, &vocab_size));
    TX_TRY(tx_trainer_open(&e->trainer, &(tx_trainer_args){ .cfg = e->cfg,
                                                            .grid = grid,
                                                            .client = &e->client,
                                                            .vocab_size = vocab_size,
                                                            .eod = v->eod,
                                                            .train = true }));
    return tx__engine_restore(e, src);
}

tx_status tx__engine_create(tx_engine **out, tx_config *cfg, tx_source *src, const tx__engine_vocabulary *v,
                            const tx_grid *grid)
{
    tx_engine *e;
    TX_TRY(tx_alloc(&e, 1, sizeof *e, "the engine"));
    e->cfg = cfg;
    tx_status st = open_trainer(e, src, v, grid);
    if (st)
        tx_engine_destroy(e);
    else
        *out = e;
    return st;
}

/* The options name a model, or the client brings one. */
static tx_status check_model(const tx_engine_args *args)
{
    const tx_config *cfg = args->config;
    const char *command = cfg->command->name;
    if (cfg->command->load != TX_LOAD_RESUMES)
        return TX_FAIL(TX_ERR_ARG, "options of %s train no model: parse those of \"pretrain-gpt\" or \"engine\"",
                       command);
    bool own = cfg->command->id == TX_COMMAND_ENGINE;
    if (own && !args->model) return TX_FAIL(TX_ERR_ARG, "tx_engine_args.model is missing: the options name no model");
    if (!own && args->model)
        return TX_FAIL(TX_ERR_ARG, "options of %s are of its own model: parse those of \"engine\" for another",
                       command);
    if (!own && args->loss_gradient)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "tx_engine_args.loss_gradient is for a client's model, not for those of %s",
                       command);
    if (own && args->with_tokenizer)
        return TX_FAIL(TX_ERR_ARG, "tx_engine_args.with_tokenizer: options of \"engine\" name no tokenizer");
    if (own && !cfg->given.lr && !args->lr && !cfg->lr_schedule)
        return TX_FAIL(TX_ERR_ARG, "the engine needs --lr, a schedule of DeepSpeed's, or one of the client's");
    return TX_OK;
}

/* A model that only a CPU can compute does so wherever it may. */
static tx_status stay_on_host(tx_config *cfg, const tx_client_model *m)
{
    if (!m || !m->host_only || cfg->device == TX_DEVICE_CPU || cfg->device == TX_DEVICE_REF) return TX_OK;
    if (cfg->device == TX_DEVICE_GPU)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--device gpu: the model %s computes on the host alone", m->name);
    cfg->device = TX_DEVICE_CPU;
    return TX_OK;
}

/* A process that is one of several may have an engine of its own: --world-size 1. */
static tx_status open_ranks(tx_engine *e, tx_world *given, const tx_rank_place *place)
{
    tx_world *alone = NULL;
    tx_rank_place own;
    if (place) TX_TRY(TX_ARGS_TAKE(&own, place, tx_rank_place, data));
    if (!given && e->cfg->world_size == 1) TX_TRY(tx_world_self(&alone));
    tx_status st = tx_ranks_open(&e->ranks, e->cfg, given ? given : alone, place ? &own : NULL);
    e->ranks.owned = !given;
    return st;
}

static tx_status open_vocabulary(tx_engine *e, const tx_engine_args *args, const tx_source *src,
                                 tx__engine_vocabulary *v)
{
    *v = (tx__engine_vocabulary){ args->vocab_size, args->vocab_size, -1 };
    if (args->with_tokenizer) TX_TRY(tx__tokenizer_of(e->cfg, src, &e->tokenizer));
    TX_TRY(tx__tokenizer_record(e->cfg, src, e->tokenizer, &e->kept));
    if (!e->tokenizer) return TX_OK;
    *v = (tx__engine_vocabulary){ tx_tokenizer_vocab_size(e->tokenizer), tx__text_tokens(e->tokenizer),
                                  tx_tokenizer_eod(e->tokenizer) };
    return TX_OK;
}

/* Which schedule it is, in DeepSpeed's words. */
static void say_schedule(const tx_engine *e)
{
    const tx_config *cfg = e->cfg;
    const char *name = tx_ds_schedule_kind_word(cfg->lr_schedule);
    if (!name) return;
    if (e->client.lr) {
        tx_info("DeepSpeed using client LR scheduler, not %s", name);
        return;
    }
    tx_ds_schedule s = tx_ds_schedule_from_config(cfg);
    tx_info("DeepSpeed using configured LR scheduler = %s", name);
    if (s.kind == TX_DS_ONE_CYCLE && cfg->cycle_momentum && s.cycles_momentum == 0)
        tx_warn_once("cycle_momentum is disabled because optimizer %s does not support momentum, no betas attribute in "
                     "defaults",
                     tx_optimizer_kind_word(cfg->optimizer));
}

tx_status tx_engine_initialize(tx_engine **out, const tx_engine_args *given)
{
    tx_engine_args all, *const args = &all;
    tx_source src = { 0 };
    tx_engine *e = NULL;
    tx__engine_vocabulary v;
    tx_status st;
    TX_TRY(TX_ARGS_TAKE(args, given, tx_engine_args, place));
    if (!args->config) return TX_FAIL(TX_ERR_ARG, "tx_engine_args.config is missing");
    TX_TRY(check_model(args));
    if (args->vocab_size < 1 && !args->model && !args->with_tokenizer)
        return TX_FAIL(TX_ERR_ARG, "a vocabulary needs at least one token, not %lld", (long long)args->vocab_size);
    TX_TRY(tx_alloc(&e, 1, sizeof *e, "the engine"));
    e->cfg = args->config;
    e->client = (tx_client){ .model = args->model,
                             .optimizer = args->optimizer,
                             .lr = args->lr,
                             .lr_user = args->lr_user,
                             .group = args->group,
                             .n_groups = args->n_groups,
                             .loss_gradient = args->loss_gradient,
                             .loss_user = args->loss_user };
    e->failed = true; /* until all ranks have come through */
    TX_GOTO(stay_on_host(e->cfg, args->model));
    TX_GOTO(open_ranks(e, args->world, args->place));
    TX_GOTO(tx_source_open_for_run(&src, e->cfg, tx_grid_group(&e->ranks.grid, TX_GROUP_WORLD)));
    TX_GOTO(open_vocabulary(e, args, &src, &v));
    tx_info("building %s model ...", args->model ? "the client's" : tx_model_kind_word(e->cfg->model_type));
    TX_GOTO(open_trainer(e, &src, &v, &e->ranks.grid));
    e->optimizer.t = e->trainer;
    e->scheduler.t = e->trainer;
    say_schedule(e);
    if (*e->kept.hash) e->trainer->tokenizer = &e->kept;
    if (args->data) TX_GOTO(tx__engine_data_open(&e->data, args->data, e->trainer));
    e->failed = false;
    *out = e;
out:
    tx_source_close(&src);
    if (st) tx_engine_destroy(e);
    return st;
}

tx_status tx_engine_create(tx_engine **out, tx_config *cfg, int64_t vocab_size)
{
    return tx_engine_initialize(
        out, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .vocab_size = vocab_size });
}

/* Calls in the wrong order are wrong on all ranks, and change nothing. */
tx_status tx__engine_ended(tx_engine *e, tx_status st)
{
    if (st && st != TX_ERR_STATE) e->failed = true;
    return st;
}

static bool is_alone(const tx_engine *e)
{
    return e->trainer->grid->size == 1;
}

void tx_engine_destroy(tx_engine *e)
{
    if (!e) return;
    tx__engine_monitor_close(&e->monitor);
    tx__engine_data_close(e->data);
    tx_trainer_destroy(e->trainer);
    tx_tokenizer_close(e->tokenizer);
    tx_ckpt_tokenizer_free(&e->kept);
    tx_ranks_leave(&e->ranks, !e->failed || !e->ranks.world || tx_world_size(e->ranks.world) == 1);
    tx_free(e);
}

static tx_status no_data(const tx_engine *e)
{
    return e->data ? TX_OK : TX_FAIL(TX_ERR_STATE, "a call without a batch needs tx_engine_args.data");
}

tx_status tx_engine_forward(tx_engine *e, const void *batch, double *loss)
{
    tx_trainer *t = e->trainer;
    if (!batch) TX_TRY(no_data(e));
    TX_TRY(tx__engine_ended(e, tx__engine_monitor_begin(&e->monitor, t)));
    double since = tx_clock();
    if (!batch && t->want == TX_WANT_FORWARD)
        TX_TRY(tx__engine_ended(e, tx__engine_data_read(e->data, t->micro, &batch)));
    tx_status st = tx__engine_ended(e, tx_trainer_forward(t, batch, loss));
    tx__engine_monitor_time(&e->monitor, TX_MONITOR_FORWARD, since);
    return st;
}

tx_status tx_engine_backward(tx_engine *e)
{
    double since = tx_clock();
    tx_status st = tx__engine_ended(e, tx_trainer_backward(e->trainer));
    tx__engine_monitor_time(&e->monitor, TX_MONITOR_BACKWARD, since);
    return st;
}

static tx_status backward_of(tx_engine *e, double factor, const float *dloss)
{
    TX_TRY(tx__trainer_reweigh(e->trainer, factor, dloss));
    return tx_engine_backward(e);
}

tx_status tx_engine_backward_scaled(tx_engine *e, double factor)
{
    if (!isfinite(factor)) return TX_FAIL(TX_ERR_ARG, "%g is no factor of a loss", factor);
    return backward_of(e, factor, NULL);
}

tx_status tx_engine_backward_from(tx_engine *e, const float *dloss)
{
    if (!dloss) return TX_FAIL(TX_ERR_ARG, "the gradient of the loss is missing");
    return backward_of(e, 1, dloss);
}

tx_status tx_engine_losses(tx_engine *e, float *loss)
{
    return tx__trainer_losses(e->trainer, loss);
}

tx_status tx_engine_step(tx_engine *e)
{
    double since = tx_clock();
    tx_status st = tx__engine_ended(e, tx_trainer_step(e->trainer));
    if (!st) e->micro_steps++;
    if (st && st != TX_ERR_NUMERIC) return st;
    tx__engine_monitor_time(&e->monitor, TX_MONITOR_STEP, since);
    if (!e->trainer->micro) tx__engine_monitor_step(&e->monitor, e->trainer, e->micro_steps);
    return st;
}

bool tx_engine_is_gradient_accumulation_boundary(const tx_engine *e)
{
    return tx_trainer_at_boundary(e->trainer);
}

tx_status tx_engine_evaluate(tx_engine *e, const void *batch, double *loss)
{
    tx_loss_sum sum[TX_MAX_LOSSES];
    TX_TRY(tx__engine_ended(e, tx_trainer_evaluate(e->trainer, batch, e->trainer->b, sum)));
    *loss = 0;
    for (int k = 0; k < tx_model_n_scored(e->trainer->model); k++)
        *loss += sum[k].n ? sum[k].sum / (double)sum[k].n : 0;
    return TX_OK;
}

tx_status tx_engine_train_batch(tx_engine *e, tx_read_fn *read, void *user, double *loss)
{
    tx_trainer *t = e->trainer;
    TX_TRY(tx_trainer_require_idle(t, "a whole iteration is trained"));
    if (!read) TX_TRY(no_data(e));
    TX_TRY(tx__engine_ended(e, tx__engine_monitor_begin(&e->monitor, t)));
    TX_TRY(tx__engine_ended(e, tx_trainer_train(t, read ? read : tx__engine_data_read, read ? user : e->data)));
    e->micro_steps += t->n_micro;
    tx__engine_monitor_batch(&e->monitor, t, e->micro_steps);
    *loss = t->iteration_loss;
    return TX_OK;
}

tx_status tx_engine_eval_batch(tx_engine *e, int64_t n_samples, tx_read_fn *read, void *user, double *loss)
{
    double mean[TX_MAX_LOSSES];
    if (!read) return TX_FAIL(TX_ERR_ARG, "an evaluation needs a function that reads its batches");
    if (n_samples < 1) return TX_FAIL(TX_ERR_ARG, "%lld samples are nothing to evaluate", (long long)n_samples);
    TX_TRY(tx_trainer_require_idle(e->trainer, "samples are evaluated"));
    TX_TRY(tx__engine_ended(e, tx_trainer_score(e->trainer, n_samples, read, user, mean, NULL)));
    *loss = 0;
    for (int k = 0; k < tx_model_n_scored(e->trainer->model); k++) *loss += mean[k];
    return TX_OK;
}

tx_status tx_engine_sum(tx_engine *e, double *x, int n)
{
    TX_TRY(tx_trainer_require_idle(e->trainer, "numbers are summed"));
    if (n < 0 || (n && !x)) return TX_FAIL(TX_ERR_ARG, "%d numbers cannot be summed", n);
    return tx__engine_ended(e, tx_trainer_sum(e->trainer, x, n));
}

/* ---- checkpoints ---- */

/* A JSON object. */
static tx_status read_client_state(const char *text, json_t **out)
{
    json_error_t e;
    *out = NULL;
    if (!text) return TX_OK;
    *out = tx_json_load(text, strlen(text), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!*out) return TX_FAIL(TX_ERR_ARG, "the client's state is no JSON: line %d: %s", e.line, e.text);
    if (json_is_object(*out)) return TX_OK;
    json_decref(*out);
    *out = NULL;
    return TX_FAIL(TX_ERR_ARG, "the client's state has to be a JSON object");
}

tx_status tx_engine_save_checkpoint(tx_engine *e, const char *dir, const char *tag, const char *client_state)
{
    json_t *state;
    tx_comm *world = tx_grid_group(e->trainer->grid, TX_GROUP_WORLD);
    TX_TRY(tx_comm_agree(world, tag ? tx_checkpoint_check_tag(tag) : TX_OK));
    TX_TRY(tx_comm_agree(world, read_client_state(client_state, &state)));
    tx_status st = tx__engine_ended(e, tx_trainer_save(e->trainer, dir, tag, state));
    json_decref(state);
    return st;
}

/* Also of Megatron's and DeepSpeed's folders, which --save-format writes. */
static tx_status load(tx_engine *e, tx_source *src)
{
    json_t *all = NULL, *options = NULL;
    tx_status st;
    if (!src->type->resumes)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: a model of another program, weights alone, is named as --load when the engine is made",
                       src->dir);
    TX_GOTO(tx_config_to_json(e->cfg, &all));
    TX_GOTO(src->type->options(src, all, &options));
    TX_GOTO(tx_config_from_json(e->cfg, options,
                                TX_KEPT_SHAPE | TX_KEPT_ALL_GIVEN)); /* nothing is filled in: it stays as it is */
    st = tx__engine_restore(e, src);
out:
    json_decref(options);
    json_decref(all);
    return st;
}

/* What a load gives back.   @path, @client_state NULL: not asked for */
static tx_status tell_loaded(const tx_source *src, char **path, char **client_state)
{
    const json_t *state = json_object_get(src->run, TX_CLIENT_STATE);
    if (path) TX_TRY(tx_memdup0(path, src->path, strlen(src->path), "a path"));
    if (!client_state || !state) return TX_OK;
    char *text = json_dumps(state, JSON_COMPACT | JSON_REAL_PRECISION(17));
    tx_status st = text ? tx_memdup0(client_state, text, strlen(text), "the client's state")
                        : TX_FAIL(TX_ERR_NOMEM, "not enough memory for the client's state");
    free(text);
    return st;
}

static tx_status load_folder(tx_engine *e, const char *dir, char **path, char **client_state)
{
    tx_source src = { 0 };
    char *its_path = NULL, *its_state = NULL;
    tx_status st;
    TX_GOTO(tx_source_open(&src, dir, NULL, tx_grid_group(e->trainer->grid, TX_GROUP_WORLD)));
    TX_GOTO(load(e, &src));
    st = tell_loaded(&src, path ? &its_path : NULL, client_state ? &its_state : NULL);
    TX_GOTO(tx_comm_agree(tx_grid_group(e->trainer->grid, TX_GROUP_WORLD), st)); /* given on all ranks or on none */
    if (path) *path = its_path;
    if (client_state) *client_state = its_state;
out:
    tx_source_close(&src);
    if (st) tx_free(its_path);
    if (st) tx_free(its_state);
    return st;
}

/* Whether there is nothing to load, as rank 0 sees it; a folder that is broken is something. */
static tx_status find_nothing(const tx_engine *e, const char *dir, bool *nothing)
{
    char detail[1024];
    tx_comm *world = tx_grid_group(e->trainer->grid, TX_GROUP_WORLD);
    tx_ckpt_kind kind = TX_CKPT_UNKNOWN;
    tx_status st = TX_OK;
    if (tx_comm_rank(world) == 0) st = tx_checkpoint_probe(dir, &kind, detail, sizeof detail);
    TX_TRY(tx_comm_agree(world, st));
    *nothing = kind == TX_CKPT_NONE;
    if (tx_comm_rank(world) == 0 && *nothing) tx_warn("nothing is loaded: %s", detail);
    return tx_comm_spread(world, nothing, sizeof *nothing, 0);
}

tx_status tx_engine_load_checkpoint(tx_engine *e, const char *dir, const char *tag, char **path, char **client_state)
{
    char folder[4096];
    bool nothing = false;
    if (path) *path = NULL;
    if (client_state) *client_state = NULL;
    TX_TRY(tx_trainer_require_idle(e->trainer, "a checkpoint is loaded"));
    if (tag) TX_TRY(tx_path_join(folder, sizeof folder, dir, tag));
    if (path) TX_TRY(tx__engine_ended(e, find_nothing(e, tag ? folder : dir, &nothing)));
    return nothing ? TX_OK : tx__engine_ended(e, load_folder(e, tag ? folder : dir, path, client_state));
}

tx_status tx_engine_export(tx_engine *e, const char *dir)
{
    float *weights = tx_zero_masters(&e->trainer->zero);
    if (e->client.model)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: the model %s is none that Hugging Face has", dir,
                       e->client.model->name);
    if (!is_alone(e))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: the model of several ranks is exported from a checkpoint: triax convert", dir);
    if (e->trainer->cfg->lora_rank)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: adapters are merged from a checkpoint: triax convert --merge-lora",
                       dir);
    if (!weights) return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: weights that are offloaded are not exported", dir);
    float *x, *owned;
    TX_TRY(tx_zero_see_whole(&e->trainer->zero, weights, TX_F32, &x, &owned));
    tx_status st = tx_hf_export_model(e->trainer->model, x, dir, &tx_comm_self);
    tx_free(owned);
    return st;
}
