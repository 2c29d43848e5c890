/* evaluate.c - the whole of `triax evaluate`: loss and perplexity of a checkpoint over a dataset. */
#include <stdio.h>
#include <string.h>

#include "api/run_common.h"
#include "base/alloc.h"
#include "base/log.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "triax/run.h"

/* The part of the dataset that --eval-split names; "all" is every document as one split. */
static tx_status open_split(tx_gpt_data **data, const tx_gpt_dataset **ds, const tx_config *cfg, int64_t vocab_size)
{
    static const char *const names[TX_N_SPLITS] = {
        [TX_SPLIT_TRAIN] = "train", [TX_SPLIT_VALID] = "valid", [TX_SPLIT_TEST] = "test"
    };
    bool all = !strcmp(cfg->eval_split, "all");
    tx_gpt_data_opts o = {
        .paths = (const char *const *)cfg->data_path.item,
        .n_paths = cfg->data_path.n,
        .split = all ? "1,0,0" : cfg->split,
        .seq_length = cfg->seq_length,
        .seed = cfg->seed,
        .rule = TX_EPOCH_MICROSOFT,
        .vocab_size = vocab_size,
    };
    TX_TRY(tx_gpt_data_open(data, &o));
    tx_split which = TX_SPLIT_TRAIN;
    for (int i = 0; i < TX_N_SPLITS; i++)
        if (!all && !strcmp(names[i], cfg->eval_split)) which = (tx_split)i;
    *ds = tx_gpt_data_split(*data, which);
    if (*ds) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: its %s part holds no sample of %lld tokens", cfg->data_path.item[0],
                   cfg->eval_split, (long long)cfg->seq_length);
}

static tx_status evaluate(tx_trainer *t, const tx_gpt_dataset *ds, const char *what)
{
    const tx_config *cfg = t->cfg;
    int64_t n = tx_gpt_dataset_len(ds);
    if (cfg->given.eval_iters && cfg->eval_iters * t->b < n) n = cfg->eval_iters * t->b;
    if (n == 0) return TX_FAIL(TX_ERR_ARG, "--eval-iters 0 leaves nothing to evaluate");
    int32_t *tokens;
    double loss;
    char where[256];
    TX_TRY(tx_alloc(&tokens, (size_t)(t->b * (t->s + 1)), sizeof *tokens, "a batch"));
    tx_status st = tx_train_evaluate(t, ds, tokens, 0, n, &loss);
    tx_free(tokens);
    if (st) return st;
    snprintf(where, sizeof where, "iteration %lld on %lld samples of %s (%s)", (long long)t->iteration, (long long)n,
             what, cfg->eval_split);
    tx_metrics_evaluation(where, loss);
    return TX_OK;
}

tx_status tx_evaluate(tx_config *cfg)
{
    tx_source src = { 0 };
    tx_trainer *t = NULL;
    tx_gpt_data *data = NULL;
    tx_tokenizer *tok = NULL;
    const tx_gpt_dataset *ds;
    int32_t eod = -1;
    tx_status st;
    TX_GOTO(tx_source_open(&src, cfg->load));
    TX_GOTO(tx_source_options(&src, cfg, false));
    if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings; /* a Hugging Face folder does not say */
    if (cfg->eod_mask_loss) {
        TX_GOTO(tx__tokenizer_for(cfg, src.dir, &tok));
        eod = tx_tokenizer_eod(tok);
    }
    TX_GOTO(tx_trainer_create(&t, cfg, src.vocab_size, eod, false));
    if (src.kind == TX_CKPT_NATIVE)
        TX_GOTO(tx_trainer_load(t, src.native));
    else
        TX_GOTO(tx_source_weights(&src, t->model, t->value));
    TX_GOTO(open_split(&data, &ds, cfg, t->model->vocab_size));
    TX_GOTO(evaluate(t, ds, cfg->data_path.item[0]));
out:
    tx_tokenizer_close(tok);
    tx_gpt_data_close(data);
    tx_trainer_destroy(t);
    tx_source_close(&src);
    return st;
}
