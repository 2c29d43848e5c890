/* blend.c - weights, requests and the two index arrays of a blend. */
#include "data/blend.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

/* numpy.sum: eight running sums, halves beyond 128. Another order could round the weights differently, and a tie
 * between two datasets would go to the other one. */
static double numpy_sum(const double *x, int n)
{
    if (n > 128) {
        int half = n / 2 - n / 2 % 8;
        return numpy_sum(x, half) + numpy_sum(x + half, n - half);
    }
    double r[8] = { 0 }, sum = 0;
    int i = 0;
    if (n >= 8) {
        for (; i < n - n % 8; i++) r[i % 8] += x[i];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++) sum += x[i];
    return sum;
}

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

void tx_blend_index(uint8_t *dataset, int64_t *sample, int64_t n_samples, const double *weight, int n, int64_t *count)
{
    for (int d = 0; d < n; d++) count[d] = 0;
    for (int64_t i = 0; i < n_samples; i++) {
        double x = i > 1 ? (double)i : 1, most = 0;
        int behind = 0;
        for (int d = 0; d < n; d++) {
            double missing = weight[d] * x - (double)count[d];
            if (d && !(missing > most)) continue; /* the first of equals */
            most = missing;
            behind = d;
        }
        dataset[i] = (uint8_t)behind;
        sample[i] = count[behind]++;
    }
}

static void log_ratios(const double *weight, const int64_t *count, int n, int64_t n_samples)
{
    tx_info(" > sample ratios:");
    for (int d = 0; d < n; d++)
        tx_info("   dataset %d, input: %g, achieved: %g", d, weight[d], (double)count[d] / (double)n_samples);
}

tx_status tx_blend_build(tx_blend *out, const tx_gpt_dataset *const *dataset, const double *weight, int n,
                         int64_t n_samples)
{
    TX_ASSERT(n >= 1 && n <= TX_BLEND_MAX && n_samples > 0);
    tx_blend b = { .n_datasets = n, .n_samples = n_samples };
    double start = tx_clock(), share[TX_BLEND_MAX], sum = numpy_sum(weight, n);
    int64_t count[TX_BLEND_MAX];
    tx_status st;
    tx_info("> building indices for blendable datasets ...");
    TX_GOTO(tx_alloc(&b.dataset, (size_t)n, sizeof *b.dataset, "a blend"));
    TX_GOTO(tx_alloc(&b.dataset_index, (size_t)n_samples, sizeof *b.dataset_index, "the index of a blend"));
    TX_GOTO(tx_alloc(&b.sample_index, (size_t)n_samples, sizeof *b.sample_index, "the index of a blend"));
    for (int d = 0; d < n; d++) {
        b.dataset[d] = dataset[d];
        share[d] = weight[d] / sum;
    }
    tx_blend_index(b.dataset_index, b.sample_index, n_samples, share, n, count);
    log_ratios(share, count, n, n_samples);
    for (int d = 0; d < n; d++)
        if (count[d] > tx_gpt_dataset_len(dataset[d])) {
            st = TX_FAIL(TX_ERR_ARG, "a blend of %lld samples needs %lld of dataset %d, which gives only %lld",
                         (long long)n_samples, (long long)count[d], d, (long long)tx_gpt_dataset_len(dataset[d]));
            goto out;
        }
    tx_info("> elapsed time for building blendable dataset indices: %.2f (sec)", tx_clock() - start);
    tx_info("> size of blendable dataset: %lld samples", (long long)n_samples);
    *out = b;
    return TX_OK;
out:
    tx_blend_free(&b);
    return st;
}

tx_status tx_blend_of_one(tx_blend *out, const tx_gpt_dataset *dataset)
{
    tx_blend b = { .n_datasets = 1, .n_samples = tx_gpt_dataset_len(dataset) };
    TX_TRY(tx_alloc(&b.dataset, 1, sizeof *b.dataset, "a dataset"));
    b.dataset[0] = dataset;
    *out = b;
    return TX_OK;
}

void tx_blend_free(tx_blend *b)
{
    tx_free(b->dataset);
    tx_free(b->dataset_index);
    tx_free(b->sample_index);
    *b = (tx_blend){ 0 };
}

tx_status tx_blend_get(const tx_blend *b, int32_t *tokens, int64_t i)
{
    TX_ASSERT(i >= 0 && i < b->n_samples);
    if (!b->dataset_index) return tx_gpt_dataset_get(b->dataset[0], tokens, i);
    return tx_gpt_dataset_get(b->dataset[b->dataset_index[i]], tokens, b->sample_index[i]);
}
