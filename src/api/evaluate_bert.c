/* evaluate_bert.c - evaluates a BERT on a dataset of sentences: its accuracy on masked tokens and on the order of
 * segments. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluate.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "eval/masked.h"
#include "train/metrics.h"

/* Counts that add up over samples and ranks. */
enum { NATS, TOKENS, CORRECT, PAIR_NATS, PAIRS, PAIRS_CORRECT, N_SUMS };

typedef struct job {
    const tx_config *cfg;
    const tx_blend *data;
    tx_masked *m;
    int32_t *scratch; /* for samples */
    int64_t n_samples, iteration;
    double sum[N_SUMS];
} job;

static void add_run(job *j, int64_t n)
{
    const tx_masked *m = j->m;
    for (int64_t i = 0; i < m->n_labels; i++) {
        j->sum[NATS] -= m->score[i].logprob;
        j->sum[TOKENS]++;
        j->sum[CORRECT] += m->score[i].rank == 1;
    }
    for (int64_t k = 0; m->pair && k < n; k++) {
        j->sum[PAIR_NATS] -= m->pair[k];
        j->sum[PAIRS]++;
        j->sum[PAIRS_CORRECT] += m->pair[k] > -log(2);
    }
}

/* Every r-th sample, from this one of r data ranks' own. */
static tx_status run(job *j, const tx_grid *grid)
{
    tx_masked *m = j->m;
    double shown = tx_clock();
    for (int64_t i = tx_grid_rank(grid, TX_AXIS_DATA), n; i < j->n_samples;) {
        for (n = 0; n < m->room && i < j->n_samples; n++, i += tx_grid_size(grid, TX_AXIS_DATA))
            TX_TRY(tx_blend_get(j->data, j->scratch, tx_masked_row(m, n).tokens, i));
        TX_TRY(tx_masked_run(m, n));
        add_run(j, n);
        if (tx_clock() - shown < TX_PROGRESS_SECONDS) continue;
        shown = tx_clock();
        tx_log(TX_LOG_PROGRESS, "evaluated %lld/%lld samples", (long long)i, (long long)j->n_samples);
    }
    double *all;
    TX_TRY(tx_alloc(&all, (size_t)(tx_grid_size(grid, TX_AXIS_DATA) * N_SUMS), sizeof *all, "the sums of all ranks"));
    tx_status st = tx_comm_gather(tx_grid_group(grid, TX_GROUP_DATA), all, j->sum, sizeof j->sum);
    memset(j->sum, 0, sizeof j->sum);
    for (int i = 0; i < tx_grid_size(grid, TX_AXIS_DATA) * N_SUMS; i++) j->sum[i % N_SUMS] += all[i];
    tx_free(all);
    return st;
}

/* ---- what is told ---- */

static const char *data_name(const tx_config *cfg)
{
    return cfg->data_path.n > 1 ? "a blend" : tx_weighted_at(&cfg->data_path, 0, NULL);
}

static double perplexity(double loss)
{
    return exp(fmin(20, loss));
}

static tx_status tell_words(const job *j, tx_line_fn *line, void *user)
{
    const double *s = j->sum;
    double loss = s[NATS] / s[TOKENS];
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(
        tx_str_printf(&text,
                      " validation loss at iteration %lld on %lld samples of %s (%s) | lm loss value: %.6E | lm loss "
                      "PPL: %.6E | lm accuracy: %.4E | ",
                      (long long)j->iteration, (long long)j->n_samples, data_name(j->cfg),
                      tx_eval_split_word(j->cfg->eval_split), loss, perplexity(loss), s[CORRECT] / s[TOKENS]));
    if (s[PAIRS] > 0)
        TX_GOTO(tx_str_printf(&text, "sop loss value: %.6E | sop accuracy: %.4E | ", s[PAIR_NATS] / s[PAIRS],
                              s[PAIRS_CORRECT] / s[PAIRS]));
    tx_boxed_lines(text.data, line, user);
out:
    tx_str_free(&text);
    return st;
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static tx_status tell_json(const job *j, tx_line_fn *line, void *user)
{
    const double *s = j->sum;
    double loss = s[NATS] / s[TOKENS];
    tx_bytes name = { 0 };
    TX_TRY(tx_text_replace_invalid(data_name(j->cfg), strlen(data_name(j->cfg)), &name));
    json_t *o =
        json_pack("{s:s, s:s#, s:s, s:I, s:I, s:o, s:o, s:o, s:I}", "task", "dataset", "data", name.data, (int)name.n,
                  "split", tx_eval_split_word(j->cfg->eval_split), "iteration", (json_int_t)j->iteration, "samples",
                  (json_int_t)j->n_samples, "loss", number(loss), "ppl", number(perplexity(loss)), "accuracy",
                  number(s[CORRECT] / s[TOKENS]), "targets", (json_int_t)s[TOKENS]);
    if (s[PAIRS] > 0) {
        json_object_set_new(o, "sop_loss", number(s[PAIR_NATS] / s[PAIRS]));
        json_object_set_new(o, "sop_accuracy", number(s[PAIRS_CORRECT] / s[PAIRS]));
    }
    char *json = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    if (json) line(user, json);
    tx_bytes_free(&name);
    json_decref(o);
    free(json);
    return json ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a result");
}

/* ---- the whole ---- */

/* How much of the data: all of it, or --eval-iters times the micro-batches of all data ranks. */
static tx_status count_samples(job *j, const tx_grid *grid)
{
    int64_t each = j->cfg->micro_batch_size * tx_grid_size(grid, TX_AXIS_DATA);
    j->n_samples = j->data->n_samples;
    if (j->cfg->given.eval_iters && j->cfg->eval_iters * each < j->n_samples) j->n_samples = j->cfg->eval_iters * each;
    return j->n_samples ? TX_OK : TX_FAIL(TX_ERR_ARG, "--eval-iters 0 leaves nothing to evaluate");
}

tx_status tx__evaluate_sentences(tx_config *cfg, tx_source *src, const tx_grid *grid, tx_line_fn *line, void *user)
{
    job j = { .cfg = cfg, .iteration = src->type->resumes ? src->state.iteration : 0 };
    tx_tokenizer *tok = NULL;
    tx_train_data *data = NULL;
    tx_model *model = NULL;
    void *value = NULL;
    tx_device *device = NULL;
    const tx_masked_opts opts = { .s = cfg->seq_length, .b = cfg->micro_batch_size, .n_top = 1 };
    tx_status st;
    if (tx_grid_size(grid, TX_AXIS_CONTEXT) > 1)
        return TX_FAIL(TX_ERR_ARG,
                       "--context-parallel-size %d: the ranks that evaluate a BERT have whole samples: leave it out",
                       tx_grid_size(grid, TX_AXIS_CONTEXT));
    TX_GOTO(tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), tx__tokenizer_of(cfg, src, &tok)));
    TX_GOTO(tx__model_load(&model, &value, cfg, src, grid));
    TX_GOTO(tx__evaluation_data_open(&data, &j.data, cfg, grid, model->vocab_size, tok));
    TX_GOTO(count_samples(&j, grid));
    TX_GOTO(tx_masked_create(&j.m, model, cfg, grid, &opts));
    TX_GOTO(tx__model_move(model, &value, j.m->ctx.device));
    device = j.m->ctx.device;
    TX_GOTO(tx_alloc(&j.scratch, (size_t)(model->type->samples->n_scratch * cfg->seq_length), sizeof *j.scratch,
                     "a sample"));
    TX_GOTO(run(&j, grid));
    if (grid->rank == 0) st = cfg->eval_json ? tell_json(&j, line, user) : tell_words(&j, line, user);
out:
    tx_free(j.scratch);
    tx_device_give(device, value);
    tx_masked_destroy(j.m);
    if (model) model->type->destroy(model);
    tx_train_data_close(data);
    tx_tokenizer_close(tok);
    return st;
}
