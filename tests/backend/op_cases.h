/* op_cases.h - what backend cpu is compared with ref on: shapes that are odd, minimal and large. A case builds its
 * tensors anew from the same numbers, runs its ops on the given backend and lists what came out; the lists are
 * compared. The bound is in units of fp32's epsilon times the size of what the result is a sum of. And the same call
 * twice gives the same bits. */
#ifndef TX_TESTS_BACKEND_OP_CASES_H
#define TX_TESTS_BACKEND_OP_CASES_H

#include "backend/op_test.h"

/* ---- results and their comparison ---- */

typedef struct result {
    const char *name;
    tx_tensor x; /* contiguous */
    /* |difference| <= bound epsilon (|value| + rms + size), and of bf16 and fp16 one unit of the last place */
    double bound, size;
    bool same_zeros; /* a mask: zero where the other is zero and only there */
    bool exact;
} result;

typedef struct results {
    result r[16];
    int n;
} results;

static void out(results *o, const char *name, tx_tensor x, double bound)
{
    assert_true(o->n < 16);
    o->r[o->n++] = (result){ .name = name, .x = x, .bound = bound };
}

/* The small rest of a cancellation: `size` is what cancelled. */
static void out_rest(results *o, const char *name, tx_tensor x, double bound, double size)
{
    out(o, name, x, bound);
    o->r[o->n - 1].size = size;
}

typedef void (*case_fn)(tx_ctx *c, const int64_t *p, results *o);

typedef struct op_case {
    const char *name;
    case_fn run;
    int64_t p[12];
} op_case;

/* The distance from w to the next bf16 or fp16; what fp32 may differ by is `bound`'s business. */
static double last_place(tx_dtype t, double w)
{
    if (t == TX_BF16) return exp2(fmax(ilogb(w), -126) - 7);
    return t == TX_F16 ? exp2(fmax(ilogb(w), -14) - 10) : 0;
}

static void compare(const char *where, const result *got, const result *want)
{
    int64_t n = tx_numel(want->x);
    double square = 0, eps = 0x1p-23;
    for (int64_t i = 0; i < n; i++) square += pow(tx__ref_load(want->x, i), 2);
    double rms = sqrt(square / (double)n);
    for (int64_t i = 0; i < n; i++) {
        double g = tx__ref_load(got->x, i), w = tx__ref_load(want->x, i);
        double unit = want->exact ? 0 : last_place(want->x.dtype, w);
        if (!(fabs(g - w) <= want->bound * eps * (fabs(w) + rms + want->size) + unit))
            fail_msg("%s: %s[%lld] is %.9g, ref has %.9g (%.1f of %.1f allowed)", where, want->name, (long long)i, g, w,
                     fabs(g - w) / eps / (fabs(w) + rms + want->size), want->bound);
        if (want->same_zeros && (g == 0) != (w == 0))
            fail_msg("%s: %s[%lld]: masks differ", where, want->name, (long long)i);
    }
}

/* ---- cases ---- */

/* The dtype of values and of the residual stream (ops.h), for all cases. */
static tx_dtype V = TX_F32, S = TX_F32;

/* V's epsilon in units of fp32's: what one rounding of an intermediate result to V may do. */
static double one_rounding(void)
{
    return V == TX_BF16 ? 0x1p16 : V == TX_F16 ? 0x1p13 : 0;
}

/* Whether attention rounds P and dS to V before they are multiplied (ops.h). */
static bool rounds_probabilities;

/* A sum over keys or queries. Rounding its terms moves it by at most half an epsilon of what they are in sum, which is
 * of the size of the largest result. */
static double largest(tx_tensor x)
{
    double most = 0;
    for (int64_t i = 0; i < tx_numel(x); i++) most = fmax(most, fabs(tx__ref_load(x, i)));
    return most;
}

static void out_attention(results *o, const char *name, tx_tensor x, double bound)
{
    if (rounds_probabilities)
        out_rest(o, name, x, bound + one_rounding() / 2, largest(x));
    else
        out(o, name, x, bound);
}

static void scale_up(tx_tensor x, double factor)
{
    for (int64_t i = 0; i < tx_numel(x); i++) tx__ref_store(x, i, factor * tx__ref_load(x, i));
}

static void assert_same_bits(tx_tensor a, tx_tensor b)
{
    assert_memory_equal(a.data, b.data, (size_t)tx_numel(a) * tx_dtype_size(a.dtype));
}

/* p: rows, h, with dres, without beta */
static void layernorm(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1];
    tx_tensor x = RAND(S, rows, h), gamma = RAND(V, h), beta = RAND(V, h), dy = RAND(V, rows, h);
    tx_tensor dres = RAND(S, rows, h), y = ZEROS(V, rows, h), mu = ZEROS(TX_F32, rows), rs = ZEROS(TX_F32, rows);
    tx_tensor dx = ZEROS(S, rows, h), dgamma = RAND(TX_F32, h), dbeta = RAND(TX_F32, h);
    if (p[3]) beta.data = dbeta.data = NULL;
    RUN(c, layernorm_fwd, .y = y, .mu = mu, .rs = rs, .x = x, .gamma = gamma, .beta = beta, .eps = 1e-5);
    if (!p[2]) dres.data = NULL;
    RUN(c, layernorm_bwd, .dx = dx, .dgamma = dgamma, .dbeta = dbeta, .dy = dy, .x = x, .dres = dres, .gamma = gamma,
        .mu = mu, .rs = rs);
    out(o, "y", y, 16);
    out(o, "mu", mu, 16);
    out(o, "rs", rs, 16);
    /* with one or two columns xhat is 0 or ±1 and dx a rest of terms of the size of rs: 1/sqrt(eps), or 2/|x0 - x1| */
    double rs_max = 0;
    for (int64_t i = 0; i < rows; i++) rs_max = fmax(rs_max, tx__ref_load(rs, i));
    out_rest(o, "dx", dx, 64, h < 3 ? rs_max : 0);
    out(o, "dgamma", dgamma, 64);
    if (dbeta.data) out(o, "dbeta", dbeta, 64);
    /* in place of dres or of dy */
    tx_tensor place = dres.data ? dres : dy;
    if (place.dtype != S) return;
    RUN(c, layernorm_bwd, .dx = place, .dgamma = dgamma, .dbeta = dbeta, .dy = dy, .x = x, .dres = dres, .gamma = gamma,
        .mu = mu, .rs = rs);
    assert_same_bits(place, dx);
}

/* p: rows, h, with dres */
static void rmsnorm(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1];
    tx_tensor x = RAND(S, rows, h), gamma = RAND(V, h), dy = RAND(V, rows, h);
    tx_tensor dres = RAND(S, rows, h), y = ZEROS(V, rows, h), rs = ZEROS(TX_F32, rows);
    tx_tensor dx = ZEROS(S, rows, h), dgamma = RAND(TX_F32, h);
    RUN(c, rmsnorm_fwd, .y = y, .rs = rs, .x = x, .gamma = gamma, .eps = 1e-5);
    if (!p[2]) dres.data = NULL;
    RUN(c, rmsnorm_bwd, .dx = dx, .dgamma = dgamma, .dy = dy, .x = x, .dres = dres, .gamma = gamma, .rs = rs);
    out(o, "y", y, 16);
    out(o, "rs", rs, 16);
    out_rest(o, "dx", dx, 64, h < 2 ? tx__ref_load(rs, 0) : 0); /* with one column xhat is ±1 and dx a rest */
    out(o, "dgamma", dgamma, 64);
    /* in place of dres or of dy */
    tx_tensor place = dres.data ? dres : dy;
    if (place.dtype != S) return;
    RUN(c, rmsnorm_bwd, .dx = place, .dgamma = dgamma, .dy = dy, .x = x, .dres = dres, .gamma = gamma, .rs = rs);
    assert_same_bits(place, dx);
}

/* p: rows, h, columns of whole rows, with gamma: sums of whole rows, and a norm of some of their columns */
static void rmsnorm_part(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1];
    tx_tensor x = RAND(V, rows, h), gamma = RAND(V, h), dy = RAND(V, rows, h), dx = ZEROS(V, rows, h);
    tx_tensor y = ZEROS(V, rows, h), rs = ZEROS(TX_F32, rows), sums = ZEROS(TX_F32, rows), dots = ZEROS(TX_F32, rows);
    tx_tensor dgamma = RAND(TX_F32, h), none = { 0 };
    RUN(c, row_dots, .y = sums, .a = x, .b = x);
    RUN(c, row_dots, .y = dots, .a = dy, .b = x, .gamma = p[3] ? gamma : none);
    out(o, "sums", sums, 16);
    out(o, "dots", dots, 64);
    RUN(c, rmsnorm_fwd, .y = y, .rs = rs, .x = x, .gamma = gamma, .eps = 1e-5, .squares = sums, .columns = p[2]);
    RUN(c, rmsnorm_bwd, .dx = dx, .dgamma = dgamma, .dy = dy, .x = x, .gamma = gamma, .rs = rs, .dots = dots,
        .columns = p[2]);
    out(o, "y", y, 16);
    out(o, "rs", rs, 16);
    out(o, "dx", dx, 64);
    out(o, "dgamma", dgamma, 64);
}

/* p: n, kind */
static void activation(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0]), dy = RAND(V, p[0]), y = ZEROS(V, p[0]), dx = ZEROS(V, p[0]);
    scale_up(x, 3); /* out to where it is flat */
    RUN(c, activation_fwd, .y = y, .x = x, .kind = (tx_activation)p[1]);
    RUN(c, activation_bwd, .dx = dx, .dy = dy, .x = x, .kind = (tx_activation)p[1]);
    out(o, "y", y, 4);
    out(o, "dx", dx, 8);
    RUN(c, activation_fwd, .y = x, .x = x, .kind = (tx_activation)p[1]);
    assert_same_bits(x, y);
}

/* p: rows, f, kind, gate second */
static void glu(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0], 2 * p[1]), dy = RAND(V, p[0], p[1]), y = ZEROS(V, p[0], p[1]),
              dx = ZEROS(V, p[0], 2 * p[1]);
    tx_glu kind = (tx_glu)p[2];
    scale_up(x, 3);
    RUN(c, glu_fwd, .y = y, .x = x, .kind = kind, .gate_second = p[3]);
    RUN(c, glu_bwd, .dx = dx, .dy = dy, .x = x, .kind = kind, .gate_second = p[3]);
    out(o, "y", y, 4);
    out(o, "dx", dx, 8);
    RUN(c, glu_bwd, .dx = x, .dy = dy, .x = x, .kind = kind, .gate_second = p[3]);
    assert_same_bits(x, dx);
}

/* p: s, b, groups, r, d, n_rot, first: the queries and keys of a fused tensor, and back */
static void rope(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], groups = p[2], r = p[3], d = p[4];
    tx_tensor all = RAND(V, s, b, groups, r + 2, d), turned = RAND(V, s, b, groups, r + 2, d);
    tx_tensor qk = all, *x[] = { &all, &turned };
    for (int i = 0; i < 2; i++) {
        qk = *x[i];
        qk.dim[3] = r + 1;
        RUN(c, rope, .x = qk, .n_rot = p[5], .first = p[6], .theta = 10000, .inverse = i);
    }
    out(o, "turned", all, 2);
    out(o, "turned back", turned, 2);
}

/* p: as in rope, neighbours: of given frequencies, scaled, longer than some length; and back; as long as that */
static void rope_scaled(tx_ctx *c, const int64_t *p, results *o)
{
    double frequency[TX_MAX_ROT / 2];
    for (int64_t i = 0; i < p[5] / 2; i++) frequency[i] = 1 / (1 + 0.3 * (double)(i * i));
    for (int i = 0; i < 2; i++) {
        tx_tensor x = RAND(V, p[0], p[1], p[2], p[3], p[4]);
        RUN(c, rope, .x = x, .n_rot = p[5], .first = p[6], .frequency = frequency, .scale = 1.25, .interleaved = p[7],
            .inverse = i, .grows_by = 3, .grows_from = p[6] + p[0] - 1);
        out(o, i ? "turned back" : "turned", x, 2);
    }
    tx_tensor x = RAND(V, p[0], p[1], p[2], p[3], p[4]);
    RUN(c, rope, .x = x, .n_rot = p[5], .first = p[6], .theta = 100, .interleaved = p[7], .grows_by = 2,
        .grows_from = p[6] + p[0]);
    out(o, "as long", x, 2);
    x = RAND(V, p[0], p[1], p[2], p[3], p[4]);
    RUN(c, rope, .x = x, .n_rot = p[5], .first = p[6], .theta = 100, .interleaved = p[7], .grows_by = 2,
        .grows_from = p[6] + p[0], .length = 2 * (p[6] + p[0]));
    out(o, "a part of it", x, 2);
}

/* p: s, b, groups, r, d: tokens with positions of their own */
static void rope_positions(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0], p[1], p[2], p[3], p[4]), position = some_positions(p[0], p[1], 5 * p[0]);
    RUN(c, rope, .x = x, .n_rot = p[4], .theta = 10000, .position = position);
    out(o, "turned", x, 2);
}

/* p: s, r, b, h, first, length: r tokens of positions below `length`, of which s from `first` on are there */
static void tokens(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0], p[2], p[3]), some = RAND(V, p[1], p[2], p[3]), put = RAND(V, p[1], p[2], p[3]);
    tx_tensor position = some_positions(p[1], p[2], p[5]);
    RUN(c, gather_tokens, .y = some, .x = x, .position = position, .first = p[4]);
    RUN(c, scatter_tokens, .y = x, .x = put, .position = position, .first = p[4]);
    out(o, "gathered", some, 0);
    out(o, "scattered", x, 0);
}

/* p: s, b, h, drop, residual */
static void dropout(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], h = p[2];
    tx_tensor x = RAND(V, s, b, h), residual = RAND(S, s, b, h), y = ZEROS(S, s, b, h), dy = RAND(S, s, b, h),
              dx = ZEROS(V, s, b, h);
    tx_dropout mask = { .rng = { 0x123456789abcdefull, 77, 5 },
                        .drop = (uint32_t)p[3],
                        .sample = 1000,
                        .s_global = s + 3,
                        .at = { .first = 1, .turn = s / 2, .jump = 2 } };
    if (!p[4]) { /* of three runs */
        residual.data = NULL;
        mask.at = (tx_position_runs){ .first = 1, .turn = (s + 2) / 3, .jump = 1, .each = (s + 2) / 3 };
    }
    RUN(c, dropout_add_fwd, .y = y, .x = x, .residual = residual, .mask = mask);
    RUN(c, dropout_add_bwd, .dx = dx, .dy = dy, .mask = mask);
    out(o, "y", y, 2);
    out(o, "dx", dx, 2);
    o->r[o->n - 1].same_zeros = true;
}

/* [s, b] with a document's beginning every `length` positions, in sample 1 one later, ...; 0: absent; below 0: each
 * position sees keys from anywhere on, in runs of -length positions that see none before theirs */
static tx_tensor documents(int64_t s, int64_t b, int64_t length)
{
    tx_tensor x = ZEROS(TX_I32, s, b);
    if (!length) x.data = NULL;
    for (int64_t i = 0; i < s * b && length < 0; i++) {
        int64_t at = i / b, begin = at - at % -length;
        ((int32_t *)x.data)[i] = (int32_t)(begin + (at * at + i % b) % (at - begin + 1));
    }
    if (length < 0) return x;
    for (int64_t i = 0; i < s && length; i++)
        for (int64_t j = 0; j < b; j++) ((int32_t *)x.data)[i * b + j] = (int32_t)(i < j ? 0 : i - (i - j) % length);
    return x;
}

/* p: s, b, groups, r, d, causal, drop, length of documents */
static void attend(tx_ctx *c, const int64_t *p, tx_tensor n_keys, tx_alibi alibi, tx_attention_kind kind, results *o)
{
    int64_t s = p[0], b = p[1], groups = p[2], r = p[3], d = p[4];
    qkv x = fused_qkv(RAND(V, s, b, groups, r + 2, d), s, b, groups, r, d);
    qkv g = fused_qkv(RAND(V, s, b, groups, r + 2, d), s, b, groups, r, d);
    tx_tensor y = RAND(V, s, b, groups, r, d), lse = ZEROS(TX_F32, b, groups, r, s), dy = RAND(V, s, b, groups, r, d),
              o_given = RAND(V, s, b, groups, r, d); /* the same for both backends */
    tx_dropout mask = { .rng = { 5, 6, 7 },
                        .drop = (uint32_t)p[6],
                        .sample = 3,
                        .s_global = s + 5,
                        .n_heads = 2 * groups * r,
                        .first_head = 1 };
    tx_tensor first_key = documents(s, b, p[7]), dsink = RAND(TX_F32, groups * r);
    double scale = kind.softcap > 0 ? 1 : 1 / sqrt((double)d);
    if (!kind.sink.data) dsink.data = NULL;
    RUN(c, attention_fwd, .o = y, .lse = lse, .q = x.q, .k = x.k, .v = x.v, .scale = scale, .causal = p[5],
        .mask = mask, .first_key = first_key, .n_keys = n_keys, .alibi = alibi, .kind = kind);
    RUN(c, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = dy, .o = o_given, .lse = lse, .q = x.q, .k = x.k,
        .v = x.v, .scale = scale, .causal = p[5], .mask = mask, .first_key = first_key, .n_keys = n_keys,
        .alibi = alibi, .kind = kind, .dsink = dsink);
    out_attention(o, "o", y, 32);
    out(o, "lse", lse, 16);
    out_attention(o, "dqkv", g.all, 64);
    if (n_keys.data) o->r[o->n - 1].size = largest(g.all); /* a lone key has a sum of all queries, each with P = 1 */
    if (dsink.data) out(o, "dsink", dsink, 64);
}

static void attention(tx_ctx *c, const int64_t *p, results *o)
{
    attend(c, p, (tx_tensor){ 0 }, (tx_alibi){ 0 }, (tx_attention_kind){ 0 }, o);
}

/* p: s, b, groups, r, d, drop, length of documents, heads of the layer, of which the call has the last ones: with
 * biases of positions */
static void leaning_attention(tx_ctx *c, const int64_t *p, results *o)
{
    const int64_t q[] = { p[0], p[1], p[2], p[3], p[4], true, p[5], p[6] };
    attend(c, q, (tx_tensor){ 0 }, (tx_alibi){ p[7], p[7] - p[2] * p[3] }, (tx_attention_kind){ 0 }, o);
}

/* Sinks of one (1: learnt, 2: of 0) of the ways, or none (0). */
static tx_attention_kind kind_of(int64_t window, int64_t softcap, int64_t sink, int64_t heads)
{
    tx_attention_kind k = { .window = window, .softcap = (double)softcap, .off_by_one = sink == 2 };
    if (sink == 1) k.sink = RAND(V, heads);
    return k;
}

/* p: as leaning_attention's, with no heads there are no biases, then window, softcap, sink */
static void kind_attention(tx_ctx *c, const int64_t *p, results *o)
{
    const int64_t q[] = { p[0], p[1], p[2], p[3], p[4], true, p[5], p[6] };
    tx_alibi alibi = { p[7], p[7] ? p[7] - p[2] * p[3] : 0 };
    attend(c, q, (tx_tensor){ 0 }, alibi, kind_of(p[8], p[9], p[10], p[2] * p[3]), o);
}

/* Keys that do not pad: sample 0 has as many as there are, sample 1 one, the others something between. */
static tx_tensor padded_keys(int64_t s, int64_t b)
{
    tx_tensor n_keys = ZEROS(TX_I32, b);
    for (int64_t i = 0; i < b; i++) ((int32_t *)n_keys.data)[i] = (int32_t)(i ? 1 + (i - 1) * 41 % s : s);
    return n_keys;
}

/* The same with keys that pad. */
static void padded_attention(tx_ctx *c, const int64_t *p, results *o)
{
    attend(c, p, padded_keys(p[0], p[1]), (tx_alibi){ 0 }, (tx_attention_kind){ 0 }, o);
}

/* The same with p[7] softcap and p[8] sink. */
static void padded_kind_attention(tx_ctx *c, const int64_t *p, results *o)
{
    const int64_t q[] = { p[0], p[1], p[2], p[3], p[4], p[5], p[6], 0 };
    attend(c, q, padded_keys(p[0], p[1]), (tx_alibi){ 0 }, kind_of(0, p[7], p[8], p[2] * p[3]), o);
}

/* x += more, of two fp32 or value tensors that lie as they like. */
static void add_to(tx_tensor x, tx_tensor more)
{
    for (int64_t i = 0; i < x.dim[0]; i++)
        for (int64_t j = 0, n = tx_numel(x) / x.dim[0]; j < n; j++) {
            int64_t at = i * x.stride[0] + j;
            tx__ref_store(x, at, tx__ref_load(x, at) + tx__ref_load(more, i * n + j));
        }
}

/* p: s, b, groups, r, d, 1 causal or 2 with keys that pad or 0, drop, length of documents, heads of a layer with
 * biases, window, sink, queries of a part: a sequence in parts of as many queries and of more keys, of which calls have
 * one of each; their results joined, their gradients added. */
static void parts(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], groups = p[2], r = p[3], d = p[4], n = groups * r, sizes[] = { p[11], p[11] + 9 };
    qkv x = fused_qkv(RAND(V, s, b, groups, r + 2, d), s, b, groups, r, d);
    tx_tensor y = ZEROS(TX_F32, s, b, groups, r, d), lse = ZEROS(TX_F32, b * n * s), dy = RAND(V, s, b, groups, r, d),
              o_given = RAND(V, s, b, groups, r, d), max = ZEROS(TX_F32, groups, r), dsink = ZEROS(TX_F32, n),
              dq = ZEROS(TX_F32, s, b, groups, r, d), dk = ZEROS(TX_F32, s, b, groups, d),
              dv = ZEROS(TX_F32, s, b, groups, d), n_keys = padded_keys(s, b), first_key = documents(s, b, p[7]);
    if (p[5] != 2) n_keys.data = NULL;
    tx_dropout mask = {
        .rng = { 5, 6, 7 }, .drop = (uint32_t)p[6], .sample = 3, .s_global = s + 5, .n_heads = 2 * n, .first_head = 1
    };
    tx_alibi alibi = { p[8], p[8] ? p[8] - n : 0 };
    tx_attention_kind kind = kind_of(p[9], 0, p[10], n), rest = { .window = p[9] };
    double scale = 1 / sqrt((double)d);
    for (int back = 0; back < 2; back++)
        for (int64_t i = 0; i < s; i += sizes[0])
            for (int64_t j = 0; j < s; j += sizes[1]) {
                int64_t sq = i + sizes[0] < s ? sizes[0] : s - i, sk = j + sizes[1] < s ? sizes[1] : s - j;
                if (p[5] == 1 && j >= i + sq) continue;
                tx_tensor q = tx_slice_rows(x.q, i, sq), k = tx_slice_rows(x.k, j, sk), v = tx_slice_rows(x.v, j, sk),
                          first = first_key.data ? tx_slice_rows(first_key, i, sq) : first_key,
                          all = ZEROS(TX_F32, b, groups, r, sq), one = ZEROS(V, sq, b, groups, r, d),
                          of_one = ZEROS(TX_F32, b, groups, r, sq);
                all.data = (float *)lse.data + b * n * i;
                if (!back && j == 0)
                    for (int64_t e = 0; e < b * n * sq; e++) ((float *)all.data)[e] = -INFINITY;
                if (!back) {
                    RUN(c, attention_fwd, .o = one, .lse = of_one, .q = q, .k = k, .v = v, .scale = scale,
                        .causal = p[5] == 1, .mask = mask, .first_key = first, .n_keys = n_keys, .alibi = alibi,
                        .kind = j ? rest : kind, .q_at = i, .k_at = j, .part = true);
                    RUN(c, attention_join, .o = tx_slice_rows(y, i, sq), .lse = all, .part = one, .part_lse = of_one);
                    RUN(c, max_logits, .max = max, .q = q, .k = k, .scale = scale, .causal = p[5] == 1,
                        .first_key = first, .n_keys = n_keys, .window = p[9], .q_at = i, .k_at = j, .part = true);
                    continue;
                }
                tx_tensor gq = RAND(V, sq, b, groups, r, d), gk = RAND(V, sk, b, groups, d),
                          gv = RAND(V, sk, b, groups, d), none = { 0 };
                RUN(c, attention_bwd, .dq = gq, .dk = gk, .dv = gv, .do_ = tx_slice_rows(dy, i, sq),
                    .o = tx_slice_rows(o_given, i, sq), .lse = all, .q = q, .k = k, .v = v, .scale = scale,
                    .causal = p[5] == 1, .mask = mask, .first_key = first, .n_keys = n_keys, .alibi = alibi,
                    .kind = j ? rest : kind, .dsink = j || p[10] != 1 ? none : dsink, .q_at = i, .k_at = j,
                    .part = true);
                add_to(tx_slice_rows(dq, i, sq), gq);
                add_to(tx_slice_rows(dk, j, sk), gk);
                add_to(tx_slice_rows(dv, j, sk), gv);
            }
    double rounding = one_rounding() * 2;
    out_rest(o, "o", y, 32 + rounding, largest(y));
    out(o, "lse", lse, 32);
    out(o, "max", max, 16);
    out_rest(o, "dq", dq, 64 + rounding, largest(dq));
    out_rest(o, "dk", dk, 64 + rounding, largest(dk));
    out_rest(o, "dv", dv, 64 + rounding, largest(dv));
    if (p[10] == 1) out(o, "dsink", dsink, 64);
}

/* p: s, b, groups, r, d, causal, length of documents, with keys that pad, window: two samples' more in the same
 * maximum */
static void max_logits(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], groups = p[2], r = p[3], d = p[4];
    tx_tensor max = ZEROS(TX_F32, groups, r), n_keys = padded_keys(s, b), first_key = documents(s, b, p[6]);
    ((float *)max.data)[groups * r - 1] = 2;
    if (!p[7]) n_keys.data = NULL;
    for (int i = 0; i < 2; i++) {
        qkv x = fused_qkv(RAND(V, s, b, groups, r + 2, d), s, b, groups, r, d);
        RUN(c, max_logits, .max = max, .q = x.q, .k = x.k, .scale = 1 / sqrt((double)d), .causal = p[5],
            .first_key = first_key, .n_keys = n_keys, .window = p[8]);
    }
    out(o, "max", max, 16);
}

/* p: sq, sk, b, groups, r, d, causal, first key: queries at the end of a cache of keys that is longer than it is full
 */
static void cached_attention(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t sq = p[0], sk = p[1], b = p[2], groups = p[3], r = p[4], d = p[5];
    tx_tensor k = RAND(V, sk + 3, b, groups, d), v = RAND(V, sk + 3, b, groups, d), q = RAND(V, sq, b, groups, r, d);
    tx_tensor y = RAND(V, sq, b, groups, r, d), lse = ZEROS(TX_F32, b, groups, r, sq);
    tx_tensor first_key = ZEROS(TX_I32, sq, b);
    for (int64_t i = 0; i < sq * b; i++) ((int32_t *)first_key.data)[i] = (int32_t)p[7];
    if (!p[7]) first_key.data = NULL;
    RUN(c, attention_fwd, .o = y, .lse = lse, .q = q, .k = tx_slice_rows(k, 0, sk), .v = tx_slice_rows(v, 0, sk),
        .scale = 0.3, .causal = p[6], .first_key = first_key);
    out_attention(o, "o", y, op_device ? 48 : 32); /* a GPU's 2^x is off by two units in the last place */
    out(o, "lse", lse, 16);
}

/* p: s, slots, positions, b, groups, r, d, heads of a layer with biases of positions, window, softcap, sink: samples of
 * different pasts in a cache of the decoder's layout, rows appended, queries turned by their positions */
static void past(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], slots = p[1], max = p[2], b = p[3], groups = p[4], r = p[5], d = p[6];
    qkv x = fused_qkv(RAND(V, s, b, groups, r + 2, d), s, b, groups, r, d);
    tx_tensor cache[2] = { RAND(V, slots, groups, max, d), RAND(V, slots, groups, max, d) }, at[2];
    for (int i = 0; i < 2; i++) at[i] = view4(cache[i], 0, max, slots, groups, d, d, groups * max * d, max * d);
    tx_past sequences = { .n = ZEROS(TX_I32, b), .slot = ZEROS(TX_I32, b) };
    for (int64_t i = 0; i < b; i++) {
        ((int32_t *)sequences.n.data)[i] = (int32_t)((i + 1) * (max - s) / b);
        ((int32_t *)sequences.slot.data)[i] = (int32_t)((slots - 1 - i) % slots);
    }
    tx_tensor y = RAND(V, s, b, groups, r, d), lse = ZEROS(TX_F32, b, groups, r, s);
    tx_tensor turned = RAND(V, s, b, groups, r, d);
    if (d % 2 == 0) RUN(c, rope, .x = turned, .n_rot = d, .theta = 10000, .past = sequences);
    out(o, "turned", turned, 2);
    RUN(c, cache_append, .k_cache = at[0], .v_cache = at[1], .k = x.k, .v = x.v, .past = sequences);
    out(o, "k", cache[0], 0);
    o->r[o->n - 1].exact = true;
    out(o, "v", cache[1], 0);
    o->r[o->n - 1].exact = true;
    RUN(c, attention_fwd, .o = y, .lse = lse, .q = x.q, .k = at[0], .v = at[1], .scale = 1 / sqrt((double)d),
        .causal = true, .past = sequences, .alibi = { p[7], p[7] ? p[7] - groups * r : 0 },
        .kind = kind_of(p[8], p[9], p[10], groups * r));
    out_attention(o, "o", y, 32);
    out(o, "lse", lse, 16);
}

/* p: m, n, k, extra row length: a linear layer of few rows, of which each is what it is alone; on a device a library
 * makes products of other shapes in other ways */
static void few_rows(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t m = p[0], n = p[1], k = p[2], extra = p[3];
    tx_tensor a = RAND(V, m, k + extra), b = RAND(V, n, k + extra), bias = RAND(V, n), y = ZEROS(V, m, n + extra);
    tx_tensor wide = ZEROS(TX_F32, m, n);
    a.dim[1] = b.dim[1] = k;
    y.dim[1] = n;
    RUN(c, gemm, .c = y, .a = a, .b = b, .bias = bias, .trans_b = true);
    RUN(c, gemm, .c = wide, .a = a, .b = b, .trans_b = true);
    for (int64_t i = 0; i < m && !c->device; i++) {
        tx_tensor alone = ZEROS(TX_F32, 1, n);
        RUN(c, gemm, .c = alone, .a = tx_slice_rows(a, i, 1), .b = b, .trans_b = true);
        assert_same_bits(alone, tx_slice_rows(wide, i, 1));
    }
    y.dim[1] = n + extra;
    out_rest(o, "c", y, 16, sqrt((double)k));
    out_rest(o, "wide", wide, 16, sqrt((double)k));
}

/* p: m, n, k, trans_a, trans_b, accumulate, bias, extra row length. C begins as NaN where it is only written. */
static void gemm(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t m = p[0], n = p[1], k = p[2], extra = p[7];
    tx_tensor a = p[3] ? RAND(V, k, m + extra) : RAND(V, m, k + extra);
    tx_tensor b = p[4] ? RAND(V, n, k + extra) : RAND(V, k, n + extra);
    tx_tensor y = RAND(S, m, n + extra), bias = RAND(V, n), part = y;
    a.dim[1] -= extra, b.dim[1] -= extra, part.dim[1] -= extra;
    if (!p[6]) bias.data = NULL;
    for (int64_t i = 0; i < m && !p[5]; i++)
        for (int64_t j = 0; j < n; j++) tx__ref_store(y, i * (n + extra) + j, NAN);
    RUN(c, gemm, .c = part, .a = a, .b = b, .bias = bias, .trans_a = p[3], .trans_b = p[4], .accumulate = p[5]);
    /* And what lies between the rows of C is as it was. Where a device's library adds to a C of two bytes, it may round
     * the product before that (ops.h). */
    out(o, "c", y, 4 + sqrt((double)k) + (op_device && p[5] && S != TX_F32 ? one_rounding() : 0));
}

/* p: rows, v, n_valid, weight, extra row length, percent of smoothing, of the z-loss's weight */
static void cross_entropy(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], v = p[1], extra = p[4];
    tx_tensor z = RAND(V, rows, v + extra), y = indices(ZEROS(TX_I32, rows), 0, (int32_t)p[2]),
              loss = ZEROS(TX_F32, rows);
    tx_tensor weight = RAND(TX_F32, rows), part = z;
    part.dim[1] = v;
    if (rows > 2) ((int32_t *)y.data)[1] = -1;
    if (p[2] < v) tx__ref_store(z, v - 1, p[3] ? INFINITY : 0); /* padding is not looked at; without weight it stays */
    if (!p[3]) weight.data = NULL;
    tx_tensor z_loss = p[6] ? ZEROS(TX_F32, rows) : (tx_tensor){ 0 };
    RUN(c, cross_entropy, .loss = loss, .z = part, .y = y, .weight = weight, .n_valid = p[2],
        .smoothing = (double)p[5] / 100, .z_weight = (double)p[6] / 100, .z_loss = z_loss);
    out(o, "loss", loss, 8);
    if (p[6]) out(o, "z_loss", z_loss, 8);
    out(o, "z", z, 16);
}

/* p: rows, v, n_valid, extra row length, percent of smoothing: the gradient beside the logits, which are wide */
static void cross_entropy_apart(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], v = p[1];
    tx_tensor z = RAND(TX_F32, rows, v), y = indices(ZEROS(TX_I32, rows), 0, (int32_t)p[2]), loss = ZEROS(TX_F32, rows);
    tx_tensor weight = RAND(TX_F32, rows), dz = RAND(V, rows, v + p[3]), part = dz;
    part.dim[1] = v;
    if (rows > 2) ((int32_t *)y.data)[1] = -1;
    RUN(c, cross_entropy, .loss = loss, .z = z, .dz = part, .y = y, .weight = weight, .n_valid = p[2],
        .smoothing = (double)p[4] / 100);
    out(o, "loss", loss, 8);
    out(o, "dz", dz, 16); /* and what lies between its rows is as it was */
}

/* p: rows, columns of a part, parts, n_valid, weight, percent of smoothing, of the z-loss's weight: the parts one after
 * the other */
static void cross_entropy_parts(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], v = p[1], parts = p[2];
    tx_tensor z = RAND(TX_F32, parts, rows, v), dz = ZEROS(V, parts, rows, v), stats = ZEROS(TX_F32, parts, rows, 4);
    tx_tensor y = indices(ZEROS(TX_I32, rows), 0, (int32_t)p[3]), loss = ZEROS(TX_F32, rows),
              weight = RAND(TX_F32, rows);
    if (rows > 2) ((int32_t *)y.data)[1] = -1;
    tx_tensor z_loss = p[6] ? ZEROS(TX_F32, rows) : (tx_tensor){ 0 };
    if (!p[4]) weight.data = dz.data = NULL;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < parts; k++) {
            int64_t left = p[3] - k * v;
            tx_classes classes = { k * v, left < 0 ? 0 : left < v ? left : v, p[3] };
            tx_tensor part = tx_tensor2((float *)z.data + k * rows * v, TX_F32, rows, v), own = { 0 };
            if (dz.data) own = tx_tensor2((char *)dz.data + (size_t)(k * rows * v) * tx_dtype_size(V), V, rows, v);
            if (!pass)
                RUN(c, cross_entropy_part, .stats = tx_tensor2((float *)stats.data + k * rows * 4, TX_F32, rows, 4),
                    .z = part, .y = y, .classes = classes, .keep = p[4]);
            else
                RUN(c, cross_entropy_join, .loss = loss, .z = part, .dz = V == TX_F32 ? (tx_tensor){ 0 } : own,
                    .stats = stats, .y = y, .weight = weight, .classes = classes, .part = k,
                    .smoothing = (double)p[5] / 100, .z_weight = (double)p[6] / 100, .z_loss = z_loss);
        }
    out(o, "loss", loss, 16);
    if (p[6]) out(o, "z_loss", z_loss, 16);
    if (p[4] && V != TX_F32) out(o, "dz", dz, 16);
    if (p[4] && V == TX_F32) out(o, "z", z, 16);
}

/* p: rows, columns of a part, parts, n_valid, percent of the temperature: the parts one after the other */
static void distill(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], v = p[1], parts = p[2];
    tx_tensor z = RAND(TX_F32, parts, rows, v), t = RAND(TX_F32, parts, rows, v), loss = ZEROS(TX_F32, rows);
    tx_tensor stats = ZEROS(TX_F32, parts, rows, 5);
    scale_up(z, 3);
    scale_up(t, 3);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < parts; k++) {
            int64_t left = p[3] - k * v, here = left < 0 ? 0 : left < v ? left : v;
            tx_tensor own_z = tx_tensor2((float *)z.data + k * rows * v, TX_F32, rows, v),
                      own_t = tx_tensor2((float *)t.data + k * rows * v, TX_F32, rows, v);
            if (!pass)
                RUN(c, distill_part, .stats = tx_tensor2((float *)stats.data + k * rows * 5, TX_F32, rows, 5),
                    .t = own_t, .z = own_z, .n_here = here, .temperature = (double)p[4] / 100);
            else
                RUN(c, distill_join, .loss = loss, .t = own_t, .z = own_z, .stats = stats, .part = k, .n_here = here,
                    .temperature = (double)p[4] / 100, .factor = 0.7, .scale = 1.3);
        }
    out(o, "loss", loss, 64);
    out(o, "t", t, 16);
}

/* p: rows, v, extra row length, percent of the scale, of the cap */
static void softcap(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], v = p[1];
    const tx_logit_form form = { .scale = (double)p[3] / 100, .cap = (double)p[4] / 100 };
    tx_tensor x = RAND(TX_F32, rows, v + p[2]), y = RAND(TX_F32, rows, v), dy = RAND(TX_F32, rows, v), part = x;
    tx_tensor dx = ZEROS(V, rows, v), of = { 0 };
    part.dim[1] = v;
    scale_up(x, 4);
    RUN(c, softcap_fwd, .y = y, .x = part, .form = form);
    RUN(c, softcap_fwd, .y = part, .x = part, .form = form);
    if (p[4]) of = y;
    RUN(c, softcap_bwd, .dx = dx, .dy = dy, .y = of, .form = form);
    out(o, "y", y, 8);
    out(o, "x", x, 8); /* and what lies between its rows is as it was */
    out(o, "dx", dx, 16);
    if (V != TX_F32) return;
    RUN(c, softcap_bwd, .dx = dy, .dy = dy, .y = of, .form = form);
    assert_same_bits(dy, dx);
}

/* p: rows, h, v, n_valid, weight, accumulate, bias, the teacher's h, percent of the logits' cap */
static void head_loss(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], h = p[1], v = p[2];
    tx_tensor x = RAND(V, rows, h), w = RAND(V, v, h), y = indices(ZEROS(TX_I32, rows), 0, (int32_t)p[3]);
    tx_tensor loss = ZEROS(TX_F32, rows), dx = ZEROS(V, rows, h), dw = RAND(TX_F32, v, h), weight = RAND(TX_F32, rows);
    tx_tensor bias = { 0 }, dbias = { 0 };
    if (p[6]) bias = RAND(V, v);
    if (p[6] && p[4]) dbias = RAND(TX_F32, v);
    scale_up(w, 0.3);
    if (!p[4]) weight.data = NULL;
    tx_teacher_head teacher = { .temperature = 2, .factor = 0.5, .scale = 0.3 };
    const tx_logit_form form = { .scale = p[8] ? 0.7 : 0, .cap = (double)p[8] / 100 };
    if (p[7]) {
        teacher.loss = ZEROS(TX_F32, rows);
        teacher.x = RAND(V, rows, p[7]);
        teacher.w = RAND(V, v, p[7]);
        if (p[8]) teacher.bias = RAND(V, v), teacher.form.cap = 3;
    }
    RUN(c, head_loss, .loss = loss, .dx = dx, .dw = dw, .x = x, .w = w, .bias = bias, .dbias = dbias, .y = y,
        .weight = weight, .n_valid = p[3], .accumulate = p[5], .teacher = teacher, .form = form);
    out(o, "loss", loss, 32);
    if (p[7]) out(o, "taught", teacher.loss, 64);
    if (p[4]) out(o, "dx", dx, 64 + one_rounding()); /* dz is rounded */
    out(o, "dw", dw, 64 + one_rounding());
    if (dbias.data) out(o, "dbias", dbias, 64 + one_rounding());
}

/* p: s, b, h, rows here, with positions, first row and rows of the whole, types of tokens, percent of words' factor */
static void embedding(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t s = p[0], b = p[1], h = p[2], v = p[3];
    tx_table_shard shard = { p[5], p[6] };
    tx_tensor token = indices(ZEROS(TX_I32, s, b), 0, (int32_t)(p[6] ? p[6] : v)),
              position = indices(ZEROS(TX_I32, s, b), 0, (int32_t)s);
    tx_tensor word = RAND(V, v, h), pos = RAND(V, s, h), y = ZEROS(S, s, b, h);
    tx_tensor dword = RAND(TX_F32, v, h), dpos = RAND(TX_F32, s, h), type = { 0 }, kind = { 0 }, dkind = { 0 };
    if (!p[4]) pos.data = dpos.data = NULL;
    if (p[7]) {
        type = indices(ZEROS(TX_I32, s, b), 0, (int32_t)p[7]);
        kind = RAND(V, p[7], h);
        dkind = RAND(TX_F32, p[7], h);
    }
    double scale = (double)p[8] / 100;
    RUN(c, embedding_fwd, .y = y, .token = token, .position = position, .type = type, .word = word, .pos = pos,
        .kind = kind, .shard = shard, .scale = scale);
    out(o, "y", y, p[8] ? 4 : p[7] ? 2 : 1);
    if (p[8]) y = RAND(S, s, b, h); /* a product's last bit is not to be in both */
    RUN(c, embedding_bwd, .dword = dword, .dpos = dpos, .dkind = dkind, .dy = y, .token = token, .position = position,
        .type = type, .shard = shard, .scale = scale);
    out(o, "dword", dword, 16);
    if (p[4]) out(o, "dpos", dpos, 16);
    if (p[7]) out(o, "dkind", dkind, 16);
}

/* p: rows, n */
static void col_sum(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0], p[1]), y = RAND(TX_F32, p[1]);
    RUN(c, col_sum, .y = y, .x = x);
    out(o, "y", y, 64);
}

/* Tokens choose experts, their rows go there and come back; and the gradients.
 * p: tokens, experts, k, h, capacity, 1: sigmoids and 2: softmax_after, which are dropped, 1: a noisy second choice */
static void experts(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t rows = p[0], n = p[1], k = p[2], h = p[3];
    const tx_router how = { .score = p[5] == 1 ? TX_ROUTER_SIGMOID : TX_ROUTER_SOFTMAX,
                            .k = k,
                            .softmax_after = p[5] == 2,
                            .renormalise = p[5] == 1,
                            .capacity = p[4],
                            .drop = (tx_drop_policy)p[6],
                            .noisy_second = p[7],
                            .load_of_first = p[7],
                            .b = 2,
                            .random = { .rng = { 5, 6, 7 }, .sample = 8, .s_global = rows },
                            .scale = 1.5 };
    tx_tensor logits = RAND(TX_F32, rows, n), probs = ZEROS(TX_F32, rows, n), choice = ZEROS(TX_I32, rows, k);
    tx_tensor weight = ZEROS(TX_F32, rows, k), chosen = ZEROS(TX_I32, n), stats = ZEROS(TX_F32, n + 1);
    tx_tensor row = ZEROS(TX_I32, rows * k), source = ZEROS(TX_I32, rows * k), count = ZEROS(TX_I32, n);
    tx_tensor x = RAND(V, rows, h), packed = ZEROS(V, rows * k, h), y = RAND(V, rows, h), sum = ZEROS(V, rows, h);
    tx_tensor dy = RAND(V, rows, h), dz = ZEROS(V, rows * k, h), dweight = ZEROS(TX_F32, rows, k);
    tx_tensor dlogits = ZEROS(TX_F32, rows, n), sums = RAND(TX_F32, n + 3), bias = p[7] ? (tx_tensor){ 0 } : RAND(V, n);
    RUN(c, route_fwd, .probs = probs, .choice = choice, .weight = weight, .chosen = chosen, .stats = stats,
        .logits = logits, .bias = bias, .router = how);
    RUN(c, expert_order, .row = row, .source = source, .count = count, .choice = choice);
    RUN(c, gather_rows, .y = packed, .x = x, .index = source, .div = k);
    RUN(c, combine_fwd, .y = y, .z = packed, .row = row, .weight = weight, .accumulate = true);
    RUN(c, combine_fwd, .y = sum, .z = packed, .row = row);
    RUN(c, combine_bwd, .dz = dz, .dweight = dweight, .dy = dy, .z = packed, .row = row, .weight = weight);
    RUN(c, route_bwd, .dlogits = dlogits, .dweight = dweight, .logits = logits, .probs = probs, .choice = choice,
        .chosen = chosen, .aux = 0.1, .z = 0.2, .router = how);
    RUN(c, route_sums, .sums = sums, .stats = stats, .chosen = chosen, .choice = choice, .aux = 0.1, .z = 0.2);
    out(o, "choice", choice, 0);
    out(o, "chosen", chosen, 0);
    out(o, "probs", probs, 8);
    out(o, "weight", weight, 16);
    out(o, "stats", stats, 16);
    out(o, "sums", sums, 64);
    out(o, "row", row, 0);
    out(o, "source", source, 0);
    out(o, "count", count, 0);
    out(o, "packed", packed, 0);
    out(o, "y", y, 16);
    out(o, "dz", dz, 16);
    out(o, "sum", sum, 16);
    out_rest(o, "dweight", dweight, 64, sqrt((double)h));
    out_rest(o, "dlogits", dlogits, 256, sqrt((double)h));
}

enum { MOST_GROUPS = 16 };

/* The matrices, or the vectors, of all groups, which are one tensor. */
static tx_tensors groups_of(tx_tensor all, tx_tensor each[MOST_GROUPS])
{
    tx_tensor one = all;
    one.n_dims--;
    for (int i = 0; i < one.n_dims; i++) one.dim[i] = all.dim[i + 1], one.stride[i] = all.stride[i + 1];
    for (int64_t g = 0; g < all.dim[0]; g++) each[g] = one, each[g].data = tx_slice_rows(all, g, 1).data;
    return (tx_tensors){ each, sizeof *each };
}

/* Of `rows` rows, a group has as many as the next one; or the last group all; or group g about g times as many as group
 * 1, and every third none. */
typedef enum shares { EVEN, LAST, UNEVEN } shares;

static tx_tensor rows_of_groups(int64_t n, int64_t rows, shares how)
{
    tx_tensor count = ZEROS(TX_I32, n);
    int32_t *has = count.data;
    for (int64_t g = 0; g < n; g++) {
        if (how == EVEN) has[g] = (int32_t)(rows * (g + 1) / n - rows * g / n);
        if (how == UNEVEN) has[g] = g % 3 ? (int32_t)(2 * rows * g / (n * n)) : 0;
        if (g < n - 1) rows -= how == EVEN ? 0 : has[g];
    }
    if (how != EVEN) has[n - 1] = (int32_t)rows;
    return count;
}

/* The product of each group's rows, and the gradients.   p: groups, rows, n, k, shares, with biases, accumulate */
static void grouped(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t groups = p[0], rows = p[1], n = p[2], k = p[3];
    static tx_tensor w_of[MOST_GROUPS], bias_of[MOST_GROUPS], dw_of[MOST_GROUPS], dbias_of[MOST_GROUPS];
    tx_tensor count = rows_of_groups(groups, rows, (shares)p[4]);
    tx_tensor w = RAND(V, groups, n, k), bias = RAND(V, groups, n), x = RAND(V, rows, k), y = RAND(V, rows, n);
    tx_tensor dy = RAND(V, rows, n), dx = RAND(V, rows, k), dw = RAND(TX_F32, groups, n, k);
    tx_tensor dbias = RAND(TX_F32, groups, n);
    tx_tensors ws = groups_of(w, w_of), biases = groups_of(bias, bias_of), dws = groups_of(dw, dw_of),
               dbiases = groups_of(dbias, dbias_of);
    if (!p[5]) biases.first = dbiases.first = NULL;
    if (!p[6]) ((float *)dw.data)[0] = NAN; /* not read */
    RUN(c, grouped_gemm, .c = y, .a = x, .b = ws, .bias = biases, .count = count, .trans_b = true);
    RUN(c, grouped_gemm, .c = dx, .a = dy, .b = ws, .count = count);
    RUN(c, grouped_dw, .dw = dws, .dbias = dbiases, .dy = dy, .x = x, .count = count, .accumulate = p[6]);
    out_rest(o, "y", y, 16, sqrt((double)k));
    out_rest(o, "dx", dx, 16, sqrt((double)n));
    out_rest(o, "dw", dw, 16, sqrt((double)rows));
    out_rest(o, "dbias", dbias, 64, sqrt((double)rows));
}

/* p: n */
static void magnitudes(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0]), n = ZEROS(TX_F64, (p[0] + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK, 4);
    RUN(c, magnitudes, .out = n, .x = x);
    out(o, "n", n, 4);
}

/* p: n */
static void flat_ops(tx_ctx *c, const int64_t *p, results *o)
{
    static const tx_dtype type[] = { TX_F32, TX_BF16, TX_F16 };
    int64_t n = p[0];
    tx_tensor x = RAND(V, n), i32 = ZEROS(TX_I32, n), sum = ZEROS(TX_F64, (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK);
    RUN(c, sumsq, .out = sum, .x = x);
    out(o, "sumsq", sum, 1e-6);
    for (int i = 0; i < 3; i++) {
        tx_tensor y = ZEROS(type[i], n);
        RUN(c, cast, .y = y, .x = x);
        out(o, tx_dtype_name(type[i]), y, 0);
        o->r[o->n - 1].exact = true;
    }
    tx_tensor filled = ZEROS(V, n), cleared = RAND(V, n);
    RUN(c, fill, .x = filled, .value = 1.7);
    RUN(c, fill, .x = i32, .value = -3);
    RUN(c, fill, .x = cleared, .value = 0);
    out(o, "filled", filled, 0);
    out(o, "int32 filled", i32, 0);
    out(o, "cleared", cleared, 0);
}

/* p: rows, columns, extra row length: of part of each row into part of each row, and what lies between stays */
/* p: rows, h: of values and of the stream, apart and in place; the bits are those of dropout_add without a mask. */
static void add(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor a = RAND(V, p[0], 1, p[1]), b = RAND(S, p[0], 1, p[1]), y = ZEROS(S, p[0], 1, p[1]);
    tx_tensor narrow = ZEROS(V, p[0], 1, p[1]), same = ZEROS(S, p[0], 1, p[1]);
    RUN(c, add, .y = y, .a = a, .b = b);
    RUN(c, add, .y = narrow, .a = b, .b = b);
    out(o, "sum", y, 0);
    o->r[o->n - 1].exact = true;
    out(o, "narrow sum", narrow, 0);
    o->r[o->n - 1].exact = true;
    RUN(c, dropout_add_fwd, .y = same, .x = a, .residual = b);
    assert_same_bits(y, same);
    RUN(c, dropout_add_fwd, .y = same, .x = b, .residual = a);
    assert_same_bits(y, same);
    RUN(c, add, .y = b, .a = a, .b = b);
    assert_same_bits(b, y);
    if (V != S) return;
    b = RAND(S, p[0], 1, p[1]);
    RUN(c, add, .y = same, .a = a, .b = b);
    RUN(c, add, .y = a, .a = a, .b = b);
    assert_same_bits(a, same);
}

/* p: rows, width, room beside it: as a whole, and rows of a wider tensor, whose room stays; the bits are those of a
 * cast to the same type. */
static void copy(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor whole = RAND(V, p[0], 2, p[1] + p[2]), y = RAND(V, p[0], 2, p[1] + p[2]), from = whole, to = y;
    tx_tensor dense = ZEROS(V, p[0], 2, p[1]), same = ZEROS(V, p[0], 2, p[1]), all = ZEROS(V, p[0], 2, p[1] + p[2]);
    tx_tensor number = indices(ZEROS(TX_I32, p[0], p[1]), -9, 9), number_to = ZEROS(TX_I32, p[0], p[1]);
    from.dim[2] = to.dim[2] = p[1];
    RUN(c, copy, .y = to, .x = from);
    RUN(c, copy, .y = dense, .x = from);
    RUN(c, copy, .y = all, .x = whole);
    RUN(c, copy, .y = number_to, .x = number);
    RUN(c, copy, .y = all, .x = all);
    assert_same_bits(all, whole);
    assert_same_bits(number_to, number);
    RUN(c, cast, .y = same, .x = from);
    assert_same_bits(dense, same);
    out(o, "rows", y, 0);
    o->r[o->n - 1].exact = true;
}

static void strided_cast(tx_ctx *c, const int64_t *p, results *o)
{
    static const tx_dtype type[] = { TX_F32, TX_BF16, TX_F16 };
    tx_tensor from = RAND(V, p[0], 2, p[1] + p[2]);
    from.dim[2] = p[1];
    for (int i = 0; i < 3; i++) {
        tx_tensor y = RAND(type[i], p[0], 2, p[1] + p[2]), to = y;
        to.dim[2] = p[1];
        RUN(c, cast, .y = to, .x = from);
        out(o, tx_dtype_name(type[i]), y, 0);
        o->r[o->n - 1].exact = true;
    }
}

/* p: n, step */
/* A gate as clip writes it, of a norm of 2. */
static tx_tensor open_gate(void)
{
    tx_tensor gate = ZEROS(TX_F64, 3);
    for (int i = 0; i < 3; i++) ((double *)gate.data)[i] = i == 0 ? 2 : i == 1 ? 0.5 : 1;
    return gate;
}

/* p: n, t, with a gate, closed, gradients of the values' type, coupled decay */
static void adam(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), v = RAND(TX_F32, n), low = ZEROS(V, n);
    tx_tensor g = RAND(p[4] ? V : TX_F32, n);
    for (int64_t i = 0; i < n; i++) ((float *)v.data)[i] *= ((float *)v.data)[i];
    if (n == 17) low.data = NULL;
    tx_tensor gate = p[2] ? open_gate() : (tx_tensor){ 0 };
    if (p[3]) ((double *)gate.data)[2] = 0;
    RUN(c, adam, .p = w, .m = m, .v = v, .g = g, .low = low, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8,
        .weight_decay = 0.01, .grad_scale = 0.125, .gate = gate, .t = p[1], .coupled = p[5]);
    out(o, "p", w, 4);
    out(o, "m", m, 4);
    out(o, "v", v, 4);
    if (low.data) out(o, "low", low, 4);
}

/* p: n, with a gate, closed, gradients of the values' type, 1: nesterov, 2: dampened */
static void sgd(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), g = RAND(p[3] ? V : TX_F32, n), low = ZEROS(V, n);
    if (n == 17) low.data = NULL;
    tx_tensor gate = p[1] ? open_gate() : (tx_tensor){ 0 };
    if (p[2]) ((double *)gate.data)[2] = 0;
    RUN(c, sgd, .p = w, .m = m, .g = g, .low = low, .lr = 1e-2, .momentum = 0.9, .weight_decay = 0.01,
        .dampening = p[4] == 2 ? 0.25 : 0, .nesterov = p[4] == 1, .grad_scale = 0.125, .gate = gate);
    out(o, "p", w, 4);
    out(o, "m", m, 4);
    if (low.data) out(o, "low", low, 4);
}

/* As sgd's. Where the average is nearly 0 its sign is a matter of rounding: there are none such. */
static void lion(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), g = RAND(p[3] ? V : TX_F32, n), low = ZEROS(V, n);
    for (int64_t i = 0; i < n; i++)
        if (fabs(0.95 * tx__ref_load(m, i)) < 0.05) tx__ref_store(m, i, 0), tx__ref_store(g, i, (double)(i % 3) - 1);
    if (n == 17) low.data = NULL;
    tx_tensor gate = p[1] ? open_gate() : (tx_tensor){ 0 };
    if (p[2]) ((double *)gate.data)[2] = 0;
    RUN(c, lion, .p = w, .m = m, .g = g, .low = low, .lr = 1e-2, .beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.01,
        .grad_scale = 0.125, .gate = gate);
    out(o, "p", w, 4);
    out(o, "m", m, 4);
    if (low.data) out(o, "low", low, 4);
}

/* As sgd's. */
static void adagrad(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor w = RAND(TX_F32, n), v = RAND(TX_F32, n), g = RAND(p[3] ? V : TX_F32, n), low = ZEROS(V, n);
    for (int64_t i = 0; i < n; i++) ((float *)v.data)[i] *= ((float *)v.data)[i];
    if (n == 17) low.data = NULL;
    tx_tensor gate = p[1] ? open_gate() : (tx_tensor){ 0 };
    if (p[2]) ((double *)gate.data)[2] = 0;
    RUN(c, adagrad, .p = w, .v = v, .g = g, .low = low, .lr = 1e-2, .eps = 1e-10, .weight_decay = 0.01,
        .grad_scale = 0.125, .gate = gate);
    out(o, "p", w, 4);
    out(o, "v", v, 4);
    if (low.data) out(o, "low", low, 4);
}

/* p: n, with a gate, closed, gradients of the values' type, eps inside the root */
static void lamb(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0], blocks = (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), v = RAND(TX_F32, n), low = ZEROS(V, n);
    tx_tensor g = RAND(p[3] ? V : TX_F32, n), sums = RAND(TX_F64, 2, blocks), ratio = ZEROS(TX_F64, 1);
    for (int64_t i = 0; i < n; i++) ((float *)v.data)[i] *= ((float *)v.data)[i];
    ((double *)ratio.data)[0] = 0.75;
    if (n == 17) low.data = NULL;
    tx_tensor gate = p[1] ? open_gate() : (tx_tensor){ 0 };
    if (p[2]) ((double *)gate.data)[2] = 0;
    const tx_lamb_rule rule = { .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = p[4] ? 1e-3 : 1e-6,
                                .weight_decay = 0.01,
                                .correct1 = p[4] ? 0.19 : 1,
                                .correct2 = p[4] ? 0.002 : 1,
                                .eps_inside = p[4] };
    RUN(c, lamb_moments, .m = m, .v = v, .p = w, .g = g, .sums = sums, .rule = rule, .grad_scale = 0.125, .gate = gate);
    out(o, "m", m, 4);
    out(o, "v", v, 4);
    out(o, "sums", sums, 16); /* squares of what is some epsilons off */
    RUN(c, lamb_update, .p = w, .m = m, .v = v, .low = low, .ratio = ratio, .rule = rule, .lr = 1e-2, .gate = gate);
    out(o, "p", w, 4);
    if (low.data) out(o, "low", low, 4);
}

/* p: n, with a gate, closed */
static void lamb_fresh(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0], blocks = (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
    tx_tensor w = RAND(TX_F32, n), m = RAND(TX_F32, n), v = RAND(TX_F32, n), x = RAND(TX_F32, n),
              fresh = RAND(TX_F32, n);
    tx_tensor sums = RAND(TX_F64, 2, blocks), most = ZEROS(TX_F64, 1);
    for (int64_t i = 0; i < n; i++) ((float *)v.data)[i] *= ((float *)v.data)[i];
    for (int64_t i = 0; i < n; i++) ((float *)fresh.data)[i] *= ((float *)fresh.data)[i];
    tx_tensor gate = p[1] ? open_gate() : (tx_tensor){ 0 };
    if (p[2]) ((double *)gate.data)[2] = 0;
    const tx_lamb_rule rule = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-2, .weight_decay = 0.01 };
    RUN(c, lamb_fresh, .m = m, .fresh = fresh, .x = x, .v = v, .p = w, .sums = sums, .most = most, .rule = rule,
        .gate = gate);
    out(o, "m", m, 0);
    out(o, "fresh", fresh, 16); /* a quotient by 1 - beta1, squared */
    out(o, "sums", sums, 16);
    out(o, "most", most, 16);
}

/* p: with the largest quotients, closed */
static void lamb_coeff(tx_ctx *c, const int64_t *p, results *o)
{
    static const double ratio[] = { 1, 0.5, 0.25, 0, 1, 0.75 }, most[] = { 1.04, 8, 0.01, 3, 0.95, 1 };
    enum { N = sizeof ratio / sizeof *ratio };
    tx_tensor r = ZEROS(TX_F64, N), q = ZEROS(TX_F64, N), average = ZEROS(TX_F32, N), last = ZEROS(TX_F32, N);
    tx_tensor gate = open_gate();
    if (p[1]) ((double *)gate.data)[2] = 0;
    for (int i = 0; i < N; i++) {
        ((double *)r.data)[i] = ratio[i];
        ((double *)q.data)[i] = most[i];
        ((float *)average.data)[i] = 0.5F + 0.125F * (float)i;
        ((float *)last.data)[i] = i == 1 ? 2 : 1;
    }
    if (!p[0]) q.data = last.data = NULL;
    RUN(c, lamb_coeff, .ratio = r, .average = average, .most = q, .last = last, .beta = 0.9, .least = 0.5,
        .largest = 2.125, .threshold = 0.125, .gate = gate);
    out(o, "ratio", r, 4);
    out(o, "average", average, 4);
    if (p[0]) out(o, "last", last, 4);
}

/* Ratios of norms within bounds, at them, without either norm, and of one that is not finite. */
static void lamb_ratios(tx_ctx *c, const int64_t *p, results *o)
{
    static const double square[][2] = { { 4, 16 },       { 4, 0x1p-20 }, { 0x1p-20, 4 },
                                        { 0, 4 },        { 4, 0 },       { 0, 0 },
                                        { 4, INFINITY }, { NAN, 4 },     { 0x1p-250, 0x1p-251 } };
    enum { N = sizeof square / sizeof *square };
    tx_tensor sums = ZEROS(TX_I64, N, 2, TX_EXACT_WORDS), ratio = ZEROS(TX_F64, N), bad = ZEROS(TX_F64, 1);
    tx_tensor finite = tx_tensor1(ratio.data, TX_F64, N);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 2; k++) tx_exact_add((tx_exact *)sums.data + 2 * i + k, square[i][k]);
    RUN(c, lamb_ratio, .out = ratio, .sums = sums, .least = 0.01, .most = (double)p[0]);
    double *r = ratio.data;
    for (int i = 0; i < N; i++) {
        bool is_bad = !isfinite(square[i][0]) || !isfinite(square[i][1]);
        assert_true(isnan(r[i]) == is_bad);
        if (is_bad) ((double *)bad.data)[0] += 1, r[i] = 0;
    }
    out(o, "ratio", finite, 0);
    o->r[o->n - 1].exact = true;
}

/* p: n, with a gate, closed, only its go, all of the values' type, alone */
static void blend(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor x = RAND(p[4] ? V : TX_F32, n), z = RAND(p[4] ? V : TX_F32, n), y = RAND(p[4] ? V : TX_F32, n);
    tx_tensor low = ZEROS(V, n), norm = ZEROS(TX_F64, 2), gate = p[1] ? open_gate() : (tx_tensor){ 0 };
    ((double *)norm.data)[0] = 1.5;
    ((double *)norm.data)[1] = 2;
    if (p[2]) ((double *)gate.data)[2] = 0;
    if (p[5]) z.data = low.data = NULL;
    if (!p[5]) norm.data = NULL;
    RUN(c, blend, .y = y, .x = x, .z = z, .low = low, .norm = norm, .gate = gate, .alpha = 0.3, .beta = -1.7,
        .only_go = p[3]);
    out(o, "y", y, 4);
    if (low.data) out(o, "low", low, 4);
}

/* p: sides of a matrix, in the values' type */
static void blend_diagonal(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(p[1] ? V : TX_F32, p[0], p[0]), z = RAND(p[1] ? V : TX_F32, p[0], p[0]);
    RUN(c, blend, .y = x, .x = x, .z = z, .alpha = 2.5, .beta = -0.7, .diagonal = 3.5);
    out(o, "y", x, 8);
}

/* p: n, in the place of x */
static void root_mul(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(TX_F32, p[0]), v = RAND(TX_F32, p[0]), y = p[1] ? x : ZEROS(TX_F32, p[0]);
    for (int64_t i = 0; i < p[0]; i++) ((float *)v.data)[i] *= i % 3 ? ((float *)v.data)[i] : 0;
    RUN(c, root_mul, .y = y, .x = x, .v = v, .eps = 0.25);
    out(o, "y", y, 4);
}

/* p: n, rows, added to what is there, with a mask. The same bits everywhere. */
static void signs(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0], rows = p[1], words = (n + 31) / 32;
    tx_tensor bits = ZEROS(TX_I32, rows, words + 3), scale = ZEROS(TX_F64, rows, 2), y = RAND(TX_F32, n), x = y;
    tx_tensor mask = RAND(TX_F32, n);
    for (int64_t i = 0; i < n; i += 3) ((float *)mask.data)[i] = 0;
    bits.dim[1] = words;
    scale.dim[1] = 1;
    for (int64_t r = 0; r < rows; r++) {
        ((double *)scale.data)[2 * r] = 0.1 + 0.03 * (double)r;
        x = RAND(TX_F32, n);
        ((float *)x.data)[0] = 0;
        RUN(c, sign_pack, .bits = tx_tensor1((int32_t *)bits.data + r * (words + 3), TX_I32, words), .x = x,
            .scale = tx_tensor1((double *)scale.data + 2 * r, TX_F64, 1));
    }
    RUN(c, sign_sum, .y = y, .bits = bits, .scale = scale, .factor = 1 / (double)rows, .accumulate = p[2],
        .mask = p[3] ? mask : (tx_tensor){ 0 });
    out(o, "left out", x, 0);
    o->r[o->n - 1].exact = true;
    out(o, "y", y, 0);
    o->r[o->n - 1].exact = true;
}

/* p: n, rows, bits, added to what is there, y of the values' type, an element that is not finite. The same bits
 * everywhere. */
static void quantized(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0], rows = p[1], each = tx_quantized_words(n, (int)p[2]);
    tx_tensor words = ZEROS(TX_I32, rows, each + 3), y = RAND(p[4] ? V : TX_F32, n), x;
    words.dim[1] = each;
    for (int64_t r = 0; r < rows; r++) {
        x = RAND(p[4] ? V : TX_F32, n);
        if (x.dtype == TX_F32) { /* of all sizes; a block of zeros, and one of numbers that are nearly none */
            float *to = x.data;
            for (int64_t i = 0; i < n; i++) {
                int64_t block = i / TX_QUANTIZED_BLOCK;
                to[i] *= block % 4 == 2 ? 0 : ldexpf(1, block % 4 == 3 ? -140 : (int)(block % 7) * 9 - 27);
            }
            if (p[5]) to[n / 2] = r ? INFINITY : NAN;
        }
        RUN(c, quantize, .words = tx_tensor1((int32_t *)words.data + r * (each + 3), TX_I32, each), .x = x,
            .bits = (int)p[2]);
    }
    RUN(c, dequantize_sum, .y = y, .words = words, .bits = (int)p[2], .accumulate = p[3]);
    if (p[5]) {
        int64_t first = n / 2 / TX_QUANTIZED_BLOCK * TX_QUANTIZED_BLOCK;
        float *at = y.data;
        for (int64_t i = 0; i < n; i++) {
            bool of = i >= first && i < first + TX_QUANTIZED_BLOCK;
            assert_true(isnan(at[i]) == of);
            if (of) at[i] = 0;
        }
    }
    out(o, "y", y, 0);
    o->r[o->n - 1].exact = true;
}

/* Numbers of all sizes, and at the end what is not finite; their sum and what follows from it.   p: n, the last one */
static void exact_sums(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0];
    tx_tensor x = ZEROS(TX_F64, n), sum = ZEROS(TX_I64, TX_EXACT_WORDS), gate = ZEROS(TX_F64, 3);
    const tx_rng rng = { .seed = 77 };
    double *value = x.data;
    for (int64_t i = 0; i < n; i++)
        value[i] = ldexp((double)(float)tx_rng_uniform(&rng, (uint64_t)i),
                         (int)(tx_rng_uniform(&rng, (uint64_t)(n + i)) * 300) - 200);
    if (p[1]) value[n - 1] = p[1] > 1 ? NAN : INFINITY;
    RUN(c, exact_add, .sum = sum, .x = x);
    RUN(c, exact_add, .sum = sum, .x = tx_slice1(x, 0, n / 2));
    RUN(c, clip, .out = gate, .sum = sum, .loss_scale = 64, .max_norm = 1);
    double total = tx_exact_value(sum.data);
    tx_tensor of_sum = ZEROS(TX_F64, 1);
    if (!p[1]) ((double *)of_sum.data)[0] = total;
    out(o, "sum", of_sum, 0);
    o->r[o->n - 1].exact = true;
    if (p[1]) {
        assert_true(!isfinite(total) && !isfinite(((double *)gate.data)[0]) && ((double *)gate.data)[2] == 0);
        return;
    }
    out(o, "gate", gate, 0);
    o->r[o->n - 1].exact = true;
}

/* p: n */
static void count_zeros(tx_ctx *c, const int64_t *p, results *o)
{
    tx_tensor x = RAND(V, p[0]), n = ZEROS(TX_F64, 1);
    for (int64_t i = 0; i < p[0]; i += 3) tx__ref_store(x, i, 0);
    RUN(c, count_zeros, .out = n, .x = x);
    out(o, "n", n, 0);
}

/* clang-format off */
static const op_case cases[] = {
    { "layernorm 1x1", layernorm, { 1, 1, 0 } },
    { "layernorm 3x17", layernorm, { 3, 17, 1 } },
    { "layernorm 65x80", layernorm, { 65, 80, 0 } },
    { "layernorm 130x768", layernorm, { 130, 768, 1 } },
    { "layernorm without beta 3x17", layernorm, { 3, 17, 1, 1 } },
    { "layernorm without beta 65x80", layernorm, { 65, 80, 0, 1 } },
    { "layernorm without beta 33x768", layernorm, { 33, 768, 1, 1 } },
    { "gelu tanh 1", activation, { 1, TX_GELU_TANH } },
    { "gelu tanh 17", activation, { 17, TX_GELU_TANH } },
    { "gelu tanh 100003", activation, { 100003, TX_GELU_TANH } },
    { "gelu erf 1", activation, { 1, TX_GELU_ERF } },
    { "gelu erf 65", activation, { 65, TX_GELU_ERF } },
    { "gelu erf 100003", activation, { 100003, TX_GELU_ERF } },
    { "squared relu 1", activation, { 1, TX_SQUARED_RELU } },
    { "squared relu 1003", activation, { 1003, TX_SQUARED_RELU } },
    { "relu 1003", activation, { 1003, TX_RELU } },
    { "tanh 1", activation, { 1, TX_TANH } },
    { "tanh 67", activation, { 67, TX_TANH } },
    { "tanh 100003", activation, { 100003, TX_TANH } },
    { "rmsnorm 1x1", rmsnorm, { 1, 1, 0 } },
    { "rmsnorm 3x17", rmsnorm, { 3, 17, 1 } },
    { "rmsnorm 130x768", rmsnorm, { 130, 768, 1 } },
    { "rmsnorm 300x64", rmsnorm, { 300, 64, 1 } },
    { "rmsnorm of some columns 1x1", rmsnorm_part, { 1, 1, 3, 0 } },
    { "rmsnorm of some columns 3x17", rmsnorm_part, { 3, 17, 34, 1 } },
    { "rmsnorm of some columns 130x768", rmsnorm_part, { 130, 768, 1536, 1 } },
    { "swiglu 1x1", glu, { 1, 1, TX_GLU_SILU } },
    { "swiglu 17x65", glu, { 17, 65, TX_GLU_SILU } },
    { "swiglu 130x340", glu, { 130, 340, TX_GLU_SILU } },
    { "swiglu 3x2500", glu, { 3, 2500, TX_GLU_SILU } },
    { "swiglu, gate second 17x65", glu, { 17, 65, TX_GLU_SILU, 1 } },
    { "geglu 17x65", glu, { 17, 65, TX_GLU_GELU } },
    { "geglu, gate second 3x2500", glu, { 3, 2500, TX_GLU_GELU, 1 } },
    { "geglu of tanh 17x65", glu, { 17, 65, TX_GLU_GELU_TANH } },
    { "geglu of tanh, gate second 3x2500", glu, { 3, 2500, TX_GLU_GELU_TANH, 1 } },
    { "reglu 17x65", glu, { 17, 65, TX_GLU_RELU } },
    { "reglu, gate second 3x2500", glu, { 3, 2500, TX_GLU_RELU, 1 } },
    { "liglu 17x65", glu, { 17, 65, TX_GLU_LINEAR } },
    { "liglu, gate second 3x2500", glu, { 3, 2500, TX_GLU_LINEAR, 1 } },
    { "rope 1x1", rope, { 1, 1, 1, 1, 2, 2, 0 } },
    { "rope 17x2 in part", rope, { 17, 2, 3, 2, 20, 6, 5 } },
    { "rope 130x2", rope, { 130, 2, 2, 3, 64, 64, 4000 } },
    { "rope 1x1 of neighbours", rope_scaled, { 1, 1, 1, 1, 2, 2, 1, 1 } },
    { "rope 17x2 in part, scaled", rope_scaled, { 17, 2, 3, 2, 20, 6, 5, 0 } },
    { "rope 17x2 of neighbours in part", rope_scaled, { 17, 2, 3, 2, 20, 6, 5, 1 } },
    { "rope 130x2 of neighbours", rope_scaled, { 130, 2, 2, 3, 64, 64, 4000, 1 } },
    { "rope 33x3 with positions", rope_positions, { 33, 3, 2, 2, 16 } },
    { "tokens 1 of 1", tokens, { 1, 1, 1, 1, 0, 1 } },
    { "tokens 3 of 17", tokens, { 17, 3, 2, 5, 0, 17 } },
    { "tokens 40 of 130", tokens, { 130, 40, 3, 768, 0, 130 } },
    { "tokens 20 of 64, the second half", tokens, { 32, 20, 2, 64, 32, 64 } },
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
    { "attention s=330, documents of 150", attention, { 330, 2, 2, 2, 16, true, 6554, 150 } },
    { "attention s=290, from anywhere on", attention, { 290, 2, 1, 2, 32, true, 0, -290 } },
    { "attention s=150, from anywhere on, in runs", attention, { 150, 2, 1, 2, 16, true, 6554, -70 } },
    { "attention s=100, documents of 7, all keys", attention, { 100, 1, 2, 1, 16, false, 0, 7 } },
    { "attention s=33 d=32 groups, dropout", attention, { 33, 2, 2, 2, 32, true, 6554 } },
    { "attention s=100 d=128 groups", attention, { 100, 1, 1, 2, 128, true, 0 } },
    { "attention s=40 d=128 dropout", attention, { 40, 1, 1, 2, 128, false, 6554 } },
    { "attention s=70 d=96", attention, { 70, 2, 1, 2, 96, true, 0 } },
    { "attention s=20 d=160 groups", attention, { 20, 1, 1, 2, 160, true, 0 } },
    { "attention s=35 d=256, documents of 9, dropout", attention, { 35, 2, 1, 1, 256, true, 20000, 9 } },
    { "attention s=20 d=67", attention, { 20, 2, 1, 2, 67, false, 0 } },
    { "leaning attention s=1", leaning_attention, { 1, 1, 1, 1, 16, 0, 0, 1 } },
    { "leaning attention s=3, 3 heads", leaning_attention, { 3, 2, 3, 1, 20, 0, 0, 3 } },
    { "leaning attention s=17, groups of 12 heads", leaning_attention, { 17, 2, 2, 3, 80, 0, 0, 12 } },
    { "leaning attention s=130, 8 heads", leaning_attention, { 130, 1, 8, 1, 16, 0, 0, 8 } },
    { "leaning attention s=200, last of 112 heads", leaning_attention, { 200, 1, 1, 2, 64, 0, 0, 112 } },
    { "leaning attention s=70, dropout", leaning_attention, { 70, 2, 1, 2, 128, 6554, 0, 2 } },
    { "leaning attention s=100, documents of 30", leaning_attention, { 100, 3, 2, 1, 32, 6554, 30, 6 } },
    { "leaning attention s=40 d=256", leaning_attention, { 40, 1, 1, 1, 256, 0, 0, 5 } },
    { "kind attention s=1, window", kind_attention, { 1, 1, 1, 1, 16, 0, 0, 0, 1, 0, 0 } },
    { "kind attention s=17, window of 3", kind_attention, { 17, 2, 2, 2, 20, 0, 0, 0, 3, 0, 0 } },
    { "kind attention s=130, window of 64", kind_attention, { 130, 2, 2, 1, 64, 0, 0, 0, 64, 0, 0 } },
    { "kind attention s=200, window of 65, dropout", kind_attention, { 200, 1, 1, 2, 80, 6554, 0, 0, 65, 0, 0 } },
    { "kind attention s=330, window of 100", kind_attention, { 330, 1, 1, 2, 32, 0, 0, 0, 100, 0, 1 } },
    { "kind attention s=200, window of 20, documents", kind_attention, { 200, 2, 2, 1, 32, 0, 50, 0, 20, 0, 0 } },
    { "kind attention s=130, window of 40, leaning", kind_attention, { 130, 1, 3, 2, 64, 0, 0, 12, 40, 0, 0 } },
    { "kind attention s=70, window of 300", kind_attention, { 70, 1, 1, 2, 128, 0, 0, 0, 300, 0, 0 } },
    { "kind attention s=3, cap", kind_attention, { 3, 2, 2, 1, 16, 0, 0, 0, 0, 2, 0 } },
    { "kind attention s=130, cap, dropout", kind_attention, { 130, 2, 1, 2, 64, 6554, 0, 0, 0, 3, 0 } },
    { "kind attention s=100, cap, documents", kind_attention, { 100, 2, 2, 1, 80, 0, 30, 0, 0, 1, 0 } },
    { "kind attention s=67, cap, leaning", kind_attention, { 67, 1, 2, 2, 96, 0, 0, 6, 0, 2, 0 } },
    { "kind attention s=1, sinks", kind_attention, { 1, 1, 2, 1, 16, 0, 0, 0, 0, 0, 1 } },
    { "kind attention s=130, sinks", kind_attention, { 130, 3, 2, 2, 64, 0, 0, 0, 0, 0, 1 } },
    { "kind attention s=40 d=256, sinks, dropout", kind_attention, { 40, 2, 1, 2, 256, 20000, 0, 0, 0, 0, 1 } },
    { "kind attention s=70, off by one", kind_attention, { 70, 2, 2, 1, 16, 0, 9, 0, 0, 0, 2 } },
    { "kind attention s=200, all", kind_attention, { 200, 2, 2, 2, 128, 6554, 70, 7, 33, 2, 1 } },
    { "kind attention s=150 d=5, all", kind_attention, { 150, 2, 1, 3, 5, 0, 0, 3, 90, 1, 1 } },
    { "padded kind attention s=70", padded_kind_attention, { 70, 4, 2, 2, 64, false, 0, 2, 1 } },
    { "padded kind attention s=17, dropout", padded_kind_attention, { 17, 3, 2, 1, 20, false, 6554, 1, 2 } },
    { "padded attention s=1", padded_attention, { 1, 2, 1, 1, 16, false, 0 } },
    { "padded attention s=3", padded_attention, { 3, 4, 2, 2, 64, false, 0 } },
    { "padded attention s=17 d=5", padded_attention, { 17, 5, 2, 1, 5, false, 0 } },
    { "padded attention s=70 d=80 groups, dropout", padded_attention, { 70, 4, 2, 3, 80, false, 6554 } },
    { "padded attention s=200 d=64", padded_attention, { 200, 7, 3, 1, 64, false, 0 } },
    { "parts of 1 of s=3", parts, { 3, 2, 1, 2, 16, 1, 0, 0, 0, 0, 0, 1 } },
    { "parts of 64 of s=150", parts, { 150, 1, 2, 2, 64, 1, 0, 0, 0, 0, 0, 64 } },
    { "parts of 40 of s=130, dropout, biases", parts, { 130, 2, 2, 1, 32, 1, 6554, 0, 6, 0, 0, 40 } },
    { "parts of 30 of s=100, documents", parts, { 100, 3, 2, 1, 16, 1, 6554, 17, 0, 0, 0, 30 } },
    { "parts of 50 of s=170, window of 33, sinks", parts, { 170, 1, 2, 2, 80, 1, 0, 0, 0, 33, 1, 50 } },
    { "parts of 33 of s=100, window of 5, dropout, off by one", parts, { 100, 1, 1, 2, 20, 1, 6554, 0, 3, 5, 2, 33 } },
    { "parts of 33 of s=90, all keys", parts, { 90, 1, 2, 1, 128, 0, 6554, 0, 0, 0, 0, 33 } },
    { "parts of 30 of s=100, padded", parts, { 100, 5, 1, 2, 67, 2, 0, 0, 0, 0, 1, 30 } },
    { "parts of 7 of s=20 d=256, padded, dropout", parts, { 20, 4, 1, 1, 256, 2, 6554, 0, 0, 0, 0, 7 } },
    { "max_logits s=1", max_logits, { 1, 1, 1, 1, 16, true } },
    { "max_logits s=3 d=5", max_logits, { 3, 2, 3, 1, 5, false } },
    { "max_logits s=17 d=80 groups", max_logits, { 17, 2, 2, 3, 80, true } },
    { "max_logits s=130 d=64", max_logits, { 130, 3, 3, 1, 64, true } },
    { "max_logits s=200 d=128, all keys", max_logits, { 200, 1, 1, 2, 128, false } },
    { "max_logits s=20 d=256", max_logits, { 20, 1, 2, 1, 256, true } },
    { "max_logits s=100 d=16, documents of 30", max_logits, { 100, 3, 2, 2, 16, true, 30 } },
    { "max_logits s=150, from anywhere on", max_logits, { 150, 2, 2, 2, 16, true, -70 } },
    { "max_logits s=70 d=67, padded", max_logits, { 70, 7, 1, 2, 67, false, 0, true } },
    { "max_logits s=130, window of 30", max_logits, { 130, 2, 2, 2, 64, true, 0, false, 30 } },
    { "max_logits s=100, window of 30, documents", max_logits, { 100, 2, 2, 1, 32, true, 50, false, 30 } },
    { "cache 3 of 65 from 40 on", cached_attention, { 3, 65, 1, 2, 1, 80, true, 40 } },
    { "cache 70 of 200 from 90 on", cached_attention, { 70, 200, 1, 2, 1, 64, true, 90 } },
    { "cache 1 of 1", cached_attention, { 1, 1, 1, 1, 1, 16, true } },
    { "cache 1 of 100", cached_attention, { 1, 100, 2, 3, 2, 64, true } },
    { "cache 3 of 65", cached_attention, { 3, 65, 1, 2, 1, 80, true } },
    { "cache 3 of 65, all keys", cached_attention, { 3, 65, 1, 2, 1, 80, false } },
    { "cache 17 of 81", cached_attention, { 17, 81, 2, 2, 2, 16, true } },
    { "cache 70 of 200", cached_attention, { 70, 200, 1, 2, 1, 64, true } },
    { "few rows 1x1x1", few_rows, { 1, 1, 1, 0 } },
    { "few rows 3x5x7", few_rows, { 3, 5, 7, 2 } },
    { "few rows 6x37x300", few_rows, { 6, 37, 300, 0 } },
    { "few rows 17x33x1041", few_rows, { 17, 33, 1041, 3 } },
    { "few rows 64x130x64", few_rows, { 64, 130, 64, 0 } },
    { "few rows 4x500x96", few_rows, { 4, 500, 96, 1 } },
    { "1 behind the past of 1", past, { 1, 1, 1, 1, 1, 1, 16 } },
    { "1 behind the past of 5", past, { 1, 7, 90, 5, 3, 1, 64 } },
    { "1 behind the past of 17, groups", past, { 1, 17, 33, 17, 2, 3, 20 } },
    { "1 behind the past of 3, d=5", past, { 1, 3, 300, 3, 2, 1, 5 } },
    { "3 behind the past of 2", past, { 3, 4, 65, 2, 2, 2, 80 } },
    { "9 behind the past of 3", past, { 9, 3, 100, 3, 2, 2, 16 } },
    { "1 behind the past of 3, long", past, { 1, 5, 700, 3, 1, 2, 64 } },
    { "2 behind the past of 2, 20 heads a group", past, { 2, 2, 40, 2, 1, 20, 128 } },
    { "16 behind the past of 2, d=256", past, { 16, 2, 300, 2, 1, 1, 256 } },
    { "17 behind the past of 2, d=96", past, { 17, 3, 90, 2, 2, 2, 96 } },
    { "70 behind the past of 1", past, { 70, 2, 200, 1, 2, 2, 64 } },
    { "1 behind the past of 5, leaning", past, { 1, 7, 90, 5, 3, 1, 64, 3 } },
    { "3 behind the past of 2, leaning groups", past, { 3, 4, 65, 2, 2, 2, 80, 12 } },
    { "1 behind the past of 3, long and leaning", past, { 1, 5, 700, 3, 1, 2, 64, 16 } },
    { "70 behind the past of 1, leaning", past, { 70, 2, 200, 1, 2, 2, 64, 4 } },
    { "1 behind the past of 5, window", past, { 1, 7, 90, 5, 3, 1, 64, 0, 20 } },
    { "1 behind the past of 3, long, window", past, { 1, 5, 700, 3, 1, 2, 64, 0, 100 } },
    { "1 behind the past of 3, long, small window", past, { 1, 5, 700, 3, 1, 2, 80, 4, 9, 2, 1 } },
    { "3 behind the past of 2, window, all", past, { 3, 4, 300, 2, 2, 2, 80, 12, 70, 2, 1 } },
    { "16 behind the past of 2, sinks", past, { 16, 2, 300, 2, 1, 1, 256, 0, 0, 0, 1 } },
    { "2 behind the past of 2, off by one", past, { 2, 2, 40, 2, 1, 20, 128, 0, 0, 0, 2 } },
    { "70 behind the past of 1, window", past, { 70, 2, 400, 1, 2, 2, 64, 0, 50 } },
    { "70 behind the past of 2, window, all", past, { 70, 3, 300, 2, 2, 2, 64, 4, 80, 1, 1 } },
    { "queries 70 to 9 keys", cached_attention, { 70, 9, 1, 2, 1, 64, false } },
    { "cross_entropy 1x1", cross_entropy, { 1, 1, 1, 1, 0 } },
    { "cross_entropy 3x17", cross_entropy, { 3, 17, 17, 1, 5 } },
    { "cross_entropy 65x640", cross_entropy, { 65, 640, 509, 1, 0 } },
    { "cross_entropy 65x640 loss only", cross_entropy, { 65, 640, 509, 0, 3 } },
    { "cross_entropy 65x640 smooth", cross_entropy, { 65, 640, 509, 1, 0, 10 } },
    { "cross_entropy 5x17 smooth loss only", cross_entropy, { 5, 17, 17, 0, 1, 30 } },
    { "cross_entropy 65x640 z", cross_entropy, { 65, 640, 509, 1, 0, 0, 30 } },
    { "cross_entropy 3x17 z smooth", cross_entropy, { 3, 17, 16, 1, 5, 10, 10 } },
    { "cross_entropy 5x17 z loss only", cross_entropy, { 5, 17, 17, 0, 1, 0, 20 } },
    { "cross_entropy 5x2", cross_entropy, { 5, 2, 2, 1, 0 } },
    { "cross_entropy 130x2 of 3", cross_entropy, { 130, 2, 2, 1, 1 } },
    { "cross_entropy 5x2 smooth", cross_entropy, { 5, 2, 2, 1, 0, 20 } },
    { "cross_entropy 5x2 loss only", cross_entropy, { 5, 2, 2, 0, 0 } },
    { "cross_entropy 9x3, 2 valid", cross_entropy, { 9, 3, 2, 1, 0 } },
    { "cross_entropy apart 5x2", cross_entropy_apart, { 5, 2, 2, 0, 0 } },
    { "cross_entropy apart 33x2 of 3", cross_entropy_apart, { 33, 2, 2, 1, 0 } },
    { "cross_entropy apart 1x1", cross_entropy_apart, { 1, 1, 1, 0, 0 } },
    { "cross_entropy apart 65x640", cross_entropy_apart, { 65, 640, 509, 3, 0 } },
    { "cross_entropy apart 5x17 smooth", cross_entropy_apart, { 5, 17, 17, 0, 10 } },
    { "cross_entropy 4x50304", cross_entropy, { 4, 50304, 50257, 1, 0 } },
    { "cross_entropy 1 part", cross_entropy_parts, { 3, 17, 1, 17, 1, 0 } },
    { "cross_entropy 2 parts", cross_entropy_parts, { 65, 320, 2, 509, 1, 0 } },
    { "cross_entropy 4 parts smooth", cross_entropy_parts, { 9, 128, 4, 509, 1, 10 } },
    { "cross_entropy 4 parts, one empty", cross_entropy_parts, { 5, 128, 4, 300, 1, 0 } },
    { "cross_entropy 2 parts z", cross_entropy_parts, { 65, 320, 2, 509, 1, 0, 30 } },
    { "cross_entropy 4 parts z, one empty", cross_entropy_parts, { 5, 128, 4, 300, 1, 10, 20 } },
    { "cross_entropy 2 parts z loss only", cross_entropy_parts, { 5, 64, 2, 100, 0, 0, 10 } },
    { "cross_entropy 2 parts loss only", cross_entropy_parts, { 5, 64, 2, 100, 0, 10 } },
    { "head_loss 17x16", head_loss, { 17, 16, 640, 509, 1, 1 } },
    { "head_loss 17x16 dw written", head_loss, { 17, 16, 640, 509, 1, 0 } },
    { "head_loss loss only", head_loss, { 3, 65, 17, 17, 0 } },
    { "distill 1 part", distill, { 3, 17, 1, 17, 100 } },
    { "distill 1x1", distill, { 1, 1, 1, 1, 100 } },
    { "distill 65x640", distill, { 65, 640, 1, 509, 200 } },
    { "distill 2 parts", distill, { 65, 320, 2, 509, 150 } },
    { "distill 4 parts, one empty", distill, { 5, 128, 4, 300, 50 } },
    { "distill 2x50304", distill, { 2, 50304, 1, 50257, 100 } },
    { "head_loss with a teacher 17x16", head_loss, { 17, 16, 640, 509, 1, 1, 0, 24 } },
    { "head_loss with a teacher and a bias", head_loss, { 65, 33, 17, 17, 1, 0, 1, 8 } },
    { "head_loss with a bias 17x16", head_loss, { 17, 16, 640, 509, 1, 1, 1 } },
    { "head_loss with a bias 65x33", head_loss, { 65, 33, 17, 17, 1, 0, 1 } },
    { "head_loss of capped logits 17x16", head_loss, { 17, 16, 640, 509, 1, 1, 1, 0, 150 } },
    { "head_loss of capped logits, loss only", head_loss, { 3, 65, 17, 17, 0, 0, 0, 0, 150 } },
    { "head_loss of capped logits with a teacher", head_loss, { 65, 33, 17, 17, 1, 0, 1, 8, 200 } },
    { "softcap 17x640", softcap, { 17, 640, 0, 100, 300 } },
    { "softcap 3x1003 of 1010, scaled", softcap, { 3, 1003, 7, 70, 3000 } },
    { "logits scaled 65x33", softcap, { 65, 33, 0, 625, 0 } },
    { "head_loss with a bias, loss only", head_loss, { 3, 65, 17, 17, 0, 0, 1 } },
    { "embedding 3x1", embedding, { 3, 1, 17, 5, 1 } },
    { "embedding 65x2", embedding, { 65, 2, 260, 11, 1 } },
    { "embedding without positions", embedding, { 17, 3, 65, 50, 0 } },
    { "embedding, rows 10 to 29 of 50", embedding, { 17, 3, 65, 20, 0, 10, 50 } },
    { "embedding, rows 40 on with positions", embedding, { 17, 2, 65, 10, 1, 40, 50 } },
    { "embedding with a factor 65x2", embedding, { 65, 2, 260, 11, 1, 0, 0, 0, 2263 } },
    { "embedding with a factor, rows 10 to 29 of 50", embedding, { 17, 3, 65, 20, 0, 10, 50, 0, 50 } },
    { "embedding with a factor of few words 300x2", embedding, { 300, 2, 24, 3, 0, 0, 0, 0, 1200 } },
    { "embedding with types 1x1", embedding, { 1, 1, 1, 5, 1, 0, 0, 2 } },
    { "embedding with types 65x2", embedding, { 65, 2, 260, 11, 1, 0, 0, 2 } },
    { "embedding with types only", embedding, { 17, 3, 65, 50, 0, 0, 0, 3 } },
    { "embedding with 40 types, rows 40 on", embedding, { 33, 2, 1100, 10, 1, 40, 50, 40 } },
    { "embedding with a type of 20000 tokens", embedding, { 5000, 4, 17, 900, 1, 0, 0, 1 } },
    { "embedding of few words 300x2", embedding, { 300, 2, 24, 3, 1 } },
    { "embedding of 70000 words", embedding, { 9, 70, 8, 70000, 1 } },
    { "experts 1 of 1", experts, { 1, 1, 1, 1, 0, 0 } },
    { "experts 2 of 5", experts, { 65, 5, 2, 17, 0, 2 } },
    { "experts 3 of 8, sigmoids", experts, { 33, 8, 3, 1200, 0, 1 } },
    { "experts 2 of 7, dropped", experts, { 200, 7, 2, 130, 20, 0 } },
    { "grouped 1 of 1x1x1", grouped, { 1, 1, 1, 1, EVEN, 1, 0 } },
    { "grouped, no rows", grouped, { 3, 0, 5, 7, EVEN, 1, 0 } },
    { "grouped, no rows, added", grouped, { 3, 0, 5, 7, EVEN, 1, 1 } },
    { "grouped 5 of 65", grouped, { 5, 65, 17, 33, EVEN, 1, 0 } },
    { "grouped 7 of 130, uneven", grouped, { 7, 130, 50, 70, UNEVEN, 0, 1 } },
    { "grouped 4 of 300, all to one", grouped, { 4, 300, 97, 259, LAST, 1, 0 } },
    { "grouped 6 of 450, uneven", grouped, { 6, 450, 150, 300, UNEVEN, 1, 1 } },
    { "grouped 3 of 9, wide", grouped, { 3, 9, 2500, 20, EVEN, 1, 0 } },
    { "experts 2 of 40, seconds dropped", experts, { 300, 40, 2, 8, 12, 2, TX_DROP_SECONDS } },
    { "experts 6 of 100, small ones dropped", experts, { 90, 100, 6, 24, 5, 1, TX_DROP_SMALL } },
    { "experts 1 of 4, some dropped", experts, { 600, 4, 1, 16, 100, 0, TX_DROP_RANDOM } },
    { "experts 2 of 6, noise", experts, { 100, 6, 2, 64, 0, 0, 0, 1 } },
    { "magnitudes 1", magnitudes, { 1 } },
    { "magnitudes 70001", magnitudes, { 70001 } },
    { "col_sum 1x1", col_sum, { 1, 1 } },
    { "col_sum 65x17", col_sum, { 65, 17 } },
    { "col_sum 200x1000", col_sum, { 200, 1000 } },
    { "flat 1", flat_ops, { 1 } },
    { "flat 65", flat_ops, { 65 } },
    { "flat 200001", flat_ops, { 200001 } },
    { "add 1x1", add, { 1, 1 } },
    { "add 3x17", add, { 3, 17 } },
    { "add 130x512", add, { 130, 512 } },
    { "copy 1x1", copy, { 1, 1, 1 } },
    { "copy 3x17 of 20", copy, { 3, 17, 3 } },
    { "copy 300x64 of 72", copy, { 300, 64, 8 } },
    { "cast 3x17 of 20", strided_cast, { 3, 17, 3 } },
    { "cast 500x65 of 66", strided_cast, { 500, 65, 1 } },
    { "adam 1", adam, { 1, 1 } },
    { "adam 17", adam, { 17, 2 } },
    { "adam 70001", adam, { 70001, 1000 } },
    { "adam with a gate 70001", adam, { 70001, 7, 1 } },
    { "adam with a closed gate 65", adam, { 65, 7, 1, 1 } },
    { "adam, value gradients 17", adam, { 17, 2, 0, 0, 1 } },
    { "adam, value gradients 70001", adam, { 70001, 7, 1, 0, 1 } },
    { "adam, coupled 17", adam, { 17, 2, 0, 0, 0, 1 } },
    { "adam, coupled 70001", adam, { 70001, 7, 1, 0, 1, 1 } },
    { "blend 1", blend, { 1 } },
    { "blend 70001", blend, { 70001 } },
    { "blend with a gate 70001", blend, { 70001, 1 } },
    { "blend with a closed gate 65", blend, { 65, 1, 1 } },
    { "blend with a gate that is open 65", blend, { 65, 1, 0, 1 } },
    { "blend, values 70001", blend, { 70001, 1, 0, 0, 1 } },
    { "blend of one, divided 4097", blend, { 4097, 0, 0, 0, 0, 1 } },
    { "blend of one, values 17", blend, { 17, 1, 0, 0, 1, 1 } },
    { "blend with a diagonal 1", blend_diagonal, { 1 } },
    { "blend with a diagonal 37", blend_diagonal, { 37 } },
    { "blend with a diagonal, values 131", blend_diagonal, { 131, 1 } },
    { "root_mul 1", root_mul, { 1 } },
    { "root_mul 70001, in place", root_mul, { 70001, 1 } },
    { "signs 1", signs, { 1, 1 } },
    { "signs 31 of 3", signs, { 31, 3 } },
    { "signs 70001 of 4, added", signs, { 70001, 4, 1 } },
    { "signs 4097 of 1, with a mask", signs, { 4097, 1, 0, 1 } },
    { "quantized 1, 8 bits", quantized, { 1, 1, 8 } },
    { "quantized 4097 of 3, 4 bits, added", quantized, { 4097, 3, 4, 1 } },
    { "quantized 70001 of 2, 8 bits", quantized, { 70001, 2, 8 } },
    { "quantized 3000 of 1, 8 bits, halves", quantized, { 3000, 1, 8, 0, 1 } },
    { "quantized 3000 of 4, 4 bits, halves, added", quantized, { 3000, 4, 4, 1, 1 } },
    { "quantized 3000 of 2, not finite", quantized, { 3000, 2, 4, 0, 0, 1 } },
    { "sgd 1", sgd, { 1 } },
    { "sgd 17", sgd, { 17 } },
    { "sgd 70001", sgd, { 70001 } },
    { "sgd with a gate 70001", sgd, { 70001, 1 } },
    { "sgd with a closed gate 65", sgd, { 65, 1, 1 } },
    { "sgd, value gradients 17", sgd, { 17, 0, 0, 1 } },
    { "sgd, value gradients 70001", sgd, { 70001, 1, 0, 1 } },
    { "sgd, nesterov 17", sgd, { 17, 0, 0, 0, 1 } },
    { "sgd, nesterov 70001", sgd, { 70001, 1, 0, 1, 1 } },
    { "sgd, dampened 70001", sgd, { 70001, 1, 0, 0, 2 } },
    { "lion 1", lion, { 1 } },
    { "lion 17", lion, { 17 } },
    { "lion with a gate 70001", lion, { 70001, 1 } },
    { "lion with a closed gate 65", lion, { 65, 1, 1 } },
    { "lion, value gradients 70001", lion, { 70001, 1, 0, 1 } },
    { "adagrad 1", adagrad, { 1 } },
    { "adagrad 17", adagrad, { 17 } },
    { "adagrad with a gate 70001", adagrad, { 70001, 1 } },
    { "adagrad with a closed gate 65", adagrad, { 65, 1, 1 } },
    { "adagrad, value gradients 70001", adagrad, { 70001, 1, 0, 1 } },
    { "lamb 1", lamb, { 1 } },
    { "lamb 17", lamb, { 17 } },
    { "lamb 128", lamb, { 128, 1, 0, 1 } },
    { "lamb 70001", lamb, { 70001 } },
    { "lamb with a gate 70001", lamb, { 70001, 1 } },
    { "lamb with a closed gate 65", lamb, { 65, 1, 1 } },
    { "lamb, corrected moments, eps inside 70001", lamb, { 70001, 1, 0, 0, 1 } },
    { "lamb, value gradients 17", lamb, { 17, 0, 0, 1 } },
    { "lamb, value gradients 70001", lamb, { 70001, 1, 0, 1 } },
    { "lamb_fresh 1", lamb_fresh, { 1 } },
    { "lamb_fresh 17 with a gate", lamb_fresh, { 17, 1 } },
    { "lamb_fresh 70001", lamb_fresh, { 70001 } },
    { "lamb_fresh 1000, closed", lamb_fresh, { 1000, 1, 1 } },
    { "lamb_coeff", lamb_coeff, { 0 } },
    { "lamb_coeff with the largest quotients", lamb_coeff, { 1 } },
    { "lamb_coeff with the largest quotients, closed", lamb_coeff, { 1, 1 } },
    { "lamb_ratio", lamb_ratios, { 10 } },
    { "lamb_ratio from 0.01 to 1", lamb_ratios, { 1 } },
    { "exact_add 1", exact_sums, { 1 } },
    { "exact_add 50001", exact_sums, { 50001 } },
    { "exact_add with infinity 300", exact_sums, { 300, 1 } },
    { "exact_add with NaN 300", exact_sums, { 300, 2 } },
    { "count_zeros 1000", count_zeros, { 1000 } },
};
/* clang-format on */

/* ---- running them ---- */

/* Sanitizers look at every case, but once: what they find the first time is there the second time. */
#if defined(__SANITIZE_ADDRESS__)
static const bool emulated_twice = false;
#else
static const bool emulated_twice = true;
#endif

static void run_case(tx_ctx *ref, tx_ctx *cpu, const op_case *k, const char *where)
{
    results want = { 0 }, got = { 0 }, again = { 0 };
    next_number = 0;
    k->run(ref, k->p, &want);
    next_number = 0;
    k->run(cpu, k->p, &got);
    next_number = 0;
    bool twice = emulated_twice || !op_device;
    if (twice) k->run(cpu, k->p, &again);
    for (int i = 0; i < want.n; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s, %s", k->name, where);
        compare(name, &got.r[i], &want.r[i]);
        size_t bytes = (size_t)tx_numel(got.r[i].x) * tx_dtype_size(got.r[i].x.dtype);
        if (twice && memcmp(got.r[i].x.data, again.r[i].x.data, bytes))
            fail_msg("%s: %s differs from run to run", name, got.r[i].name);
    }
    pool_free();
}

/* Opens backend cpu with kernels of `isa`, or says that this processor has none; or backend "gpu". */
static bool open_isa(tx_ctx *c, const char *isa, int n_threads)
{
    if (!strcmp(isa, "gpu")) {
        *c = open_ctx(isa, n_threads);
        return true;
    }
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
    const char *only = getenv("TX_TEST_CASES"); /* how the names of those to run begin */
    tx_ctx ref = open_ctx("ref", 1), cpu;
    char where[64];
    snprintf(where, sizeof where, "%s, %d threads", isa, n_threads);
    if (open_isa(&cpu, isa, n_threads)) {
        count_calls(&cpu);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (!only || !strncmp(cases[i].name, only, strlen(only))) run_case(&ref, &cpu, &cases[i], where);
        tx_ctx_deinit(&cpu);
    } else {
        print_message("skipped: no %s here\n", isa);
    }
    tx_ctx_deinit(&ref);
}

/* ---- padding is nothing ---- */

/* What attention makes of the n positions of a sample in front of its padding. */
typedef struct padded {
    tx_tensor o, lse, dq, dk, dv; /* [n, d], lse [n] */
} padded;

/* Sample `at` of b, s positions long, has n numbers x in front; its other keys are NaN and its other queries without a
 * gradient. */
static padded run_padded(tx_ctx *c, tx_tensor x, int64_t s, int64_t b, int64_t at, uint32_t drop)
{
    int64_t n = x.dim[1], d = x.dim[2];
    tx_tensor in[4], grad[3], y = RAND(V, s, b, 1, 1, d), lse = ZEROS(TX_F32, b, 1, 1, s), n_keys = ZEROS(TX_I32, b);
    for (int k = 0; k < 4; k++) { /* q, k, v, do */
        in[k] = RAND(V, s, b, 1, 1, d);
        for (int64_t i = 0; i < s * d; i++)
            tx__ref_store(in[k], (i / d * b + at) * d + i % d,
                          i < n * d ? tx__ref_load(x, k * n * d + i)
                          : k == 3  ? 0
                          : k       ? NAN
                                    : 1);
    }
    for (int k = 0; k < 3; k++) grad[k] = RAND(V, s, b, 1, 1, d);
    for (int64_t i = 0; i < b; i++) ((int32_t *)n_keys.data)[i] = (int32_t)(i == at ? n : 1 + (7 * i + n) % s);
    for (int k = 1; k < 3; k++) {
        in[k] = view4(in[k], 0, s, b, 1, d, b * d, d, d);
        grad[k] = view4(grad[k], 0, s, b, 1, d, b * d, d, d);
    }
    tx_dropout mask = {
        .rng = { 5, 6, 7 }, .drop = drop, .sample = (uint64_t)(10 - at), .s_global = 300, .n_heads = 2, .first_head = 1
    };
    RUN(c, attention_fwd, .o = y, .lse = lse, .q = in[0], .k = in[1], .v = in[2], .scale = 0.2, .mask = mask,
        .n_keys = n_keys);
    RUN(c, attention_bwd, .dq = grad[0], .dk = grad[1], .dv = grad[2], .do_ = in[3], .o = y, .lse = lse, .q = in[0],
        .k = in[1], .v = in[2], .scale = 0.2, .mask = mask, .n_keys = n_keys);
    padded p = { ZEROS(V, n, d), ZEROS(TX_F32, n), ZEROS(V, n, d), ZEROS(V, n, d), ZEROS(V, n, d) };
    for (int64_t i = 0; i < n; i++) tx__ref_store(p.lse, i, tx__ref_load(lse, at * s + i));
    tx_tensor from[4] = { y, grad[0], grad[1], grad[2] }, to[4] = { p.o, p.dq, p.dk, p.dv };
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < s * d; i++) {
            double value = tx__ref_load(from[k], (i / d * b + at) * d + i % d);
            if (i < n * d)
                tx__ref_store(to[k], i, value);
            else if (k > 1)
                assert_true(value == 0);
        }
    return p;
}

/* However long a sequence is padded and whatever its neighbours are, it has the same bits. (By our own kernels: cuDNN's
 * depend on the length, and it multiplies what pads by 0, which is to be finite.) */
static void run_padding(const char *isa)
{
    static const int64_t length[] = { 1, 3, 5, 17, 63, 64, 65, 130 };
    int64_t step = strcmp(isa, "gpu") ? 32 : 64; /* what is emulated takes its time */
    tx_ctx c;
    setenv("TX_GPU_CUDNN", "0", 1);
    bool there = open_isa(&c, isa, 2);
    unsetenv("TX_GPU_CUDNN");
    if (!there) return;
    for (size_t i = 0; i < 2 * sizeof length / sizeof *length; i++) {
        int64_t n = length[i / 2], d = i % 2 ? 64 : 20;
        uint32_t drop = i % 4 < 2 ? 0 : 6554;
        tx_tensor x = RAND(V, 4, n, d);
        padded alone = run_padded(&c, x, n, 1, 0, drop);
        for (int64_t s = n + 1; s <= n + 129; s += step) {
            padded among = run_padded(&c, x, s, 3, 1, drop);
            assert_same_bits(among.o, alone.o);
            assert_same_bits(among.lse, alone.lse);
            assert_same_bits(among.dq, alone.dq);
            assert_same_bits(among.dk, alone.dk);
            assert_same_bits(among.dv, alone.dv);
        }
        for (int64_t j = 0; j < n * d; j++) assert_true(isfinite(tx__ref_load(alone.dq, j)));
        pool_free();
    }
    tx_ctx_deinit(&c);
}

/* p: n, k, trans, extra row length: X Xᵀ or XᵀX, and its square, of which halves may be mirror images */
static void symmetric(tx_ctx *c, const int64_t *p, results *o)
{
    int64_t n = p[0], k = p[1], extra = p[3];
    tx_tensor x = p[2] ? RAND(V, k, n + extra) : RAND(V, n, k + extra);
    tx_tensor gram = RAND(V, n, n + extra), even = RAND(V, n, n), square = ZEROS(V, n, n), part = gram;
    x.dim[1] -= extra, part.dim[1] -= extra;
    for (int64_t i = 0; i < n * n; i++) {
        tx__ref_store(gram, i / n * (n + extra) + i % n, NAN);
        tx__ref_store(square, i, NAN);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) tx__ref_store(even, j * n + i, tx__ref_load(even, i * n + j));
    RUN(c, gemm, .c = part, .a = x, .b = x, .trans_a = p[2], .trans_b = !p[2], .symmetric = true);
    RUN(c, gemm, .c = square, .a = even, .b = even, .symmetric = true);
    out(o, "gram", gram, 4 + sqrt((double)k));
    out(o, "square", square, 4 + sqrt((double)n));
}

/* Of products that are known to be symmetric; and of all transposes × accumulate × bias × row lengths; of bf16 also
 * sizes of which oneDNN and of which fp32 does the product.
 */
static void run_gemms(const char *backend)
{
    static const int64_t size[][3] = { { 1, 1, 1 },    { 3, 17, 5 },   { 1, 65, 33 },   { 17, 1, 65 },
                                       { 65, 40, 17 }, { 65, 40, 37 }, { 130, 96, 200 } };
    tx_ctx ref = open_ctx("ref", 1), cpu = open_ctx(backend, 2);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int v = 0; v < 32; v++) {
            char name[100];
            if (v & 4 && v & 8) continue; /* no bias where C is added to */
            op_case k = { name,
                          gemm,
                          { size[i][0], size[i][1], size[i][2], v & 1, v >> 1 & 1, v >> 2 & 1, v >> 3 & 1,
                            v & 16 ? 3 : 0 } };
            snprintf(name, sizeof name, "gemm %dx%dx%d trans %d%d accumulate %d bias %d extra %d", (int)k.p[0],
                     (int)k.p[1], (int)k.p[2], (int)k.p[3], (int)k.p[4], (int)k.p[5], (int)k.p[6], (int)k.p[7]);
            run_case(&ref, &cpu, &k, tx_dtype_name(V));
        }
    static const int64_t whole[][3] = { { 1, 5, 0 },    { 79, 30, 1 },  { 80, 17, 0 },
                                        { 165, 40, 1 }, { 333, 16, 0 }, { 240, 70, 1 } };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        op_case k = { "symmetric", symmetric, { whole[i][0], whole[i][1], whole[i][2], (int64_t)i % 3 } };
        run_case(&ref, &cpu, &k, tx_dtype_name(V));
    }
    tx_ctx_deinit(&ref);
    tx_ctx_deinit(&cpu);
}

#endif
