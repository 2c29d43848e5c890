/* sample_index.c - building doc_idx, sample_idx and shuffle_idx. All draws come from one RandomState, documents first.
 */
#include "data/sample_index.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/numpy_rng.h"

/* The fewest epochs e >= 1 with (e * tokens - 1) / seq >= n_samples. */
static tx_status count_epochs(tx_sample_index *x, const tx_sample_index_opts *o)
{
    int64_t need, all;
    if (__builtin_mul_overflow(o->n_samples, o->seq_length, &need) || need > INT64_MAX - 1 - x->tokens_per_epoch ||
        need < 0)
        return TX_FAIL(TX_ERR_ARG, "%lld samples of %lld tokens are more than can be counted", (long long)o->n_samples,
                       (long long)o->seq_length);
    x->n_epochs = need / x->tokens_per_epoch + 1; /* = ceil((need + 1) / tokens) */
    if (__builtin_mul_overflow(x->n_epochs, x->tokens_per_epoch, &all) ||
        __builtin_mul_overflow(x->n_epochs, (int64_t)o->n_docs, &x->n_places))
        return TX_FAIL(TX_ERR_ARG, "%lld epochs of %lld tokens are more than can be counted", (long long)x->n_epochs,
                       (long long)x->tokens_per_epoch);
    x->n_samples = (all - 1) / o->seq_length;
    return TX_OK;
}

/* Number of samples before the last epoch where that is shuffled by itself, else all of them. */
static int64_t first_part(tx_sample_index *x, const tx_sample_index_opts *o)
{
    if (x->n_epochs == 1) {
        tx_info(" > only one epoch required, setting separate_last_epoch to False");
        return x->n_samples;
    }
    int64_t before = ((x->n_epochs - 1) * x->tokens_per_epoch - 1) / o->seq_length;
    int64_t last = o->n_samples - before, per_epoch = (x->tokens_per_epoch - 1) / o->seq_length;
    int percent = o->rule == TX_EPOCH_BIGSCIENCE ? 95 : 80;
    double part = o->rule == TX_EPOCH_BIGSCIENCE ? 0.95 : 0.80; /* the double that Python multiplies by */
    x->last_epoch_apart = last < (int64_t)(part * (double)per_epoch);
    tx_info(" > last epoch number of samples (%lld) is %s than %d%% of number of samples per epoch (%lld), setting "
            "separate_last_epoch to %s",
            (long long)last, x->last_epoch_apart ? "smaller" : "larger", percent, (long long)per_epoch,
            x->last_epoch_apart ? "True" : "False");
    return x->last_epoch_apart ? before : x->n_samples;
}

static void fill_documents(tx_sample_index *x, const tx_sample_index_opts *o, tx_np_rng *rng)
{
    int32_t *doc = x->doc_idx;
    for (int64_t e = 0; e < x->n_epochs; e++)
        for (int32_t d = 0; d < o->n_docs; d++) *doc++ = o->first_doc + d;
    int64_t first = x->n_places - (x->last_epoch_apart ? o->n_docs : 0);
    tx_np_rng_shuffle_i32(rng, x->doc_idx, first);
    tx_np_rng_shuffle_i32(rng, x->doc_idx + first, x->n_places - first);
}

/* A sample takes seq_length + 1 tokens; its last token is where the next one begins, so the cut stays in the document
 * that the last token came from even when that document is used up. */
static void fill_samples(tx_sample_index *x, const tx_sample_index_opts *o)
{
    tx_sample_cut cut = { 0, 0 };
    x->sample_idx[0] = cut;
    for (int64_t k = 1; k <= x->n_samples; k++) {
        for (int64_t missing = o->seq_length + 1;;) {
            int64_t here = o->sizes[x->doc_idx[cut.place] - o->first_doc] - cut.token;
            if (missing <= here) {
                cut.token += missing - 1;
                break;
            }
            missing -= here;
            cut.place++;
            cut.token = 0;
        }
        x->sample_idx[k] = cut;
    }
}

static void fill_shuffle(tx_sample_index *x, int64_t first, tx_np_rng *rng)
{
    for (int64_t k = 0; k < x->n_samples; k++) x->shuffle_idx[k] = k;
    tx_np_rng_shuffle_i64(rng, x->shuffle_idx, first);
    tx_np_rng_shuffle_i64(rng, x->shuffle_idx + first, x->n_samples - first);
}

/* Megatron's line after each array, its spelling included; `start` is the clock before. */
#define ELAPSED(name) tx_info(" > elasped time to build and save " name " mapping (seconds): %.6f", tx_clock() - start)

tx_status tx_sample_index_build(tx_sample_index *out, const tx_sample_index_opts *o)
{
    TX_ASSERT(o->seq_length > 0 && o->n_samples >= 0 && o->n_docs >= 0);
    tx_sample_index x = { 0 };
    tx_status st;
    for (int32_t d = 0; d < o->n_docs; d++) x.tokens_per_epoch += o->sizes[d];
    if (!x.tokens_per_epoch) return TX_FAIL(TX_ERR_ARG, "none of the %d documents has a token", o->n_docs);
    TX_GOTO(count_epochs(&x, o));
    TX_GOTO(tx_alloc(&x.doc_idx, (size_t)x.n_places, sizeof *x.doc_idx, "the document order"));
    TX_GOTO(tx_alloc(&x.sample_idx, (size_t)x.n_samples + 1, sizeof *x.sample_idx, "the sample index"));
    TX_GOTO(tx_alloc(&x.shuffle_idx, (size_t)x.n_samples, sizeof *x.shuffle_idx, "the sample order"));

    tx_np_rng rng;
    tx_np_rng_seed(&rng, o->seed);
    int64_t first = first_part(&x, o);
    double start = tx_clock();
    fill_documents(&x, o, &rng);
    ELAPSED("doc-idx");
    start = tx_clock();
    fill_samples(&x, o);
    tx_info("    using:");
    tx_info("     number of documents:       %d", o->n_docs);
    tx_info("     number of epochs:          %lld", (long long)x.n_epochs);
    tx_info("     sequence length:           %lld", (long long)o->seq_length);
    tx_info("     total number of samples:   %lld", (long long)x.n_samples);
    ELAPSED("sample-idx");
    start = tx_clock();
    fill_shuffle(&x, first, &rng);
    ELAPSED("shuffle-idx");
    tx_info("    total number of samples: %lld", (long long)x.n_samples + 1);
    tx_info("    total number of epochs: %lld", (long long)x.n_epochs);
    *out = x;
    return TX_OK;
out:
    tx_sample_index_free(&x);
    return st;
}

void tx_sample_index_free(tx_sample_index *x)
{
    tx_free(x->doc_idx);
    tx_free(x->sample_idx);
    tx_free(x->shuffle_idx);
    *x = (tx_sample_index){ 0 };
}
