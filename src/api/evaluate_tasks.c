/* evaluate_tasks.c - evaluates a checkpoint on the files of --valid-data. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluate.h"
#include "api/inference.h"
#include "base/alloc.h"
#include "base/log.h"
#include "eval/masked.h"
#include "eval/task.h"
#include "train/metrics.h"

typedef struct job {
    const tx_config *cfg;
    const tx_tokenizer *tok;
    tx_decoder *d; /* or, where the model sees both sides: */
    tx_masked *m;
    tx_line_fn *line;
    void *user;
    tx_str text;
} job;

/* ---- tokens ---- */

/* tx_task_listener.token: {"document":0,"id":464,"text":"The","logprob":-3.1,"rank":7} */
static tx_status tell_token(void *user, int64_t document, int32_t id, const tx_token_score *score)
{
    job *j = user;
    tx_bytes raw = { 0 }, text = { 0 };
    json_t *o = NULL;
    char *json = NULL;
    tx_status st;
    TX_GOTO(tx_tokenizer_decode_next(j->tok, -1, id, &raw));
    TX_GOTO(tx_text_replace_invalid(raw.n ? raw.data : "", raw.n, &text));
    bool known = score && isfinite(score->logprob);
    o = json_pack("{s:I, s:i, s:s#, s:o, s:o}", "document", (json_int_t)document, "id", (int)id, "text",
                  text.n ? text.data : "", (int)text.n, "logprob", known ? json_real(score->logprob) : json_null(),
                  "rank", known ? json_integer(score->rank) : json_null());
    json = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (json)
        j->line(j->user, json);
    else
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for a token");
out:
    json_decref(o);
    free(json);
    tx_bytes_free(&raw);
    tx_bytes_free(&text);
    return st;
}

/* ---- tasks ---- */

/* t: the leader's; NULL on the other ranks of a model that sees both sides. */
static tx_status run_task(job *j, tx_task *t)
{
    tx_task_sums sums;
    bool tokens = j->cfg->per_token;
    const tx_task_listener each = { tokens ? tell_token : NULL, j };
    if (j->m)
        TX_TRY(tx_task_run_masked(t, j->m, j->tok, &sums, &each));
    else
        TX_TRY(tx_task_run(t, j->d, 0, 1, &sums, &each));
    if (!t) return TX_OK;
    tx_task_result r = tx_task_result_of(t, &sums);
    j->text.len = 0;
    if (j->cfg->eval_json) {
        TX_TRY(tx_task_result_json(&j->text, t, &r));
        j->line(j->user, j->text.data);
    } else {
        TX_TRY(tx_task_result_line(&j->text, t, &r));
        tx_boxed_lines(j->text.data, tokens ? NULL : j->line, j->user);
    }
    return TX_OK;
}

static tx_task_opts options_of(const tx_config *cfg, const char *file, bool masked)
{
    tx_task_opts o = { .file = file,
                       .seq_length = masked ? cfg->seq_length - 2 : cfg->seq_length, /* [CLS] and [SEP] */
                       .masked = masked,
                       .overlap = cfg->overlapping_eval,
                       .strict = cfg->strict_lambada,
                       .detokenizer = cfg->detokenizer,
                       .kind = cfg->task ? cfg->task : TX_TASK_TEXT };
    return o;
}

/* All files are read before the model works: a bad line in the last one should not come after hours. */
static tx_status open_tasks(tx_task *task, const tx_config *cfg, const tx_tokenizer *tok, bool masked)
{
    for (int i = 0; i < cfg->valid_data.n; i++) {
        const tx_task_opts o = options_of(cfg, cfg->valid_data.item[i], masked);
        TX_TRY(tx_task_open(&task[i], &o, tok));
    }
    return TX_OK;
}

/* What a model that sees both sides cannot be asked, and its tokenizer. */
static tx_status check_masked(const tx_inference *f)
{
    const tx_config *cfg = f->cfg;
    const char *name = f->model->type->name;
    if (cfg->task && cfg->task != TX_TASK_TEXT)
        return TX_FAIL(TX_ERR_ARG,
                       "--task %s asks how a text goes on, and --load %s is a %s, which sees both sides: use "
                       "--task text",
                       tx_task_kind_word(cfg->task), cfg->load, name);
    if (cfg->given.overlapping_eval)
        return TX_FAIL(TX_ERR_ARG,
                       "--overlapping-eval: a %s sees both sides of a token, its windows do not overlap: "
                       "leave it out",
                       name);
    if (cfg->seq_length < 3)
        return TX_FAIL(TX_ERR_ARG, "--seq-length %lld has room for [CLS] and [SEP] only", (long long)cfg->seq_length);
    if (tx_tokenizer_special(f->tok, "[MASK]") >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "the tokenizer has no [MASK]: a %s needs --tokenizer-type " TX_TOKENIZERS_WORDPIECE,
                   name);
}

/* The leader's files; then on all ranks what scores them. */
static tx_status start(job *j, tx_inference *f, tx_task *task)
{
    const tx_config *cfg = j->cfg;
    bool masked = !f->model->type->decode;
    const tx_masked_opts opts = { .s = cfg->seq_length, .b = cfg->micro_batch_size, .n_top = 1 };
    if (masked) TX_TRY(check_masked(f));
    tx_status st = f->leads ? open_tasks(task, cfg, f->tok, masked) : TX_OK;
    if (!masked) return tx_inference_start(f, st, 1, cfg->seq_length);
    TX_TRY(tx_comm_agree(tx_grid_group(&f->ranks.grid, TX_GROUP_WORLD), st));
    TX_TRY(tx_comm_agree(tx_grid_group(&f->ranks.grid, TX_GROUP_WORLD),
                         tx_masked_create(&j->m, f->model, cfg, &f->ranks.grid, &opts)));
    return tx_inference_move(f, j->m->ctx.device);
}

tx_status tx__evaluate_tasks(tx_config *cfg, tx_line_fn *line, void *user)
{
    tx_inference f;
    tx_task *task = NULL;
    job j = { .cfg = cfg, .line = line, .user = user };
    tx_status st = tx_inference_open(&f, cfg, TX_USE_ANY);
    if (!st) {
        if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings; /* a Hugging Face folder does not say */
        st = tx_alloc(&task, (size_t)cfg->valid_data.n, sizeof *task, "the tasks");
        if (!st) st = start(&j, &f, task);
    }
    j.tok = f.tok;
    j.d = f.decoder;
    for (int i = 0; (f.leads || j.m) && !st && i < cfg->valid_data.n; i++) st = run_task(&j, f.leads ? &task[i] : NULL);
    for (int i = 0; task && i < cfg->valid_data.n; i++) tx_task_close(&task[i]);
    tx_free(task);
    tx_str_free(&j.text);
    tx_inference_give(&f);
    tx_masked_destroy(j.m);
    return tx_inference_close(&f, st);
}
