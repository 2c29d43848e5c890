/* evaluate.c - the whole of `triax evaluate`: loss and perplexity of a checkpoint over a dataset, and of files as
 * tasks. */
#include "api/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inference.h"
#include "api/tokenizer_of.h"
#include "base/log.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "triax/jobs.h"

/* The part of the dataset that --eval-split names; "all" is every document as one split. */
static tx_status open_split(tx_train_data **data, const tx_blend **part, tx_config *cfg, int64_t vocab_size,
                            const tx_tokenizer *tok)
{
    bool all = cfg->eval_split == TX_EVAL_SPLIT_ALL;
    int64_t n_samples[TX_N_SPLITS] = { 0 }; /* of one dataset: all that one pass over it gives */
    tx_split which = tx_split_asked(cfg->eval_split);
    if (cfg->data_path.n > 1) n_samples[which] = cfg->eval_iters * cfg->micro_batch_size;
    if (all) TX_TRY(tx_config_set_text(&cfg->split, "1,0,0"));
    TX_TRY(tx_train_data_open(data, cfg, n_samples, vocab_size, -1, tok));
    *part = tx_train_data_split(*data, which);
    if (*part) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: its %s part holds no sample of %lld tokens",
                   tx_weighted_at(&cfg->data_path, 0, NULL), tx_eval_split_word(cfg->eval_split),
                   (long long)cfg->seq_length);
}

/* Rank 0 makes the index files that the others then find. */
tx_status tx__evaluation_data_open(tx_train_data **data, const tx_blend **part, tx_config *cfg, const tx_grid *grid,
                                   int64_t vocab_size, const tx_tokenizer *tok)
{
    tx_status st = TX_OK;
    if (grid->rank == 0) st = open_split(data, part, cfg, vocab_size, tok);
    TX_TRY(tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), st));
    if (grid->rank) st = open_split(data, part, cfg, vocab_size, tok);
    return tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), st);
}

/* One line of JSON, or the words of a run's evaluation. */
static tx_status tell(const tx_trainer *t, int64_t n, const double *loss, tx_line_fn *line, void *user)
{
    const tx_config *cfg = t->cfg;
    const char *data = cfg->data_path.n > 1 ? "a blend" : cfg->data_path.item[0];
    char where[256], text[512];
    if (!cfg->eval_json) {
        snprintf(where, sizeof where, "iteration %lld on %lld samples of %s (%s)", (long long)t->iteration,
                 (long long)n, data, tx_eval_split_word(cfg->eval_split));
        tx_evaluation_line(text, sizeof text, t, NULL, where, loss);
        tx_boxed_lines(text, line, user);
        return TX_OK;
    }
    tx_bytes name = { 0 };
    TX_TRY(tx_text_replace_invalid(data, strlen(data), &name));
    json_t *o = json_pack("{s:s, s:s#, s:s, s:I, s:I, s:o, s:o}", "task", "dataset", "data", name.data, (int)name.n,
                          "split", tx_eval_split_word(cfg->eval_split), "iteration", (json_int_t)t->iteration,
                          "samples", (json_int_t)n, "loss", isfinite(*loss) ? json_real(*loss) : json_null(), "ppl",
                          isfinite(*loss) ? json_real(exp(fmin(20, *loss))) : json_null());
    bool failed =
        !o || (tx_evaluation_drops(t) && json_object_set_new(o, "dropped_share", json_real(t->expert_means.dropped)));
    char *json = failed ? NULL : json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (json) line(user, json);
    tx_bytes_free(&name);
    json_decref(o);
    free(json);
    return json ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a result");
}

static tx_status evaluate(tx_trainer *t, const tx_blend *data, tx_line_fn *line, void *user)
{
    const tx_config *cfg = t->cfg;
    int64_t n = data->n_samples, each = t->b * tx_grid_size(t->grid, TX_AXIS_DATA);
    if (cfg->given.eval_iters && cfg->eval_iters * each < n) n = cfg->eval_iters * each;
    if (n == 0) return TX_FAIL(TX_ERR_ARG, "--eval-iters 0 leaves nothing to evaluate");
    tx_batch_reader reader;
    double loss[TX_MAX_LOSSES];
    tx_status st;
    TX_GOTO(tx_batch_reader_open(&reader, t, data));
    TX_GOTO(tx_train_evaluate(t, &reader, 0, n, loss, NULL));
    if (t->grid->rank == 0) st = tell(t, n, loss, line, user);
out:
    tx_batch_reader_close(&reader);
    return st;
}

static tx_status evaluate_gpt(tx_config *cfg, tx_source *src, const tx_grid *grid, tx_line_fn *line, void *user)
{
    tx_trainer *t = NULL;
    tx_train_data *data = NULL;
    tx_tokenizer *tok = NULL;
    const tx_blend *part;
    int32_t eod = -1;
    tx_status st;
    if (tx_trainer_eod_flag(cfg) || cfg->fim_data || cfg->vocab_file || cfg->merge_file || cfg->tokenizer_model) {
        TX_GOTO(tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), tx__tokenizer_of(cfg, src, &tok)));
        eod = tx_tokenizer_eod(tok);
    }
    TX_GOTO(tx_trainer_create(&t, cfg, src->vocab_size, eod, false, grid));
    if (src->type->resumes)
        TX_GOTO(tx_trainer_load(t, src));
    else
        TX_GOTO(tx__trainer_take_weights(t, src));
    TX_GOTO(tx__evaluation_data_open(&data, &part, cfg, grid, t->model->vocab_size, tok));
    TX_GOTO(evaluate(t, part, line, user));
out:
    tx_tokenizer_close(tok);
    tx_train_data_close(data);
    tx_trainer_destroy(t);
    return st;
}

static tx_status evaluate_dataset(tx_config *cfg, const tx_grid *grid, tx_line_fn *line, void *user)
{
    tx_source src = { 0 };
    tx_status st;
    TX_GOTO(tx_train_data_exists(cfg));
    TX_GOTO(tx_source_open_options(&src, cfg, tx_grid_group(grid, TX_GROUP_WORLD)));
    TX_GOTO(tx_source_options(&src, cfg, false));
    if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings; /* a Hugging Face folder does not say */
    st = tx_model_type_of(cfg)->samples->masked ? tx__evaluate_sentences(cfg, &src, grid, line, user)
                                                : evaluate_gpt(cfg, &src, grid, line, user);
out:
    tx_source_close(&src);
    return st;
}

tx_status tx_evaluate(tx_config *cfg, tx_line_fn *line, void *user)
{
    if (cfg->valid_data.n) return tx__evaluate_tasks(cfg, line, user);
    tx_ranks ranks;
    tx_status st = tx_ranks_open(&ranks, cfg, NULL, NULL);
    if (!st) st = evaluate_dataset(cfg, &ranks.grid, line, user);
    return tx_ranks_close(&ranks, st);
}
