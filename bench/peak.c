/* peak.c - what the cores in use can do at most, and how near the library's matrix products come.
 *
 *      peak [THREADS] [LARGEST, 2048]
 *
 *  LARGEST: rows and columns of the largest product; the smallest has 512.
 *
 *  `make bench` in the build folder builds it. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "peak: %s\n", tx_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    tx_ctx c;
    tx_bandwidth memory;
    int64_t largest = argc > 2 ? atoll(argv[2]) : 2048;
    check(tx_ctx_init(&c, "cpu", argc > 1 ? atoi(argv[1]) : 0));
    double fp32 = c.backend->peak_flops(&c, TX_F32), bf16 = c.backend->peak_flops(&c, TX_BF16);
    printf("%s\n", c.backend->describe());
    printf("%d threads of this process\n", c.n_threads);
    printf("fp32 multiply-adds      %9.1f GFLOP/s\n", fp32 * 1e-9);
    if (bf16 > 0)
        printf("bf16 multiply-adds      %9.1f GFLOP/s\n", bf16 * 1e-9);
    else
        printf("bf16 multiply-adds           none: the processor has neither avx512_bf16 nor AMX\n");
    for (int64_t n = 512; n <= largest; n *= 2) {
        double rate;
        check(tx_product_rate(&rate, "cpu", c.n_threads, n, TX_F32));
        printf("fp32 product, n = %4d  %9.1f GFLOP/s, %.1f %% of the peak\n", (int)n, rate * 1e-9, 100 * rate / fp32);
    }
    check(c.backend->bandwidth(&c, &memory));
    printf("memory, arrays of %.0f MiB: read %.1f, copy %.1f, triad %.1f GB/s\n",
           (double)memory.array_bytes / 1048576.0, memory.read * 1e-9, memory.copy * 1e-9, memory.triad * 1e-9);
    tx_ctx_deinit(&c);
    return 0;
}
