/* inspect_samples.c - the job inspect-samples: the samples of a run, from its own flags and by its own code, and how
 * often it reads each document. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/inspect_samples.h"
#include "api/run_common.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "data/data_groups.h"
#include "data/tokenizer_config.h"
#include "train/loop.h"

typedef tx__sample_view view;

static bool is_bert(const view *v)
{
    return v->cfg->model_type == TX_MODEL_BERT;
}

/* ---- samples ---- */

tx_status tx__put_sample_begin(const tx__sample_view *v, tx_str *out, int64_t i, int dataset)
{
    TX_TRY(tx_str_printf(out, "{\"sample\":%lld,", (long long)i));
    if (v->group) {
        TX_TRY(tx_str_puts(out, "\"group\":"));
        TX_TRY(tx__report_quote(out, v->group, strlen(v->group)));
        TX_TRY(tx_str_puts(out, ","));
    }
    return v->blend->n_datasets > 1 ? tx_str_printf(out, "\"dataset\":%d,", dataset) : TX_OK;
}

tx_status tx__put_ids(tx_str *out, const char *name, const int32_t *x, int64_t n)
{
    TX_TRY(tx_str_printf(out, "\"%s\":[", name));
    for (int64_t k = 0; k < n; k++) TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", x[k]));
    return tx_str_puts(out, "]");
}

static tx_status show_samples(view *v)
{
    int64_t n = v->blend->n_samples;
    if (v->cfg->inspect_num_samples < n) n = v->cfg->inspect_num_samples;
    tx_str line = { 0 };
    tx_status st = TX_OK;
    for (int64_t i = 0; i < n; i++) {
        line.len = 0;
        TX_GOTO(is_bert(v) ? tx__put_bert_sample(v, &line, i) : tx__put_gpt_sample(v, &line, i));
        TX_GOTO(tx__report_line(v->report, "%s", line.data));
    }
out:
    tx_str_free(&line);
    return st;
}

/* ---- statistics ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* {"times":0,"documents":..} ...: passes rounded to whole ones, of the documents that are read at all. Sorted input. */
static tx_status put_histogram(tx_str *out, const double *passes, int64_t n)
{
    const char *gap = "";
    TX_TRY(tx_str_puts(out, ",\"histogram\":["));
    for (int64_t i = 0, same; i < n; i += same) {
        double times = rint(passes[i]);
        for (same = 1; i + same < n && rint(passes[i + same]) == times;) same++;
        TX_TRY(tx_str_printf(out, "%s{\"times\":%.0f,\"documents\":%lld}", gap, times, (long long)same));
        gap = ",";
    }
    return tx_str_puts(out, "]}");
}

static tx_status put_stats(view *v, tx_str *out, double n_tokens, double *passes, int64_t n_docs, int64_t n_empty)
{
    int64_t never = 0;
    qsort(passes, (size_t)n_docs, sizeof *passes, by_value);
    while (never < n_docs && passes[never] == 0) never++;
    TX_TRY(tx_str_printf(out, "{\"split\":\"%s\",\"samples\":%lld,\"tokens\":%.0f,\"documents\":%lld,\"empty\":%lld",
                         tx_eval_split_word(v->cfg->inspect_split), (long long)v->wanted, n_tokens,
                         (long long)(n_docs + n_empty), (long long)n_empty));
    TX_TRY(tx_str_printf(out, ",\"never\":%lld,\"min\":%.4g,\"median\":%.4g,\"max\":%.4g", (long long)never, passes[0],
                         passes[(n_docs - 1) / 2], passes[n_docs - 1]));
    return put_histogram(out, passes + never, n_docs - never);
}

/* Tokens of a document; one of a GPT is one item of the file, whatever doc_idx says. */
static double document_size(const view *v, const tx_indexed *ix, int64_t d)
{
    double n = 0;
    if (!is_bert(v)) return tx_indexed_size(ix, d);
    for (int64_t i = tx_indexed_doc_begin(ix, d); i < tx_indexed_doc_begin(ix, d + 1); i++) n += tx_indexed_size(ix, i);
    return n;
}

/* How often each document is read: its tokens read over its tokens, so that a part counts as a part. */
static tx_status show_stats(view *v)
{
    const tx_config *cfg = v->cfg;
    int64_t bound[TX_N_SPLITS + 1], kept = 0;
    tx_indexed ix = { 0 };
    tx_data_groups groups;
    tx_str line = { 0 };
    double *read = NULL, n_tokens = 0;
    tx_status st;
    if (cfg->data_path.n != 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--stats counts the documents of one dataset: give one --data-path");
    TX_TRY(tx_data_groups_open(&groups, cfg));
    TX_GOTO(tx_indexed_open(&ix, groups.group[0].set[0].path));
    TX_GOTO(tx_split_bounds(bound, cfg->split, is_bert(v) ? ix.n_docs : ix.n_items));
    int64_t first = bound[v->split], n = bound[v->split + 1] - first;
    TX_GOTO(tx_alloc(&read, (size_t)n, sizeof *read, "the counts of documents"));
    if (is_bert(v))
        tx__count_bert_tokens(v, read, first);
    else
        TX_GOTO(tx__count_gpt_tokens(v, read, first));
    for (int64_t d = 0; d < n; d++) {
        double size = document_size(v, &ix, first + d);
        n_tokens += read[d];
        if (size > 0) read[kept++] = read[d] / size;
    }
    TX_GOTO(put_stats(v, &line, n_tokens, read, kept, n - kept));
    TX_GOTO(tx__report_line(v->report, "%s", line.data));
out:
    tx_free(read);
    tx_str_free(&line);
    tx_indexed_close(&ix);
    tx_data_groups_close(&groups);
    return st;
}

/* ---- the job ---- */

static tx_status find_split(view *v, const tx_train_data *data)
{
    int64_t wanted[TX_N_SPLITS];
    v->split = tx_split_asked(v->cfg->inspect_split);
    tx_train_sample_counts(v->cfg, wanted);
    v->wanted = wanted[v->split];
    if (tx_train_data_groups(data, v->split)) return TX_OK;
    if (!v->cfg->data_path.n)
        return TX_FAIL(TX_ERR_ARG, "no data is named for the %s split, or it holds no sample of %lld tokens",
                       tx_eval_split_word(v->cfg->inspect_split), (long long)v->cfg->seq_length);
    return TX_FAIL(TX_ERR_ARG, "the %s part of the data (--split %s) holds no sample of %lld tokens",
                   tx_eval_split_word(v->cfg->inspect_split), v->cfg->split, (long long)v->cfg->seq_length);
}

static tx_status open_tokenizer(view *v)
{
    const tx_config *cfg = v->cfg;
    if (tx__tokenizer_is_given(cfg) || cfg->load) TX_TRY(tx__tokenizer_at_load(cfg, &v->tok));
    const char *flag = tx_trainer_eod_flag(cfg);
    if (flag && !v->tok) return TX_FAIL(TX_ERR_ARG, "%s needs the tokenizer: give --vocab-file and --merge-file", flag);
    if (flag && tx_tokenizer_eod(v->tok) < 0)
        return TX_FAIL(TX_ERR_ARG, "%s: the vocabulary has no <|endoftext|>", flag);
    return TX_OK;
}

tx_status tx_inspect_samples(const tx_config *cfg, tx_line_fn *line, void *user)
{
    tx__report report = { .line = line, .user = user };
    view v = { .cfg = cfg, .report = &report };
    tx_train_data *data = NULL;
    tx_status st;
    TX_GOTO(open_tokenizer(&v));
    TX_GOTO(tx__run_data_open(&data, cfg, v.tok ? tx_tokenizer_vocab_size(v.tok) : 0,
                              v.tok ? tx_tokenizer_eod(v.tok) : -1, is_bert(&v) ? v.tok : NULL));
    TX_GOTO(find_split(&v, data));
    if (is_bert(&v)) TX_GOTO(tx_bert_sample_init(&v.bert, cfg->seq_length));
    TX_GOTO(tx_alloc(&v.tokens, (size_t)cfg->seq_length + 1, sizeof *v.tokens, "a sample"));
    for (int g = 0; g < tx_train_data_groups(data, v.split); g++) {
        v.blend = tx_train_data_group(data, v.split, g, &v.group);
        TX_GOTO(cfg->stats ? show_stats(&v) : show_samples(&v));
    }
out:
    tx_free(v.tokens);
    tx_sample_pieces_free(&v.pieces);
    tx_bert_sample_deinit(&v.bert);
    tx_train_data_close(data);
    tx_tokenizer_close(v.tok);
    tx_str_free(&report.text);
    return st;
}
