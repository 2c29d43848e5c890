/* train_data.c - opens what the data options name. Sources: Megatron-DeepSpeed megatron/data/gpt_dataset.py,
 * build_train_valid_test_datasets (microsoft), build_dataset_group (bigscience). */
#include "data/train_data.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/data_groups.h"

/* The samples of a split, or of one of the groups that the options name for it. */
typedef struct split_group {
    tx_blend blend;
    const char *name; /* or NULL */
} split_group;

struct tx_train_data {
    const tx_config *cfg; /* while it is opened */
    const tx_samples *kind;
    tx_data_groups groups;
    void **dataset; /* [n_datasets] every dataset of every group, in order */
    int n_datasets;
    int64_t vocab_size;
    int32_t eod;
    const tx_tokenizer *tok;
    split_group *of[TX_N_SPLITS]; /* [n_groups] */
    int n_groups[TX_N_SPLITS];
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

static tx_sample_set set_of(const tx_train_data *data, int dataset, tx_split k)
{
    return (tx_sample_set){ data->kind, data->kind->split(data->dataset[dataset], k) };
}

/* Samples of each split: of all its epochs, or of keyed order, which has no end, those of one. */
static void tell_dataset(const tx_train_data *data, int dataset, const char *path, double seconds)
{
    int64_t n[TX_N_SPLITS] = { 0 };
    if (!tx_log_wants(TX_LOG_DEBUG)) return;
    for (int k = 0; k < TX_N_SPLITS; k++) {
        tx_sample_set s = set_of(data, dataset, (tx_split)k);
        if (s.set) n[k] = s.kind->len(s.set);
    }
    tx_debug("data: %s: %lld documents; samples: train %lld, valid %lld, test %lld; opened and indexed in %.3f s", path,
             (long long)data->kind->documents(data->dataset[dataset]), (long long)n[TX_SPLIT_TRAIN],
             (long long)n[TX_SPLIT_VALID], (long long)n[TX_SPLIT_TEST], seconds);
}

/* One dataset of a group, of which n_samples are wanted. */
static tx_status open_dataset(tx_train_data *data, const tx_data_group *g, const tx_data_set *set,
                              const int64_t *n_samples)
{
    const tx_dataset_request from = { .cfg = data->cfg,
                                      .group = g,
                                      .set = set,
                                      .n_samples = n_samples,
                                      .vocab_size = data->vocab_size,
                                      .eod = data->eod,
                                      .tok = data->tok };
    double start = tx_clock();
    TX_TRY(data->kind->open(&data->dataset[data->n_datasets], &from));
    tell_dataset(data, data->n_datasets++, set->path, tx_clock() - start);
    return TX_OK;
}

/* The datasets of a group: the first one's number, the weights, and how many samples of each split they are to have. */
typedef struct opened_group {
    const tx_data_group *is;
    int first;
    double weight[TX_BLEND_MAX];
    int64_t n_samples[TX_N_SPLITS];
} opened_group;

/* The group's samples for split k; upstream too wants all or none of its datasets to have documents there. */
static tx_status blend_split(tx_blend *out, const tx_train_data *data, const opened_group *o, tx_split k, int64_t size)
{
    const tx_data_group *g = o->is;
    bool keyed = is_keyed(data->cfg);
    tx_sample_set from[TX_BLEND_MAX];
    int missing = -1, n_there = 0;
    for (int i = 0; i < g->n; i++) {
        from[i] = set_of(data, o->first + i, k);
        n_there += from[i].set != NULL;
        if (!from[i].set) missing = i;
    }
    if (!n_there) return TX_OK;
    if (!g->blend) return tx_blend_of_one(out, from[0], keyed);
    int64_t n_samples = g->exact ? o->n_samples[k] : size;
    if (!n_samples) return TX_OK;
    if (n_there < g->n)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: has no document for the %s split, which other datasets of the blend have: change --split "
                       "or name that data apart (--valid-data-path, --test-data-path)",
                       g->set[missing].path, tx_split_name(k));
    return tx_blend_build(out, from, o->weight, g->n, n_samples, keyed);
}

static tx_status add_group(tx_train_data *data, tx_split k, tx_blend *blend, const char *name)
{
    if (!blend->n_samples) return TX_OK;
    tx_status st = tx_realloc(&data->of[k], (size_t)data->n_groups[k] + 1, sizeof(split_group), "a dataset");
    if (st)
        tx_blend_free(blend);
    else
        data->of[k][data->n_groups[k]++] = (split_group){ *blend, name };
    return st;
}

/* What is asked of a dataset of the group, and added to what is asked of all of them together. */
static tx_status request_of(const opened_group *o, int i, int64_t *request, int64_t *size)
{
    for (int k = 0; k < TX_N_SPLITS; k++) {
        request[k] = o->n_samples[k];
        if (o->is->blend) TX_TRY(tx_blend_request(&request[k], o->n_samples[k], o->weight[i]));
        if (__builtin_add_overflow(size[k], request[k], &size[k]))
            return TX_FAIL(TX_ERR_ARG, "%lld samples of a blend cannot be counted", (long long)o->n_samples[k]);
    }
    return TX_OK;
}

/* The datasets of one group into the splits of which samples are wanted. */
static tx_status open_group(tx_train_data *data, const tx_data_group *g, const int64_t *wanted)
{
    opened_group o = { .is = g, .first = data->n_datasets };
    int64_t size[TX_N_SPLITS] = { 0 }, request[TX_N_SPLITS];
    for (int k = 0; k < TX_N_SPLITS; k++)
        if (g->divided || k == (int)g->split) o.n_samples[k] = wanted[k];
    if (g->name) tx_info(" > dataset group %s, for the %s split", g->name, tx_split_name(g->split));
    for (int i = 0; i < g->n; i++) o.weight[i] = g->blend ? g->set[i].weight : 1;
    TX_TRY(tx_blend_normalize(o.weight, g->n));
    for (int i = 0; i < g->n; i++) {
        TX_TRY(request_of(&o, i, request, size));
        TX_TRY(open_dataset(data, g, &g->set[i], request));
    }
    for (int k = 0; k < TX_N_SPLITS; k++) {
        tx_blend blend = { 0 };
        TX_TRY(blend_split(&blend, data, &o, (tx_split)k, size[k]));
        TX_TRY(add_group(data, (tx_split)k, &blend, g->name));
    }
    return TX_OK;
}

tx_status tx_train_data_open(tx_train_data **out, const tx_config *cfg, const int64_t *n_samples, int64_t vocab_size,
                             int32_t eod, const tx_tokenizer *tok)
{
    const tx_samples *kind = tx_samples_of(cfg);
    tx_train_data *data = NULL;
    size_t n = 0;
    tx_status st;
    TX_ASSERT(kind->open && (tok || !tx_samples_need_tokenizer(cfg)));
    TX_GOTO(tx_alloc(&data, 1, sizeof *data, "a dataset"));
    data->kind = kind;
    TX_GOTO(tx_data_groups_open(&data->groups, cfg));
    for (int g = 0; g < data->groups.n; g++) n += (size_t)data->groups.group[g].n;
    TX_GOTO(tx_alloc(&data->dataset, n, sizeof *data->dataset, "a dataset"));
    data->cfg = cfg;
    data->vocab_size = vocab_size;
    data->eod = eod;
    data->tok = tok;
    tx_info("> building train, validation, and test datasets for %s ...", kind->name);
    for (int g = 0; g < data->groups.n; g++) TX_GOTO(open_group(data, &data->groups.group[g], n_samples));
    tx_info("> finished creating %s datasets ...", kind->name);
    data->cfg = NULL;
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
    for (int i = 0; i < data->n_datasets; i++) {
        int64_t n = data->kind->documents(data->dataset[i]);
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
    const char *shortest = data->n_datasets > 1 ? "the smallest of the datasets" : data->groups.group[0].set[0].path;
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
        if (data->n_groups[k]) continue;
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
        for (int g = 0; g < data->n_groups[k]; g++) tx_blend_free(&data->of[k][g].blend);
        tx_free(data->of[k]);
    }
    for (int i = 0; i < data->n_datasets; i++) data->kind->close(data->dataset[i]);
    tx_free(data->dataset);
    tx_data_groups_close(&data->groups);
    tx_free(data);
}

tx_status tx_train_data_phase(tx_train_data *data, const json_t *saved, int64_t consumed, json_t **out)
{
    *out = NULL;
    if (!data->n_groups[TX_SPLIT_TRAIN]) return TX_OK;
    bool keyed = data->of[TX_SPLIT_TRAIN]->blend.keyed;
    if (consumed && keyed != (saved != NULL))
        tx_warn_once(
            "--data-order: the checkpoint's %lld samples came in %s order, this run goes on in another: samples may "
            "come again",
            (long long)consumed, keyed ? "Megatron's" : "keyed");
    if (!keyed) return TX_OK;
    return tx_blend_phase(&data->of[TX_SPLIT_TRAIN]->blend, saved, consumed, out);
}

int tx_train_data_groups(const tx_train_data *data, tx_split split)
{
    return data->n_groups[split];
}

const tx_blend *tx_train_data_group(const tx_train_data *data, tx_split split, int g, const char **name)
{
    TX_ASSERT(g >= 0 && g < data->n_groups[split]);
    if (name) *name = data->of[split][g].name;
    return &data->of[split][g].blend;
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
    TX_ASSERT(false && "a word of --eval-split");
    return TX_SPLIT_TRAIN;
}

const tx_blend *tx_train_data_split(const tx_train_data *data, tx_split split)
{
    return data->n_groups[split] ? &data->of[split]->blend : NULL;
}
