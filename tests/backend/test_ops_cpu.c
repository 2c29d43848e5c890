/* labels: op */
/* test_ops_cpu.c - backend cpu against ref, op by op, on shapes that are odd, minimal and large, for each instruction
 * set of this processor and several thread counts. A case builds its tensors anew from the same numbers, runs its ops
 * on the given backend and lists what came out; the lists are compared. The bound is in units of fp32's epsilon times
 * the size of what the result is a sum of. And the same call twice gives the same bits. */
#include "backend/op_test.h"

/* ---- results and their comparison ---- */

typedef struct result {
    const char *name;
    tx_tensor x;     /* contiguous */
    double bound;    /* |difference| <= bound epsilon (|value| + rms) */
    bool same_zeros; /* a mask: zero where the other is zero and only there */
} result;

typedef struct results {
    result r[8];
    int n;
} results;

static void out(results *o, const char *name, tx_tensor x, double bound)
{
    assert_true(o->n < 8);
    o->r[o->n++] = (result){ name, x, bound, false };
}

typedef void (*case_fn)(tx_ctx *c, const int64_t *p, results *o);

typedef struct op_case {
    const char *name;
    case_fn run;
    int64_t p[8];
} op_case;

static void compare(const char *where, const result *got, const result *want)
{
    int64_t n = tx_numel(want->x);
    double square = 0, eps = 0x1p-23;
    for (int64_t i = 0; i < n; i++) square += pow(tx__ref_load(want->x, i), 2);
    double rms = sqrt(square / (double)n);
    for (int64_t i = 0; i < n; i++) {
        double g = tx__ref_load(got->x, i), w = tx__ref_load(want->x, i);
        if (!(fabs(g - w) <= want->bound * eps * (fabs(w) + rms)))
            fail_msg("%s: %s[%lld] is %.9g, ref has %.9g (%.1f of %.1f allowed)", where, want->name, (long long)i, g, w,
                     fabs(g - w) / eps / (fabs(w) + rms), want->bound);
        if (want->same_zeros && (g == 0) != (w == 0))
            fail_msg("%s: %s[%lld]: masks differ", where, want->name, (long long)i);
    }
}

/* ---- cases ---- */

/* p: rows, h, with dres */
static void layernorm(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1];
    tx_tensor x = RAND(TX_F32, rows, h), gamma = RAND(TX_F32, h), beta = RAND(TX_F32, h), dy = RAND(TX_F32, rows, h);
    tx_tensor dres = RAND(TX_F32, rows, h), y = ZEROS(TX_F32, rows, h), mu = ZEROS(TX_F32, rows),
              rs = ZEROS(TX_F32, rows);
    tx_tensor dx = ZEROS(TX_F32, rows, h), dgamma = RAND(TX_F32, h), dbeta = RAND(TX_F32, h);
    RUN(c, layernorm_fwd, .y = y, .mu = mu, .rs = rs, .x = x, .gamma = gamma, .beta = beta, .eps = 1e-5);
    if (!p[2]) dres.data = NULL;
    RUN(c, layernorm_bwd, .dx = dx, .dgamma = dgamma, .dbeta = dbeta, .dy = dy, .x = x, .dres = dres, .gamma = gamma,
        .mu = mu, .rs = rs);
    out(o, "y", y, 16);
    out(o, "mu", mu, 16);
    out(o, "rs", rs, 16);
    /* with one or two columns xhat is 0 or ±1 and dx the small rest of a cancellation */
    out(o, "dx", dx, h < 3 ? 1e5 : 64);
    out(o, "dgamma", dgamma, 64);
    out(o, "dbeta", dbeta, 64);
    /* in place of dy and of dres */
    RUN(c, layernorm_bwd, .dx = dy, .dgamma = dgamma, .dbeta = dbeta, .dy = dy, .x = x, .dres = dres, .gamma = gamma,
        .mu = mu, .rs = rs);
    assert_memory_equal(dy.data, dx.data, (size_t)(rows * h) * 4);
}

/* p: rows, h, with dres */
static void rmsnorm(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1];
    tx_tensor x = RAND(TX_F32, rows, h), gamma = RAND(TX_F32, h), dy = RAND(TX_F32, rows, h);
    tx_tensor dres = RAND(TX_F32, rows, h), y = ZEROS(TX_F32, rows, h), rs = ZEROS(TX_F32, rows);
    tx_tensor dx = ZEROS(TX_F32, rows, h), dgamma = RAND(TX_F32, h);
    RUN(c, rmsnorm_fwd, .y = y, .rs = rs, .x = x, .gamma = gamma, .eps = 1e-5);
    if (!p[2]) dres.data = NULL;
    RUN(c, rmsnorm_bwd, .dx = dx, .dgamma = dgamma, .dy = dy, .x = x, .dres = dres, .gamma = gamma, .rs = rs);
    out(o, "y", y, 16);
    out(o, "rs", rs, 16);
    out(o, "dx", dx, h < 2 ? 1e5 : 64); /* with one column xhat is ±1 and dx the small rest of a cancellation */
    out(o, "dgamma", dgamma, 64);
    /* in place of dy and of dres */
    RUN(c, rmsnorm_bwd, .dx = dy, .dgamma = dgamma, .dy = dy, .x = x, .dres = dres, .gamma = gamma, .rs = rs);
    assert_memory_equal(dy.data, dx.data, (size_t)(rows * h) * 4);
}

/* p: n, kind */
static void activation(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(TX_F32, p[0]), dy = RAND(TX_F32, p[0]), y = ZEROS(TX_F32, p[0]), dx = ZEROS(TX_F32, p[0]);
    for (int64_t i = 0; i < p[0]; i++) ((float *)x.data)[i] *= 3; /* out to where it is flat */
    RUN(c, activation_fwd, .y = y, .x = x, .kind = (tx_activation)p[1]);
    RUN(c, activation_bwd, .dx = dx, .dy = dy, .x = x, .kind = (tx_activation)p[1]);
    out(o, "y", y, 4);
    out(o, "dx", dx, 8);
}

/* p: rows, f */
static void swiglu(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(TX_F32, p[0], 2 * p[1]), dy = RAND(TX_F32, p[0], p[1]), y = ZEROS(TX_F32, p[0], p[1]),
              dx = ZEROS(TX_F32, p[0], 2 * p[1]);
    for (int64_t i = 0; i < 2 * p[0] * p[1]; i++) ((float *)x.data)[i] *= 3;
    RUN(c, swiglu_fwd, .y = y, .x = x);
    RUN(c, swiglu_bwd, .dx = dx, .dy = dy, .x = x);
    out(o, "y", y, 4);
    out(o, "dx", dx, 8);
    RUN(c, swiglu_bwd, .dx = x, .dy = dy, .x = x);
    assert_memory_equal(x.data, dx.data, (size_t)(2 * p[0] * p[1]) * 4);
}

/* p: s, b, groups, r, d, n_rot, first: the queries and keys of a fused tensor, and back */
static void rope(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], groups = p[2], r = p[3], d = p[4];
    tx_tensor all = RAND(TX_F32, s, b, groups, r + 2, d), turned = RAND(TX_F32, s, b, groups, r + 2, d);
    tx_tensor qk = all, *x[] = { &all, &turned };
    for (int i = 0; i < 2; i++) {
        qk = *x[i];
        qk.dim[3] = r + 1;
        RUN(c, rope, .x = qk, .n_rot = p[5], .first = p[6], .theta = 10000, .inverse = i);
    }
    out(o, "turned", all, 2);
    out(o, "turned back", turned, 2);
}

/* p: s, b, h, drop, residual */
static void dropout(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], h = p[2];
    tx_tensor x = RAND(TX_F32, s, b, h), residual = RAND(TX_F32, s, b, h), y = ZEROS(TX_F32, s, b, h),
              dx = ZEROS(TX_F32, s, b, h);
    tx_dropout mask = {
        .rng = { 0x123456789abcdefull, 77, 5 }, .drop = (uint32_t)p[3], .sample = 1000, .s_global = s + 3, .first_s = 2
    };
    if (!p[4]) residual.data = NULL;
    RUN(c, dropout_add_fwd, .y = y, .x = x, .residual = residual, .mask = mask);
    RUN(c, dropout_add_bwd, .dx = dx, .dy = x, .mask = mask);
    out(o, "y", y, 2);
    out(o, "dx", dx, 2);
    o->r[o->n - 1].same_zeros = true;
}

/* [s, b] with a document's beginning every `length` positions, in sample 1 one later, ...; 0: absent */
static tx_tensor documents(int64_t s, int64_t b, int64_t length)
{
    tx_tensor x = ZEROS(TX_I32, s, b);
    if (!length) x.data = NULL;
    for (int64_t i = 0; i < s && length; i++)
        for (int64_t j = 0; j < b; j++) ((int32_t *)x.data)[i * b + j] = (int32_t)(i < j ? 0 : i - (i - j) % length);
    return x;
}

/* p: s, b, groups, r, d, causal, drop, length of documents */
static void attention(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], groups = p[2], r = p[3], d = p[4];
    qkv x = fused_qkv(RAND(TX_F32, s, b, groups, r + 2, d), s, b, groups, r, d);
    qkv g = fused_qkv(RAND(TX_F32, s, b, groups, r + 2, d), s, b, groups, r, d);
    tx_tensor y = RAND(TX_F32, s, b, groups, r, d), lse = ZEROS(TX_F32, b, groups, r, s),
              dy = RAND(TX_F32, s, b, groups, r, d);
    tx_dropout mask = { .rng = { 5, 6, 7 },
                        .drop = (uint32_t)p[6],
                        .sample = 3,
                        .s_global = s + 5,
                        .n_heads = 2 * groups * r,
                        .first_head = 1 };
    tx_tensor first_key = documents(s, b, p[7]);
    double scale = 1 / sqrt((double)d);
    RUN(c, attention_fwd, .o = y, .lse = lse, .q = x.q, .k = x.k, .v = x.v, .scale = scale, .causal = p[5],
        .mask = mask, .first_key = first_key);
    RUN(c, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = dy, .o = y, .lse = lse, .q = x.q, .k = x.k, .v = x.v,
        .scale = scale, .causal = p[5], .mask = mask, .first_key = first_key);
    out(o, "o", y, 32);
    out(o, "lse", lse, 16);
    out(o, "dqkv", g.all, 64);
}

/* p: sq, sk, b, groups, r, d, causal, first key: queries at the end of a cache of keys that is longer than it is full
 */
static void cached_attention(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t sq = p[0], sk = p[1], b = p[2], groups = p[3], r = p[4], d = p[5];
    tx_tensor k = RAND(TX_F32, sk + 3, b, groups, d), v = RAND(TX_F32, sk + 3, b, groups, d),
              q = RAND(TX_F32, sq, b, groups, r, d);
    tx_tensor y = RAND(TX_F32, sq, b, groups, r, d), lse = ZEROS(TX_F32, b, groups, r, sq);
    tx_tensor first_key = ZEROS(TX_I32, sq, b);
    for (int64_t i = 0; i < sq * b; i++) ((int32_t *)first_key.data)[i] = (int32_t)p[7];
    if (!p[7]) first_key.data = NULL;
    RUN(c, attention_fwd, .o = y, .lse = lse, .q = q, .k = tx_slice_rows(k, 0, sk), .v = tx_slice_rows(v, 0, sk),
        .scale = 0.3, .causal = p[6], .first_key = first_key);
    out(o, "o", y, 32);
    out(o, "lse", lse, 16);
}

/* p: m, n, k, trans_a, trans_b, accumulate, bias, extra row length. C begins as NaN where it is only written. */
static void gemm(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t m = p[0], n = p[1], k = p[2], extra = p[7];
    tx_tensor a = p[3] ? RAND(TX_F32, k, m + extra) : RAND(TX_F32, m, k + extra);
    tx_tensor b = p[4] ? RAND(TX_F32, n, k + extra) : RAND(TX_F32, k, n + extra);
    tx_tensor y = RAND(TX_F32, m, n + extra), bias = RAND(TX_F32, n), part = y;
    a.dim[1] -= extra, b.dim[1] -= extra, part.dim[1] -= extra;
    if (!p[6]) bias.data = NULL;
    for (int64_t i = 0; i < m && !p[5]; i++)
        for (int64_t j = 0; j < n; j++) tx__ref_store(y, i * (n + extra) + j, NAN);
    RUN(c, gemm, .c = part, .a = a, .b = b, .bias = bias, .trans_a = p[3], .trans_b = p[4], .accumulate = p[5]);
    out(o, "c", y, 4 + sqrt((double)k)); /* and what lies between the rows of C is as it was */
}

/* p: rows, v, n_valid, weight, extra row length, percent of smoothing */
static void cross_entropy(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], v = p[1], extra = p[4];
    tx_tensor z = RAND(TX_F32, rows, v + extra), y = indices(ZEROS(TX_I32, rows), 0, (int32_t)p[2]),
              loss = ZEROS(TX_F32, rows);
    tx_tensor weight = RAND(TX_F32, rows), part = z;
    part.dim[1] = v;
    if (rows > 2) ((int32_t *)y.data)[1] = -1;
    if (p[2] < v) ((float *)z.data)[v - 1] = INFINITY;   /* padding is not looked at */
    if (p[2] < v && !p[3]) ((float *)z.data)[v - 1] = 0; /* but stays what it is without weight */
    if (!p[3]) weight.data = NULL;
    RUN(c, cross_entropy, .loss = loss, .z = part, .y = y, .weight = weight, .n_valid = p[2],
        .smoothing = (double)p[5] / 100);
    out(o, "loss", loss, 8);
    out(o, "z", z, 16);
}

/* p: rows, h, v, n_valid, weight */
static void head_loss(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1], v = p[2];
    tx_tensor x = RAND(TX_F32, rows, h), w = RAND(TX_F32, v, h), y = indices(ZEROS(TX_I32, rows), 0, (int32_t)p[3]);
    tx_tensor loss = ZEROS(TX_F32, rows), dx = ZEROS(TX_F32, rows, h), dw = RAND(TX_F32, v, h),
              weight = RAND(TX_F32, rows);
    for (int64_t i = 0; i < v * h; i++) ((float *)w.data)[i] *= 0.3f;
    if (!p[4]) weight.data = NULL;
    RUN(c, head_loss, .loss = loss, .dx = dx, .dw = dw, .x = x, .w = w, .y = y, .weight = weight, .n_valid = p[3]);
    out(o, "loss", loss, 32);
    if (p[4]) out(o, "dx", dx, 64);
    out(o, "dw", dw, 64);
}

/* p: s, b, h, v, with positions */
static void embedding(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], h = p[2], v = p[3];
    tx_tensor token = indices(ZEROS(TX_I32, s, b), 0, (int32_t)v),
              position = indices(ZEROS(TX_I32, s, b), 0, (int32_t)s);
    tx_tensor word = RAND(TX_F32, v, h), pos = RAND(TX_F32, s, h), y = ZEROS(TX_F32, s, b, h);
    if (!p[4]) pos.data = NULL;
    RUN(c, embedding_fwd, .y = y, .token = token, .position = position, .word = word, .pos = pos);
    out(o, "y", y, 1);
    RUN(c, embedding_bwd, .dword = word, .dpos = pos, .dy = y, .token = token, .position = position);
    out(o, "dword", word, 16);
    if (p[4]) out(o, "dpos", pos, 16);
}

/* p: rows, n */
static void col_sum(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(TX_F32, p[0], p[1]), y = RAND(TX_F32, p[1]);
    RUN(c, col_sum, .y = y, .x = x);
    out(o, "y", y, 64);
}

/* p: n */
static void flat_ops(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor x = RAND(TX_F32, n), bf = ZEROS(TX_BF16, n), back = ZEROS(TX_F32, n), half = ZEROS(TX_F16, n),
              i32 = ZEROS(TX_I32, n);
    RUN(c, cast, .y = bf, .x = x);
    RUN(c, cast, .y = back, .x = bf);
    RUN(c, cast, .y = half, .x = x);
    out(o, "bf16", bf, 0);
    out(o, "back", back, 0);
    out(o, "fp16", half, 0);
    tx_tensor sum = ZEROS(TX_F64, (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK);
    RUN(c, sumsq, .out = sum, .x = x);
    out(o, "sumsq", sum, 1e-6);
    RUN(c, fill, .x = back, .value = 1.5);
    RUN(c, fill, .x = i32, .value = -3);
    RUN(c, fill, .x = bf, .value = 0);
    out(o, "fp32 filled", back, 0);
    out(o, "int32 filled", i32, 0);
    out(o, "bf16 cleared", bf, 0);
}

/* p: rows, columns, extra row length: of part of each row into part of each row, and what lies between stays */
static void strided_cast(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(TX_F32, p[0], 2, p[1] + p[2]), bf = RAND(TX_BF16, p[0], 2, p[1] + p[2]);
    tx_tensor back = RAND(TX_F32, p[0], 2, p[1]), from = x, to = bf;
    from.dim[2] = to.dim[2] = p[1];
    RUN(c, cast, .y = to, .x = from);
    RUN(c, cast, .y = back, .x = to);
    out(o, "bf16", bf, 0);
    out(o, "back", back, 0);
}

/* p: n, step */
static void adam(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), v = RAND(TX_F32, n), g = RAND(TX_F32, n);
    for (int64_t i = 0; i < n; i++) ((float *)v.data)[i] *= ((float *)v.data)[i];
    RUN(c, adam, .p = w, .m = m, .v = v, .g = g, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8,
        .weight_decay = 0.01, .grad_scale = 0.125, .t = p[1]);
    out(o, "p", w, 4);
    out(o, "m", m, 4);
    out(o, "v", v, 4);
}

/* p: n */
static void sgd(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), g = RAND(TX_F32, n);
    RUN(c, sgd, .p = w, .m = m, .g = g, .lr = 1e-2, .momentum = 0.9, .weight_decay = 0.01, .grad_scale = 0.125);
    out(o, "p", w, 4);
    out(o, "m", m, 4);
}

/* p: n */
static void count_zeros(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(TX_F32, p[0]), n = ZEROS(TX_F64, 1);
    for (int64_t i = 0; i < p[0]; i += 3) ((float *)x.data)[i] = 0;
    RUN(c, count_zeros, .out = n, .x = x);
    out(o, "n", n, 0);
}

/* clang-format off */
static const op_case cases[] = {
    { "layernorm 1x1", layernorm, { 1, 1, 0 } },
    { "layernorm 3x17", layernorm, { 3, 17, 1 } },
    { "layernorm 65x80", layernorm, { 65, 80, 0 } },
    { "layernorm 130x768", layernorm, { 130, 768, 1 } },
    { "gelu tanh 1", activation, { 1, TX_GELU_TANH } },
    { "gelu tanh 17", activation, { 17, TX_GELU_TANH } },
    { "gelu tanh 100003", activation, { 100003, TX_GELU_TANH } },
    { "gelu erf 1", activation, { 1, TX_GELU_ERF } },
    { "gelu erf 65", activation, { 65, TX_GELU_ERF } },
    { "gelu erf 100003", activation, { 100003, TX_GELU_ERF } },
    { "squared relu 1", activation, { 1, TX_SQUARED_RELU } },
    { "squared relu 1003", activation, { 1003, TX_SQUARED_RELU } },
    { "rmsnorm 1x1", rmsnorm, { 1, 1, 0 } },
    { "rmsnorm 3x17", rmsnorm, { 3, 17, 1 } },
    { "rmsnorm 130x768", rmsnorm, { 130, 768, 1 } },
    { "swiglu 1x1", swiglu, { 1, 1 } },
    { "swiglu 17x65", swiglu, { 17, 65 } },
    { "swiglu 130x340", swiglu, { 130, 340 } },
    { "rope 1x1", rope, { 1, 1, 1, 1, 2, 2, 0 } },
    { "rope 17x2 in part", rope, { 17, 2, 3, 2, 20, 6, 5 } },
    { "rope 130x2", rope, { 130, 2, 2, 3, 64, 64, 4000 } },
    { "dropout 3x1x17", dropout, { 3, 1, 17, 30000, 0 } },
    { "dropout 5x2x65 residual", dropout, { 5, 2, 65, 6554, 1 } },
    { "dropout 33x2x1027", dropout, { 33, 2, 1027, 6554, 0 } },
    { "dropout off", dropout, { 5, 2, 65, 0, 1 } },
    { "attention s=1", attention, { 1, 1, 1, 1, 16, true, 0 } },
    { "attention s=3 d=64", attention, { 3, 2, 3, 1, 64, true, 0 } },
    { "attention s=5 d=5", attention, { 5, 1, 2, 1, 5, false, 0 } },
    { "attention s=17 d=80 groups", attention, { 17, 2, 2, 3, 80, true, 0 } },
    { "attention s=65 d=16", attention, { 65, 2, 4, 1, 16, true, 0 } },
    { "attention s=130 d=64", attention, { 130, 1, 3, 1, 64, false, 0 } },
    { "attention s=130 d=64 dropout", attention, { 130, 2, 1, 2, 64, true, 6554 } },
    { "attention s=67 d=16 dropout", attention, { 67, 1, 3, 1, 16, false, 20000 } },
    { "attention s=3 d=16 dropout", attention, { 3, 1, 2, 1, 16, false, 20000 } },
    { "attention s=256 d=64", attention, { 256, 1, 2, 1, 64, true, 0 } },
    { "attention s=3, documents", attention, { 3, 2, 2, 1, 16, true, 0, 2 } },
    { "attention s=70, documents of 5", attention, { 70, 3, 2, 2, 16, true, 0, 5 } },
    { "attention s=200, documents of 130", attention, { 200, 2, 1, 1, 64, true, 0, 130 } },
    { "attention s=256, documents of 64, dropout", attention, { 256, 3, 1, 2, 16, true, 6554, 64 } },
    { "attention s=100, documents of 7, all keys", attention, { 100, 1, 2, 1, 16, false, 0, 7 } },
    { "cache 3 of 65 from 40 on", cached_attention, { 3, 65, 1, 2, 1, 80, true, 40 } },
    { "cache 70 of 200 from 90 on", cached_attention, { 70, 200, 1, 2, 1, 64, true, 90 } },
    { "cache 1 of 1", cached_attention, { 1, 1, 1, 1, 1, 16, true } },
    { "cache 1 of 100", cached_attention, { 1, 100, 2, 3, 2, 64, true } },
    { "cache 3 of 65", cached_attention, { 3, 65, 1, 2, 1, 80, true } },
    { "cache 3 of 65, all keys", cached_attention, { 3, 65, 1, 2, 1, 80, false } },
    { "cache 17 of 81", cached_attention, { 17, 81, 2, 2, 2, 16, true } },
    { "cache 70 of 200", cached_attention, { 70, 200, 1, 2, 1, 64, true } },
    { "queries 70 to 9 keys", cached_attention, { 70, 9, 1, 2, 1, 64, false } },
    { "cross_entropy 1x1", cross_entropy, { 1, 1, 1, 1, 0 } },
    { "cross_entropy 3x17", cross_entropy, { 3, 17, 17, 1, 5 } },
    { "cross_entropy 65x640", cross_entropy, { 65, 640, 509, 1, 0 } },
    { "cross_entropy 65x640 loss only", cross_entropy, { 65, 640, 509, 0, 3 } },
    { "cross_entropy 65x640 smooth", cross_entropy, { 65, 640, 509, 1, 0, 10 } },
    { "cross_entropy 5x17 smooth loss only", cross_entropy, { 5, 17, 17, 0, 1, 30 } },
    { "cross_entropy 4x50304", cross_entropy, { 4, 50304, 50257, 1, 0 } },
    { "head_loss 17x16", head_loss, { 17, 16, 640, 509, 1 } },
    { "head_loss loss only", head_loss, { 3, 65, 17, 17, 0 } },
    { "embedding 3x1", embedding, { 3, 1, 17, 5, 1 } },
    { "embedding 65x2", embedding, { 65, 2, 260, 11, 1 } },
    { "embedding without positions", embedding, { 17, 3, 65, 50, 0 } },
    { "col_sum 1x1", col_sum, { 1, 1 } },
    { "col_sum 65x17", col_sum, { 65, 17 } },
    { "col_sum 200x1000", col_sum, { 200, 1000 } },
    { "flat 1", flat_ops, { 1 } },
    { "flat 65", flat_ops, { 65 } },
    { "flat 200001", flat_ops, { 200001 } },
    { "cast 3x17 of 20", strided_cast, { 3, 17, 3 } },
    { "cast 500x65 of 66", strided_cast, { 500, 65, 1 } },
    { "adam 1", adam, { 1, 1 } },
    { "adam 17", adam, { 17, 2 } },
    { "adam 70001", adam, { 70001, 1000 } },
    { "sgd 1", sgd, { 1 } },
    { "sgd 17", sgd, { 17 } },
    { "sgd 70001", sgd, { 70001 } },
    { "count_zeros 1000", count_zeros, { 1000 } },
};
/* clang-format on */

/* ---- running them ---- */

static void run_case(tx_ctx *ref, tx_ctx *cpu, const op_case *k, const char *where)
{
    results want = { 0 }, got = { 0 }, again = { 0 };
    next_number = 0;
    k->run(ref, k->p, &want);
    next_number = 0;
    k->run(cpu, k->p, &got);
    next_number = 0;
    k->run(cpu, k->p, &again);
    for (int i = 0; i < want.n; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s, %s", k->name, where);
        compare(name, &got.r[i], &want.r[i]);
        size_t bytes = (size_t)tx_numel(got.r[i].x) * tx_dtype_size(got.r[i].x.dtype);
        if (memcmp(got.r[i].x.data, again.r[i].x.data, bytes))
            fail_msg("%s: %s differs from run to run", name, got.r[i].name);
    }
    pool_free();
}

/* Opens backend cpu with kernels of `isa`, or says that this processor has none. */
static bool open_isa(tx_ctx *c, const char *isa, int n_threads)
{
    setenv("TX_CPU_ISA", isa, 1);
    tx_status st = tx_ctx_init(c, "cpu", n_threads);
    if (!st) {
        ASSERT_CONTAINS(c->backend->describe(), isa);
        ASSERT_OK(tx_arena_reserve(&c->scratch, (size_t)96 << 20));
        c->dry = false;
    }
    unsetenv("TX_CPU_ISA");
    if (st) assert_int_equal(st, TX_ERR_UNSUPPORTED);
    return st == TX_OK;
}

static void run_all(const char *isa, int n_threads)
{
    tx_ctx ref = open_ctx("ref", 1), cpu;
    char where[64];
    snprintf(where, sizeof where, "%s, %d threads", isa, n_threads);
    if (open_isa(&cpu, isa, n_threads)) {
        count_calls(&cpu);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&ref, &cpu, &cases[i], where);
        tx_ctx_deinit(&cpu);
    } else {
        print_message("skipped: no %s here\n", isa);
    }
    tx_ctx_deinit(&ref);
}

static void test_generic(void **state)
{
    (void)state;
    run_all("generic", 1);
}

static void test_avx2(void **state)
{
    (void)state;
    run_all("avx2", 2);
}

static void test_avx512(void **state)
{
    (void)state;
    run_all("avx512", 2);
}

/* More threads than cores and than heads or rows. */
static void test_many_threads(void **state)
{
    (void)state;
    run_all("generic", 5);
}

/* All transposes × accumulate × bias × row lengths. */
static void test_gemm(void **state)
{
    (void)state;
    static const int64_t size[][3] = { { 1, 1, 1 },   { 3, 17, 5 },   { 1, 65, 33 },
                                       { 17, 1, 65 }, { 65, 40, 17 }, { 130, 96, 200 } };
    tx_ctx ref = open_ctx("ref", 1), cpu = open_ctx("cpu", 2);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int v = 0; v < 32; v++) {
            char name[100];
            op_case k = { name,
                          gemm,
                          { size[i][0], size[i][1], size[i][2], v & 1, v >> 1 & 1, v >> 2 & 1, v >> 3 & 1,
                            v & 16 ? 3 : 0 } };
            snprintf(name, sizeof name, "gemm %dx%dx%d trans %d%d accumulate %d bias %d extra %d", (int)k.p[0],
                     (int)k.p[1], (int)k.p[2], (int)k.p[3], (int)k.p[4], (int)k.p[5], (int)k.p[6], (int)k.p[7]);
            run_case(&ref, &cpu, &k, "2 threads");
        }
    tx_ctx_deinit(&ref);
    tx_ctx_deinit(&cpu);
}

/* More shapes than the cache of products holds. */
static void test_gemm_many_shapes(void **state)
{
    (void)state;
    tx_ctx ref = open_ctx("ref", 1), cpu = open_ctx("cpu", 1);
    for (int64_t m = 1; m <= 30; m++)
        for (int64_t n = 1; n <= 30; n++) {
            op_case k = { "gemm of many shapes", gemm, { m, n, 3 } };
            run_case(&ref, &cpu, &k, "1 thread");
        }
    tx_ctx_deinit(&ref);
    tx_ctx_deinit(&cpu);
}

/* exp over its whole range through a softmax of two: loss = log(1 + exp(x)). NaN and infinities are passed on. */
static void test_special_values(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("cpu", 1);
    tx_tensor z = ZEROS(TX_F32, 1, 2), loss = ZEROS(TX_F32, 1), y = ZEROS(TX_I32, 1), one = ZEROS(TX_F32, 1);
    ((float *)one.data)[0] = 1;
    for (double x = -120; x <= 0; x += 0.37) {
        tx__ref_store(z, 0, 0);
        tx__ref_store(z, 1, x);
        x = tx__ref_load(z, 1);
        RUN(&c, cross_entropy, .loss = loss, .z = z, .y = y, .weight = one, .n_valid = 2);
        double expect = exp(x) / (1 + exp(x)); /* below 2^-126 it may be 0 */
        ASSERT_NEAR(tx__ref_load(z, 1), expect, 3e-7 * expect + 0x1p-125, "a small probability");
    }
    static const float special[] = { NAN, INFINITY };
    for (int i = 0; i < 2; i++) {
        tx__ref_store(z, 0, 0);
        ((float *)z.data)[1] = special[i];
        RUN(&c, cross_entropy, .loss = loss, .z = z, .y = y, .n_valid = 2);
        assert_true(!isfinite(tx__ref_load(loss, 0)));
        for (tx_activation kind = TX_GELU_TANH; kind <= TX_SQUARED_RELU; kind++) {
            tx_tensor f = ZEROS(TX_F32, 2);
            RUN(&c, activation_fwd, .y = f, .x = tx_slice1(z, 0, 2), .kind = kind);
            assert_true(!isfinite(tx__ref_load(f, 1)));
        }
    }
    tx_ctx_deinit(&c);
    pool_free();
}

static void test_refuses_other_types(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("cpu", 1);
    tx_tensor a = ZEROS(TX_BF16, 4, 4);
    ASSERT_FAILS(tx_run_gemm(&c, &(tx_gemm_args){ .c = a, .a = a, .b = a }), TX_ERR_UNSUPPORTED, "gemm");
    ASSERT_CONTAINS(tx_last_error(), "bf16");
    assert_int_equal(tx_run_activation_fwd(&c, &(tx_activation_fwd_args){ .y = a, .x = a }), TX_ERR_UNSUPPORTED);
    tx_ctx_deinit(&c);
    pool_free();
}

/* One small training step's ops over given tensors, so that nothing but the ops themselves could allocate. */
typedef struct step {
    tx_tensor x, w, y, mu, rs, gamma, beta, lse, loss, label, weight, dx, dw;
} step;

static tx_status run_step(tx_ctx *c, const step *t)
{
    qkv in = fused_qkv(t->x, 40, 1, 2, 1, 16), g = fused_qkv(t->dx, 40, 1, 2, 1, 16);
    tx_tensor o = t->y, x = tx_tensor2(t->x.data, TX_F32, 40, 96), y = tx_tensor2(t->y.data, TX_F32, 40, 32);
    tx_tensor dx = tx_tensor2(t->dx.data, TX_F32, 40, 96), gamma = t->gamma;
    TX_RUN(c, layernorm_fwd, .y = x, .mu = t->mu, .rs = t->rs, .x = x, .gamma = gamma, .beta = t->beta, .eps = 1e-5);
    TX_RUN(c, attention_fwd, .o = o, .lse = t->lse, .q = in.q, .k = in.k, .v = in.v, .scale = 0.25, .causal = true);
    TX_RUN(c, gemm, .c = x, .a = y, .b = t->w, .trans_b = true, .bias = gamma);
    TX_RUN(c, head_loss, .loss = t->loss, .dx = dx, .dw = t->dw, .x = x, .w = t->dw, .y = t->label, .weight = t->weight,
           .n_valid = 30);
    TX_RUN(c, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = o, .o = o, .lse = t->lse, .q = in.q, .k = in.k,
           .v = in.v, .scale = 0.25, .causal = true);
    TX_RUN(c, layernorm_bwd, .dx = dx, .dgamma = gamma, .dbeta = t->beta, .dy = dx, .x = x, .gamma = gamma, .mu = t->mu,
           .rs = t->rs);
    return TX_OK;
}

/* A dry run touches no number and finds all the scratch that the real one needs; the real one allocates nothing. */
static void test_plan(void **state)
{
    (void)state;
    tx_ctx c;
    ASSERT_OK(tx_ctx_init(&c, "cpu", 2));
    step t = { .x = RAND(TX_F32, 40, 1, 2, 3, 16),
               .w = RAND(TX_F32, 96, 32),
               .y = ZEROS(TX_F32, 40, 1, 2, 1, 16),
               .mu = ZEROS(TX_F32, 40),
               .rs = ZEROS(TX_F32, 40),
               .gamma = RAND(TX_F32, 96),
               .beta = RAND(TX_F32, 96),
               .lse = ZEROS(TX_F32, 1, 2, 1, 40),
               .loss = ZEROS(TX_F32, 40),
               .label = ZEROS(TX_I32, 40),
               .weight = RAND(TX_F32, 40),
               .dx = ZEROS(TX_F32, 40, 1, 2, 3, 16),
               .dw = RAND(TX_F32, 32, 96) };
    ASSERT_OK(run_step(&c, &t));
    assert_true(tx__ref_load(t.loss, 0) == 0 && c.scratch.peak > 0);
    ASSERT_OK(tx_ctx_take_memory(&c));
    uint64_t before = tx_alloc_count();
    ASSERT_OK(run_step(&c, &t));
    assert_true(tx_alloc_count() == before);
    assert_true(tx__ref_load(t.loss, 0) != 0);
    tx_ctx_deinit(&c);
    pool_free();
}

static void test_every_op_ran(void **state)
{
    (void)state;
    assert_every_op_called();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generic),        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),         cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_gemm),           cmocka_unit_test(test_gemm_many_shapes),
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_refuses_other_types),
        cmocka_unit_test(test_plan),           cmocka_unit_test(test_every_op_ran), /* last */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
