/* grouped_gemm.c - products of packed rows with each expert's matrix beside one product of as many operations: h 768, f
 * 3072, both layers of an MLP, forward, dX and dW.
 *
 *      grouped_gemm [--threads N] [--tokens N] [--experts N] [--runs N] [--uneven]
 *
 *  A line for each product, of fp32 and bf16: GFLOP/s of one product and of groups, and the rate of groups as a share
 * of the one's. The two are run in turn, and the median of each is taken. --tokens are those of an expert, of which
 * experts have all the same number, or with --uneven from none to twice as many. Without --experts 8 and 32 are timed.
 *
 *  `make bench` in the build folder builds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/rng.h"

enum { MAX_RUNS = 99, MAX_EXPERTS = 1024, H = 768, F = 3072 };

typedef enum mode { FORWARD, DX, DW, N_MODES } mode;
static const char *const mode_names[N_MODES] = { "forward", "dX", "dW" };

/* Matrices of experts, and those of one product; rows of both sides. */
typedef struct shape {
    tx_tensor w[MAX_EXPERTS], dw[MAX_EXPERTS], x, y, count;
    int64_t experts;
} shape;

static tx_ctx ctx;
static int runs = 9, tokens = 64;
static bool uneven;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "grouped_gemm: %s\n", tx_last_error());
    exit(1);
}

/* Of numbers in [-1, 1). */
static tx_tensor matrix(tx_dtype t, int64_t rows, int64_t columns)
{
    const tx_rng rng = { .seed = 1 };
    size_t size = tx_dtype_size(t);
    char *x = malloc((size_t)(rows * columns) * size);
    if (!x) abort();
    for (int64_t i = 0; i < rows * columns; i++) {
        float v = (float)tx_rng_u16(&rng, (uint64_t)i) / 32768.0f - 1.0f;
        uint16_t half = tx_f32_to_bf16(v);
        memcpy(x + (size_t)i * size, t == TX_F32 ? (void *)&v : (void *)&half, size);
    }
    return tx_tensor2(x, t, rows, columns);
}

static tx_tensors all(const tx_tensor *first)
{
    return (tx_tensors){ first, sizeof *first };
}

static void run_one(const shape *s, mode m)
{
    tx_gemm_args a = { .c = s->y, .a = s->x, .b = s->w[0], .trans_b = true };
    if (m == DX) a = (tx_gemm_args){ .c = s->x, .a = s->y, .b = s->w[0] };
    if (m == DW) a = (tx_gemm_args){ .c = s->dw[0], .a = s->y, .b = s->x, .trans_a = true };
    check(tx_op_gemm(&ctx, &a));
}

static void run_groups(const shape *s, mode m)
{
    tx_grouped_gemm_args a = { .c = s->y, .a = s->x, .b = all(s->w), .count = s->count, .trans_b = true };
    if (m == DX) a = (tx_grouped_gemm_args){ .c = s->x, .a = s->y, .b = all(s->w), .count = s->count };
    if (m == DW)
        check(tx_op_grouped_dw(&ctx,
                               &(tx_grouped_dw_args){ .dw = all(s->dw), .dy = s->y, .x = s->x, .count = s->count }));
    else
        check(tx_op_grouped_gemm(&ctx, &a));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_both(const shape *s, mode m, double median[2])
{
    double seconds[2][MAX_RUNS];
    for (int i = -2; i < runs; i++)
        for (int groups = 0; groups < 2; groups++) {
            double start = tx_clock();
            if (groups)
                run_groups(s, m);
            else
                run_one(s, m);
            if (i >= 0) seconds[groups][i] = tx_clock() - start;
        }
    for (int groups = 0; groups < 2; groups++) {
        qsort(seconds[groups], (size_t)runs, sizeof(double), by_size);
        median[groups] = seconds[groups][runs / 2];
    }
}

static void bench(int64_t experts, tx_dtype t, int64_t in, int64_t out)
{
    static shape s;
    static int32_t counts[MAX_EXPERTS];
    int64_t rows = experts * tokens;
    s.experts = experts;
    s.x = matrix(t, rows, in), s.y = matrix(t, rows, out);
    s.count = tx_tensor1(counts, TX_I32, experts);
    for (int64_t e = 0; e < experts; e++) {
        s.w[e] = matrix(t, out, in), s.dw[e] = matrix(TX_F32, out, in);
        counts[e] = (int32_t)(uneven && experts > 1 ? 2 * tokens * e / (experts - 1) : tokens);
    }
    for (int64_t e = 0, sum = 0; uneven && e < experts; e++)
        if (e == experts - 1)
            counts[e] = (int32_t)(rows - sum);
        else
            sum += counts[e];
    for (mode m = 0; m < N_MODES; m++) {
        double s_[2], flops = 2.0 * (double)rows * (double)in * (double)out;
        time_both(&s, m, s_);
        printf("%-5s %3lld experts  %4lld -> %4lld  %-8s one %6.1f  groups %6.1f GFLOP/s  %5.1f %%\n", tx_dtype_name(t),
               (long long)experts, (long long)in, (long long)out, mode_names[m], flops / s_[0] / 1e9,
               flops / s_[1] / 1e9, 100 * s_[0] / s_[1]);
        fflush(stdout);
    }
    free(s.x.data), free(s.y.data);
    for (int64_t e = 0; e < experts; e++) free(s.w[e].data), free(s.dw[e].data);
}

int main(int argc, char **argv)
{
    int threads = 0, only = 0;
    for (int i = 1; i < argc; i++) {
        int n = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        if (!strcmp(argv[i], "--uneven")) uneven = true;
        if (!strcmp(argv[i], "--threads")) threads = n;
        if (!strcmp(argv[i], "--tokens")) tokens = n;
        if (!strcmp(argv[i], "--experts")) only = n;
        if (!strcmp(argv[i], "--runs")) runs = n < MAX_RUNS ? n : MAX_RUNS;
    }
    check(tx_ctx_init(&ctx, "cpu", threads));
    check(tx_arena_reserve(&ctx.scratch, (size_t)256 << 20));
    ctx.dry = false;
    for (int experts = 8; experts <= 32; experts *= 4)
        for (tx_dtype t = TX_F32; t <= TX_BF16; t++) {
            if (t != TX_F32 && t != TX_BF16) continue;
            bench(only ? only : experts, t, H, F);
            bench(only ? only : experts, t, F, H);
            if (only && t == TX_BF16) experts = 32;
        }
    tx_ctx_deinit(&ctx);
    return 0;
}
