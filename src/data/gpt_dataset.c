/* gpt_dataset.c - from a token file to samples. Source: Megatron-LM megatron/data/gpt_dataset.py. */
#include "data/gpt_dataset.h"

#include <xxhash.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/keyed_order.h"

struct tx_gpt_dataset {
    const tx_indexed *ix;
    int64_t n_samples, seq_length, vocab_size;
    tx_sample_index samples; /* empty in keyed order, which has the rest */
    bool keyed;
    int64_t first, end, seed; /* items of the split */
    int64_t per_epoch;        /* samples */
    const tx_fim *fim;        /* NULL: none */
    tx_split split;
};

struct tx_gpt_data {
    tx_indexed ix;
    tx_gpt_dataset split[TX_N_SPLITS];
    tx_fim fim; /* no tokenizer: none */
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

static tx_status open_file(tx_gpt_data *data, const tx_gpt_data_opts *o)
{
    const char *prefix = o->path;
    tx_info(" > building dataset index ...");
    double start = tx_clock();
    TX_TRY(o->mock ? tx_indexed_open_mock(&data->ix, o->vocab_size, o->eod) : tx_indexed_open(&data->ix, prefix));
    tx_info(" > finished creating indexed dataset in %.6f seconds", tx_clock() - start);
    tx_info("    number of documents: %lld", (long long)data->ix.n_items);
    if (!data->ix.n_tokens)
        return TX_FAIL(TX_ERR_FORMAT, "%s: has no token; repeat preprocess-data with a text that is not empty", prefix);
    if (data->ix.n_items > INT32_MAX && !o->keyed)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "%s: has %lld documents, at most %d can be shuffled; use --data-order keyed or divide the dataset", prefix,
            (long long)data->ix.n_items, INT32_MAX);
    return TX_OK;
}

static void log_split(const tx_split_docs *b, const tx_gpt_data_opts *o)
{
    static const char *const title[] = { "train", "validation", "test" };
    tx_info(" > dataset split:");
    for (int k = 0; k < TX_N_SPLITS; k++) {
        if (!o->split && k != (int)o->range_for) continue;
        tx_info("    %s:", title[k]);
        tx_info("     document indices in [%lld, %lld) total of %lld documents", (long long)b->first[k],
                (long long)b->end[k], (long long)(b->end[k] - b->first[k]));
    }
}

/* Tokens of the file before item i. */
static int64_t tokens_before(const tx_indexed *ix, int64_t i)
{
    int64_t byte;
    if (i == ix->n_items) return ix->n_tokens;
    memcpy(&byte, ix->pointers + i * 8, 8);
    return byte / (int64_t)ix->item_bytes;
}

static tx_status open_keyed(tx_gpt_dataset *ds, const tx_gpt_data_opts *o, tx_split k, int64_t n_tokens)
{
    int64_t epochs = 1;
    if (n_tokens <= ds->seq_length && !o->n_samples[k]) return TX_OK;
    if (n_tokens <= ds->seq_length)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: the %s split has %lld tokens, fewer than the %lld of one sample; --data-order microsoft "
                       "would repeat them",
                       ds->ix->prefix, tx_split_name(k), (long long)n_tokens, (long long)ds->seq_length + 1);
    ds->keyed = true;
    ds->per_epoch = (n_tokens - 1) / ds->seq_length;
    if (o->n_samples[k]) epochs = (o->n_samples[k] - 1) / ds->per_epoch + 1;
    if (__builtin_mul_overflow(epochs, ds->per_epoch, &ds->n_samples))
        return TX_FAIL(TX_ERR_ARG, "%lld samples are more than can be counted", (long long)o->n_samples[k]);
    tx_info(" > %s: keyed order, %lld samples an epoch, no index", tx_split_name(k), (long long)ds->per_epoch);
    return TX_OK;
}

static tx_status build_split(tx_gpt_data *data, const tx_gpt_data_opts *o, tx_split k, int64_t first, int64_t end)
{
    tx_gpt_dataset *ds = &data->split[k];
    const tx_indexed *ix = &data->ix;
    if (first == end && k == (o->split ? TX_SPLIT_TRAIN : o->range_for) && o->n_samples[k])
        return TX_FAIL(TX_ERR_ARG, "%s: %s%s gives none of its %lld documents to %s", ix->prefix,
                       o->split ? "--split " : "", o->split ? o->split : o->range, (long long)ix->n_items,
                       k == TX_SPLIT_TRAIN ? "training" : tx_split_name(k));
    if (first == end) return TX_OK;
    int64_t n_tokens = tokens_before(ix, end) - tokens_before(ix, first), need = o->seq_length + 1;
    bool wanted = o->n_samples[k] > 0, files = o->index_path && k == TX_SPLIT_TRAIN;
    *ds = (tx_gpt_dataset){ .ix = ix,
                            .seq_length = o->seq_length,
                            .vocab_size = o->vocab_size,
                            .first = first,
                            .end = end,
                            .seed = o->seed,
                            .fim = o->fim ? &data->fim : NULL,
                            .split = k };
    if (o->keyed) return open_keyed(ds, o, k, n_tokens);
    if (n_tokens < need && !wanted) return TX_OK;
    if (n_tokens < need)
        tx_warn_once(
            "%s: the %s split has %lld tokens, fewer than the %lld of one sample: they are repeated, as Megatron does",
            ix->prefix, tx_split_name(k), (long long)n_tokens, (long long)need);
    tx_sample_index_opts so = { .sizes = { ix->sizes + first * 4, end - first, TX_INT_I32 },
                                .first_doc = first,
                                .n_samples = o->n_samples[k],
                                .seq_length = o->seq_length,
                                .seed = (uint32_t)o->seed,
                                .rule = o->rule,
                                .exact_epochs = k == TX_SPLIT_TRAIN ? o->exact_epochs : 0 };
    TX_TRY(files ? tx_sample_index_open(&ds->samples, &so, o->index_path) : tx_sample_index_build(&ds->samples, &so));
    ds->n_samples = ds->samples.n_samples;
    return TX_OK;
}

tx_status tx_gpt_data_open(tx_gpt_data **out, const tx_gpt_data_opts *o)
{
    tx_split_docs b;
    tx_gpt_data *data = NULL;
    tx_status st;
    TX_TRY(check_opts(o));
    /* a wrong --split is told before a large file is read */
    TX_TRY(tx_split_documents(&b, o->split, o->range, o->range_for, 0));
    TX_GOTO(tx_alloc(&data, 1, sizeof *data, "a dataset"));
    if (o->fim) TX_GOTO(tx_fim_init(&data->fim, o->fim, o->tok));
    TX_GOTO(open_file(data, o));
    TX_GOTO(tx_split_documents(&b, o->split, o->range, o->range_for, data->ix.n_items));
    log_split(&b, o);
    for (int k = 0; k < TX_N_SPLITS; k++) TX_GOTO(build_split(data, o, (tx_split)k, b.first[k], b.end[k]));
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
    tx_fim_deinit(&data->fim);
    tx_indexed_close(&data->ix);
    tx_free(data);
}

/* ---- reading ---- */

const tx_gpt_dataset *tx_gpt_data_split(const tx_gpt_data *data, tx_split split)
{
    const tx_gpt_dataset *ds = &data->split[split];
    return ds->n_samples ? ds : NULL;
}

int64_t tx_gpt_data_documents(const tx_gpt_data *data)
{
    return data->ix.n_items;
}

int64_t tx_gpt_dataset_len(const tx_gpt_dataset *ds)
{
    return ds->n_samples;
}

uint64_t tx_gpt_dataset_id(const tx_gpt_dataset *ds)
{
    int64_t n = ds->end - ds->first, step = n / 65536 + 1;
    int64_t about[] = { n, ds->per_epoch, ds->seq_length, ds->seed, ds->ix->dtype };
    uint64_t id = XXH3_64bits(about, sizeof about);
    for (int64_t i = ds->first; i < ds->end; i += step) {
        int64_t at = tokens_before(ds->ix, i) - tokens_before(ds->ix, ds->first);
        id = XXH3_64bits_withSeed(&at, sizeof at, id);
    }
    return id;
}

/* Where reading stands within a sample. */
typedef struct cursor {
    int64_t place; /* in doc_idx; keyed: the item */
    int64_t token; /* in that document */
    int64_t missing;
} cursor;

/* The item of the split that holds its token number `at`: the last that begins at or before it, by bisection. */
static cursor find_token(const tx_gpt_dataset *ds, int64_t at)
{
    int64_t low = ds->first, high = ds->end;
    at += tokens_before(ds->ix, low);
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(tokens_before(ds->ix, middle) <= at ? &low : &high) = middle;
    }
    return (cursor){ low, at - tokens_before(ds->ix, low), ds->seq_length + 1 };
}

static cursor begin(const tx_gpt_dataset *ds, int64_t i)
{
    TX_ASSERT(i >= 0 && (i < ds->n_samples || ds->keyed));
    if (ds->keyed) {
        int64_t n = ds->per_epoch, k = tx_keyed_order((uint64_t)ds->seed, (uint32_t)(i / n), n, i % n);
        return find_token(ds, k * ds->seq_length);
    }
    int64_t k = tx_ints_at(&ds->samples.shuffle_idx, i);
    const tx_ints *cuts = &ds->samples.sample_idx;
    return (cursor){ tx_ints_at(cuts, 2 * k), tx_ints_at(cuts, 2 * k + 1), ds->seq_length + 1 };
}

/* The next stretch of the sample; false behind the last. */
static bool next(tx_sample_piece *p, cursor *c, const tx_gpt_dataset *ds)
{
    while (c->missing) {
        int64_t item = ds->keyed ? c->place : tx_ints_at(&ds->samples.doc_idx, c->place);
        int64_t here = tx_indexed_size(ds->ix, item) - c->token;
        *p = (tx_sample_piece){
            .item = item, .document = item, .offset = c->token, .n_tokens = here < c->missing ? here : c->missing
        };
        c->missing -= p->n_tokens;
        c->place++;
        c->token = 0;
        if (p->n_tokens) return true;
    }
    return false;
}

const tx_indexed *tx_gpt_dataset_file(const tx_gpt_dataset *ds)
{
    return ds->ix;
}

tx_status tx_gpt_dataset_get(const tx_gpt_dataset *ds, int32_t *tokens, int64_t i)
{
    cursor c = begin(ds, i);
    int32_t *at = tokens;
    for (tx_sample_piece p; next(&p, &c, ds); at += p.n_tokens) {
        TX_TRY(tx_indexed_get(ds->ix, at, p.item, p.offset, p.n_tokens));
        if (ds->vocab_size) TX_TRY(tx_indexed_check_vocab(ds->ix, at, p.item, p.offset, p.n_tokens, ds->vocab_size));
    }
    return ds->fim ? tx_fim_apply(ds->fim, (uint32_t)ds->split, i, tokens, ds->seq_length + 1) : TX_OK;
}

int64_t tx_gpt_dataset_pieces(const tx_gpt_dataset *ds, tx_sample_piece *pieces, int64_t cap, int64_t i)
{
    cursor c = begin(ds, i);
    int64_t n = 0;
    for (tx_sample_piece p; next(&p, &c, ds); n++)
        if (n < cap) pieces[n] = p;
    return n;
}
