/* op_bench.c - how fast a backend's ops are at the sizes of a GPT-2 124M training step: median of several runs, in
 * GFLOP/s where matrix products dominate (causal attention counts the half that is there), else in GB/s of what has
 * to move.
 *
 *      op_bench [threads] [tokens] [fp32|bf16|fp16] [gemm|attention|rows|head|update] [--device gpu] [--runs N]
 *      TX_CPU_ISA=avx2 op_bench ...
 *
 *  Attention is timed causal, over all keys, and over all keys where about half of them pad; on a GPU causal, of 1024
 *  positions, those with dropout too, and of 8192. From 16384 tokens on (GPU: 65536) also in one row of them all beside
 * rows of 2048, and in one row of documents of 500 that do not see each other beside rows of 500. On a GPU a run is ten
 * calls one behind the other, from an idle device to an idle device. The type is that of values and of the residual
 * stream (backend/ops.h). Without the last word all are timed.
 *
 *  `make bench` in the build folder builds it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/rng.h"

enum { MAX_RUNS = 99, CALLS_ON_DEVICE = 10, H = 768, VOCAB = 50304, D = 64 };

static tx_ctx ctx;
static tx_dtype V = TX_F32; /* of values */
static int runs = 9, calls = 1;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "op_bench: %s\n", tx_last_error());
    exit(1);
}

static void *take(size_t bytes)
{
    void *x;
    check(tx_device_take(ctx.device, &x, bytes, false, "a tensor"));
    return x;
}

static void give(void *x)
{
    tx_device_give(ctx.device, x);
}

/* In [-1, 1), a million different ones, again and again. */
static void *numbers(tx_dtype type, int64_t n)
{
    const tx_rng rng = { .seed = 1 };
    size_t size = tx_dtype_size(type);
    int64_t some = n < 1 << 20 ? n : 1 << 20;
    char *block = malloc((size_t)some * size), *x = take((size_t)n * size);
    if (!block) abort();
    for (int64_t i = 0; i < some; i++) {
        float v = (float)tx_rng_u16(&rng, (uint64_t)i) / 32768.0f - 1.0f;
        uint16_t half = type == TX_BF16 ? tx_f32_to_bf16(v) : tx_f32_to_f16(v);
        memcpy(block + (size_t)i * size, type == TX_F32 ? (void *)&v : (void *)&half, size);
    }
    for (int64_t at = 0; at < n; at += some)
        check(
            tx_device_write(ctx.device, x + (size_t)at * size, block, (size_t)(n - at < some ? n - at : some) * size));
    free(block);
    return x;
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
    qsort(seconds, (size_t)runs, sizeof *seconds, by_time);
    printf("%-34s %9.3f ms  %7.1f %s\n", name, seconds[runs / 2] * 1e3, amount / seconds[runs / 2] / 1e9, unit);
    fflush(stdout);
}

#define TIME(name, amount, unit, call)                               \
    do {                                                             \
        double seconds[MAX_RUNS];                                    \
        for (int i_ = runs > 1 ? -2 : -1; i_ < runs; i_++) {         \
            check(tx_device_sync(ctx.device, TX_STREAM_COMPUTE));    \
            double start = tx_clock();                               \
            for (int j_ = 0; j_ < calls; j_++) check(call);          \
            check(tx_device_sync(ctx.device, TX_STREAM_COMPUTE));    \
            if (i_ >= 0) seconds[i_] = (tx_clock() - start) / calls; \
        }                                                            \
        report(name, seconds, amount, unit);                         \
    } while (0)

#define BENCH(name, amount, unit, op, ...) TIME(name, amount, unit, tx_op_##op(&ctx, &(tx_##op##_args){ __VA_ARGS__ }))

static tx_tensor view(void *base, int64_t first, int64_t s, int64_t b, int64_t groups, int64_t r)
{
    int64_t row = groups * 3 * D;
    void *x = (char *)base + (size_t)first * tx_dtype_size(V);
    return r ? (tx_tensor){ x, V, 5, { s, b, groups, r, D }, { b * row, row, 3 * D, D, 1 } }
             : (tx_tensor){ x, V, 4, { s, b, groups, D }, { b * row, row, 3 * D, 1 } };
}

typedef enum keys { CAUSAL, ALL, PADDED, DOCUMENTS } keys;

enum { DOCUMENT = 500 };

/* What is counted is what queries see.   @window 0: all before them */
static void attention(int64_t b, int64_t s, keys kind, uint32_t drop, int64_t window)
{
    const int64_t heads = H / D;
    void *x = numbers(V, s * b * 3 * H), *g = numbers(V, s * b * 3 * H), *o = numbers(V, s * b * H),
         *lse = numbers(TX_F32, s * b * heads);
    tx_tensor q = view(x, 0, s, b, heads, 1), k = view(x, D, s, b, heads, 0), v = view(x, 2 * D, s, b, heads, 0);
    tx_tensor dq = view(g, 0, s, b, heads, 1), dk = view(g, D, s, b, heads, 0), dv = view(g, 2 * D, s, b, heads, 0);
    tx_tensor y = { o, V, 5, { s, b, heads, 1, D }, { b * H, H, D, D, 1 } };
    tx_tensor l = { lse, TX_F32, 4, { b, heads, 1, s }, { heads * s, s, s, 1 } };
    tx_dropout mask = { .drop = drop, .s_global = s, .n_heads = heads };
    int32_t *n = take((size_t)b * sizeof *n), *first = take((size_t)(s * b) * sizeof *first), keys_of;
    int64_t pairs = 0;
    for (int64_t i = 0; i < b; i++) {
        keys_of = (int32_t)(kind == PADDED ? ((2 * i + 1) * s - 1) / (2 * b) + 1 : s); /* evenly over all lengths */
        check(tx_device_write(ctx.device, n + i, &keys_of, sizeof keys_of));
        pairs += kind == ALL || kind == PADDED ? s * keys_of : s * (s + 1) / 2;
        if (window && window < s) pairs -= (s - window - 1) * (s - window) / 2;
    }
    tx_tensor n_keys = tx_tensor1(kind == PADDED ? n : NULL, TX_I32, b);
    for (int64_t i = 0; i < s && kind == DOCUMENTS; i++) {
        keys_of = (int32_t)(i - i % DOCUMENT);
        pairs -= b * keys_of;
        for (int64_t j = 0; j < b; j++) check(tx_device_write(ctx.device, first + i * b + j, &keys_of, sizeof keys_of));
    }
    tx_tensor first_key = tx_tensor2(kind == DOCUMENTS ? first : NULL, TX_I32, s, b);
    bool causal = kind == CAUSAL || kind == DOCUMENTS;
    double flop = 4.0 * (double)(heads * D) * (double)pairs;
    char name[64], how[40];
    snprintf(how, sizeof how, "%s%s", (const char *[]){ "", " all keys", " padded", " documents" }[kind],
             drop ? " dropout" : "");
    if (window) snprintf(how, sizeof how, " window %d", (int)window);
    snprintf(name, sizeof name, "attention_fwd b=%d s=%d%s", (int)b, (int)s, how);
    BENCH(name, flop, "GFLOP/s", attention_fwd, .o = y, .lse = l, .q = q, .k = k, .v = v, .scale = 0.125,
          .causal = causal, .mask = mask, .first_key = first_key, .n_keys = n_keys, .kind.window = window);
    snprintf(name, sizeof name, "attention_bwd b=%d s=%d%s", (int)b, (int)s, how);
    BENCH(name, 2.5 * flop, "GFLOP/s", attention_bwd, .dq = dq, .dk = dk, .dv = dv, .do_ = y, .o = y, .lse = l, .q = q,
          .k = k, .v = v, .scale = 0.125, .causal = causal, .mask = mask, .first_key = first_key, .n_keys = n_keys,
          .kind.window = window);
    if (!drop && kind == CAUSAL) {
        tx_tensor q1 = tx_slice_rows(q, s - 1, 1), o1 = tx_slice_rows(y, s - 1, 1);
        snprintf(name, sizeof name, "attention_fwd b=%d 1 of %d%s", (int)b, (int)s, how);
        BENCH(name, values(2.0 * (double)((window && window < s ? window + 1 : s) * b * H)), "GB/s", attention_fwd,
              .o = o1, .q = q1, .k = k, .v = v, .scale = 0.125, .causal = true, .kind.window = window);
    }
    give(x), give(g), give(o), give(lse), give(n), give(first);
}

/* One row of all tokens, and what it is to cost no more than. */
static void long_rows(int64_t tokens)
{
    attention(tokens / 2048, 2048, CAUSAL, 0, 0);
    attention(1, tokens, CAUSAL, 0, 0);
    attention(tokens / DOCUMENT, DOCUMENT, CAUSAL, 0, 0);
    attention(1, tokens, DOCUMENTS, 0, 0);
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
    give(a), give(w), give(y), give(bias), give(sum);
}

static void head(int64_t m)
{
    int64_t n = VOCAB * (int64_t)H;
    void *x = numbers(V, m * H), *w = numbers(V, n), *dx = numbers(V, m * H);
    float *dw = numbers(TX_F32, n), *loss = numbers(TX_F32, m + 256), *weight = numbers(TX_F32, m + 256);
    float *z = numbers(TX_F32, 256 * VOCAB);
    int32_t *y = take((size_t)(m + 256) * sizeof *y);
    BENCH("head_loss", 6.0 * (double)(m * VOCAB) * H, "GFLOP/s", head_loss, .loss = tx_tensor1(loss, TX_F32, m),
          .dx = tx_tensor2(dx, V, m, H), .dw = tx_tensor2(dw, TX_F32, VOCAB, H), .x = tx_tensor2(x, V, m, H),
          .w = tx_tensor2(w, V, VOCAB, H), .y = tx_tensor1(y, TX_I32, m), .weight = tx_tensor1(weight, TX_F32, m),
          .n_valid = 50257);
    BENCH("cross_entropy 256 rows", 8.0 * 256 * VOCAB, "GB/s", cross_entropy, .loss = tx_tensor1(loss, TX_F32, 256),
          .z = tx_tensor2(z, TX_F32, 256, VOCAB), .y = tx_tensor1(y, TX_I32, 256),
          .weight = tx_tensor1(weight, TX_F32, 256), .n_valid = 50257);
    give(x), give(w), give(dw), give(dx), give(loss), give(weight), give(z), give(y);
}

/* Updates with one buffer of state.   @low  [n], or NULL */
static void one_state(int64_t n, float *p, float *state, void *low)
{
    double bytes = 20.0 * (double)n + (low ? values((double)n) : 0);
    tx_tensor w = tx_tensor1(p, TX_F32, n), m = tx_tensor1(state, TX_F32, n), g = tx_tensor1(p + n, TX_F32, n);
    tx_tensor out = tx_tensor1(low, V, n);
    BENCH("sgd", bytes, "GB/s", sgd, .p = w, .m = m, .g = g, .low = out, .lr = 1e-4, .momentum = 0.9, .grad_scale = 1);
    BENCH("sgd, nesterov", bytes, "GB/s", sgd, .p = w, .m = m, .g = g, .low = out, .lr = 1e-4, .momentum = 0.9,
          .nesterov = true, .grad_scale = 1);
    BENCH("lion", bytes, "GB/s", lion, .p = w, .m = m, .g = g, .low = out, .lr = 1e-4, .beta1 = 0.95, .beta2 = 0.98,
          .grad_scale = 1);
    BENCH("adagrad", bytes, "GB/s", adagrad, .p = w, .v = m, .g = g, .low = out, .lr = 1e-4, .eps = 1e-10,
          .grad_scale = 1);
}

/* What an iteration does to n parameters, and the memory it is done in. */
/* Elements of which a tensor of fp32 has twice the bytes of the last cache, so that memory is what is measured. */
static int64_t update_size(void)
{
    long cache = ctx.device ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE);
    int64_t least = runs > 1 ? VOCAB * (int64_t)H / 2 : H * (int64_t)H, n = cache / 2 / TX_SUMSQ_BLOCK * TX_SUMSQ_BLOCK;
    return n > least ? n : least;
}

/* Bytes are those that have to move. What is written is read first but by "copy", which goes past the caches: as long
 * as an op reads what it writes, that costs nothing more. */
static void update(int64_t n)
{
    int64_t n_sums = (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
    void *w = numbers(V, n);
    float *p = numbers(TX_F32, 2 * n), *mv = numbers(TX_F32, 2 * n);
    double *sums = take((size_t)n_sums * sizeof *sums);
    TIME("copy", 8.0 * (double)(2 * n), "GB/s",
         tx_device_copy(ctx.device, TX_STREAM_COMPUTE, mv, p, (size_t)(2 * n) * sizeof *p));
    BENCH("add in place (triad)", 12.0 * (double)n, "GB/s", add, .y = tx_tensor1(mv, TX_F32, n),
          .a = tx_tensor1(mv, TX_F32, n), .b = tx_tensor1(p, TX_F32, n));
    BENCH("adam", 28.0 * (double)n + (V == TX_F32 ? 0 : values((double)n)), "GB/s", adam, .p = tx_tensor1(p, TX_F32, n),
          .m = tx_tensor1(mv, TX_F32, n), .v = tx_tensor1(mv + n, TX_F32, n), .g = tx_tensor1(p + n, TX_F32, n),
          .low = tx_tensor1(V == TX_F32 ? NULL : w, V, n), .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
          .grad_scale = 1, .t = 1);
    one_state(n, p, mv, V == TX_F32 ? NULL : w);
    const tx_lamb_rule rule = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .correct1 = 1, .correct2 = 1 };
    double one = 1, *ratio = take(sizeof *ratio), *squares = take((size_t)(2 * n_sums) * sizeof *squares);
    check(tx_device_write(ctx.device, ratio, &one, sizeof one));
    BENCH("lamb_moments", 24.0 * (double)n + 16.0 * (double)n_sums, "GB/s", lamb_moments,
          .m = tx_tensor1(mv, TX_F32, n), .v = tx_tensor1(mv + n, TX_F32, n), .p = tx_tensor1(p, TX_F32, n),
          .g = tx_tensor1(p + n, TX_F32, n), .sums = tx_tensor2(squares, TX_F64, 2, n_sums), .rule = rule,
          .grad_scale = 1);
    BENCH("lamb_update", 16.0 * (double)n + (V == TX_F32 ? 0 : values((double)n)), "GB/s", lamb_update,
          .p = tx_tensor1(p, TX_F32, n), .m = tx_tensor1(mv, TX_F32, n), .v = tx_tensor1(mv + n, TX_F32, n),
          .low = tx_tensor1(V == TX_F32 ? NULL : w, V, n), .ratio = tx_tensor1(ratio, TX_F64, 1), .rule = rule,
          .lr = 1e-4);
    give(ratio), give(squares);
    BENCH("sumsq", values((double)n), "GB/s", sumsq, .x = tx_tensor1(w, V, n), .out = tx_tensor1(sums, TX_F64, n_sums));
    give(w), give(p), give(mv), give(sums);
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
    give(x), give(y), give(dy), give(p), give(st), give(grad);
}

/* --NAME VALUE, taken out of the arguments; NULL: it is not among them. */
static const char *option(int *argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < *argc; i++) {
        if (strcmp(argv[i], name)) continue;
        const char *value = argv[i + 1];
        for (*argc -= 2; i < *argc; i++) argv[i] = argv[i + 2];
        return value;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *device = option(&argc, argv, "--device"), *n_runs = option(&argc, argv, "--runs");
    const char *only = argc > 4 ? argv[4] : NULL;
    int64_t tokens = argc > 2 ? atoll(argv[2]) : 1024;
    static const tx_dtype types[] = { TX_F32, TX_BF16, TX_F16 };
    for (int i = 0; i < 3 && argc > 3; i++)
        if (!strcmp(argv[3], tx_dtype_name(types[i]))) V = types[i];
    check(tx_ctx_init(&ctx, device ? device : "cpu", argc > 1 ? atoi(argv[1]) : 0));
    if (n_runs) runs = atoi(n_runs);
    if (runs < 1 || runs > MAX_RUNS) check(TX_FAIL(TX_ERR_ARG, "--runs: 1 to %d", MAX_RUNS));
    if (ctx.device && runs > 1) calls = CALLS_ON_DEVICE;
    /* on a device attention's backward takes up to 2 b heads s² bytes and a sum of dq */
    size_t for_long_rows = (size_t)tokens * (ctx.device ? 65536 : (size_t)ctx.n_threads * 5 * D * sizeof(float));
    check(tx_arena_reserve(&ctx.scratch, ((size_t)256 << 20) + for_long_rows));
    ctx.dry = false;
    if (ctx.device)
        printf("%s; %d tokens, %s\n", ctx.device->name, (int)tokens, tx_dtype_name(V));
    else
        printf("%s; running %d, %d tokens, %s\n", ctx.backend->describe(), ctx.n_threads, (int)tokens,
               tx_dtype_name(V));
    if (!only || !strcmp(only, "gemm")) {
        if (!ctx.device) gemms(1); /* generation */
        gemms(tokens);
    }
    if (!only || !strcmp(only, "attention")) {
        if (ctx.device) {
            int64_t s = tokens < 1024 ? tokens : 1024;
            attention(tokens / s, s, CAUSAL, 0, 0);
            attention(tokens / s, s, CAUSAL, 6554, 0);
            if (tokens >= 8192) attention(tokens / 8192, 8192, CAUSAL, 0, 0);
            if (tokens >= 8192) attention(tokens / 8192, 8192, CAUSAL, 0, 256);
        } else {
            for (keys kind = CAUSAL; kind <= PADDED; kind++)
                for (int64_t s = kind == CAUSAL ? 256 : 128; s <= (kind == CAUSAL ? 1024 : 512); s *= 2)
                    attention(tokens >= s ? tokens / s : 1, s, kind, 0, 0);
            attention(tokens >= 256 ? tokens / 256 : 1, 256, CAUSAL, 6554, 0);
            attention(tokens >= 256 ? tokens / 256 : 1, 256, ALL, 6554, 0);
            for (int64_t window = 0; window <= 256 && tokens >= 4096; window += 256)
                attention(tokens / 4096, 4096, CAUSAL, 0, window);
        }
    }
    bool with_long_rows = tokens >= (ctx.device ? 65536 : 16384);
    if (with_long_rows && (!only || !strcmp(only, "attention"))) long_rows(tokens);
    if (!only || !strcmp(only, "rows")) rows(tokens);
    if (!only || !strcmp(only, "head")) head(tokens);
    if (!only || !strcmp(only, "update")) update(update_size());
    tx_ctx_deinit(&ctx);
    return 0;
}
