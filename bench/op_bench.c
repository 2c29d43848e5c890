/* op_bench.c - how fast the ops of backend cpu are at the sizes of a GPT-2 124M training step: median of several runs,
 * in GFLOP/s where matrix products dominate (causal attention counts the half that is there), else in GB/s of what has
 * to move.
 *
 *      op_bench [threads] [tokens] [fp32|bf16|fp16] [gemm|attention|rows|head]      TX_CPU_ISA=avx2 op_bench ...
 *
 *  Attention is timed causal, over all keys, and over all keys where about half of them pad.
 *  The type is that of values and of the residual stream (backend/ops.h). Without the last word all are timed.
 *
 *  `make bench` in the build folder builds it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/rng.h"

enum { RUNS = 9, H = 768, VOCAB = 50304, D = 64 };

static tx_ctx ctx;
static tx_dtype V = TX_F32; /* of values */

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "op_bench: %s\n", tx_last_error());
    exit(1);
}

static void *numbers(tx_dtype type, int64_t n)
{
    const tx_rng rng = { .seed = 1 };
    size_t size = tx_dtype_size(type);
    char *data = aligned_alloc(64, ((size_t)n * size + 63) / 64 * 64);
    if (!data) abort();
    for (int64_t i = 0; i < n; i++) {
        float x = (float)tx_rng_u16(&rng, (uint64_t)i) / 32768.0f - 1.0f;
        uint16_t half = type == TX_BF16 ? tx_f32_to_bf16(x) : tx_f32_to_f16(x);
        memcpy(data + (size_t)i * size, type == TX_F32 ? (void *)&x : (void *)&half, size);
    }
    return data;
}

/* Bytes of n values. */
static double values(double n)
{
    return n * (double)tx_dtype_size(V);
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

static tx_tensor view(void *base, int64_t first, int64_t s, int64_t b, int64_t groups, int64_t r)
{
    int64_t row = groups * 3 * D;
    void *x = (char *)base + (size_t)first * tx_dtype_size(V);
    return r ? (tx_tensor){ x, V, 5, { s, b, groups, r, D }, { b * row, row, 3 * D, D, 1 } }
             : (tx_tensor){ x, V, 4, { s, b, groups, D }, { b * row, row, 3 * D, 1 } };
}

typedef enum keys { CAUSAL, ALL, PADDED } keys;

/* What is counted is what queries see. */
static void attention(int64_t b, int64_t s, keys kind, uint32_t drop)
{
    const int64_t heads = H / D;
    void *x = numbers(V, s * b * 3 * H), *g = numbers(V, s * b * 3 * H), *o = numbers(V, s * b * H),
         *lse = numbers(TX_F32, s * b * heads);
    tx_tensor q = view(x, 0, s, b, heads, 1), k = view(x, D, s, b, heads, 0), v = view(x, 2 * D, s, b, heads, 0);
    tx_tensor dq = view(g, 0, s, b, heads, 1), dk = view(g, D, s, b, heads, 0), dv = view(g, 2 * D, s, b, heads, 0);
    tx_tensor y = { o, V, 5, { s, b, heads, 1, D }, { b * H, H, D, D, 1 } };
    tx_tensor l = { lse, TX_F32, 4, { b, heads, 1, s }, { heads * s, s, s, 1 } };
    tx_dropout mask = { .drop = drop, .s_global = s, .n_heads = heads };
    int32_t *n = calloc((size_t)b, sizeof *n);
    if (!n) abort();
    int64_t pairs = 0;
    for (int64_t i = 0; i < b; i++) {
        n[i] = (int32_t)(kind == PADDED ? (2 * i + 1) * s / (2 * b) : s); /* evenly over all lengths */
        pairs += kind == CAUSAL ? s * (s + 1) / 2 : s * n[i];
    }
    tx_tensor n_keys = tx_tensor1(kind == PADDED ? n : NULL, TX_I32, b);
    bool causal = kind == CAUSAL;
    double flop = 4.0 * (double)(heads * D) * (double)pairs;
    char name[64], how[40];
    snprintf(how, sizeof how, "%s%s", (const char *[]){ "", " all keys", " padded" }[kind], drop ? " dropout" : "");
    snprintf(name, sizeof name, "attention_fwd b=%d s=%d%s", (int)b, (int)s, how);
    BENCH(name, flop, "GFLOP/s", attention_fwd, .o = y, .lse = l, .q = q, .k = k, .v = v, .scale = 0.125,
          .causal = causal, .mask = mask, .n_keys = n_keys);
    snprintf(name, sizeof name, "attention_bwd b=%d s=%d%s", (int)b, (int)s, how);
    BENCH(name, 2.5 * flop, "GFLOP/s", attention_bwd, .dq = dq, .dk = dk, .dv = dv, .do_ = y, .o = y, .lse = l, .q = q,
          .k = k, .v = v, .scale = 0.125, .causal = causal, .mask = mask, .n_keys = n_keys);
    if (!drop && kind == CAUSAL) {
        tx_tensor q1 = tx_slice_rows(q, s - 1, 1), o1 = tx_slice_rows(y, s - 1, 1);
        snprintf(name, sizeof name, "attention_fwd b=%d 1 of %d", (int)b, (int)s);
        BENCH(name, values(2.0 * (double)(s * b * H)), "GB/s", attention_fwd, .o = o1, .q = q1, .k = k, .v = v,
              .scale = 0.125, .causal = true);
    }
    free(x), free(g), free(o), free(lse), free(n);
}

static void gemms(int64_t m)
{
    static const int64_t shape[][2] = { { H, 3 * H }, { H, H }, { H, 4 * H }, { 4 * H, H }, { 1024, 1024 } };
    void *a = numbers(V, m * 4 * H), *w = numbers(V, 4 * H * H), *y = numbers(V, m * 4 * H), *bias = numbers(V, 4 * H),
         *sum = numbers(TX_F32, 4 * H * H);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        int64_t k = shape[i][0], n = shape[i][1];
        double flop = 2.0 * (double)(m * n) * (double)k;
        tx_tensor x = tx_tensor2(a, V, m, k), out = tx_tensor2(y, V, m, n), weight = tx_tensor2(w, V, n, k);
        char name[64];
        snprintf(name, sizeof name, "gemm fwd m=%d k=%d n=%d", (int)m, (int)k, (int)n);
        BENCH(name, flop, "GFLOP/s", gemm, .c = out, .a = x, .b = weight, .trans_b = true,
              .bias = tx_tensor1(bias, V, n));
        BENCH("     dX", flop, "GFLOP/s", gemm, .c = x, .a = out, .b = weight);
        BENCH("     dW", flop, "GFLOP/s", gemm, .c = tx_tensor2(sum, TX_F32, n, k), .a = out, .b = x, .trans_a = true,
              .accumulate = true);
    }
    free(a), free(w), free(y), free(bias), free(sum);
}

static void head(int64_t m)
{
    int64_t n = VOCAB * (int64_t)H / 2;
    void *x = numbers(V, m * H), *w = numbers(V, 2 * n), *dx = numbers(V, m * H);
    float *dw = numbers(TX_F32, 2 * n), *p = numbers(TX_F32, 2 * n);
    float *loss = numbers(TX_F32, m), *weight = numbers(TX_F32, m), *z = numbers(TX_F32, 256 * VOCAB);
    int32_t *y = calloc((size_t)m, sizeof *y);
    if (!y) abort();
    BENCH("head_loss", 6.0 * (double)(m * VOCAB) * H, "GFLOP/s", head_loss, .loss = tx_tensor1(loss, TX_F32, m),
          .dx = tx_tensor2(dx, V, m, H), .dw = tx_tensor2(dw, TX_F32, VOCAB, H), .x = tx_tensor2(x, V, m, H),
          .w = tx_tensor2(w, V, VOCAB, H), .y = tx_tensor1(y, TX_I32, m), .weight = tx_tensor1(weight, TX_F32, m),
          .n_valid = 50257);
    BENCH("cross_entropy 256 rows", 8.0 * 256 * VOCAB, "GB/s", cross_entropy, .loss = tx_tensor1(loss, TX_F32, 256),
          .z = tx_tensor2(z, TX_F32, 256, VOCAB), .y = tx_tensor1(y, TX_I32, 256),
          .weight = tx_tensor1(weight, TX_F32, 256), .n_valid = 50257);
    BENCH("adam", 28.0 * (double)n + (V == TX_F32 ? 0 : values((double)n)), "GB/s", adam, .p = tx_tensor1(p, TX_F32, n),
          .m = tx_tensor1(dw, TX_F32, n), .v = tx_tensor1(dw + n, TX_F32, n), .g = tx_tensor1(p + n, TX_F32, n),
          .low = tx_tensor1(V == TX_F32 ? NULL : w, V, n), .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
          .grad_scale = 1, .t = 1);
    double *sums = calloc((size_t)n / TX_SUMSQ_BLOCK + 1, sizeof *sums);
    if (!sums) abort();
    BENCH("sumsq", values((double)n), "GB/s", sumsq, .x = tx_tensor1(w, V, n),
          .out = tx_tensor1(sums, TX_F64, (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK));
    free(x), free(w), free(dw), free(dx), free(p), free(loss), free(weight), free(z), free(y), free(sums);
}

static void rows(int64_t m)
{
    void *x = numbers(V, m * 4 * H), *y = numbers(V, m * 4 * H), *dy = numbers(V, m * 4 * H), *p = numbers(V, 2 * H);
    float *st = numbers(TX_F32, 2 * m), *grad = numbers(TX_F32, 4 * H);
    double n = (double)m * H;
    tx_tensor tx = tx_tensor2(x, V, m, H), ty = tx_tensor2(y, V, m, H), tdy = tx_tensor2(dy, V, m, H);
    tx_tensor gamma = tx_tensor1(p, V, H), dgamma = tx_tensor1(grad, TX_F32, H),
              dbeta = tx_tensor1(grad + H, TX_F32, H);
    tx_tensor mu = tx_tensor1(st, TX_F32, m), rs = tx_tensor1(st + m, TX_F32, m);
    BENCH("layernorm_fwd", values(2 * n), "GB/s", layernorm_fwd, .y = ty, .mu = mu, .rs = rs, .x = tx, .gamma = gamma,
          .beta = gamma, .eps = 1e-5);
    BENCH("layernorm_bwd", values(4 * n), "GB/s", layernorm_bwd, .dx = ty, .dgamma = dgamma, .dbeta = dbeta, .dy = tdy,
          .x = tx, .dres = ty, .gamma = gamma, .mu = mu, .rs = rs);
    tx_tensor wide = tx_tensor2(x, V, m, 4 * H), wide_y = tx_tensor2(y, V, m, 4 * H);
    tx_tensor wide_dy = tx_tensor2(dy, V, m, 4 * H);
    BENCH("activation_fwd", values(8 * n), "GB/s", activation_fwd, .y = wide_y, .x = wide);
    BENCH("activation_bwd", values(12 * n), "GB/s", activation_bwd, .dx = wide_y, .dy = wide_dy, .x = wide);
    tx_tensor half = tx_tensor2(y, V, m, 2 * H);
    BENCH("glu_fwd", values(6 * n), "GB/s", glu_fwd, .y = half, .x = wide);
    BENCH("glu_bwd", values(10 * n), "GB/s", glu_bwd, .dx = wide_dy, .dy = half, .x = wide);
    tx_dropout mask = { .drop = 6554, .s_global = m };
    tx_tensor x3 = tx_tensor3(x, V, m, 1, H), y3 = tx_tensor3(y, V, m, 1, H), r3 = tx_tensor3(dy, V, m, 1, H);
    BENCH("dropout_add_fwd", values(3 * n), "GB/s", dropout_add_fwd, .y = y3, .x = x3, .residual = r3, .mask = mask);
    BENCH("dropout_add_fwd, none dropped", values(3 * n), "GB/s", dropout_add_fwd, .y = y3, .x = x3, .residual = r3);
    BENCH("col_sum", values(4 * n), "GB/s", col_sum, .y = tx_tensor1(grad, TX_F32, 4 * H), .x = wide);
    free(x), free(y), free(dy), free(p), free(st), free(grad);
}

int main(int argc, char **argv)
{
    const char *only = argc > 4 ? argv[4] : NULL;
    int64_t tokens = argc > 2 ? atoll(argv[2]) : 1024;
    static const tx_dtype types[] = { TX_F32, TX_BF16, TX_F16 };
    for (int i = 0; i < 3 && argc > 3; i++)
        if (!strcmp(argv[3], tx_dtype_name(types[i]))) V = types[i];
    check(tx_ctx_init(&ctx, "cpu", argc > 1 ? atoi(argv[1]) : 0));
    check(tx_arena_reserve(&ctx.scratch, (size_t)256 << 20));
    ctx.dry = false;
    printf("%s; running %d, %d tokens, %s\n", ctx.backend->describe(), ctx.n_threads, (int)tokens, tx_dtype_name(V));
    if (!only || !strcmp(only, "gemm")) {
        gemms(1); /* generation */
        gemms(tokens);
    }
    if (!only || !strcmp(only, "attention")) {
        for (keys kind = CAUSAL; kind <= PADDED; kind++)
            for (int64_t s = kind == CAUSAL ? 256 : 128; s <= (kind == CAUSAL ? 1024 : 512); s *= 2)
                attention(tokens >= s ? tokens / s : 1, s, kind, 0);
        attention(tokens >= 256 ? tokens / 256 : 1, 256, CAUSAL, 6554);
        attention(tokens >= 256 ? tokens / 256 : 1, 256, ALL, 6554);
    }
    if (!only || !strcmp(only, "rows")) rows(tokens);
    if (!only || !strcmp(only, "head")) head(tokens);
    tx_ctx_deinit(&ctx);
    return 0;
}
