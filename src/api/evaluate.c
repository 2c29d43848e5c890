/* evaluate.c - the whole of `triax evaluate`: loss and perplexity of a checkpoint over a dataset. */
#include <stdio.h>
#include <string.h>

#include "api/run_common.h"
#include "base/log.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "triax/run.h"

/* The part of the dataset that --eval-split names; "all" is every document as one split. */
static tx_status open_split(tx_train_data **data, const tx_blend **part, tx_config *cfg, int64_t vocab_size)
{
    static const char *const names[TX_N_SPLITS] = {
        [TX_SPLIT_TRAIN] = "train", [TX_SPLIT_VALID] = "valid", [TX_SPLIT_TEST] = "test"
    };
    bool all = !strcmp(cfg->eval_split, "all");
    int64_t n_samples[TX_N_SPLITS] = { 0 }; /* of one dataset: all that one pass over it gives */
    tx_split which = TX_SPLIT_TRAIN;
    for (int i = 0; i < TX_N_SPLITS; i++)
        if (!all && !strcmp(names[i], cfg->eval_split)) which = (tx_split)i;
    if (cfg->data_path.n > 1) n_samples[which] = cfg->eval_iters * cfg->micro_batch_size;
    if (all) TX_TRY(tx_config_set_text(&cfg->split, "1,0,0"));
    TX_TRY(tx_train_data_open(data, cfg, n_samples, vocab_size, NULL));
    *part = tx_train_data_split(*data, which);
    if (*part) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: its %s part holds no sample of %lld tokens",
                   tx_weighted_at(&cfg->data_path, 0, NULL), cfg->eval_split, (long long)cfg->seq_length);
}

static tx_status evaluate(tx_trainer *t, const tx_blend *data)
{
    const tx_config *cfg = t->cfg;
    int64_t n = data->n_samples;
    if (cfg->given.eval_iters && cfg->eval_iters * t->b < n) n = cfg->eval_iters * t->b;
    if (n == 0) return TX_FAIL(TX_ERR_ARG, "--eval-iters 0 leaves nothing to evaluate");
    bool blend = cfg->data_path.n > 1;
    tx_feed feed;
    double loss;
    char where[256];
    tx_status st;
    TX_GOTO(tx_feed_open(&feed, t, data));
    TX_GOTO(tx_train_evaluate(t, &feed, 0, n, &loss));
    snprintf(where, sizeof where, "iteration %lld on %lld samples of %s (%s)", (long long)t->iteration, (long long)n,
             blend ? "a blend" : cfg->data_path.item[0], cfg->eval_split);
    tx_metrics_evaluation(NULL, where, loss);
out:
    tx_feed_close(&feed);
    return st;
}

tx_status tx_evaluate(tx_config *cfg)
{
    tx_source src = { 0 };
    tx_trainer *t = NULL;
    tx_train_data *data = NULL;
    tx_tokenizer *tok = NULL;
    const tx_blend *part;
    int32_t eod = -1;
    tx_status st;
    TX_GOTO(tx_train_data_exists(cfg));
    TX_GOTO(tx_source_open(&src, cfg->load, &tx_comm_self));
    TX_GOTO(tx_source_options(&src, cfg, false));
    if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings; /* a Hugging Face folder does not say */
    if (tx_trainer_eod_flag(cfg)) {
        TX_GOTO(tx__tokenizer_for(cfg, src.dir, &tok));
        eod = tx_tokenizer_eod(tok);
    }
    TX_GOTO(tx_trainer_create(&t, cfg, src.vocab_size, eod, false, NULL));
    if (src.kind == TX_CKPT_NATIVE)
        TX_GOTO(tx_trainer_load(t, src.native));
    else
        TX_GOTO(tx__trainer_take_weights(t, &src));
    TX_GOTO(open_split(&data, &part, cfg, t->model->vocab_size));
    TX_GOTO(evaluate(t, part));
out:
    tx_tokenizer_close(tok);
    tx_train_data_close(data);
    tx_trainer_destroy(t);
    tx_source_close(&src);
    return st;
}
