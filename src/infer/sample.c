/* sample.c - temperature, top-k, top-p and the draw. */
#include "infer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The k-th largest of x[0..n), k >= 1, by quickselect (Hoare 1961) in `work`: a vocabulary is too long to sort per
 * token. */
static double kth_largest(const double *x, int64_t n, int64_t k, double *work)
{
    memcpy(work, x, (size_t)n * sizeof *x);
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        double pivot = work[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) { /* larger ones to the left */
            while (work[i] > pivot) i++;
            while (work[j] < pivot) j--;
            if (i > j) break;
            double swap = work[i];
            work[i++] = work[j];
            work[j--] = swap;
        }
        if (k - 1 <= j)
            hi = j;
        else if (k - 1 >= i)
            lo = i;
        else
            break; /* between j and i all equal the pivot */
    }
    return work[k - 1];
}

/* exp(x - max) / Σ; entries of -infinity become 0. */
static void softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

/* Drops, from the least likely on, every token whose tail (itself and all less likely) has at most 1 - p; the
 * likeliest stays. */
static void keep_nucleus(double *prob, int64_t n, double p, double *work)
{
    int64_t n_kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (prob[i] > 0) work[n_kept++] = prob[i];
    qsort(work, (size_t)n_kept, sizeof *work, descending);
    double tail = 0, threshold = 0;
    for (int64_t i = n_kept - 1; i > 0; i--) {
        tail += work[i];
        if (tail > 1 - p) break;
        threshold = work[i];
    }
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (prob[i] > prob[best]) best = i;
    for (int64_t i = 0; i < n; i++) {
        if (prob[i] <= threshold && i != best) prob[i] = 0;
        sum += prob[i];
    }
    for (int64_t i = 0; i < n; i++) prob[i] /= sum;
}

void tx_sample_filter(const tx_sampler *s, double *prob, const float *logits, int64_t n, double *work)
{
    for (int64_t i = 0; i < n; i++) prob[i] = (double)logits[i] / s->temperature;
    if (s->top_k > 0 && s->top_k < n) {
        double threshold = kth_largest(prob, n, s->top_k, work);
        for (int64_t i = 0; i < n; i++)
            if (prob[i] < threshold) prob[i] = -INFINITY;
    }
    softmax(prob, n);
    if (s->top_p > 0 && s->top_p < 1) keep_nucleus(prob, n, s->top_p, work);
}

int32_t tx_sample_token(const tx_sampler *s, const float *logits, int64_t n, double u, double *prob, double *work)
{
    int64_t best = 0;
    if (s->greedy || s->top_k == 1) {
        for (int64_t i = 1; i < n; i++)
            if (logits[i] > logits[best]) best = i;
        return (int32_t)best;
    }
    tx_sample_filter(s, prob, logits, n, work);
    double at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (prob[i] == 0) continue;
        best = i; /* rounding may leave u at or above the sum: then the last token kept */
        at += prob[i];
        if (u < at) break;
    }
    return (int32_t)best;
}
