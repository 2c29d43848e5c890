/* analyze_data.c - the whole of `triax analyze-data`: how difficult each training sample is, by metrics, as files that
 * training by difficulty reads (data/draws.h).
 *
 *      rank 0  samples 0 .. n/2    ->  METRIC/rank0.part  \
 *      rank 1  samples n/2 .. n    ->  METRIC/rank1.part  /  rank 0 -> METRIC/METRIC_sample_to_metric.bin and so on
 *
 *  A part is numbers of 64 bits: a value for each of the rank's samples, or a vector that is summed over them. Source:
 * Megatron-DeepSpeed, examples_deepspeed/data_efficiency/analyze_data.py; DeepSpeed, data_sampling/data_analyzer.py. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/ranks.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "data/bert_dataset.h"
#include "data/metric_files.h"
#include "data/metric_index.h"
#include "data/tokenizer_config.h"
#include "data/train_data.h"
#include "kinds/sample_metrics.h"
#include "model/model.h"
#include "triax/data.h"
#include "triax/jobs.h"

typedef struct analysis {
    const tx_config *cfg;
    const tx_grid *grid;
    const tx_blend *data;
    int64_t first, end;     /* of this rank's samples */
    int64_t n_ids;          /* padded vocabulary, and one more, as upstream counts */
    int64_t n_tokens;       /* of a row */
    double *rarity;         /* [n_ids] -log p of each token; NULL: not read */
    int64_t length_weight;  /* seqlen_vocab_rarity: what a token's length counts */
    int32_t *row, *scratch; /* of one sample */
    tx_map *part;           /* [ranks] while they are put together */
} analysis;

/* ---- paths ---- */

static tx_status path_of(tx_str *out, const analysis *a, const char *name, const char *file)
{
    out->len = 0;
    return tx_str_printf(out, "%s/%s/%s", a->cfg->save, name, file);
}

static tx_status part_of(tx_str *out, const analysis *a, const char *name, int rank)
{
    char file[40];
    snprintf(file, sizeof file, "rank%d.part", rank);
    return path_of(out, a, name, file);
}

/* ---- one sample ---- */

/* The tokens that count: all of a GPT's sample, with the label at its end; of a BERT's those before the padding. */
static tx_status read_sample(const analysis *a, int64_t i, int64_t *n)
{
    TX_TRY(tx_blend_get(a->data, a->scratch, a->row, i));
    *n = a->n_tokens;
    if (tx_samples_of(a->cfg)->masked) *n = *tx_bert_ids_of(a->row, a->cfg->seq_length).n_tokens;
    for (int64_t k = 0; k < *n; k++)
        if (a->row[k] < 0 || a->row[k] >= a->n_ids)
            return TX_FAIL(TX_ERR_FORMAT, "sample %lld has token %d, and the vocabulary %lld; give the dataset's own",
                           (long long)i, (int)a->row[k], (long long)a->n_ids - 1);
    return TX_OK;
}

static int64_t rarity_of(const analysis *a, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += a->rarity[a->row[k]];
    return (int64_t)sum;
}

static int64_t value_of(const analysis *a, enum tx_sample_metric kind, int64_t n)
{
    switch (kind) {
    case TX_METRIC_VOCAB_RARITY:
        return rarity_of(a, n);
    case TX_METRIC_SEQLEN:
        return n;
    case TX_METRIC_SEQLEN_RARITY:
        return n * a->length_weight + rarity_of(a, n);
    case TX_METRIC_VOCAB_FREQ:
        break;
    }
    TX_ASSERT(false && "a metric with a value for each sample");
    return 0;
}

/* ---- map: this rank's samples into its part ---- */

static void tell(const analysis *a, int64_t i, double *shown)
{
    if (tx_clock() - *shown < 1) return;
    *shown = tx_clock();
    tx_log(TX_LOG_PROGRESS, "analyzing %lld/%lld samples", (long long)(i - a->first), (long long)(a->end - a->first));
}

static tx_status map_samples(const analysis *a, enum tx_sample_metric kind, tx_writer *w)
{
    bool summed = tx_sample_metric_is_summed(kind);
    int64_t *sum = NULL, n;
    double shown = tx_clock();
    tx_status st = TX_OK;
    if (summed) TX_TRY(tx_alloc(&sum, (size_t)a->n_ids, sizeof *sum, "how often tokens occur"));
    for (int64_t i = a->first; i < a->end && !st; i++) {
        tell(a, i, &shown);
        st = read_sample(a, i, &n);
        if (st) break;
        for (int64_t k = 0; summed && k < n; k++) sum[a->row[k]]++;
        int64_t value = summed ? 0 : value_of(a, kind, n);
        if (!summed) st = tx_writer_put(w, &value, sizeof value);
    }
    if (summed && !st) st = tx_writer_put(w, sum, (size_t)a->n_ids * sizeof *sum);
    tx_free(sum);
    return st;
}

static tx_status map_metric(const analysis *a, enum tx_sample_metric kind)
{
    tx_str path = { 0 };
    tx_writer w = { 0 };
    tx_status st;
    TX_GOTO(path_of(&path, a, tx_sample_metric_word(kind), ""));
    TX_GOTO(tx_make_dirs(path.data));
    TX_GOTO(part_of(&path, a, tx_sample_metric_word(kind), a->grid->rank));
    TX_GOTO(tx_writer_open(&w, path.data));
    TX_GOTO(map_samples(a, kind, &w));
    TX_GOTO(tx_writer_commit(&w));
out:
    tx_writer_abort(&w);
    tx_str_free(&path);
    return st;
}

/* ---- reduce: rank 0 makes one of all parts ---- */

static int64_t first_of(const analysis *a, int rank)
{
    return a->data->n_samples * rank / a->grid->size;
}

static int64_t number_at(const tx_map *part, int64_t k)
{
    int64_t value;
    memcpy(&value, part->data + k * 8, 8);
    return value;
}

static int64_t value_at(const void *user, int64_t i)
{
    const analysis *a = user;
    int rank = (int)(i * a->grid->size / a->data->n_samples);
    while (i < first_of(a, rank)) rank--;
    while (i >= first_of(a, rank + 1)) rank++;
    return number_at(&a->part[rank], i - first_of(a, rank));
}

static int64_t sum_at(const void *user, int64_t id)
{
    const analysis *a = user;
    int64_t sum = 0;
    for (int r = 0; r < a->grid->size; r++) sum += number_at(&a->part[r], id);
    return sum;
}

static int64_t all_ids(const void *user, int64_t row)
{
    (void)row;
    return ((const analysis *)user)->n_ids;
}

static tx_status open_parts(analysis *a, const char *name, bool summed)
{
    tx_str path = { 0 };
    tx_status st;
    TX_GOTO(tx_alloc(&a->part, (size_t)a->grid->size, sizeof *a->part, "the ranks' parts"));
    for (int r = 0; r < a->grid->size; r++) {
        int64_t n = summed ? a->n_ids : first_of(a, r + 1) - first_of(a, r);
        TX_GOTO(part_of(&path, a, name, r));
        if (!tx_path_exists(path.data)) {
            st = TX_FAIL(TX_ERR_NOTFOUND,
                         "%s: rank %d has written it, and rank 0 does not see it: all ranks need one "
                         "folder --save",
                         path.data, r);
            goto out;
        }
        TX_GOTO(tx_map_open(&a->part[r], path.data));
        TX_ASSERT(a->part[r].size == (size_t)n * 8);
    }
out:
    tx_str_free(&path);
    return st;
}

static void remove_parts(analysis *a, const char *name)
{
    tx_str path = { 0 };
    for (int r = 0; a->part && r < a->grid->size; r++) {
        tx_map_close(&a->part[r]);
        if (part_of(&path, a, name, r))
            tx_warn("rank %d's part of %s stays in %s: %s", r, name, a->cfg->save, tx_last_error());
        else
            unlink(path.data);
    }
    tx_free(a->part);
    a->part = NULL;
    tx_str_free(&path);
}

static tx_status reduce_sum(analysis *a, const char *prefix)
{
    int64_t lo = sum_at(a, 0), hi = lo;
    for (int64_t id = 1; id < a->n_ids; id++) {
        int64_t n = sum_at(a, id);
        if (n < lo) lo = n;
        if (n > hi) hi = n;
    }
    const tx_metric_rows rows = { tx_metric_index_type(lo, hi), 1, all_ids, sum_at, a, false };
    return tx_metric_index_write(prefix, &rows);
}

static tx_status reduce_metric(analysis *a, enum tx_sample_metric kind)
{
    const char *name = tx_sample_metric_word(kind);
    bool summed = tx_sample_metric_is_summed(kind);
    char file[80];
    tx_str prefix = { 0 };
    tx_status st;
    snprintf(file, sizeof file, summed ? "%s_metric_value" : "%s", name);
    TX_GOTO(path_of(&prefix, a, name, file));
    TX_GOTO(open_parts(a, name, summed));
    const tx_metric_values values = { a->data->n_samples, value_at, a };
    TX_GOTO(summed ? reduce_sum(a, prefix.data) : tx_metric_files_write(prefix.data, &values));
    tx_info("%s: written", prefix.data);
out:
    remove_parts(a, name);
    tx_str_free(&prefix);
    return st;
}

/* ---- how rare tokens are ---- */

static tx_status take_frequencies(analysis *a, const tx_metric_index *ix)
{
    double all = 0, most = 0;
    if (ix->n_values != a->n_ids)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: is of a vocabulary of %lld, and this one has %lld: repeat --analyzing-metric "
                       "total_vocab_freq",
                       ix->prefix, (long long)ix->n_values, (long long)a->n_ids);
    TX_TRY(tx_alloc(&a->rarity, (size_t)a->n_ids, sizeof *a->rarity, "how rare tokens are"));
    for (int64_t id = 0; id < a->n_ids; id++) {
        int64_t n = tx_metric_index_at(ix, id);
        a->rarity[id] = n ? (double)n : 1;
        all += a->rarity[id];
    }
    for (int64_t id = 0; id < a->n_ids; id++) {
        a->rarity[id] = log(a->rarity[id] / all) * -1;
        most = fmax(most, a->rarity[id]);
    }
    /* so large that lengths come before rarities */
    a->length_weight = (int64_t)pow(10, ceil(log((double)a->cfg->seq_length * most) / log(10)) + 1);
    return TX_OK;
}

static tx_status read_frequencies(analysis *a)
{
    tx_metric_index ix = { 0 };
    tx_str prefix = { 0 }, bin = { 0 };
    tx_status st;
    if (a->rarity) return TX_OK;
    TX_GOTO(path_of(&prefix, a, "total_vocab_freq", "total_vocab_freq_metric_value"));
    TX_GOTO(tx_str_printf(&bin, "%s.bin", prefix.data));
    if (!tx_path_exists(bin.data)) {
        st = TX_FAIL(TX_ERR_NOTFOUND,
                     "%s: no such file. To analyze vocab rarity, first need to analyze the total vocab freq: "
                     "--analyzing-metric total_vocab_freq vocab_rarity",
                     bin.data);
        goto out;
    }
    TX_GOTO(tx_metric_index_open(&ix, prefix.data));
    st = take_frequencies(a, &ix);
out:
    tx_metric_index_close(&ix);
    tx_str_free(&prefix);
    tx_str_free(&bin);
    return st;
}

/* ---- the job ---- */

static bool needs_frequencies(enum tx_sample_metric kind)
{
    return kind == TX_METRIC_VOCAB_RARITY || kind == TX_METRIC_SEQLEN_RARITY;
}

static tx_status analyze(analysis *a)
{
    tx_comm *world = tx_grid_group(a->grid, TX_GROUP_WORLD);
    const tx_list *metrics = &a->cfg->analyzing_metric;
    for (int i = 0; i < metrics->n; i++) {
        enum tx_sample_metric kind = tx_sample_metric_of(metrics->item[i]);
        tx_status st = needs_frequencies(kind) ? read_frequencies(a) : TX_OK;
        if (!st) st = map_metric(a, kind);
        TX_TRY(tx_comm_agree(world, st));
        TX_TRY(tx_comm_agree(world, a->grid->rank == 0 ? reduce_metric(a, kind) : TX_OK));
    }
    return TX_OK;
}

static tx_status open_data(analysis *a, tx_train_data **data, tx_tokenizer **tok)
{
    const tx_config *cfg = a->cfg;
    const int64_t wanted[TX_N_SPLITS] = { 0 }; /* one epoch, or --train-data-exact-num-epochs */
    if (tx__tokenizer_is_given(cfg) || cfg->load) TX_TRY(tx__tokenizer_at_load(cfg, tok));
    int64_t vocab = *tok ? tx_tokenizer_vocab_size(*tok) : cfg->vocab_size,
            unit = cfg->make_vocab_size_divisible_by * cfg->tensor_model_parallel_size;
    if (!vocab)
        return TX_FAIL(TX_ERR_ARG, "analyze-data needs the tokenizer: give --vocab-file and --merge-file, "
                                   "--tokenizer-model or --vocab-size");
    if (cfg->fim_data && !*tok) return TX_FAIL(TX_ERR_ARG, "--fim-data needs the tokenizer: give --vocab-file");
    a->n_ids = (cfg->pad_vocab_size_to ? cfg->pad_vocab_size_to : tx_vocab_padded(vocab, unit)) + 1;
    TX_TRY(tx_train_data_open(data, cfg, wanted, vocab, *tok ? tx_tokenizer_eod(*tok) : -1, *tok));
    a->data = tx_train_data_split(*data, TX_SPLIT_TRAIN);
    if (a->data && a->data->n_samples) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: its train part holds no sample of %lld tokens",
                   tx_weighted_at(&cfg->data_path, 0, NULL), (long long)cfg->seq_length);
}

static tx_status run(tx_config *cfg, const tx_grid *grid)
{
    analysis a = { .cfg = cfg, .grid = grid };
    const tx_samples *kind = tx_samples_of(cfg);
    tx_train_data *data = NULL;
    tx_tokenizer *tok = NULL;
    tx_status st;
    cfg->mask_prob = 0; /* tokens as they are in the text, as upstream */
    TX_GOTO(tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), open_data(&a, &data, &tok)));
    a.first = first_of(&a, grid->rank);
    a.end = first_of(&a, grid->rank + 1);
    a.n_tokens = cfg->seq_length + !kind->masked;
    TX_GOTO(tx_alloc(&a.row, (size_t)kind->row_len(cfg->seq_length), sizeof *a.row, "a sample"));
    TX_GOTO(tx_alloc(&a.scratch, (size_t)kind->n_scratch * (size_t)cfg->seq_length, sizeof *a.scratch, "a sample"));
    tx_info("> analyzing %lld training samples by %d rank%s ...", (long long)a.data->n_samples, grid->size,
            grid->size == 1 ? "" : "s");
    TX_GOTO(analyze(&a));
out:
    tx_free(a.rarity);
    tx_free(a.row);
    tx_free(a.scratch);
    tx_train_data_close(data);
    tx_tokenizer_close(tok);
    return st;
}

tx_status tx_analyze_data(tx_config *cfg)
{
    tx_ranks ranks;
    tx_status st = tx_ranks_open(&ranks, cfg, NULL, NULL);
    if (!st) st = run(cfg, &ranks.grid);
    return tx_ranks_close(&ranks, st);
}
