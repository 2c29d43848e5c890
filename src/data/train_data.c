/* train_data.c - opens what the data options name. Source: Megatron-DeepSpeed megatron/data/gpt_dataset.py,
 * build_train_valid_test_datasets. */
#include "data/train_data.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

struct tx_train_data {
    tx_gpt_data **file; /* [n_files] every dataset of every list, in order */
    int n_files;
    tx_blend split[TX_N_SPLITS];
};

enum { N_LISTS = 1 + TX_N_SPLITS };

/* --data-path, then one list a split. */
static void all_lists(const tx_config *cfg, const tx_list *list[N_LISTS])
{
    list[0] = &cfg->data_path;
    list[1 + TX_SPLIT_TRAIN] = &cfg->train_data_path;
    list[1 + TX_SPLIT_VALID] = &cfg->valid_data_path;
    list[1 + TX_SPLIT_TEST] = &cfg->test_data_path;
}

tx_status tx_train_data_exists(const tx_config *cfg)
{
    const tx_list *list[N_LISTS];
    all_lists(cfg, list);
    for (int l = 0; l < N_LISTS; l++)
        for (int i = 0; i < tx_weighted_count(list[l]); i++)
            TX_TRY(tx_indexed_exists(tx_weighted_at(list[l], i, NULL)));
    return TX_OK;
}

/* One dataset, cut by `split`; n_samples are wanted of it. */
static tx_status open_file(tx_train_data *data, const tx_config *cfg, const char *path, const char *split,
                           const int64_t *n_samples, int64_t vocab_size)
{
    tx_gpt_data_opts o = {
        .path = path,
        .split = split,
        .seq_length = cfg->seq_length,
        .seed = cfg->seed,
        .rule = !strcmp(cfg->data_order, "bigscience") ? TX_EPOCH_BIGSCIENCE : TX_EPOCH_MICROSOFT,
        .vocab_size = vocab_size,
    };
    memcpy(o.n_samples, n_samples, sizeof o.n_samples);
    TX_TRY(tx_gpt_data_open(&data->file[data->n_files], &o));
    data->n_files++;
    return TX_OK;
}

/* The blend's split k out of its files; upstream too wants all or none of them to have documents there. */
static tx_status blend_split(tx_blend *out, const tx_list *list, tx_gpt_data *const *file, const double *weight,
                             tx_split k, int64_t n_samples)
{
    const tx_gpt_dataset *ds[TX_BLEND_MAX];
    int n = tx_weighted_count(list), missing = -1, n_there = 0;
    for (int i = 0; i < n; i++) {
        ds[i] = tx_gpt_data_split(file[i], k);
        n_there += ds[i] != NULL;
        if (!ds[i]) missing = i;
    }
    if (!n_there || !n_samples) return TX_OK;
    if (n_there < n)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: has no document for the %s split, which other datasets of the blend have: change --split "
                       "or name that data apart (--valid-data-path, --test-data-path)",
                       tx_weighted_at(list, missing, NULL), tx_split_name(k));
    return tx_blend_build(out, ds, weight, n, n_samples);
}

/* The datasets of one list into the splits of which samples are wanted. With `apart` the list is one split's own: then
 * upstream's blend is as long as was asked; else it is as long as its datasets' requests together. */
static tx_status open_list(tx_train_data *data, const tx_config *cfg, const tx_list *list, const char *split,
                           bool apart, const int64_t *n_samples, int64_t vocab_size)
{
    int n = tx_weighted_count(list), first = data->n_files;
    double weight[TX_BLEND_MAX];
    int64_t size[TX_N_SPLITS] = { 0 }, request[TX_N_SPLITS];
    if (list->n == 1) {
        TX_TRY(open_file(data, cfg, list->item[0], split, n_samples, vocab_size));
        for (int k = 0; k < TX_N_SPLITS; k++) {
            const tx_gpt_dataset *ds = tx_gpt_data_split(data->file[first], (tx_split)k);
            if (ds) TX_TRY(tx_blend_of_one(&data->split[k], ds));
        }
        return TX_OK;
    }
    for (int i = 0; i < n; i++) tx_weighted_at(list, i, &weight[i]);
    TX_TRY(tx_blend_normalize(weight, n));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < TX_N_SPLITS; k++) {
            TX_TRY(tx_blend_request(&request[k], n_samples[k], weight[i]));
            if (__builtin_add_overflow(size[k], request[k], &size[k]))
                return TX_FAIL(TX_ERR_ARG, "%lld samples of a blend cannot be counted", (long long)n_samples[k]);
        }
        TX_TRY(open_file(data, cfg, tx_weighted_at(list, i, NULL), split, request, vocab_size));
    }
    for (int k = 0; k < TX_N_SPLITS; k++)
        TX_TRY(blend_split(&data->split[k], list, data->file + first, weight, (tx_split)k,
                           apart ? n_samples[k] : size[k]));
    return TX_OK;
}

tx_status tx_train_data_open(tx_train_data **out, const tx_config *cfg, const int64_t *n_samples, int64_t vocab_size)
{
    static const char *const whole[N_LISTS] = { NULL, "1,0,0", "0,1,0", "0,0,1" };
    const tx_list *list[N_LISTS];
    tx_train_data *data = NULL;
    int n_files = 0;
    tx_status st;
    all_lists(cfg, list);
    for (int l = 0; l < N_LISTS; l++) n_files += tx_weighted_count(list[l]);
    TX_GOTO(tx_alloc(&data, 1, sizeof *data, "a dataset"));
    TX_GOTO(tx_alloc(&data->file, (size_t)n_files, sizeof *data->file, "a dataset"));
    tx_info("> building train, validation, and test datasets for GPT ...");
    if (list[0]->n) TX_GOTO(open_list(data, cfg, list[0], cfg->split, false, n_samples, vocab_size));
    for (int k = 0; k < TX_N_SPLITS; k++) {
        int64_t own[TX_N_SPLITS] = { 0 };
        own[k] = n_samples[k];
        if (list[1 + k]->n) TX_GOTO(open_list(data, cfg, list[1 + k], whole[1 + k], true, own, vocab_size));
    }
    tx_info("> finished creating GPT datasets ...");
    *out = data;
    return TX_OK;
out:
    tx_train_data_close(data);
    return st;
}

void tx_train_data_close(tx_train_data *data)
{
    if (!data) return;
    for (int k = 0; k < TX_N_SPLITS; k++) tx_blend_free(&data->split[k]);
    for (int i = 0; i < data->n_files; i++) tx_gpt_data_close(data->file[i]);
    tx_free(data->file);
    tx_free(data);
}

const tx_blend *tx_train_data_split(const tx_train_data *data, tx_split split)
{
    return data->split[split].n_samples ? &data->split[split] : NULL;
}
