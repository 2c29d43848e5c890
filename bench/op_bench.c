/* op_bench.c - how fast the ops of backend cpu are at the sizes of a GPT-2 124M training step: median of several runs,
 * in GFLOP/s where matrix products dominate (causal attention counts the half that is there), else in GB/s of what has
 * to move.
 *
 *      op_bench [threads] [tokens]      TX_CPU_ISA=avx2 op_bench ...
 *
 *  `make bench` in the build folder builds it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/rng.h"

enum { RUNS = 9, H = 768, V = 50304, D = 64 };

static tx_ctx ctx;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "op_bench: %s\n", tx_last_error());
    exit(1);
}

static float *numbers(int64_t n)
{
    const tx_rng rng = { .seed = 1 };
    float *x = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    if (!x) abort();
    for (int64_t i = 0; i < n; i++) x[i] = (float)tx_rng_u16(&rng, (uint64_t)i) / 32768.0f - 1.0f;
    return x;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, double *seconds, double amount, const char *unit)
{
    qsort(seconds, RUNS, sizeof *seconds, by_time);
    printf("%-34s %9.3f ms  %7.1f %s\n", name, seconds[RUNS / 2] * 1e3, amount / seconds[RUNS / 2] / 1e9, unit);
}

#define BENCH(name, amount, unit, op, ...)                              \
    do {                                                                \
        double seconds[RUNS];                                           \
        for (int i_ = -2; i_ < RUNS; i_++) {                            \
            double start = tx_clock();                                  \
            check(tx_run_##op(&ctx, &(tx_##op##_args){ __VA_ARGS__ })); \
            if (i_ >= 0) seconds[i_] = tx_clock() - start;              \
        }                                                               \
        report(name, seconds, amount, unit);                            \
    } while (0)

static tx_tensor view(float *x, int64_t s, int64_t b, int64_t groups, int64_t r)
{
    int64_t row = groups * 3 * D;
    return r ? (tx_tensor){ x, TX_F32, 5, { s, b, groups, r, D }, { b * row, row, 3 * D, D, 1 } }
             : (tx_tensor){ x, TX_F32, 4, { s, b, groups, D }, { b * row, row, 3 * D, 1 } };
}

static void attention(int64_t b, int64_t s, uint32_t drop)
{
    const int64_t heads = H / D;
    float *x = numbers(s * b * 3 * H), *g = numbers(s * b * 3 * H), *o = numbers(s * b * H),
          *lse = numbers(s * b * heads);
    tx_tensor q = view(x, s, b, heads, 1), k = view(x + D, s, b, heads, 0), v = view(x + 2 * D, s, b, heads, 0);
    tx_tensor dq = view(g, s, b, heads, 1), dk = view(g + D, s, b, heads, 0), dv = view(g + 2 * D, s, b, heads, 0);
    tx_tensor y = { o, TX_F32, 5, { s, b, heads, 1, D }, { b * H, H, D, D, 1 } };
    tx_tensor l = { lse, TX_F32, 4, { b, heads, 1, s }, { heads * s, s, s, 1 } };
    tx_dropout mask = { .drop = drop, .s_global = s, .n_heads = heads };
    double flop = 2.0 * (double)(b * heads * D) * (double)s * (double)(s + 1);
    char name[64];
    snprintf(name, sizeof name, "attention_fwd b=%d s=%d%s", (int)b, (int)s, drop ? " dropout" : "");
    BENCH(name, flop, "GFLOP/s", attention_fwd, .o = y, .lse = l, .q = q, .k = k, .v = v, .scale = 0.125,
          .causal = true, .mask = mask);
    snprintf(name, sizeof name, "attention_bwd b=%d s=%d%s", (int)b, (int)s, drop ? " dropout" : "");
    BENCH(name, 2.5 * flop, "GFLOP/s", attention_bwd, .dq = dq, .dk = dk, .dv = dv, .do_ = y, .o = y, .lse = l, .q = q,
          .k = k, .v = v, .scale = 0.125, .causal = true, .mask = mask);
    if (!drop) {
        tx_tensor q1 = tx_slice_rows(q, s - 1, 1), o1 = tx_slice_rows(y, s - 1, 1);
        snprintf(name, sizeof name, "attention_fwd b=%d 1 of %d", (int)b, (int)s);
        BENCH(name, 8.0 * (double)(s * b * H), "GB/s", attention_fwd, .o = o1, .q = q1, .k = k, .v = v, .scale = 0.125,
              .causal = true);
    }
    free(x), free(g), free(o), free(lse);
}

static void gemms(int64_t m)
{
    static const int64_t shape[][2] = { { H, 3 * H }, { H, H }, { H, 4 * H }, { 4 * H, H } };
    float *a = numbers(m * 4 * H), *w = numbers(4 * H * H), *y = numbers(m * 4 * H), *bias = numbers(4 * H);
    for (int i = 0; i < 4; i++) {
        int64_t k = shape[i][0], n = shape[i][1];
        double flop = 2.0 * (double)(m * n) * (double)k;
        tx_tensor x = tx_tensor2(a, TX_F32, m, k), out = tx_tensor2(y, TX_F32, m, n),
                  weight = tx_tensor2(w, TX_F32, n, k);
        char name[64];
        snprintf(name, sizeof name, "gemm fwd m=%d k=%d n=%d", (int)m, (int)k, (int)n);
        BENCH(name, flop, "GFLOP/s", gemm, .c = out, .a = x, .b = weight, .trans_b = true,
              .bias = tx_tensor1(bias, TX_F32, n));
        BENCH("     dX", flop, "GFLOP/s", gemm, .c = x, .a = out, .b = weight);
        BENCH("     dW", flop, "GFLOP/s", gemm, .c = weight, .a = out, .b = x, .trans_a = true, .accumulate = true);
    }
    free(a), free(w), free(y), free(bias);
}

static void head(int64_t m)
{
    float *x = numbers(m * H), *w = numbers(V * (int64_t)H), *dw = numbers(V * (int64_t)H), *dx = numbers(m * H);
    float *loss = numbers(m), *weight = numbers(m), *z = numbers(256 * V);
    int32_t *y = calloc((size_t)m, sizeof *y);
    if (!y) abort();
    BENCH("head_loss", 6.0 * (double)(m * V) * H, "GFLOP/s", head_loss, .loss = tx_tensor1(loss, TX_F32, m),
          .dx = tx_tensor2(dx, TX_F32, m, H), .dw = tx_tensor2(dw, TX_F32, V, H), .x = tx_tensor2(x, TX_F32, m, H),
          .w = tx_tensor2(w, TX_F32, V, H), .y = tx_tensor1(y, TX_I32, m), .weight = tx_tensor1(weight, TX_F32, m),
          .n_valid = 50257);
    BENCH("cross_entropy 256 rows", 8.0 * 256 * V, "GB/s", cross_entropy, .loss = tx_tensor1(loss, TX_F32, 256),
          .z = tx_tensor2(z, TX_F32, 256, V), .y = tx_tensor1(y, TX_I32, 256),
          .weight = tx_tensor1(weight, TX_F32, 256), .n_valid = 50257);
    int64_t n = V * (int64_t)H / 2;
    BENCH("adam", 28.0 * (double)n, "GB/s", adam, .p = tx_tensor1(w, TX_F32, n), .m = tx_tensor1(dw, TX_F32, n),
          .v = tx_tensor1(dw + n, TX_F32, n), .g = tx_tensor1(w + n, TX_F32, n), .lr = 1e-4, .beta1 = 0.9,
          .beta2 = 0.95, .eps = 1e-8, .grad_scale = 1, .t = 1);
    double *sums = calloc((size_t)n / TX_SUMSQ_BLOCK + 1, sizeof *sums);
    if (!sums) abort();
    BENCH("sumsq", 4.0 * (double)n, "GB/s", sumsq, .x = tx_tensor1(w, TX_F32, n),
          .out = tx_tensor1(sums, TX_F64, (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK));
    free(x), free(w), free(dw), free(dx), free(loss), free(weight), free(z), free(y), free(sums);
}

static void rows(int64_t m)
{
    float *x = numbers(m * 4 * H), *y = numbers(m * 4 * H), *dy = numbers(m * 4 * H), *p = numbers(8 * H),
          *st = numbers(2 * m);
    double n = (double)m * H;
    tx_tensor tx = tx_tensor2(x, TX_F32, m, H), ty = tx_tensor2(y, TX_F32, m, H), tdy = tx_tensor2(dy, TX_F32, m, H);
    tx_tensor gamma = tx_tensor1(p, TX_F32, H), beta = tx_tensor1(p + H, TX_F32, H);
    tx_tensor mu = tx_tensor1(st, TX_F32, m), rs = tx_tensor1(st + m, TX_F32, m);
    BENCH("layernorm_fwd", 8 * n, "GB/s", layernorm_fwd, .y = ty, .mu = mu, .rs = rs, .x = tx, .gamma = gamma,
          .beta = beta, .eps = 1e-5);
    BENCH("layernorm_bwd", 16 * n, "GB/s", layernorm_bwd, .dx = ty, .dgamma = gamma, .dbeta = beta, .dy = tdy, .x = tx,
          .dres = ty, .gamma = gamma, .mu = mu, .rs = rs);
    tx_tensor wide = tx_tensor2(x, TX_F32, m, 4 * H), wide_y = tx_tensor2(y, TX_F32, m, 4 * H);
    tx_tensor wide_dy = tx_tensor2(dy, TX_F32, m, 4 * H);
    BENCH("activation_fwd", 32 * n, "GB/s", activation_fwd, .y = wide_y, .x = wide);
    BENCH("activation_bwd", 48 * n, "GB/s", activation_bwd, .dx = wide_y, .dy = wide_dy, .x = wide);
    tx_dropout mask = { .drop = 6554, .s_global = m };
    tx_tensor x3 = tx_tensor3(x, TX_F32, m, 1, H), y3 = tx_tensor3(y, TX_F32, m, 1, H),
              r3 = tx_tensor3(dy, TX_F32, m, 1, H);
    BENCH("dropout_add_fwd", 12 * n, "GB/s", dropout_add_fwd, .y = y3, .x = x3, .residual = r3, .mask = mask);
    BENCH("col_sum", 16 * n, "GB/s", col_sum, .y = tx_tensor1(p, TX_F32, 4 * H), .x = wide);
    free(x), free(y), free(dy), free(p), free(st);
}

int main(int argc, char **argv)
{
    int64_t tokens = argc > 2 ? atoll(argv[2]) : 1024;
    check(tx_ctx_init(&ctx, "cpu", argc > 1 ? atoi(argv[1]) : 0));
    check(tx_arena_reserve(&ctx.scratch, (size_t)256 << 20));
    ctx.dry = false;
    printf("%s; running %d, %d tokens\n", ctx.backend->describe(), ctx.n_threads, (int)tokens);
    gemms(1); /* generation */
    gemms(tokens);
    for (int64_t s = 256; s <= 1024; s *= 2) attention(tokens >= s ? tokens / s : 1, s, 0);
    attention(tokens >= 256 ? tokens / 256 : 1, 256, 6554);
    rows(tokens);
    head(tokens);
    tx_ctx_deinit(&ctx);
    return 0;
}
