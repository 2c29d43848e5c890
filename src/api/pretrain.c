/* pretrain.c - the whole of `triax pretrain-gpt`: tokenizer, checkpoint, model, data, loop. Log lines in Megatron's
 * order. */
#include <stdio.h>

#include "api/engine_internal.h"
#include "api/run_common.h"
#include "api/run_sinks.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"
#include "train/loop.h"
#include "triax/run.h"

static void log_model(const tx_trainer *t)
{
    const tx_model *m = t->model;
    tx_memory mem = tx_trainer_memory(t);
    int64_t real = tx_params_count(&m->params), padding = 0;
    for (int i = 0; i < m->params.n; i++) padding += m->params.param[i].numel;
    padding -= real;
    if (m->vocab_padded != m->vocab_size)
        tx_info(" > padded vocab (size: %lld) with %lld dummy tokens (new size: %lld)", (long long)m->vocab_size,
                (long long)(m->vocab_padded - m->vocab_size), (long long)m->vocab_padded);
    tx_info(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): %lld",
            (long long)(real + padding));
    if (padding) tx_info(" > %lld of them pad the vocabulary: they are zero and not trained", (long long)padding);
    tx_memory_table(&mem, NULL, NULL);
    tx_info("> learning rate decay style: %s", t->cfg->lr_decay_style);
}

static void log_backend(const tx_ctx *c)
{
    char threads[400];
    tx_threads_describe(threads, sizeof threads, c->n_threads);
    tx_info("backend: %s", c->backend->describe());
    tx_info("threads: %s", threads);
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

tx_status tx_pretrain(tx_config *cfg)
{
    tx_tokenizer *tok = NULL;
    tx_engine *e = NULL;
    tx_train_data *data = NULL;
    tx_source src = { 0 };
    tx_metrics metrics = { 0 };
    tx__run_sinks sinks = { 0 };
    double setup[2], start = tx_clock(), since = start; /* setup: ms for model, data */
    tx_status st;
    if (cfg->kill_switch_file && tx_path_exists(cfg->kill_switch_file)) {
        char text[3200];
        snprintf(text, sizeof text, "Detected kill switch at %.3000s. Exiting", cfg->kill_switch_file);
        tx_metrics_phase(text);
        return TX_OK;
    }
    TX_GOTO(tx_train_data_exists(cfg)); /* before a large model is built */
    TX_GOTO(tx_source_open_for_run(&src, cfg));
    TX_GOTO(tx__tokenizer_for(cfg, src.dir, &tok));
    tx_info("building GPT model ...");
    TX_GOTO(tx__engine_create(&e, cfg, &src, tx_tokenizer_vocab_size(tok), tx_tokenizer_eod(tok)));
    tx_source_close(&src); /* its files are mapped; the weights are copied */
    TX_GOTO(tx_config_print(cfg, NULL, NULL));
    log_batch_size(cfg, e->trainer);
    log_backend(&e->trainer->ctx);
    log_model(e->trainer);
    setup[0] = 1e3 * (tx_clock() - since);
    tx_metrics_phase("after model, optimizer, and learning rate scheduler are built");
    since = tx_clock();
    tx_info("> building train, validation, and test datasets ...");
    TX_GOTO(tx__run_data_open(&data, cfg, e->trainer->model->vocab_size, NULL));
    TX_GOTO(tx__run_data_carry(e->trainer, data));
    setup[1] = 1e3 * (tx_clock() - since);
    tx_metrics_phase("after dataloaders are built");
    tx_info("done with setup ...");
    tx_log_timers(cfg, 2, (const char *const[]){ "model-and-optimizer-setup", "train/valid/test-data-iterators-setup" },
                  setup);
    TX_GOTO(tx__run_sinks_open(&sinks, &metrics, e->trainer));
    TX_GOTO(tx_train_loop(e->trainer, data, &metrics, start));
    if (cfg->save) TX_GOTO(tx__tokenizer_keep(cfg, cfg->load, cfg->save));
out:
    tx__run_sinks_close(&sinks);
    tx_train_data_close(data);
    tx_engine_destroy(e);
    tx_tokenizer_close(tok);
    tx_source_close(&src);
    return st;
}
