/* train_data.c - opens what the data options name. Sources: Megatron-DeepSpeed megatron/data/gpt_dataset.py,
 * build_train_valid_test_datasets (microsoft), build_dataset_group (bigscience). */
#include "data/train_data.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/data_groups.h"

/* A dataset of either kind: one of the two is set. */
typedef struct data_file {
    tx_gpt_data *gpt;
    tx_bert_data *bert;
} data_file;

typedef struct part {
    tx_blend blend;
    const char *name;
} part;

struct tx_train_data {
    tx_data_groups groups;
    data_file *file; /* [n_files] every dataset of every group, in order */
    int n_files;
    int64_t vocab_size;
    int32_t eod;
    const tx_tokenizer *bert;
    part *part[TX_N_SPLITS]; /* [n_parts] */
    int n_parts[TX_N_SPLITS];
};

tx_status tx_train_data_exists(const tx_config *cfg)
{
    tx_data_groups all;
    TX_TRY(tx_data_groups_open(&all, cfg));
    tx_status st = TX_OK;
    for (int g = 0; g < all.n; g++)
        for (int i = 0; i < all.group[g].n && !st && !all.group[g].mock; i++)
            st = tx_indexed_exists(all.group[g].set[i].path);
    tx_data_groups_close(&all);
    return st;
}

static bool is_keyed(const tx_config *cfg)
{
    return cfg->data_order == TX_DATA_ORDER_KEYED;
}

static tx_status open_gpt(tx_gpt_data **out, const tx_config *cfg, const tx_data_group *g, const tx_data_set *set,
                          const int64_t *n_samples, const tx_train_data *data)
{
    const char *const index[] = { cfg->train_doc_idx_path, cfg->train_sample_idx_path, cfg->train_shuffle_idx_path };
    tx_gpt_data_opts o = {
        .path = set->path,
        .mock = g->mock,
        .eod = data->eod,
        .split = g->divided ? cfg->split : NULL,
        .range = set->range,
        .range_for = g->split,
        .seq_length = cfg->seq_length,
        .seed = cfg->seed,
        .rule = cfg->data_order == TX_DATA_ORDER_BIGSCIENCE ? TX_EPOCH_BIGSCIENCE : TX_EPOCH_MICROSOFT,
        .keyed = is_keyed(cfg),
        .exact_epochs = cfg->train_data_exact_num_epochs,
        .index_path = index[0] ? index : NULL,
        .vocab_size = data->vocab_size,
    };
    memcpy(o.n_samples, n_samples, sizeof o.n_samples);
    return tx_gpt_data_open(out, &o);
}

static tx_status open_bert(tx_bert_data **out, const tx_config *cfg, const tx_data_group *g, const tx_data_set *set,
                           const int64_t *n_samples, const tx_tokenizer *tok, int64_t vocab_size)
{
    tx_bert_data_opts o = {
        .path = set->path,
        .split = g->divided ? cfg->split : NULL,
        .range = set->range,
        .range_for = g->split,
        .seq_length = cfg->seq_length,
        .seed = cfg->seed,
        .tok = tok,
        .vocab_size = vocab_size,
        .index_path = cfg->train_idx_path,
        .mask_prob = cfg->mask_prob,
        .short_seq_prob = cfg->short_seq_prob,
        .max_ngrams = (int)cfg->bert_max_ngrams,
        .always_masked = cfg->bert_mask_type == TX_BERT_MASK_T5,
        .binary_head = cfg->bert_binary_head,
    };
    memcpy(o.n_samples, n_samples, sizeof o.n_samples);
    return tx_bert_data_open(out, &o);
}

/* A file's split k; false: it has none. */
static bool file_split(tx_blend_part *out, const data_file *f, tx_split k)
{
    *out = (tx_blend_part){ 0 };
    if (f->bert)
        out->bert = tx_bert_data_split(f->bert, k);
    else
        out->gpt = tx_gpt_data_split(f->gpt, k);
    return out->bert || out->gpt;
}

static int64_t documents_of(const data_file *f)
{
    return f->bert ? tx_bert_data_documents(f->bert) : tx_gpt_data_documents(f->gpt);
}

/* Samples of each split: of all its epochs, or of keyed order, which has no end, those of one. */
static void tell_file(const data_file *f, const char *path, double seconds)
{
    int64_t n[TX_N_SPLITS] = { 0 };
    tx_blend_part p;
    if (!tx_log_wants(TX_LOG_DEBUG)) return;
    for (int k = 0; k < TX_N_SPLITS; k++)
        if (file_split(&p, f, (tx_split)k)) n[k] = p.gpt ? tx_gpt_dataset_len(p.gpt) : tx_bert_dataset_len(p.bert);
    tx_debug("data: %s: %lld documents; samples: train %lld, valid %lld, test %lld; opened and indexed in %.3f s", path,
             (long long)documents_of(f), (long long)n[TX_SPLIT_TRAIN], (long long)n[TX_SPLIT_VALID],
             (long long)n[TX_SPLIT_TEST], seconds);
}

/* One dataset of a group; n_samples are wanted of it. */
static tx_status open_file(tx_train_data *data, const tx_config *cfg, const tx_data_group *g, const tx_data_set *set,
                           const int64_t *n_samples)
{
    data_file *f = &data->file[data->n_files];
    double start = tx_clock();
    if (data->bert)
        TX_TRY(open_bert(&f->bert, cfg, g, set, n_samples, data->bert, data->vocab_size));
    else
        TX_TRY(open_gpt(&f->gpt, cfg, g, set, n_samples, data));
    data->n_files++;
    tell_file(f, set->path, tx_clock() - start);
    return TX_OK;
}

/* The group's samples for split k out of its files; upstream too wants all or none of them to have documents there. */
static tx_status blend_split(tx_blend *out, const tx_data_group *g, const data_file *file, const double *weight,
                             tx_split k, int64_t n_samples, bool keyed)
{
    tx_blend_part ds[TX_BLEND_MAX];
    int missing = -1, n_there = 0;
    for (int i = 0; i < g->n; i++) {
        bool there = file_split(&ds[i], &file[i], k);
        n_there += there;
        if (!there) missing = i;
    }
    if (!n_there) return TX_OK;
    if (!g->blend) return tx_blend_of_one(out, ds[0], keyed);
    if (!n_samples) return TX_OK;
    if (n_there < g->n)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: has no document for the %s split, which other datasets of the blend have: change --split "
                       "or name that data apart (--valid-data-path, --test-data-path)",
                       g->set[missing].path, tx_split_name(k));
    return tx_blend_build(out, ds, weight, g->n, n_samples, keyed);
}

static tx_status add_part(tx_train_data *data, tx_split k, tx_blend *blend, const char *name)
{
    if (!blend->n_samples) return TX_OK;
    tx_status st = tx_realloc(&data->part[k], (size_t)data->n_parts[k] + 1, sizeof(part), "a dataset");
    if (st)
        tx_blend_free(blend);
    else
        data->part[k][data->n_parts[k]++] = (part){ *blend, name };
    return st;
}

/* The datasets of one group into the splits of which samples are wanted. */
static tx_status open_group(tx_train_data *data, const tx_config *cfg, const tx_data_group *g, const int64_t *wanted)
{
    int first = data->n_files;
    double weight[TX_BLEND_MAX];
    int64_t size[TX_N_SPLITS] = { 0 }, request[TX_N_SPLITS], n_samples[TX_N_SPLITS] = { 0 };
    for (int k = 0; k < TX_N_SPLITS; k++)
        if (g->divided || k == (int)g->split) n_samples[k] = wanted[k];
    if (g->name) tx_info(" > dataset group %s, for the %s split", g->name, tx_split_name(g->split));
    for (int i = 0; i < g->n; i++) weight[i] = g->blend ? g->set[i].weight : 1;
    TX_TRY(tx_blend_normalize(weight, g->n));
    for (int i = 0; i < g->n; i++) {
        memcpy(request, n_samples, sizeof request);
        for (int k = 0; k < TX_N_SPLITS; k++) {
            if (g->blend) TX_TRY(tx_blend_request(&request[k], n_samples[k], weight[i]));
            if (__builtin_add_overflow(size[k], request[k], &size[k]))
                return TX_FAIL(TX_ERR_ARG, "%lld samples of a blend cannot be counted", (long long)n_samples[k]);
        }
        TX_TRY(open_file(data, cfg, g, &g->set[i], request));
    }
    for (int k = 0; k < TX_N_SPLITS; k++) {
        tx_blend blend = { 0 };
        TX_TRY(blend_split(&blend, g, data->file + first, weight, (tx_split)k, g->exact ? n_samples[k] : size[k],
                           is_keyed(cfg)));
        TX_TRY(add_part(data, (tx_split)k, &blend, g->name));
    }
    return TX_OK;
}

tx_status tx_train_data_open(tx_train_data **out, const tx_config *cfg, const int64_t *n_samples, int64_t vocab_size,
                             int32_t eod, const tx_tokenizer *bert)
{
    tx_train_data *data = NULL;
    size_t n_files = 0;
    tx_status st;
    TX_GOTO(tx_alloc(&data, 1, sizeof *data, "a dataset"));
    TX_GOTO(tx_data_groups_open(&data->groups, cfg));
    for (int g = 0; g < data->groups.n; g++) n_files += (size_t)data->groups.group[g].n;
    TX_GOTO(tx_alloc(&data->file, n_files, sizeof *data->file, "a dataset"));
    data->vocab_size = vocab_size;
    data->eod = eod;
    data->bert = bert;
    tx_info("> building train, validation, and test datasets for %s ...", bert ? "BERT" : "GPT");
    for (int g = 0; g < data->groups.n; g++) TX_GOTO(open_group(data, cfg, &data->groups.group[g], n_samples));
    tx_info("> finished creating %s datasets ...", bert ? "BERT" : "GPT");
    *out = data;
    return TX_OK;
out:
    tx_train_data_close(data);
    return st;
}

/* Of the smallest dataset. */
static int64_t fewest_documents(const tx_train_data *data)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < data->n_files; i++) {
        int64_t n = documents_of(&data->file[i]);
        if (n < least) least = n;
    }
    return least;
}

/* What --split would have to be for so many documents; NULL: there are too few. */
static const char *split_that_leaves_some(int64_t n_docs)
{
    static const char *const split[] = { "949,50,1", "90,5,5", "8,1,1", "1,1,1" };
    int64_t b[TX_N_SPLITS + 1];
    for (size_t i = 0; i < sizeof split / sizeof *split; i++)
        if (!tx_split_bounds(b, split[i], n_docs) && b[0] < b[1] && b[1] < b[2] && b[2] < b[3]) return split[i];
    return NULL;
}

static void warn_of_split(const tx_train_data *data, const tx_config *cfg, tx_split k)
{
    int64_t n_docs = fewest_documents(data);
    const char *better = split_that_leaves_some(n_docs);
    const char *shortest = data->n_files > 1 ? "the smallest of the datasets" : data->groups.group[0].set[0].path;
    tx_warn_once("--split %s gives the %s split none of the %lld document%s of %s: there will be no evaluation on it; "
                 "write %s%s, name data apart (--train-data-path, --valid-data-path, --test-data-path), or leave it "
                 "out (--eval-iters 0)",
                 cfg->split, tx_split_name(k), (long long)n_docs, n_docs == 1 ? "" : "s", shortest,
                 better ? "--split " : "more documents (plain text: preprocess-data --text-split line or blank-line)",
                 better ? better : "");
}

void tx_train_data_warn_of_empty(const tx_train_data *data, const tx_config *cfg)
{
    enum { MANY = 1000000000 }; /* documents of which the least share is some */
    static const char *const flag[] = { [TX_SPLIT_VALID] = "--valid-data-path", [TX_SPLIT_TEST] = "--test-data-path" };
    int64_t b[TX_N_SPLITS + 1];
    bool divided = data->groups.n && data->groups.group[0].divided;
    for (int k = TX_SPLIT_VALID; k < TX_N_SPLITS && cfg->eval_iters; k++) {
        if (data->n_parts[k]) continue;
        if (divided && !tx_split_bounds(b, cfg->split, MANY) && b[k] < b[k + 1])
            warn_of_split(data, cfg, (tx_split)k);
        else if (cfg->given.eval_iters)
            tx_warn_once(
                "--eval-iters %lld: there will be no evaluation on the %s split, for %s%s; --eval-iters 0 says "
                "so",
                (long long)cfg->eval_iters, tx_split_name((tx_split)k),
                divided ? "--split gives it no share: " : "it has no data: give ",
                divided ? "write --split 8,1,1" : flag[k]);
    }
}

void tx_train_data_close(tx_train_data *data)
{
    if (!data) return;
    for (int k = 0; k < TX_N_SPLITS; k++) {
        for (int g = 0; g < data->n_parts[k]; g++) tx_blend_free(&data->part[k][g].blend);
        tx_free(data->part[k]);
    }
    for (int i = 0; i < data->n_files; i++) {
        tx_gpt_data_close(data->file[i].gpt);
        tx_bert_data_close(data->file[i].bert);
    }
    tx_free(data->file);
    tx_data_groups_close(&data->groups);
    tx_free(data);
}

tx_status tx_train_data_phase(tx_train_data *data, const json_t *saved, int64_t consumed, json_t **out)
{
    *out = NULL;
    if (!data->n_parts[TX_SPLIT_TRAIN]) return TX_OK;
    bool keyed = data->part[TX_SPLIT_TRAIN]->blend.keyed;
    if (consumed && keyed != (saved != NULL))
        tx_warn_once(
            "--data-order: the checkpoint's %lld samples came in %s order, this run goes on in another: samples may "
            "come again",
            (long long)consumed, keyed ? "Megatron's" : "keyed");
    if (!keyed) return TX_OK;
    return tx_blend_phase(&data->part[TX_SPLIT_TRAIN]->blend, saved, consumed, out);
}

int tx_train_data_groups(const tx_train_data *data, tx_split split)
{
    return data->n_parts[split];
}

const tx_blend *tx_train_data_group(const tx_train_data *data, tx_split split, int g, const char **name)
{
    TX_ASSERT(g >= 0 && g < data->n_parts[split]);
    if (name) *name = data->part[split][g].name;
    return &data->part[split][g].blend;
}

tx_split tx_split_asked(enum tx_eval_split asked)
{
    switch (asked) {
    case TX_EVAL_SPLIT_TRAIN:
    case TX_EVAL_SPLIT_ALL:
        return TX_SPLIT_TRAIN;
    case TX_EVAL_SPLIT_VALID:
        return TX_SPLIT_VALID;
    case TX_EVAL_SPLIT_TEST:
        return TX_SPLIT_TEST;
    }
    TX_ASSERT(!"a word of --eval-split");
    return TX_SPLIT_TRAIN;
}

const tx_blend *tx_train_data_split(const tx_train_data *data, tx_split split)
{
    return data->n_parts[split] ? &data->part[split]->blend : NULL;
}
