/* run.c - a run around an engine: setup, datasets, loop. Log lines in Megatron's order. */
#include <stdio.h>
#include <string.h>

#include "api/run_common.h"
#include "api/run_sinks.h"
#include "api/save_folder.h"
#include "api/show_setup.h"
#include "base/alloc.h"
#include "base/args.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/launched.h"
#include "base/log.h"
#include "base/signals.h"
#include "eval/training_tasks.h"
#include "triax/run.h"

struct tx_run {
    const tx_config *cfg;
    tx_ranks ranks; /* no groups: they are the engine's */
    double start;   /* clock */
};

/* ---- begin and end ---- */

static bool killed_before(const tx_config *cfg)
{
    char text[3200];
    if (!cfg->kill_switch_file || !tx_path_exists(cfg->kill_switch_file)) return false;
    snprintf(text, sizeof text, "Detected kill switch at %.3000s. Exiting", cfg->kill_switch_file);
    tx_metrics_phase(text);
    return true;
}

/* Rank 0 speaks. mpirun's SIGTERM may be the end of ranks that wait for one which has failed. */
static void watch_signals(void)
{
    tx_launched l = tx_launched_find();
    bool mpirun = l.by && strstr(l.by, "mpirun");
    tx_signals_watch(&(tx_signal_watch){ .speaks = !l.rank, .several = l.size > 1, .silent_term = mpirun },
                     "no iteration is trained yet, so there is nothing to save; the run ends at once");
}

tx_status tx_run_open(tx_run **out, const tx_config *cfg, tx_world *world)
{
    tx_run *run;
    double start = tx_clock();
    *out = NULL;
    if (killed_before(cfg)) return TX_OK;
    TX_TRY(tx_alloc(&run, 1, sizeof *run, "a run"));
    *run = (tx_run){ .cfg = cfg, .start = start };
    watch_signals();
    tx_status st = tx_ranks_join(&run->ranks, cfg, world);
    if (st)
        tx_run_close(run, st);
    else
        *out = run;
    return st;
}

tx_world *tx_run_world(const tx_run *run)
{
    return run->ranks.world;
}

tx_status tx_run_close(tx_run *run, tx_status st)
{
    if (!run) return st;
    if (st) tx_signals_unwatch(); /* the launcher ends those that have failed together */
    tx_ranks_close(&run->ranks, st);
    if (!st) tx_signals_unwatch();
    tx_free(run);
    return st;
}

/* ---- the run itself ---- */

/* Rank 0 makes the index files that the others then find. */
static tx_status open_data(tx_train_data **data, const tx_engine *e)
{
    const tx_trainer *t = e->trainer;
    tx_comm *world = tx_grid_group(t->grid, TX_GROUP_WORLD);
    int32_t eod = e->tokenizer ? tx_tokenizer_eod(e->tokenizer) : -1;
    tx_status st = TX_OK;
    if (t->grid->rank == 0) st = tx__run_data_open(data, t->cfg, t->model->vocab_size, eod, e->tokenizer);
    TX_TRY(tx_comm_agree(world, st));
    if (t->grid->rank) st = tx__run_data_open(data, t->cfg, t->model->vocab_size, eod, e->tokenizer);
    return tx_comm_agree(world, st);
}

/* What stands between a finished setup and the first step. */
typedef struct run_parts {
    tx_train_data *sets; /* NULL: the client has its own data */
    tx_metrics metrics;
    tx__run_sinks sinks;
    tx_training_tasks tasks;
} run_parts;

static tx_status check(const tx_engine *e, const tx_run_data *own)
{
    const tx_config *cfg = e->cfg;
    const tx_model_type *type = e->trainer->model->type;
    TX_TRY(tx_trainer_require_idle(e->trainer, "a run begins"));
    if (own && cfg->skip_train_iteration_range.n)
        return TX_FAIL(TX_ERR_ARG, "--skip-train-iteration-range is for datasets: a client's own data are not known");
    if (!own && e->client.model)
        return TX_FAIL(TX_ERR_ARG, "a client's model is trained on data of the client's own: tx_run_data");
    if (e->client.model && cfg->eval_tasks.n)
        return TX_FAIL(TX_ERR_ARG, "--eval-tasks is for language models, not for a client's");
    if (e->tokenizer) return TX_OK;
    if (!own && cfg->fim_data) return TX_FAIL(TX_ERR_ARG, "--fim-data needs an engine with a tokenizer");
    if (!own && tx_samples_need_tokenizer(cfg))
        return TX_FAIL(TX_ERR_ARG, "the datasets of a %s need an engine with a tokenizer", type->name);
    if (cfg->eval_tasks.n) return TX_FAIL(TX_ERR_ARG, "--eval-tasks needs an engine with a tokenizer");
    return TX_OK;
}

static tx_status open_sets(run_parts *p, tx_engine *e)
{
    tx_info("> building train, validation, and test datasets ...");
    TX_TRY(open_data(&p->sets, e));
    tx_train_data_warn_of_empty(p->sets, e->cfg);
    return tx__run_data_carry(e->trainer, p->sets);
}

static tx_status open_parts(run_parts *p, tx_engine *e, bool own, double start)
{
    double setup[2], since; /* setup: ms for model, data */
    TX_TRY(tx__show_setup(e));
    setup[0] = 1e3 * (tx_clock() - start);
    tx_metrics_phase("after model, optimizer, and learning rate scheduler are built");
    since = tx_clock();
    if (!own) TX_TRY(open_sets(p, e));
    TX_TRY(tx_training_tasks_open(&p->tasks, e->trainer, e->tokenizer, &p->metrics));
    setup[1] = 1e3 * (tx_clock() - since);
    tx_metrics_phase("after dataloaders are built");
    tx_info("done with setup ...");
    tx_log_timers(e->cfg, 2,
                  (const char *const[]){ "model-and-optimizer-setup", "train/valid/test-data-iterators-setup" }, setup);
    return tx__run_sinks_open(&p->sinks, &p->metrics, e->trainer);
}

static tx_status train(tx_run *run, tx_engine *e, const tx_run_data *own)
{
    run_parts p = { 0 };
    tx_status st;
    TX_GOTO(open_parts(&p, e, own != NULL, run->start));
    tx_loop_data data = { .sets = p.sets };
    if (own)
        data = (tx_loop_data){
            .read = { [TX_SPLIT_TRAIN] = own->train, [TX_SPLIT_VALID] = own->valid, [TX_SPLIT_TEST] = own->test },
            .user = own->user
        };
    TX_GOTO(tx_train_loop(e->trainer, &data, &p.metrics, run->start, p.tasks.n ? &p.tasks.also : NULL));
out:
    tx__run_sinks_close(&p.sinks);
    tx_training_tasks_close(&p.tasks);
    tx_train_data_close(p.sets);
    return st;
}

tx_status tx_run_train(tx_run *run, tx_engine *e, const tx_run_data *given)
{
    tx_run_data all, *own = given ? &all : NULL;
    if (own) TX_TRY(TX_ARGS_TAKE(own, given, tx_run_data, user));
    if (!own && e->data) {
        own = &all;
        all = (tx_run_data){ .train = tx__engine_data_read, .user = e->data };
    }
    TX_TRY(check(e, own));
    TX_TRY(tx__save_folder_check(e));
    return tx__engine_ended(e, train(run, e, own));
}
