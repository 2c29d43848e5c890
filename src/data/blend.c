/* blend.c - weights, requests and the two index arrays of a blend. */
#include "data/blend.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/numpy_rng.h"

tx_status tx_blend_normalize(double *weight, int n)
{
    double sum = 0;
    for (int d = 0; d < n; d++) {
        if (!isfinite(weight[d]) || weight[d] < 0)
            return TX_FAIL(TX_ERR_ARG, "the weight %g of a blend must be a number of at least 0", weight[d]);
        sum += weight[d];
    }
    if (!(sum > 0) || !isfinite(sum))
        return TX_FAIL(TX_ERR_ARG, "the weights of a blend have the sum %g: it must be above 0", sum);
    for (int d = 0; d < n; d++) weight[d] /= sum;
    return TX_OK;
}

tx_status tx_blend_request(int64_t *out, int64_t n, double weight)
{
    double request = ceil((double)n * weight * 1.005);
    if (!(request < 0x1p62)) return TX_FAIL(TX_ERR_ARG, "%g samples of one dataset cannot be counted", request);
    *out = (int64_t)request;
    return TX_OK;
}

tx_status tx_blend_order_build(tx_blend_order *out, int64_t n, const double *weight, int n_sets)
{
    TX_ASSERT(n > 0 && n_sets >= 1 && n_sets <= TX_BLEND_MAX);
    tx_blend_order o = { .n = n, .n_sets = n_sets };
    size_t n_rows = (size_t)((n - 1) / TX_BLEND_BLOCK + 2);
    double count[TX_BLEND_MAX] = { 0 };
    tx_status st;
    TX_GOTO(tx_alloc(&o.set, (size_t)n, sizeof *o.set, "the index of a blend"));
    TX_GOTO(tx_alloc(&o.before, n_rows, (size_t)n_sets * sizeof *o.before, "the index of a blend"));
    for (int64_t i = 0, *row = o.before;; i++) {
        if (i % TX_BLEND_BLOCK == 0 || i == n)
            for (int d = 0; d < n_sets; d++) *row++ = (int64_t)count[d];
        if (i == n) break;
        double x = i > 1 ? (double)i : 1, most = weight[0] * x - count[0];
        int behind = 0;
        for (int d = 1; d < n_sets; d++) {
            double missing = weight[d] * x - count[d];
            if (!(missing > most)) continue; /* the first of equals */
            most = missing;
            behind = d;
        }
        o.set[i] = (uint8_t)behind;
        count[behind]++;
    }
    *out = o;
    return TX_OK;
out:
    tx_blend_order_free(&o);
    return st;
}

void tx_blend_order_free(tx_blend_order *o)
{
    tx_free(o->set);
    tx_free(o->before);
    *o = (tx_blend_order){ 0 };
}

int64_t tx_blend_order_before(const tx_blend_order *o, int64_t i, int set)
{
    TX_ASSERT(i >= 0 && i <= o->n);
    int64_t row = i < o->n ? i / TX_BLEND_BLOCK : (o->n - 1) / TX_BLEND_BLOCK + 1;
    int64_t n = o->before[row * o->n_sets + set];
    if (i < o->n)
        for (int64_t k = row * TX_BLEND_BLOCK; k < i; k++) n += o->set[k] == set;
    return n;
}

int tx_blend_order_at(const tx_blend_order *o, int64_t i, int64_t *sample)
{
    int set = o->set[i];
    *sample = tx_blend_order_before(o, i, set);
    return set;
}

static void log_ratios(const tx_blend *b)
{
    const tx_blend_order *o = &b->order;
    tx_info(" > sample ratios:");
    for (int d = 0; d < b->n_datasets; d++)
        tx_info("   dataset %d, input: %g, achieved: %g", d, b->weight[d],
                (double)tx_blend_order_before(o, o->n, d) / (double)o->n);
}

static int64_t len_of(tx_sample_set s)
{
    return s.kind->len(s.set);
}

/* Whether every dataset gives what the order asks of it. */
static tx_status check_counts(const tx_blend *b)
{
    for (int d = 0; d < b->n_datasets && !b->keyed; d++) {
        int64_t n = tx_blend_order_before(&b->order, b->order.n, d), len = len_of(b->dataset[d]);
        if (n > len)
            return TX_FAIL(TX_ERR_ARG, "a blend of %lld samples needs %lld of dataset %d, which gives only %lld",
                           (long long)b->n_samples, (long long)n, d, (long long)len);
    }
    return TX_OK;
}

static tx_status make(tx_blend *out, const tx_sample_set *dataset, const double *weight, int n, int64_t n_samples,
                      bool keyed)
{
    TX_ASSERT(!keyed || dataset->kind->id);
    tx_blend b = { .n_datasets = n, .n_samples = n_samples, .keyed = keyed };
    tx_status st;
    TX_GOTO(tx_alloc(&b.dataset, (size_t)n, sizeof *b.dataset, "a blend"));
    TX_GOTO(tx_alloc(&b.weight, (size_t)n, sizeof *b.weight, "a blend"));
    TX_GOTO(tx_alloc(&b.sample, (size_t)n, sizeof *b.sample, "a blend"));
    double sum = tx_numpy_sum(weight, n); /* another order could round weights so that a tie goes another way */
    for (int d = 0; d < n; d++) {
        b.dataset[d] = dataset[d];
        b.weight[d] = weight[d] / sum;
    }
    *out = b;
    return TX_OK;
out:
    tx_blend_free(&b);
    return st;
}

tx_status tx_blend_build(tx_blend *out, const tx_sample_set *dataset, const double *weight, int n, int64_t n_samples,
                         bool keyed)
{
    TX_ASSERT(n >= 1 && n <= TX_BLEND_MAX && n_samples > 0);
    tx_blend b = { 0 };
    double start = tx_clock();
    tx_status st;
    tx_info("> building indices for blendable datasets ...");
    TX_GOTO(make(&b, dataset, weight, n, n_samples, keyed));
    TX_GOTO(tx_blend_order_build(&b.order, keyed ? TX_BLEND_PERIOD : n_samples, b.weight, n));
    log_ratios(&b);
    TX_GOTO(check_counts(&b));
    tx_info("> elapsed time for building blendable dataset indices: %.2f (sec)", tx_clock() - start);
    tx_info("> size of blendable dataset: %lld samples", (long long)n_samples);
    *out = b;
    return TX_OK;
out:
    tx_blend_free(&b);
    return st;
}

tx_status tx_blend_of_one(tx_blend *out, tx_sample_set dataset, bool keyed)
{
    return make(out, &dataset, &(double){ 1 }, 1, len_of(dataset), keyed);
}

void tx_blend_free(tx_blend *b)
{
    tx_free(b->dataset);
    tx_free(b->weight);
    tx_free(b->sample);
    tx_blend_order_free(&b->order);
    *b = (tx_blend){ 0 };
}

int tx_blend_find(const tx_blend *b, int64_t i, int64_t *sample)
{
    TX_ASSERT(i >= b->from && (b->keyed || i < b->n_samples));
    int set = 0;
    i -= b->from;
    *sample = i;
    if (b->order.n) {
        int64_t round = i / b->order.n;
        set = tx_blend_order_at(&b->order, i % b->order.n, sample);
        *sample += round * tx_blend_order_before(&b->order, b->order.n, set);
    }
    *sample += b->sample[set];
    return set;
}

tx_status tx_blend_get(const tx_blend *b, int32_t *scratch, int32_t *row, int64_t i)
{
    int64_t own;
    const tx_sample_set *from = &b->dataset[tx_blend_find(b, i, &own)];
    return from->kind->get(from->set, scratch, row, own);
}

const char *tx_blend_path(const tx_blend *b, int dataset)
{
    const tx_sample_set *s = &b->dataset[dataset];
    return s->kind->file(s->set)->prefix;
}
