/* pretrain.c - the whole of `triax pretrain-gpt` and `triax pretrain-bert`: tokenizer, checkpoint, model, data, loop.
 * Log lines in Megatron's order. */
#include <stdio.h>

#include "api/engine_internal.h"
#include "api/ranks.h"
#include "api/run_common.h"
#include "api/run_sinks.h"
#include "api/show_layout.h"
#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"
#include "eval/training_tasks.h"
#include "triax/run.h"

/* Megatron's line for each rank of a model, which the first ones show. */
static tx_status log_params(const tx_trainer *t)
{
    enum { MAX_SHOWN = 64 };
    const tx_grid *g = t->grid;
    int64_t all = 0, *every;
    for (int i = 0; i < t->model->params.n; i++) all += t->model->params.param[i].numel;
    int n = tx_comm_size(g->model);
    TX_TRY(tx_alloc(&every, (size_t)n, sizeof *every, "the ranks' numbers of parameters"));
    tx_status st = tx_comm_gather(g->model, every, &all, sizeof all);
    for (int i = 0; i < n && i < MAX_SHOWN && !st; i++)
        tx_info(" > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %lld", i % g->tp.size,
                i / g->tp.size, (long long)every[i]);
    tx_free(every);
    return st;
}

static tx_status log_model(const tx_trainer *t)
{
    const tx_model *m = t->model;
    tx_memory mem = tx_trainer_memory(t);
    tx_zero_formula formula = tx__plan_formula(&t->zero);
    int64_t padding = 0;
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *p = &m->params.param[i];
        padding += p->numel - p->numel / p->dim[0] * p->rows_logical;
    }
    if (m->vocab_padded != m->vocab_size)
        tx_info(" > padded vocab (size: %lld) with %lld dummy tokens (new size: %lld)", (long long)m->vocab_size,
                (long long)(m->vocab_padded - m->vocab_size), (long long)m->vocab_padded);
    TX_TRY(log_params(t));
    if (padding) tx_info(" > %lld of them pad the vocabulary: they are zero and not trained", (long long)padding);
    tx_memory_table(&mem, &formula, NULL, NULL);
    tx_info("> learning rate decay style: %s", t->cfg->lr_decay_style);
    return TX_OK;
}

static void to_log(void *user, const char *line)
{
    (void)user;
    tx_info("%s%s", line[0] == ' ' ? "" : " > ", line);
}

static tx_status log_division(const tx_trainer *t)
{
    tx__report r = { .line = to_log };
    tx_volume_sizes sizes = tx__plan_volume_sizes(t->model, t->cfg, t->grid, t->n_micro, &t->zero);
    tx_status st = tx__show_zero(&r, &sizes);
    tx_str_free(&r.text);
    return st;
}

static tx_status log_backend(const tx_ctx *c, const tx_ranks *ranks)
{
    char threads[400];
    tx_threads_describe(threads, sizeof threads, c->n_threads);
    tx_info("backend: %s", c->backend->describe());
    tx_info("threads: %s", threads);
    return tx_ranks_show(ranks, threads, c->device);
}

tx_status tx__run_data_open(tx_train_data **out, const tx_config *cfg, int64_t vocab_size, const tx_tokenizer *bert)
{
    int64_t n_samples[TX_N_SPLITS];
    tx_train_sample_counts(cfg, n_samples);
    tx_info(" > datasets target sizes (minimum size):");
    tx_info("    train:      %lld", (long long)n_samples[TX_SPLIT_TRAIN]);
    tx_info("    validation: %lld", (long long)n_samples[TX_SPLIT_VALID]);
    tx_info("    test:       %lld", (long long)n_samples[TX_SPLIT_TEST]);
    return tx_train_data_open(out, cfg, n_samples, vocab_size, bert);
}

tx_status tx__run_data_carry(tx_trainer *t, tx_train_data *data)
{
    json_t *now;
    int64_t position = tx_train_position(t->cfg, t->iteration, t->consumed_train_samples);
    TX_TRY(tx_train_data_phase(data, t->blend_phase, position, &now));
    json_decref(t->blend_phase);
    t->blend_phase = now;
    return TX_OK;
}

static void log_batch_size(const tx_config *cfg, const tx_trainer *t)
{
    char *const *ramp = cfg->rampup_batch_size.item;
    if (cfg->rampup_batch_size.n)
        tx_info("will use batch size rampup starting from global batch size %s to global batch size %lld with batch "
                "size increments %s over %s samples.",
                ramp[0], (long long)cfg->global_batch_size, ramp[1], ramp[2]);
    else
        tx_info("setting number of micro-batches to constant %lld", (long long)t->n_micro);
    if (cfg->given.train_samples) tx_info("setting training iterations to %lld", (long long)cfg->train_iters);
}

/* Rank 0 makes the index files that the others then find. */
static tx_status open_data(tx_train_data **data, const tx_config *cfg, const tx_trainer *t, const tx_tokenizer *tok)
{
    tx_comm *world = t->grid->world;
    const tx_tokenizer *bert = t->model->type->reads_sentences ? tok : NULL;
    tx_status st = TX_OK;
    if (t->grid->rank == 0) st = tx__run_data_open(data, cfg, t->model->vocab_size, bert);
    TX_TRY(tx_comm_agree(world, st));
    if (t->grid->rank) st = tx__run_data_open(data, cfg, t->model->vocab_size, bert);
    return tx_comm_agree(world, st);
}

/* What it says while it is set up, in Megatron's order. */
static tx_status show_setup(const tx_config *cfg, const tx_trainer *t, const tx_ranks *ranks)
{
    TX_TRY(tx_config_print(cfg, NULL, NULL));
    log_batch_size(cfg, t);
    TX_TRY(log_backend(&t->ctx, ranks));
    TX_TRY(log_division(t));
    return log_model(t);
}

static tx_status pretrain(tx_config *cfg, const tx_ranks *ranks, double start)
{
    tx_tokenizer *tok = NULL;
    tx_engine *e = NULL;
    tx_train_data *data = NULL;
    tx_source src = { 0 };
    tx_metrics metrics = { 0 };
    tx__run_sinks sinks = { 0 };
    tx_training_tasks tasks = { 0 };
    double setup[2], since = start; /* setup: ms for model, data */
    bool first = ranks->grid.rank == 0;
    tx_status st;
    TX_GOTO(tx_train_data_exists(cfg)); /* before a large model is built */
    TX_GOTO(tx_source_open_for_run(&src, cfg, ranks->grid.world));
    TX_GOTO(tx__tokenizer_for(cfg, src.dir, &tok));
    tx_info("building %s model ...", cfg->model_type);
    TX_GOTO(tx__engine_create(&e, cfg, &src, tx_tokenizer_vocab_size(tok), tx__text_tokens(tok), tx_tokenizer_eod(tok),
                              &ranks->grid));
    tx_source_close(&src); /* its files are mapped; the weights are copied */
    TX_GOTO(show_setup(cfg, e->trainer, ranks));
    setup[0] = 1e3 * (tx_clock() - since);
    tx_metrics_phase("after model, optimizer, and learning rate scheduler are built");
    since = tx_clock();
    tx_info("> building train, validation, and test datasets ...");
    TX_GOTO(open_data(&data, cfg, e->trainer, tok));
    TX_GOTO(tx__run_data_carry(e->trainer, data));
    TX_GOTO(tx_training_tasks_open(&tasks, e->trainer, tok, &metrics));
    setup[1] = 1e3 * (tx_clock() - since);
    tx_metrics_phase("after dataloaders are built");
    tx_info("done with setup ...");
    tx_log_timers(cfg, 2, (const char *const[]){ "model-and-optimizer-setup", "train/valid/test-data-iterators-setup" },
                  setup);
    if (first) TX_GOTO(tx__run_sinks_open(&sinks, &metrics, e->trainer));
    TX_GOTO(tx_train_loop(e->trainer, data, &metrics, start, tasks.n ? &tasks.also : NULL));
    if (cfg->save && first) TX_GOTO(tx__tokenizer_keep(cfg, cfg->load, cfg->save));
out:
    tx__run_sinks_close(&sinks);
    tx_training_tasks_close(&tasks);
    tx_train_data_close(data);
    tx_engine_destroy(e);
    tx_tokenizer_close(tok);
    tx_source_close(&src);
    return st;
}

tx_status tx_pretrain(tx_config *cfg)
{
    double start = tx_clock();
    if (cfg->kill_switch_file && tx_path_exists(cfg->kill_switch_file)) {
        char text[3200];
        snprintf(text, sizeof text, "Detected kill switch at %.3000s. Exiting", cfg->kill_switch_file);
        tx_metrics_phase(text);
        return TX_OK;
    }
    tx_ranks ranks;
    tx_status st = tx_ranks_open(&ranks, cfg, NULL, NULL);
    if (!st) st = pretrain(cfg, &ranks, start);
    return tx_ranks_close(&ranks, st);
}
