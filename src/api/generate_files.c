/* generate_files.c - upstream's two kinds of files, and the JSON of a sample. */
#include "api/generate_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

tx_samples_file tx__samples_file_of(const tx_config *cfg)
{
    tx_samples_file f = { .cfg = cfg };
    if (cfg->sample_input_file)
        f.kind = TX_SAMPLES_LINES;
    else if (cfg->genfile && cfg->num_samples)
        f.kind = TX_SAMPLES_FREE;
    return f;
}

/* ---- prompts ---- */

static tx_status read_lines(const tx_samples_file *f, tx_prompts *p, tx_sampling *s, int64_t max_positions)
{
    const tx_config *cfg = f->cfg;
    int64_t length = cfg->seq_length ? cfg->seq_length : max_positions, kept = 0;
    s->n_samples = 1;
    TX_TRY(tx__prompts_read_lines(p, cfg->sample_input_file, s->tok));
    for (int64_t i = 0; i < p->n; i++) {
        tx_prompt one = p->item[i];
        if ((int64_t)one.ids.n <= length / 2) {
            p->item[i] = p->item[kept];
            p->item[kept++] = one;
            continue;
        }
        tx_warn("%s:%lld: left out: the context has %zu tokens, more than half of the sequence length %lld",
                cfg->sample_input_file, (long long)i + 1, one.ids.n, (long long)length);
    }
    while (p->n > kept) {
        tx_free(p->item[--p->n].text);
        tx_ids_free(&p->item[p->n].ids);
    }
    if (!kept) return TX_FAIL(TX_ERR_ARG, "%s: every line is too long to continue", cfg->sample_input_file);
    return TX_OK;
}

tx_status tx__samples_file_prompts(const tx_samples_file *f, tx_prompts *p, tx_sampling *s, int64_t max_positions)
{
    if (f->kind == TX_SAMPLES_LINES) return read_lines(f, p, s, max_positions);
    if (f->kind == TX_SAMPLES_SINK) return TX_OK;
    return tx__prompts_add(p, s->tok, "", 0);
}

/* ---- writing ---- */

typedef struct file_sink {
    tx_writer w;
    tx_samples_file_kind kind;
    tx_status st;
} file_sink;

static tx_status put_text(tx_writer *w, const char *text)
{
    return tx_writer_put(w, text, strlen(text));
}

static tx_status put_lines(tx_writer *w, const tx_sample *s)
{
    TX_TRY(put_text(w, "\nContext:"));
    TX_TRY(tx_writer_put(w, s->prompt, s->n_prompt));
    TX_TRY(put_text(w, "\n\nMegatron-LM:"));
    TX_TRY(tx_writer_put(w, s->text, s->n_text));
    return put_text(w, "\n");
}

/* The dump of an object, which is let go. */
static tx_status dump(json_t *all, char **out)
{
    *out = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    return *out ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a line of JSON");
}

static tx_status put_free(tx_writer *w, const tx_sample *s)
{
    char *line;
    TX_TRY(dump(json_pack("{s:o, s:I, s:b}", "text", json_stringn(s->text, s->n_text), "length", (json_int_t)s->n_ids,
                          "finished", !strcmp(s->finish, "eod")),
                &line));
    tx_status st = put_text(w, line);
    if (!st) st = put_text(w, "\n");
    free(line);
    return st;
}

static void write_sample(void *user, const tx_sample *s)
{
    file_sink *f = user;
    if (!f->st) f->st = f->kind == TX_SAMPLES_LINES ? put_lines(&f->w, s) : put_free(&f->w, s);
}

tx_status tx__samples_file_write(const tx_samples_file *f, const tx_sampling *s, tx_decoder *d, const tx_prompts *p)
{
    file_sink sink = { .kind = f->kind };
    tx_str name = { 0 };
    tx_status st;
    if (f->kind == TX_SAMPLES_FREE)
        TX_GOTO(tx_str_puts(&name, f->cfg->genfile));
    else if (f->cfg->sample_output_file)
        TX_GOTO(tx_str_puts(&name, f->cfg->sample_output_file));
    else {
        TX_GOTO(tx_str_printf(&name, "%s.out", f->cfg->sample_input_file));
        tx_info("--sample-output-file is not given: writing %s", name.data);
    }
    TX_GOTO(tx_writer_open(&sink.w, name.data));
    st = tx__samples_run(s, d, p, &(tx_generate_sink){ .sample = write_sample, .user = &sink });
    if (!st) st = sink.st;
    if (!st) TX_GOTO(tx_writer_commit(&sink.w));
    if (st) tx_writer_abort(&sink.w);
out:
    tx_str_free(&name);
    return st;
}

/* ---- JSON ---- */

static json_t *ids_json(const int32_t *id, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) json_array_append_new(list, json_integer(id[i]));
    return list;
}

static json_t *logprobs_json(const tx_sample *s)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < s->n_ids; i++) json_array_append_new(list, json_real(s->logprob[i]));
    return list;
}

/* The likeliest after a filter: [[id, logprob], ...]. */
static json_t *row_json(const tx_top_token *top, int n)
{
    json_t *list = json_array();
    for (int i = 0; list && i < n && top[i].id >= 0; i++)
        json_array_append_new(list, json_pack("[i, f]", (int)top[i].id, top[i].logprob));
    return list;
}

static json_t *top_json(const tx_sample *s)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < s->n_ids; i++) {
        json_t *stages = json_object();
        for (size_t k = 0; k < TX_N_STAGES; k++)
            json_object_set_new(stages, tx_sample_stage_names[k],
                                row_json(s->top + (i * TX_N_STAGES + k) * (size_t)s->n_top, s->n_top));
        json_array_append_new(list, stages);
    }
    return list;
}

tx_status tx_sample_json(char **out, const tx_sample *s, bool with_text)
{
    char *line;
    json_t *all = json_object();
    if (with_text) json_object_set_new(all, "prompt", json_stringn(s->prompt, s->n_prompt));
    json_object_set_new(all, "prompt_index", json_integer(s->prompt_index));
    json_object_set_new(all, "sample_index", json_integer(s->sample_index));
    if (with_text) json_object_set_new(all, "text", json_stringn(s->text, s->n_text));
    json_object_set_new(all, "tokens", ids_json(s->ids, s->n_ids));
    json_object_set_new(all, "finish_reason", json_string(s->finish));
    if (s->logprob) json_object_set_new(all, "logprobs", logprobs_json(s));
    if (s->top) json_object_set_new(all, "top_logprobs", top_json(s));
    if (s->is_scored) json_object_set_new(all, "score", json_real(s->score));
    TX_TRY(dump(all, &line));
    tx_status st = tx_memdup0(out, line, strlen(line), "a line of JSON");
    free(line);
    return st;
}
