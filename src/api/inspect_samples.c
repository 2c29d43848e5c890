/* inspect_samples.c - the job inspect-samples: the samples of a run, from its own flags and by its own code, and how
 * often it reads each document. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/report.h"
#include "api/run_common.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "data/data_groups.h"
#include "data/json_quote.h"
#include "data/sample_documents.h"
#include "data/tokenizer_config.h"
#include "train/loop.h"

typedef struct view {
    const tx_config *cfg;
    const tx_samples *kind;
    const tx_blend *blend; /* one group of the split's samples */
    const char *group;     /* its name, or NULL */
    tx_split split;
    int64_t wanted;    /* samples that the run reads of it */
    tx_tokenizer *tok; /* NULL: ids only */
    tx__report *report;
    int32_t *row, *scratch; /* room for one sample */
    tx_sample_pieces pieces;
} view;

/* ---- samples ---- */

/* Appends sample i as one JSON object. */
static tx_status put_sample(view *v, tx_str *out, int64_t i)
{
    int64_t own;
    int dataset = tx_blend_find(v->blend, i, &own);
    TX_TRY(tx_sample_pieces_read(&v->pieces, v->blend, i));
    TX_TRY(tx_blend_get(v->blend, v->scratch, v->row, i));
    TX_TRY(tx_str_printf(out, "{\"sample\":%lld,", (long long)i));
    if (v->group) {
        TX_TRY(tx_str_puts(out, "\"group\":"));
        TX_TRY(tx_json_quote(out, v->group, strlen(v->group)));
        TX_TRY(tx_str_puts(out, ","));
    }
    if (v->blend->n_datasets > 1) TX_TRY(tx_str_printf(out, "\"dataset\":%d,", dataset));
    const tx_sample_view sample = { .cfg = v->cfg,
                                    .tok = v->tok,
                                    .set = v->blend->dataset[dataset].set,
                                    .i = own,
                                    .row = v->row,
                                    .piece = v->pieces.piece,
                                    .n_pieces = v->pieces.n };
    TX_TRY(v->kind->show(out, &sample));
    return tx_str_puts(out, "}");
}

static tx_status show_samples(view *v)
{
    int64_t n = v->blend->n_samples;
    if (v->cfg->inspect_num_samples < n) n = v->cfg->inspect_num_samples;
    tx_str line = { 0 };
    tx_status st = TX_OK;
    for (int64_t i = 0; i < n; i++) {
        line.len = 0;
        TX_GOTO(put_sample(v, &line, i));
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

/* read[d] += tokens of document first + d that the run's samples hold: what is a label only counts in the next sample.
 * Of a BERT before they are cut down. Of one dataset. */
static tx_status count_tokens(view *v, double *read, int64_t first)
{
    int64_t len = v->blend->n_samples;
    const tx_sample_pieces *p = &v->pieces;
    for (int64_t i = 0; i < v->wanted; i++) {
        TX_TRY(tx_sample_pieces_read(&v->pieces, v->blend, i % len)); /* evaluation begins again at the end */
        for (int64_t k = 0; k < p->n; k++)
            read[p->piece[k].document - first] +=
                (double)(p->piece[k].n_tokens - (k == p->n - 1 ? v->kind->n_shared : 0));
    }
    return TX_OK;
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
    TX_GOTO(tx_split_bounds(bound, cfg->split, tx_samples_documents(v->kind, &ix)));
    int64_t first = bound[v->split], n = bound[v->split + 1] - first;
    TX_GOTO(tx_alloc(&read, (size_t)n, sizeof *read, "the counts of documents"));
    TX_GOTO(count_tokens(v, read, first));
    for (int64_t d = 0; d < n; d++) {
        double size = (double)tx_samples_document_size(v->kind, &ix, first + d);
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
    if (cfg->fim_data && !v->tok)
        return TX_FAIL(TX_ERR_ARG, "--fim-data needs the tokenizer: give --vocab-file and --merge-file, or "
                                   "--tokenizer-model");
    if (flag && tx_tokenizer_eod(v->tok) < 0)
        return TX_FAIL(TX_ERR_ARG, "%s: the vocabulary has no <|endoftext|>", flag);
    return TX_OK;
}

tx_status tx_inspect_samples(const tx_config *cfg, tx_line_fn *line, void *user)
{
    tx__report report = { .line = line, .user = user };
    view v = { .cfg = cfg, .kind = tx_samples_of(cfg), .report = &report };
    size_t s = (size_t)cfg->seq_length;
    tx_train_data *data = NULL;
    tx_status st;
    TX_GOTO(open_tokenizer(&v));
    TX_GOTO(tx__run_data_open(&data, cfg, v.tok ? tx_tokenizer_vocab_size(v.tok) : 0,
                              v.tok ? tx_tokenizer_eod(v.tok) : -1, v.tok));
    TX_GOTO(find_split(&v, data));
    TX_GOTO(tx_alloc(&v.row, (size_t)v.kind->row_len(cfg->seq_length), sizeof *v.row, "a sample"));
    TX_GOTO(tx_alloc(&v.scratch, (size_t)v.kind->n_scratch * s, sizeof *v.scratch, "a sample"));
    for (int g = 0; g < tx_train_data_groups(data, v.split); g++) {
        v.blend = tx_train_data_group(data, v.split, g, &v.group);
        TX_GOTO(cfg->stats ? show_stats(&v) : show_samples(&v));
    }
out:
    tx_free(v.row);
    tx_free(v.scratch);
    tx_sample_pieces_free(&v.pieces);
    tx_train_data_close(data);
    tx_tokenizer_close(v.tok);
    tx_str_free(&report.text);
    return st;
}
