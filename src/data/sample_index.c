/* sample_index.c - building doc_idx, sample_idx and shuffle_idx, or checking those of a file. All draws come from one
 * RandomState, documents first. */
#include "data/sample_index.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/numpy_rng.h"

enum { DOC, SAMPLE, SHUFFLE, FETCH_AHEAD = 32 /* documents whose sizes are asked for before they are needed */ };

/* ---- counts ---- */

/* The fewest epochs e >= 1 with (e * tokens - 1) / seq >= n_samples, or as many as are told. */
static tx_status count_epochs(tx_sample_index *x, const tx_sample_index_opts *o, int64_t *n_places)
{
    int64_t need, all;
    for (int64_t d = 0; d < o->sizes.n; d++) x->tokens_per_epoch += tx_ints_at(&o->sizes, d);
    if (!x->tokens_per_epoch)
        return TX_FAIL(TX_ERR_ARG, "none of the %lld documents has a token", (long long)o->sizes.n);
    if (__builtin_mul_overflow(o->n_samples, o->seq_length, &need) || need > INT64_MAX - 1 - x->tokens_per_epoch ||
        need < 0)
        return TX_FAIL(TX_ERR_ARG, "%lld samples of %lld tokens are more than can be counted", (long long)o->n_samples,
                       (long long)o->seq_length);
    x->n_epochs = o->exact_epochs ? o->exact_epochs : need / x->tokens_per_epoch + 1; /* = ceil((need + 1) / tokens) */
    if (__builtin_mul_overflow(x->n_epochs, x->tokens_per_epoch, &all) ||
        __builtin_mul_overflow(x->n_epochs, o->sizes.n, n_places))
        return TX_FAIL(TX_ERR_ARG, "%lld epochs of %lld tokens are more than can be counted", (long long)x->n_epochs,
                       (long long)x->tokens_per_epoch);
    x->n_samples = (all - 1) / o->seq_length;
    return TX_OK;
}

/* *first = number of samples before the last epoch where that is shuffled by itself, else all of them. */
static tx_status first_part(tx_sample_index *x, const tx_sample_index_opts *o, int64_t *first)
{
    *first = x->n_samples;
    if (x->n_epochs == 1) {
        tx_info(" > only one epoch required, setting separate_last_epoch to False");
        return TX_OK;
    }
    int64_t before = ((x->n_epochs - 1) * x->tokens_per_epoch - 1) / o->seq_length;
    int64_t last = o->n_samples - before, per_epoch = (x->tokens_per_epoch - 1) / o->seq_length;
    if (o->exact_epochs && (last < 0 || last > per_epoch + 1))
        return TX_FAIL(TX_ERR_ARG,
                       "--train-data-exact-num-epochs %lld: the run's %lld samples must end in the last epoch, which "
                       "holds samples %lld to %lld; change --train-iters or --train-samples, or leave the flag out",
                       (long long)x->n_epochs, (long long)o->n_samples, (long long)before,
                       (long long)(before + per_epoch + 1));
    int percent = o->rule == TX_EPOCH_BIGSCIENCE ? 95 : 80;
    double part = o->rule == TX_EPOCH_BIGSCIENCE ? 0.95 : 0.80; /* the double that Python multiplies by */
    x->last_epoch_apart = last < (int64_t)(part * (double)per_epoch);
    tx_info(" > last epoch number of samples (%lld) is %s than %d%% of number of samples per epoch (%lld), setting "
            "separate_last_epoch to %s",
            (long long)last, x->last_epoch_apart ? "smaller" : "larger", percent, (long long)per_epoch,
            x->last_epoch_apart ? "True" : "False");
    if (x->last_epoch_apart) *first = before;
    return TX_OK;
}

/* ---- cuts ---- */

typedef struct cut {
    int64_t place, token;
} cut;

/* From one cut to the next. A sample takes seq_length + 1 tokens; its last token is where the next one begins, so the
 * cut stays in the document that the last token came from even when that document is used up. False: the documents are
 * at their end. */
static bool next_cut(cut *at, const tx_sample_index *x, const tx_sample_index_opts *o)
{
    const tx_ints *doc = &x->doc_idx;
    for (int64_t missing = o->seq_length + 1;;) {
        if (at->place >= doc->n) return false;
        int64_t here = tx_ints_at(&o->sizes, tx_ints_at(doc, at->place) - o->first_doc) - at->token;
        if (missing <= here) {
            at->token += missing - 1;
            return true;
        }
        missing -= here;
        at->place++;
        at->token = 0;
        if (at->place < doc->n - FETCH_AHEAD)
            tx_ints_prefetch(&o->sizes, tx_ints_at(doc, at->place + FETCH_AHEAD) - o->first_doc);
    }
}

/* ---- building ---- */

static void fill_documents(tx_sample_index *x, const tx_sample_index_opts *o, tx_np_rng *rng)
{
    int32_t *all = x->own[DOC], *doc = all;
    for (int64_t e = 0; e < x->n_epochs; e++)
        for (int64_t d = 0; d < o->sizes.n; d++) *doc++ = (int32_t)(o->first_doc + d);
    int64_t first = x->doc_idx.n - (x->last_epoch_apart ? o->sizes.n : 0);
    tx_np_rng_shuffle_i32(rng, all, first);
    tx_np_rng_shuffle_i32(rng, all + first, x->doc_idx.n - first);
}

static void fill_samples(tx_sample_index *x, const tx_sample_index_opts *o)
{
    uint32_t *narrow = x->own[SAMPLE];
    int64_t *wide = x->own[SAMPLE];
    cut at = { 0, 0 };
    for (int64_t k = 0;; k++) {
        if (x->sample_idx.type == TX_INT_U32) {
            narrow[2 * k] = (uint32_t)at.place;
            narrow[2 * k + 1] = (uint32_t)at.token;
        } else {
            wide[2 * k] = at.place;
            wide[2 * k + 1] = at.token;
        }
        if (k == x->n_samples) break;
        bool there = next_cut(&at, x, o);
        TX_ASSERT(there);
    }
}

static void fill_shuffle(tx_sample_index *x, int64_t first, tx_np_rng *rng)
{
    int64_t n = x->n_samples;
    if (x->shuffle_idx.type == TX_INT_U32) {
        int32_t *narrow = x->own[SHUFFLE]; /* the bits of a uint32_t */
        for (int64_t k = 0; k < n; k++) narrow[k] = (int32_t)(uint32_t)k;
        tx_np_rng_shuffle_i32(rng, narrow, first);
        tx_np_rng_shuffle_i32(rng, narrow + first, n - first);
    } else {
        int64_t *wide = x->own[SHUFFLE];
        for (int64_t k = 0; k < n; k++) wide[k] = k;
        tx_np_rng_shuffle_i64(rng, wide, first);
        tx_np_rng_shuffle_i64(rng, wide + first, n - first);
    }
}

static tx_status take_memory(tx_sample_index *x, int64_t n_places)
{
    static const char *const what[] = { "the document order", "the sample index", "the sample order" };
    tx_ints *a[] = { &x->doc_idx, &x->sample_idx, &x->shuffle_idx };
    const int64_t n[] = { n_places, 2 * (x->n_samples + 1), x->n_samples };
    const int64_t largest[] = { 0, n_places, x->n_samples };
    for (int k = 0; k < 3; k++) {
        tx_int_type type = k == DOC ? TX_INT_I32 : largest[k] < UINT32_MAX - 1 ? TX_INT_U32 : TX_INT_I64;
        TX_TRY(tx_alloc(&x->own[k], (size_t)n[k], type == TX_INT_I64 ? 8 : 4, what[k]));
        *a[k] = (tx_ints){ x->own[k], n[k], type };
    }
    return TX_OK;
}

/* Megatron's line after each array, its spelling included; `start` is the clock before. The last two are made together.
 */
#define ELAPSED(name) tx_info(" > elasped time to build and save " name " mapping (seconds): %.6f", tx_clock() - start)

/* The last two of Megatron's lines, for arrays that were built and for those that were read. */
static void log_totals(const tx_sample_index *x)
{
    tx_info("    total number of samples: %lld", (long long)x->n_samples + 1);
    tx_info("    total number of epochs: %lld", (long long)x->n_epochs);
}

tx_status tx_sample_index_build(tx_sample_index *out, const tx_sample_index_opts *o)
{
    TX_ASSERT(o->seq_length > 0 && o->n_samples >= 0 && o->first_doc + o->sizes.n <= INT32_MAX);
    tx_sample_index x = { 0 };
    tx_np_rng rng;
    int64_t n_places, first;
    tx_status st;
    TX_GOTO(count_epochs(&x, o, &n_places));
    TX_GOTO(first_part(&x, o, &first));
    TX_GOTO(take_memory(&x, n_places));

    tx_np_rng_seed(&rng, o->seed);
    double start = tx_clock();
    fill_documents(&x, o, &rng);
    ELAPSED("doc-idx");
    start = tx_clock();
#pragma omp parallel sections /* the shuffle needs the number of samples, not where they begin */
    {
#pragma omp section
        fill_samples(&x, o);
#pragma omp section
        fill_shuffle(&x, first, &rng);
    }
    tx_info("    using:");
    tx_info("     number of documents:       %lld", (long long)o->sizes.n);
    tx_info("     number of epochs:          %lld", (long long)x.n_epochs);
    tx_info("     sequence length:           %lld", (long long)o->seq_length);
    tx_info("     total number of samples:   %lld", (long long)x.n_samples);
    ELAPSED("sample-idx");
    ELAPSED("shuffle-idx");
    log_totals(&x);
    *out = x;
    return TX_OK;
out:
    tx_sample_index_free(&x);
    return st;
}

/* ---- files ---- */

static tx_status check_documents(const tx_sample_index *x, const tx_sample_index_opts *o, const char *path)
{
    int64_t end = o->first_doc + o->sizes.n;
    for (int64_t k = 0; k < x->doc_idx.n; k++) {
        int64_t d = tx_ints_at(&x->doc_idx, k);
        if (d < o->first_doc || d >= end)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: entry %lld is document %lld, the split holds %lld to %lld: the index was made for "
                           "another dataset or --split",
                           path, (long long)k, (long long)d, (long long)o->first_doc, (long long)end - 1);
    }
    return TX_OK;
}

static tx_status check_cuts(const tx_sample_index *x, const tx_sample_index_opts *o, const char *path)
{
    cut at = { 0, 0 };
    for (int64_t k = 0; k <= x->n_samples; k++) {
        bool there = k == 0 || next_cut(&at, x, o);
        int64_t place = tx_ints_at(&x->sample_idx, 2 * k), token = tx_ints_at(&x->sample_idx, 2 * k + 1);
        if (!there)
            return TX_FAIL(TX_ERR_FORMAT, "%s: sample %lld lies behind the last document of the document index", path,
                           (long long)k - 1);
        if (place != at.place || token != at.token)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: row %lld is (%lld, %lld), but the documents and --seq-length %lld put it at (%lld, "
                           "%lld): the index was made for another dataset or length",
                           path, (long long)k, (long long)place, (long long)token, (long long)o->seq_length,
                           (long long)at.place, (long long)at.token);
    }
    return TX_OK;
}

static tx_status check_visits(const tx_sample_index *x, const char *path)
{
    for (int64_t k = 0; k < x->n_samples; k++) {
        int64_t i = tx_ints_at(&x->shuffle_idx, k);
        if (i < 0 || i >= x->n_samples)
            return TX_FAIL(TX_ERR_FORMAT, "%s: entry %lld is sample %lld, there are %lld", path, (long long)k,
                           (long long)i, (long long)x->n_samples);
    }
    return TX_OK;
}

static tx_status check_shapes(const tx_sample_index *x, const tx_sample_index_opts *o, const char *const *path)
{
    const tx_npy *f = x->file;
    for (int k = 0; k < 3; k++)
        if (k == SAMPLE ? f[k].n_dims != 2 || f[k].dim[1] != 2 || f[k].dim[0] < 2 : f[k].n_dims != 1)
            return TX_FAIL(TX_ERR_FORMAT, "%s: has the shape %lld x %lld; %s", path[k], (long long)f[k].dim[0],
                           (long long)f[k].dim[1],
                           k == SAMPLE ? "a sample index has two columns and at least two rows" : "one row is needed");
    if (f[SHUFFLE].dim[0] != f[SAMPLE].dim[0] - 1)
        return TX_FAIL(TX_ERR_FORMAT, "%s: has %lld entries, %s has %lld samples: they do not belong together",
                       path[SHUFFLE], (long long)f[SHUFFLE].dim[0], path[SAMPLE], (long long)f[SAMPLE].dim[0] - 1);
    if (x->n_samples < o->n_samples)
        return TX_FAIL(TX_ERR_ARG, "%s: has %lld samples, the run needs %lld", path[SAMPLE], (long long)x->n_samples,
                       (long long)o->n_samples);
    return TX_OK;
}

tx_status tx_sample_index_open(tx_sample_index *out, const tx_sample_index_opts *o, const char *const *path)
{
    static const char *const name[] = { "doc-idx", "sample-idx", "shuffle-idx" };
    tx_sample_index x = { 0 };
    tx_ints *a[] = { &x.doc_idx, &x.sample_idx, &x.shuffle_idx };
    double start = tx_clock();
    tx_status st;
    for (int k = 0; k < 3; k++) {
        tx_info(" > loading %s mapping from %s", name[k], path[k]);
        TX_GOTO(tx_npy_open(&x.file[k], path[k]));
        *a[k] = x.file[k].ints;
    }
    x.n_samples = x.file[SAMPLE].dim[0] - 1;
    for (int64_t d = 0; d < o->sizes.n; d++) x.tokens_per_epoch += tx_ints_at(&o->sizes, d);
    x.n_epochs = o->sizes.n ? x.doc_idx.n / o->sizes.n : 0;
    TX_GOTO(check_shapes(&x, o, path));
    TX_GOTO(check_documents(&x, o, path[DOC]));
    TX_GOTO(check_cuts(&x, o, path[SAMPLE]));
    TX_GOTO(check_visits(&x, path[SHUFFLE]));
    tx_info("    loaded indexed file in %3.3f seconds", tx_clock() - start);
    log_totals(&x);
    *out = x;
    return TX_OK;
out:
    tx_sample_index_free(&x);
    return st;
}

void tx_sample_index_free(tx_sample_index *x)
{
    for (int k = 0; k < 3; k++) {
        tx_free(x->own[k]);
        tx_npy_close(&x->file[k]);
    }
    *x = (tx_sample_index){ 0 };
}
