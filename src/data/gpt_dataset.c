/* gpt_dataset.c - from a token file to samples. Source: Megatron-LM megatron/data/gpt_dataset.py. */
#include "data/gpt_dataset.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

struct tx_gpt_dataset {
    const tx_indexed *ix;
    tx_sample_index samples;
    int64_t seq_length, vocab_size;
};

struct tx_gpt_data {
    tx_indexed ix;
    tx_gpt_dataset split[TX_N_SPLITS];
};

/* ---- opening ---- */

static tx_status check_opts(const tx_gpt_data_opts *o)
{
    if (o->seq_length < 1 || o->seq_length > INT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "--seq-length %lld: must be 1 to %d", (long long)o->seq_length, INT32_MAX);
    if (o->seed < 0 || o->seed > UINT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "--seed %lld: must be 0 to %lu", (long long)o->seed, (unsigned long)UINT32_MAX);
    for (int k = 0; k < TX_N_SPLITS; k++)
        if (o->n_samples[k] < 0)
            return TX_FAIL(TX_ERR_ARG, "%lld %s samples are asked for", (long long)o->n_samples[k],
                           tx_split_name((tx_split)k));
    return TX_OK;
}

static tx_status open_file(tx_gpt_data *data, const char *prefix)
{
    tx_info(" > building dataset index ...");
    double start = tx_clock();
    TX_TRY(tx_indexed_open(&data->ix, prefix));
    tx_info(" > finished creating indexed dataset in %.6f seconds", tx_clock() - start);
    tx_info("    number of documents: %lld", (long long)data->ix.n_items);
    if (!data->ix.n_tokens)
        return TX_FAIL(TX_ERR_FORMAT, "%s: has no token; repeat preprocess-data with a text that is not empty", prefix);
    if (data->ix.n_items > INT32_MAX)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: has %lld documents, at most %d can be shuffled; divide the dataset",
                       prefix, (long long)data->ix.n_items, INT32_MAX);
    return TX_OK;
}

static void log_split(const int64_t bound[])
{
    static const char *const title[] = { "train", "validation", "test" };
    tx_info(" > dataset split:");
    for (int k = 0; k < TX_N_SPLITS; k++) {
        tx_info("    %s:", title[k]);
        tx_info("     document indices in [%lld, %lld) total of %lld documents", (long long)bound[k],
                (long long)bound[k + 1], (long long)(bound[k + 1] - bound[k]));
    }
}

static tx_status build_split(tx_gpt_data *data, const tx_gpt_data_opts *o, tx_split k, int64_t first, int64_t end)
{
    tx_gpt_dataset *ds = &data->split[k];
    int32_t *sizes;
    int64_t n_tokens = 0, need = o->seq_length + 1;
    if (first == end && k == TX_SPLIT_TRAIN && o->n_samples[k])
        return TX_FAIL(TX_ERR_ARG, "%s: --split %s gives none of its %lld documents to training", data->ix.prefix,
                       o->split, (long long)data->ix.n_items);
    if (first == end) return TX_OK;
    TX_TRY(tx_alloc(&sizes, (size_t)(end - first), sizeof *sizes, "document sizes"));
    for (int64_t i = first; i < end; i++) n_tokens += sizes[i - first] = tx_indexed_size(&data->ix, i);

    tx_status st = TX_OK;
    bool wanted = o->n_samples[k] > 0;
    if (n_tokens < need && wanted)
        tx_warn(
            "%s: the %s split has %lld tokens, fewer than the %lld of one sample: they are repeated, as Megatron does",
            data->ix.prefix, tx_split_name(k), (long long)n_tokens, (long long)need);
    if (n_tokens >= need || wanted) {
        st = tx_sample_index_build(&ds->samples, &(tx_sample_index_opts){ .sizes = sizes,
                                                                          .first_doc = (int32_t)first,
                                                                          .n_docs = (int32_t)(end - first),
                                                                          .n_samples = o->n_samples[k],
                                                                          .seq_length = o->seq_length,
                                                                          .seed = (uint32_t)o->seed,
                                                                          .rule = o->rule });
        *ds = (tx_gpt_dataset){ &data->ix, ds->samples, o->seq_length, o->vocab_size };
    }
    tx_free(sizes);
    return st;
}

tx_status tx_gpt_data_open(tx_gpt_data **out, const tx_gpt_data_opts *o)
{
    int64_t bound[TX_N_SPLITS + 1];
    tx_gpt_data *data = NULL;
    tx_status st;
    TX_TRY(check_opts(o));
    TX_TRY(tx_split_bounds(bound, o->split, 0)); /* a wrong --split is told before a large file is read */
    TX_GOTO(tx_alloc(&data, 1, sizeof *data, "a dataset"));
    TX_GOTO(open_file(data, o->path));
    TX_GOTO(tx_split_bounds(bound, o->split, data->ix.n_items));
    log_split(bound);
    for (int k = 0; k < TX_N_SPLITS; k++) TX_GOTO(build_split(data, o, (tx_split)k, bound[k], bound[k + 1]));
    *out = data;
    return TX_OK;
out:
    tx_gpt_data_close(data);
    return st;
}

void tx_gpt_data_close(tx_gpt_data *data)
{
    if (!data) return;
    for (int k = 0; k < TX_N_SPLITS; k++) tx_sample_index_free(&data->split[k].samples);
    tx_indexed_close(&data->ix);
    tx_free(data);
}

/* ---- reading ---- */

const tx_gpt_dataset *tx_gpt_data_split(const tx_gpt_data *data, tx_split split)
{
    const tx_gpt_dataset *ds = &data->split[split];
    return ds->samples.n_samples ? ds : NULL;
}

int64_t tx_gpt_dataset_len(const tx_gpt_dataset *ds)
{
    return ds->samples.n_samples;
}

/* The stretch of sample [from, to] that lies in the document at `place`; `to` is the last token, not the one after. */
static tx_sample_piece piece_at(const tx_gpt_dataset *ds, const tx_sample_cut *from, const tx_sample_cut *to,
                                int64_t place)
{
    int64_t item = ds->samples.doc_idx[place];
    int64_t begin = place == from->place ? from->token : 0;
    int64_t end = place == to->place ? to->token + 1 : tx_indexed_size(ds->ix, item);
    return (tx_sample_piece){ item, begin, end - begin };
}

tx_status tx_gpt_dataset_get(const tx_gpt_dataset *ds, int32_t *tokens, int64_t i)
{
    TX_ASSERT(i >= 0 && i < ds->samples.n_samples);
    const tx_sample_cut *from = ds->samples.sample_idx + ds->samples.shuffle_idx[i], *to = from + 1;
    for (int64_t place = from->place; place <= to->place; place++) {
        tx_sample_piece p = piece_at(ds, from, to, place);
        TX_TRY(tx_indexed_get(ds->ix, tokens, p.item, p.offset, p.n_tokens));
        if (ds->vocab_size)
            TX_TRY(tx_indexed_check_vocab(ds->ix, tokens, p.item, p.offset, p.n_tokens, ds->vocab_size));
        tokens += p.n_tokens;
    }
    return TX_OK;
}

int64_t tx_gpt_dataset_pieces(const tx_gpt_dataset *ds, tx_sample_piece *pieces, int64_t cap, int64_t i)
{
    TX_ASSERT(i >= 0 && i < ds->samples.n_samples);
    const tx_sample_cut *from = ds->samples.sample_idx + ds->samples.shuffle_idx[i], *to = from + 1;
    int64_t n = to->place - from->place + 1;
    for (int64_t k = 0; k < n && k < cap; k++) pieces[k] = piece_at(ds, from, to, from->place + k);
    return n;
}
