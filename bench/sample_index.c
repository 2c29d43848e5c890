/* sample_index.c - seconds and peak memory of building Megatron's sample order in memory.
 *
 *      sample_index [SAMPLES, 1e8] [SEQ_LENGTH, 1024] [TOKENS a document, 1024] [EPOCHS, 1] [DATASETS, 1]
 *
 *  Document sizes are synthetic, uniform in 1 .. 2 TOKENS - 1. With DATASETS > 1 the order of a blend of that many
 *  equal datasets and SAMPLES samples is built too. `make bench` in the build folder builds it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "data/blend.h"
#include "data/sample_index.h"

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "sample_index: %s\n", tx_last_error());
    exit(1);
}

static double peak_gb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss * 1024 / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void show(void *user, tx_log_level level, const char *line)
{
    (void)user, (void)level;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    double arg[5] = { 1e8, 1024, 1024, 1, 1 };
    for (int k = 0; k < 5 && k + 1 < argc; k++) arg[k] = atof(argv[k + 1]);
    int64_t n = (int64_t)arg[0], seq = (int64_t)arg[1], mean = (int64_t)arg[2], epochs = (int64_t)arg[3];
    int n_sets = (int)arg[4];
    if (n < 1 || seq < 1 || mean < 1 || epochs < 1 || n_sets < 1 || n_sets > TX_BLEND_MAX) {
        fprintf(stderr, "usage: sample_index [SAMPLES] [SEQ_LENGTH] [TOKENS] [EPOCHS] [DATASETS]\n");
        return 2;
    }
    tx_log_set(show, NULL, TX_LOG_INFO);
    int64_t n_docs = n * seq / mean / epochs + 1;
    tx_rng rng = { .seed = 1 };
    int32_t *sizes;
    check(tx_alloc(&sizes, (size_t)n_docs, sizeof *sizes, "sizes"));
    for (int64_t d = 0; d < n_docs; d++) sizes[d] = 1 + (int32_t)(tx_rng_u16(&rng, (uint64_t)d) * (2 * mean - 1) >> 16);
    printf("%lld documents, %.2f GB before\n", (long long)n_docs, peak_gb());

    tx_sample_index x;
    tx_sample_index_opts o = {
        .sizes = { sizes, n_docs, TX_INT_I32 }, .n_samples = n * 99 / 100, .seq_length = seq, .seed = 1234
    };
    double start = tx_clock(), cpu = cpu_seconds();
    check(tx_sample_index_build(&x, &o));
    printf("%lld samples, %lld epochs: %.2f s (%.2f of the processor), peak %.2f GB\n", (long long)x.n_samples,
           (long long)x.n_epochs, tx_clock() - start, cpu_seconds() - cpu, peak_gb());
    tx_sample_index_free(&x);
    tx_free(sizes);
    if (n_sets == 1) return 0;

    tx_blend_order order;
    double weight[TX_BLEND_MAX];
    for (int d = 0; d < n_sets; d++) weight[d] = 1.0 / n_sets;
    double before = peak_gb();
    start = tx_clock();
    check(tx_blend_order_build(&order, n, weight, n_sets));
    double bytes = (double)n + (double)((n - 1) / TX_BLEND_BLOCK + 2) * n_sets * 8;
    printf("a blend of %d: %.2f s, %.2f bytes a sample, peak %.2f GB (%.2f before)\n", n_sets, tx_clock() - start,
           bytes / (double)n, peak_gb(), before);
    int64_t sum = 0, sample;
    start = tx_clock();
    for (int64_t i = 0; i < 1000000; i++) {
        tx_blend_order_at(&order, i * 7919 % n, &sample);
        sum += sample;
    }
    printf("a look-up: %.0f ns (%lld)\n", (tx_clock() - start) * 1e3, (long long)sum);
    tx_blend_order_free(&order);
    return 0;
}
