/* labels: op */
/* test_ops_ref.c - the specification itself: forward ops against formulas written out again or known values, every
 * backward op against central differences of its forward op in fp64. */
#include "backend/op_test.h"

static tx_ctx ctx;

/* ---- finite differences ---- */

/* The scalar that is differentiated: it runs the forward op of `user`. */
typedef double (*loss_fn)(void *user);

/* Σ weight_i x_i, so that the gradient of the output is `weight`. Over contiguous tensors. */
static double weighted(tx_tensor x, tx_tensor weight)
{
    double sum = 0;
    for (int64_t i = 0; i < tx_numel(x); i++) sum += ((double *)x.data)[i] * ((double *)weight.data)[i];
    return sum;
}

/* Compares `grad` with the central difference of `loss` in every element of x. Both contiguous. */
static void check_grad(const char *name, tx_tensor x, tx_tensor grad, loss_fn loss, void *user)
{
    double *value = x.data, *g = grad.data;
    assert_int_equal(tx_numel(x), tx_numel(grad));
    for (int64_t i = 0; i < tx_numel(x); i++) {
        double at = value[i], h = 1e-5;
        value[i] = at + h;
        double up = loss(user);
        value[i] = at - h;
        double down = loss(user);
        value[i] = at;
        double slope = (up - down) / (2 * h);
        if (!(fabs(slope - g[i]) <= 1e-6 * (1 + fabs(slope))))
            fail_msg("%s[%lld]: gradient %.12g, difference quotient %.12g", name, (long long)i, g[i], slope);
    }
}

#include "backend/experts_ref.h"
#include "backend/grouped_ref.h"
#include "backend/logits_ref.h"
#include "backend/plain_ref.h"
#include "backend/tokens_ref.h"
#include "backend/updates_ref.h"

/* ---- layernorm ---- */

typedef struct layernorm_case {
    tx_tensor y, mu, rs, x, gamma, beta, dy;
} layernorm_case;

static double layernorm_loss(void *user)
{
    layernorm_case *k = user;
    RUN(&ctx, layernorm_fwd, .y = k->y, .mu = k->mu, .rs = k->rs, .x = k->x, .gamma = k->gamma, .beta = k->beta,
        .eps = 1e-5);
    return weighted(k->y, k->dy);
}

static void test_layernorm(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    layernorm_case k = {
        ZEROS(t, 3, 7), ZEROS(t, 3), ZEROS(t, 3), RAND(t, 3, 7), RAND(t, 7), RAND(t, 7), RAND(t, 3, 7)
    };
    layernorm_loss(&k);
    tx_tensor dx = ZEROS(t, 3, 7), dgamma = ZEROS(t, 7), dbeta = ZEROS(t, 7);
    RUN(&ctx, layernorm_bwd, .dx = dx, .dgamma = dgamma, .dbeta = dbeta, .dy = k.dy, .x = k.x, .gamma = k.gamma,
        .mu = k.mu, .rs = k.rs);
    check_grad("dx", k.x, dx, layernorm_loss, &k);
    check_grad("dgamma", k.gamma, dgamma, layernorm_loss, &k);
    check_grad("dbeta", k.beta, dbeta, layernorm_loss, &k);
    /* again, with the residual's gradient in dx's own place: parameters accumulate, dres is added */
    layernorm_loss(&k);
    tx_tensor joined = RAND(t, 3, 7), before = ZEROS(t, 3, 7);
    memcpy(before.data, joined.data, 21 * sizeof(double));
    RUN(&ctx, layernorm_bwd, .dx = joined, .dgamma = dgamma, .dbeta = dbeta, .dy = k.dy, .x = k.x, .dres = joined,
        .gamma = k.gamma, .mu = k.mu, .rs = k.rs);
    for (int64_t i = 0; i < 21; i++)
        ASSERT_NEAR(tx__ref_load(joined, i), tx__ref_load(before, i) + tx__ref_load(dx, i), 1e-12, "dx with dres");
    for (int64_t i = 0; i < tx_numel(dgamma); i++) ((double *)dgamma.data)[i] /= 2, ((double *)dbeta.data)[i] /= 2;
    check_grad("2 dgamma", k.gamma, dgamma, layernorm_loss, &k);
    check_grad("2 dbeta", k.beta, dbeta, layernorm_loss, &k);
    /* without beta */
    tx_tensor alone = ZEROS(t, 3, 7), of_gamma = ZEROS(t, 7);
    k.beta.data = NULL;
    layernorm_loss(&k);
    RUN(&ctx, layernorm_bwd, .dx = alone, .dgamma = of_gamma, .dy = k.dy, .x = k.x, .gamma = k.gamma, .mu = k.mu,
        .rs = k.rs);
    check_grad("dgamma without beta", k.gamma, of_gamma, layernorm_loss, &k);
    for (int64_t i = 0; i < 21; i++) assert_true(tx__ref_load(alone, i) == tx__ref_load(dx, i));
    pool_free();
}

/* ---- rmsnorm ---- */

typedef struct rmsnorm_case {
    tx_tensor y, rs, x, gamma, dy;
} rmsnorm_case;

static double rmsnorm_loss(void *user)
{
    rmsnorm_case *k = user;
    RUN(&ctx, rmsnorm_fwd, .y = k->y, .rs = k->rs, .x = k->x, .gamma = k->gamma, .eps = 1e-5);
    return weighted(k->y, k->dy);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    rmsnorm_case k = { ZEROS(t, 3, 7), ZEROS(t, 3), RAND(t, 3, 7), RAND(t, 7), RAND(t, 3, 7) };
    rmsnorm_loss(&k);
    double sum = 0; /* row 0 by the formula */
    for (int64_t j = 0; j < 7; j++) sum += pow(tx__ref_load(k.x, j), 2);
    ASSERT_NEAR(tx__ref_load(k.y, 6), tx__ref_load(k.x, 6) / sqrt(sum / 7 + 1e-5) * tx__ref_load(k.gamma, 6), 1e-14,
                "y");
    tx_tensor dx = ZEROS(t, 3, 7), dgamma = ZEROS(t, 7);
    RUN(&ctx, rmsnorm_bwd, .dx = dx, .dgamma = dgamma, .dy = k.dy, .x = k.x, .gamma = k.gamma, .rs = k.rs);
    check_grad("dx", k.x, dx, rmsnorm_loss, &k);
    check_grad("dgamma", k.gamma, dgamma, rmsnorm_loss, &k);
    /* again, with the residual's gradient in dx's own place: the parameter accumulates, dres is added */
    rmsnorm_loss(&k);
    tx_tensor joined = RAND(t, 3, 7), before = ZEROS(t, 3, 7);
    memcpy(before.data, joined.data, 21 * sizeof(double));
    RUN(&ctx, rmsnorm_bwd, .dx = joined, .dgamma = dgamma, .dy = k.dy, .x = k.x, .dres = joined, .gamma = k.gamma,
        .rs = k.rs);
    for (int64_t i = 0; i < 21; i++)
        ASSERT_NEAR(tx__ref_load(joined, i), tx__ref_load(before, i) + tx__ref_load(dx, i), 1e-12, "dx with dres");
    for (int64_t i = 0; i < 7; i++) ((double *)dgamma.data)[i] /= 2;
    check_grad("2 dgamma", k.gamma, dgamma, rmsnorm_loss, &k);
    pool_free();
}

/* Two halves of rows, with sums over both: as the whole. */
static void test_rmsnorm_of_columns(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    tx_tensor x = RAND(t, 3, 8), dy = RAND(t, 3, 8), gamma = RAND(t, 8), y = ZEROS(t, 3, 8), dx = ZEROS(t, 3, 8);
    tx_tensor rs = ZEROS(t, 3), dgamma = ZEROS(t, 8), squares = ZEROS(t, 3), dots = ZEROS(t, 3);
    RUN(&ctx, rmsnorm_fwd, .y = y, .rs = rs, .x = x, .gamma = gamma, .eps = 1e-5);
    RUN(&ctx, rmsnorm_bwd, .dx = dx, .dgamma = dgamma, .dy = dy, .x = x, .gamma = gamma, .rs = rs);
    RUN(&ctx, row_dots, .y = squares, .a = x, .b = x);
    RUN(&ctx, row_dots, .y = dots, .a = dy, .b = x, .gamma = gamma);
    for (int half = 0; half < 2; half++) {
        tx_tensor part[5] = { ZEROS(t, 3, 4), ZEROS(t, 3, 4), ZEROS(t, 3, 4), ZEROS(t, 3, 4), ZEROS(t, 3) };
        tx_tensor gamma_part = tx_slice1(gamma, 4 * half, 4), dgamma_part = ZEROS(t, 4);
        for (int64_t i = 0; i < 12; i++) {
            int64_t from = i / 4 * 8 + 4 * half + i % 4;
            tx__ref_store(part[0], i, tx__ref_load(x, from));
            tx__ref_store(part[1], i, tx__ref_load(dy, from));
        }
        RUN(&ctx, rmsnorm_fwd, .y = part[2], .rs = part[4], .x = part[0], .gamma = gamma_part, .eps = 1e-5,
            .squares = squares, .columns = 8);
        RUN(&ctx, rmsnorm_bwd, .dx = part[3], .dgamma = dgamma_part, .dy = part[1], .x = part[0], .gamma = gamma_part,
            .rs = part[4], .dots = dots, .columns = 8);
        for (int64_t i = 0; i < 12; i++) {
            int64_t from = i / 4 * 8 + 4 * half + i % 4;
            ASSERT_NEAR(tx__ref_load(part[2], i), tx__ref_load(y, from), 1e-13, "y");
            ASSERT_NEAR(tx__ref_load(part[3], i), tx__ref_load(dx, from), 1e-13, "dx");
        }
        for (int64_t i = 0; i < 4; i++)
            ASSERT_NEAR(tx__ref_load(dgamma_part, i), tx__ref_load(dgamma, 4 * half + i), 1e-13, "dgamma");
    }
    tx_rmsnorm_fwd_args bad = { .y = y, .rs = rs, .x = x, .gamma = gamma, .squares = squares, .columns = 7 };
    ASSERT_FAILS(tx_op_rmsnorm_fwd(&ctx, &bad), TX_ERR_SHAPE, "squares as rs, with columns of at least h");
    pool_free();
}

/* ---- activations ---- */

typedef struct activation_case {
    tx_tensor y, x, dy;
    tx_activation kind;
} activation_case;

static double activation_loss(void *user)
{
    activation_case *k = user;
    RUN(&ctx, activation_fwd, .y = k->y, .x = k->x, .kind = k->kind);
    return weighted(k->y, k->dy);
}

static void test_activation(void **state)
{
    (void)state;
    /* values computed with 30 digits */
    static const double at[] = { -3, -1, -0.5, 0, 0.5, 1, 3 };
    static const double erf_y[] = { -0.00404969409489028358, -0.158655253931457051, -0.154268769362993448, 0,
                                    0.345731230637006552,    0.841344746068542949,  2.99595030590510972 };
    static const double tanh_y[] = { -0.00363739208177301884, -0.158808009391723295, -0.154285990174856078, 0,
                                     0.345714009825143922,    0.841191990608276705,  2.99636260791822698 };
    static const double relu_y[] = { 0, 0, 0, 0, 0.25, 1, 9 };
    static const double plain_y[] = { -0.995054753686730451, -0.761594155955764888, -0.462117157260009758, 0,
                                      0.462117157260009758,  0.761594155955764888,  0.995054753686730451 };
    static const double kept_y[] = { 0, 0, 0, 0, 0.5, 1, 3 };
    static const double *const expect[] = { tanh_y, erf_y, relu_y, plain_y, kept_y };
    for (tx_activation kind = TX_GELU_TANH; kind <= TX_RELU; kind++) {
        activation_case k = { ZEROS(TX_F64, 7), ZEROS(TX_F64, 7), RAND(TX_F64, 7), kind };
        memcpy(k.x.data, at, sizeof at);
        activation_loss(&k);
        for (int64_t i = 0; i < 7; i++) ASSERT_NEAR(tx__ref_load(k.y, i), expect[kind][i], 1e-14, "activation");
        tx_tensor dx = ZEROS(TX_F64, 7);
        if (kind == TX_SQUARED_RELU || kind == TX_RELU)
            ((double *)k.x.data)[3] = 0.1; /* a quotient across its bend says nothing */
        RUN(&ctx, activation_bwd, .dx = dx, .dy = k.dy, .x = k.x, .kind = kind);
        check_grad("dx", k.x, dx, activation_loss, &k);
    }
    pool_free();
}

/* ---- glu ---- */

typedef struct glu_case {
    tx_tensor y, x, dy;
    tx_glu kind;
    bool second;
} glu_case;

static double glu_loss(void *user)
{
    glu_case *k = user;
    RUN(&ctx, glu_fwd, .y = k->y, .x = k->x, .kind = k->kind, .gate_second = k->second);
    return weighted(k->y, k->dy);
}

static void test_glu(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    /* g(-2) and g(3) by kind */
    const double expected[][2] = { { -2 / (1 + exp(2)), 3 / (1 + exp(-3)) },
                                   { -2 * 0.5 * erfc(sqrt(2)), 3 * 0.5 * erfc(-3 / sqrt(2)) },
                                   { 0, 3 },
                                   { -2, 3 },
                                   { -0.0454023059122249, 2.99636260791822698 } };
    for (int i = 0; i < 10; i++) {
        glu_case k = { ZEROS(t, 3, 5), RAND(t, 3, 10), RAND(t, 3, 5), (tx_glu)(i % 5), i >= 5 };
        tx_tensor dx = ZEROS(t, 3, 10);
        ((double *)k.x.data)[11] = -2, ((double *)k.x.data)[16] = 3; /* row 1, column 1: both halves */
        glu_loss(&k);
        double gated = k.second ? expected[k.kind][1] * -2 : expected[k.kind][0] * 3;
        ASSERT_NEAR(tx__ref_load(k.y, 6), gated, 1e-14, "glu");
        RUN(&ctx, glu_bwd, .dx = dx, .dy = k.dy, .x = k.x, .kind = k.kind, .gate_second = k.second);
        check_grad("dx", k.x, dx, glu_loss, &k);
        RUN(&ctx, glu_bwd, .dx = k.x, .dy = k.dy, .x = k.x, .kind = k.kind, .gate_second = k.second);
        assert_memory_equal(k.x.data, dx.data, 30 * sizeof(double));
    }
    pool_free();
}

/* ---- rope ---- */

typedef struct rope_case {
    tx_tensor x, turned, dy; /* contiguous */
} rope_case;

static const tx_rope_args rope_args = { .n_rot = 4, .first = 3, .theta = 100 };

static double rope_loss(void *user)
{
    rope_case *k = user;
    tx_rope_args a = rope_args;
    a.x = k->turned;
    memcpy(k->turned.data, k->x.data, (size_t)tx_numel(k->x) * sizeof(double));
    ASSERT_OK(tx_op_rope(&ctx, &a));
    return weighted(k->turned, k->dy);
}

static void test_rope(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    rope_case k = { RAND(t, 3, 2, 2, 1, 6), ZEROS(t, 3, 2, 2, 1, 6), RAND(t, 3, 2, 2, 1, 6) };
    rope_loss(&k);
    /* the last head of position 5: pairs (0, 2) and (1, 3) by 5 and by 5/10; 4 and 5 stay */
    const double *x = (double *)k.x.data + 11 * 6, *y = (double *)k.turned.data + 11 * 6;
    ASSERT_NEAR(y[0], x[0] * cos(5) - x[2] * sin(5), 1e-14, "rope");
    ASSERT_NEAR(y[3], x[3] * cos(0.5) + x[1] * sin(0.5), 1e-14, "rope");
    assert_true(y[4] == x[4] && y[5] == x[5]);
    tx_rope_args back = rope_args;
    tx_tensor dx = ZEROS(t, 3, 2, 2, 1, 6);
    memcpy(dx.data, k.dy.data, 72 * sizeof(double));
    back.x = dx;
    back.inverse = true;
    ASSERT_OK(tx_op_rope(&ctx, &back));
    check_grad("dx", k.x, dx, rope_loss, &k);
    for (int i = 0; i < 3; i++) { /* what is refused */
        tx_rope_args bad = rope_args;
        bad.x = k.x;
        bad.n_rot = (const int64_t[]){ 3, 8, 0 }[i];
        ASSERT_FAILS(tx_op_rope(&ctx, &bad), TX_ERR_SHAPE, "not an even number in 2..6");
    }
    tx_rope_args other = rope_args; /* neighbours, of given frequencies, 6 tokens where 5 were the most */
    const double frequency[] = { 0.7, 0.2 };
    tx_tensor z = ZEROS(t, 3, 2, 2, 1, 6);
    memcpy(z.data, k.x.data, 72 * sizeof(double));
    other.x = z, other.frequency = frequency, other.scale = 2, other.interleaved = true;
    other.grows_by = 3, other.grows_from = 5;
    ASSERT_OK(tx_op_rope(&ctx, &other));
    y = (double *)z.data + 11 * 6;
    ASSERT_NEAR(y[0], 2 * (x[0] * cos(5 * 0.7) - x[1] * sin(5 * 0.7)), 1e-14, "rope");
    double angle = 5 * 0.2 / (3 * 6.0 / 5 - 2);
    ASSERT_NEAR(y[3], 2 * (x[3] * cos(angle) + x[2] * sin(angle)), 1e-14, "rope");
    assert_true(y[4] == x[4] && y[5] == x[5]);
    other.grows_from = 0;
    ASSERT_FAILS(tx_op_rope(&ctx, &other), TX_ERR_ARG, "frequencies grow from a length of at least 1");
    pool_free();
}

/* ---- dropout ---- */

typedef struct dropout_case {
    tx_tensor y, x, residual, dy;
    tx_dropout mask;
} dropout_case;

static double dropout_loss(void *user)
{
    dropout_case *k = user;
    RUN(&ctx, dropout_add_fwd, .y = k->y, .x = k->x, .residual = k->residual, .mask = k->mask);
    return weighted(k->y, k->dy);
}

static void test_dropout(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    dropout_case k = { ZEROS(t, 4, 2, 5),
                       RAND(t, 4, 2, 5),
                       RAND(t, 4, 2, 5),
                       RAND(t, 4, 2, 5),
                       { .rng = { 5, 6, 7 }, .drop = 20000, .sample = 3, .s_global = 9, .at = { .first = 2 } } };
    dropout_loss(&k);
    tx_tensor dx = ZEROS(t, 4, 2, 5);
    RUN(&ctx, dropout_add_bwd, .dx = dx, .dy = k.dy, .mask = k.mask);
    check_grad("dx", k.x, dx, dropout_loss, &k);
    check_grad("dresidual", k.residual, k.dy, dropout_loss, &k);
    int n_dropped = 0;
    for (int64_t i = 0; i < 40; i++) n_dropped += tx__ref_load(dx, i) == 0;
    assert_in_range(n_dropped, 4, 22); /* 12 expected */

    /* The mask follows global coordinates: positions 1.. of sample 1 alone are what they were in the whole. */
    dropout_loss(&k);
    tx_tensor x = ZEROS(t, 3, 1, 5), res = ZEROS(t, 3, 1, 5), y = ZEROS(t, 3, 1, 5);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 5; j++) {
            tx__ref_store(x, i * 5 + j, tx__ref_load(k.x, ((i + 1) * 2 + 1) * 5 + j));
            tx__ref_store(res, i * 5 + j, tx__ref_load(k.residual, ((i + 1) * 2 + 1) * 5 + j));
        }
    tx_dropout part = k.mask;
    part.sample += 1;
    part.at.first += 1;
    RUN(&ctx, dropout_add_fwd, .y = y, .x = x, .residual = res, .mask = part);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 5; j++)
            assert_true(tx__ref_load(y, i * 5 + j) == tx__ref_load(k.y, ((i + 1) * 2 + 1) * 5 + j));
    pool_free();
}

/* ---- attention ---- */

typedef struct attention_case {
    tx_tensor o, lse, do_;
    qkv x;
    bool causal;
    tx_dropout mask;
    tx_tensor first_key, n_keys;
    tx_alibi alibi;
    tx_attention_kind kind;
} attention_case;

static double attention_loss(void *user)
{
    attention_case *k = user;
    RUN(&ctx, attention_fwd, .o = k->o, .lse = k->lse, .q = k->x.q, .k = k->x.k, .v = k->x.v, .scale = 0.4,
        .causal = k->causal, .mask = k->mask, .first_key = k->first_key, .n_keys = k->n_keys, .alibi = k->alibi,
        .kind = k->kind);
    return weighted(k->o, k->do_);
}

static void test_attention_grad(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    const int64_t s = 5, b = 2, groups = 2, d = 3;
    for (int variant = 0; variant < 24; variant++) {
        int64_t r = variant & 1 ? 2 : 1;
        bool leans = variant >= 20, pads = variant >= 16 && !leans;
        bool drops = leans ? variant >= 22 : pads ? variant >= 18 : variant & 4;
        attention_case k = { .o = ZEROS(t, s, b, groups, r, d),
                             .lse = ZEROS(t, b, groups, r, s),
                             .do_ = RAND(t, s, b, groups, r, d),
                             .x = fused_qkv(RAND(t, s, b, groups, r + 2, d), s, b, groups, r, d),
                             .causal = leans || (variant < 16 && variant & 2) };
        if (leans) k.alibi = (tx_alibi){ .n_heads = 7, .first_head = 2 };
        if (drops)
            k.mask = (tx_dropout){
                .rng = { 1, 2, 3 }, .drop = 20000, .sample = 4, .s_global = 6, .n_heads = 9, .first_head = 3
            };
        if (pads) { /* padding; backward clears what is behind */
            k.n_keys = ZEROS(TX_I32, b);
            memcpy(k.n_keys.data, (const int32_t[]){ 3, 5 }, 8);
        } else if (variant & 8) { /* documents of 2, 3 and of 1, 3, 1 tokens */
            k.first_key = ZEROS(TX_I32, s, b);
            memcpy(k.first_key.data, (const int32_t[]){ 0, 0, 0, 1, 2, 1, 2, 1, 2, 4 }, 40);
        }
        attention_loss(&k);
        qkv g = fused_qkv(RAND(t, s, b, groups, r + 2, d), s, b, groups, r, d);
        RUN(&ctx, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = k.do_, .o = k.o, .lse = k.lse, .q = k.x.q,
            .k = k.x.k, .v = k.x.v, .scale = 0.4, .causal = k.causal, .mask = k.mask, .first_key = k.first_key,
            .n_keys = k.n_keys, .alibi = k.alibi);
        check_grad("dqkv", k.x.all, g.all, attention_loss, &k);
    }
    pool_free();
}

/* Windows, caps and sinks, alone and together, also with documents, biases and dropout; the sinks' gradient. */
static void test_attention_kind_grad(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    const int64_t s = 6, b = 2, groups = 2, r = 2, d = 3;
    for (int variant = 0; variant < 16; variant++) {
        attention_case k = { .o = ZEROS(t, s, b, groups, r, d),
                             .lse = ZEROS(t, b, groups, r, s),
                             .do_ = RAND(t, s, b, groups, r, d),
                             .x = fused_qkv(RAND(t, s, b, groups, r + 2, d), s, b, groups, r, d),
                             .causal = true };
        if (variant & 1) k.kind.window = 2;
        if (variant & 2) k.kind.softcap = 0.7;
        if (variant & 4) k.kind.sink = RAND(t, groups * r);
        if (variant == 8 || variant == 9) k.kind.off_by_one = true;
        if (variant & 8) {
            k.alibi = (tx_alibi){ .n_heads = 7, .first_head = 2 };
            k.mask = (tx_dropout){
                .rng = { 1, 2, 3 }, .drop = 20000, .sample = 4, .s_global = 6, .n_heads = 9, .first_head = 3
            };
            k.first_key = ZEROS(TX_I32, s, b);
            memcpy(k.first_key.data, (const int32_t[]){ 0, 0, 0, 1, 0, 1, 0, 1, 4, 4, 4, 5 }, 48);
        }
        attention_loss(&k);
        qkv g = fused_qkv(RAND(t, s, b, groups, r + 2, d), s, b, groups, r, d);
        tx_tensor dsink = ZEROS(t, groups * r);
        if (!k.kind.sink.data) dsink.data = NULL;
        RUN(&ctx, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = k.do_, .o = k.o, .lse = k.lse, .q = k.x.q,
            .k = k.x.k, .v = k.x.v, .scale = 0.4, .causal = k.causal, .mask = k.mask, .first_key = k.first_key,
            .alibi = k.alibi, .kind = k.kind, .dsink = dsink);
        check_grad("dqkv", k.x.all, g.all, attention_loss, &k);
        if (dsink.data) check_grad("dsink", k.kind.sink, dsink, attention_loss, &k);
    }
    pool_free();
}

/* y += x, of rows from `first` on. */
static void add_rows(tx_tensor y, int64_t first, tx_tensor x)
{
    int64_t n = tx_numel(x), at = first * y.stride[0];
    for (int64_t i = 0; i < n; i++) tx__ref_store(y, at + i, tx__ref_load(y, at + i) + tx__ref_load(x, i));
}

static void assert_near(const char *what, tx_tensor x, tx_tensor want)
{
    for (int64_t i = 0; i < tx_numel(want); i++) ASSERT_NEAR(tx__ref_load(x, i), tx__ref_load(want, i), 1e-12, what);
}

/* A sequence in parts: their results joined and their gradients added are the whole's. Queries 0 .. 3, 4 .. 8; keys 0
 * .. 1, 2 .. 5, 6 .. 8, so that some queries see nothing of what they are called with, and one call is not made. */
static void test_attention_parts(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    enum { S = 9, B = 2, G = 2, D = 3, N_Q = 2, N_K = 3 };
    static const int q_cut[] = { 0, 4, S }, k_cut[] = { 0, 2, 6, S };
    for (int variant = 0; variant < 6; variant++) {
        bool causal = variant < 4;
        tx_tensor q = RAND(t, S, B, G, 1, D), k = RAND(t, S, B, G, D), v = RAND(t, S, B, G, D),
                  dy = RAND(t, S, B, G, 1, D), o = ZEROS(t, S, B, G, 1, D), y = ZEROS(t, S, B, G, 1, D),
                  lse = ZEROS(t, B, G, 1, S), none = { 0 }, first_key = none, n_keys = none, max = ZEROS(TX_F32, G, 1),
                  of_parts = ZEROS(TX_F32, G, 1);
        tx_tensor grad[] = { RAND(t, S, B, G, 1, D), RAND(t, S, B, G, D), RAND(t, S, B, G, D), ZEROS(t, G) };
        tx_tensor sum[] = { ZEROS(t, S, B, G, 1, D), ZEROS(t, S, B, G, D), ZEROS(t, S, B, G, D), ZEROS(t, G) };
        tx_dropout mask = { .rng = { 1, 2, 3 }, .drop = 20000, .sample = 4, .s_global = 11, .n_heads = 9 };
        tx_attention_kind kind = { .window = variant & 1 ? 2 : 0, .sink = RAND(t, G) };
        tx_alibi alibi = { .n_heads = causal ? 5 : 0 };
        if (variant & 2) {
            first_key = ZEROS(TX_I32, S, B);
            memcpy(first_key.data, (const int32_t[]){ 0, 0, 0, 1, 2, 1, 3, 1, 3, 1, 3, 5, 3, 6, 7, 6, 7, 8 }, 72);
        }
        if (variant == 4) {
            n_keys = ZEROS(TX_I32, B);
            memcpy(n_keys.data, (const int32_t[]){ 9, 1 }, 8);
        }
        if (!causal) kind.window = 0;
        RUN(&ctx, attention_fwd, .o = o, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.4, .causal = causal,
            .mask = mask, .first_key = first_key, .n_keys = n_keys, .alibi = alibi, .kind = kind);
        RUN(&ctx, attention_bwd, .dq = grad[0], .dk = grad[1], .dv = grad[2], .do_ = dy, .o = o, .lse = lse, .q = q,
            .k = k, .v = v, .scale = 0.4, .causal = causal, .mask = mask, .first_key = first_key, .n_keys = n_keys,
            .alibi = alibi, .kind = kind, .dsink = grad[3]);
        RUN(&ctx, max_logits, .max = max, .q = q, .k = k, .scale = 0.4, .causal = causal, .first_key = first_key,
            .n_keys = n_keys, .window = kind.window);
        for (int i = 0; i < N_Q; i++) {
            int64_t at = q_cut[i], sq = q_cut[i + 1] - at;
            tx_tensor part_q = tx_slice_rows(q, at, sq), part_lse = ZEROS(t, B, G, 1, sq), one = ZEROS(t, B, G, 1, sq),
                      first = variant & 2 ? tx_slice_rows(first_key, at, sq) : none, part_o = RAND(t, sq, B, G, 1, D),
                      joined = tx_slice_rows(y, at, sq);
            for (int64_t e = 0; e < tx_numel(part_lse); e++) tx__ref_store(part_lse, e, -INFINITY);
            for (int j = 0; j < N_K; j++) {
                if (causal && k_cut[j] >= at + sq) continue;
                tx_attention_kind of = kind;
                if (j) of.sink.data = NULL;
                int64_t from = k_cut[j], sk = k_cut[j + 1] - from;
                RUN(&ctx, attention_fwd, .o = part_o, .lse = one, .q = part_q, .k = tx_slice_rows(k, from, sk),
                    .v = tx_slice_rows(v, from, sk), .scale = 0.4, .causal = causal, .mask = mask, .first_key = first,
                    .n_keys = n_keys, .alibi = alibi, .kind = of, .q_at = at, .k_at = from, .part = true);
                RUN(&ctx, attention_join, .o = joined, .lse = part_lse, .part = part_o, .part_lse = one);
                RUN(&ctx, max_logits, .max = of_parts, .q = part_q, .k = tx_slice_rows(k, from, sk), .scale = 0.4,
                    .causal = causal, .first_key = first, .n_keys = n_keys, .window = kind.window, .q_at = at,
                    .k_at = from, .part = true);
            }
            for (int j = 0; j < N_K; j++) {
                if (causal && k_cut[j] >= at + sq) continue;
                tx_attention_kind of = kind;
                if (j) of.sink.data = NULL;
                int64_t from = k_cut[j], sk = k_cut[j + 1] - from;
                tx_tensor dq = RAND(t, sq, B, G, 1, D), dk = RAND(t, sk, B, G, D), dv = RAND(t, sk, B, G, D);
                RUN(&ctx, attention_bwd, .dq = dq, .dk = dk, .dv = dv, .do_ = tx_slice_rows(dy, at, sq), .o = joined,
                    .lse = part_lse, .q = part_q, .k = tx_slice_rows(k, from, sk), .v = tx_slice_rows(v, from, sk),
                    .scale = 0.4, .causal = causal, .mask = mask, .first_key = first, .n_keys = n_keys, .alibi = alibi,
                    .kind = of, .dsink = j ? none : sum[3], .q_at = at, .k_at = from, .part = true);
                add_rows(sum[0], at, dq);
                add_rows(sum[1], from, dk);
                add_rows(sum[2], from, dv);
            }
            for (int64_t e = 0; e < tx_numel(part_lse); e++)
                ASSERT_NEAR(tx__ref_load(part_lse, e), tx__ref_load(lse, e / sq * S + at + e % sq), 1e-12, "lse");
        }
        assert_near("o", y, o);
        assert_near("dq", sum[0], grad[0]);
        assert_near("dk", sum[1], grad[1]);
        assert_near("dv", sum[2], grad[2]);
        assert_near("dsink", sum[3], grad[3]);
        assert_near("max", of_parts, max);
        pool_free();
    }
    tx_tensor q = RAND(t, 2, 1, 1, 1, 3), k = RAND(t, 2, 1, 1, 3);
    tx_attention_fwd_args a = { .o = q, .q = q, .k = k, .v = k, .scale = 1, .causal = true, .q_at = 3, .k_at = 5 };
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "a part's queries begin at 3 and its keys at 5");
    a.k_at = -1;
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "both are at least 0");
    ASSERT_FAILS(tx_op_attention_join(&ctx, &(tx_attention_join_args){ .o = q, .part = q }), TX_ERR_SHAPE,
                 "attention_join: needs");
    pool_free();
}

/* Samples with pasts of their own are what each is alone, over its slot of the cache. */
static void test_attention_past(void **state)
{
    (void)state;
    enum { S = 2, B = 3, MAX = 9, SLOTS = 4, G = 2, R = 2, D = 4 };
    static const int32_t n_past[B] = { 0, 7, 3 }, slot[B] = { 2, 0, 3 };
    tx_dtype t = TX_F64;
    tx_tensor q = RAND(t, S, B, G, R, D), o = ZEROS(t, S, B, G, R, D), k = RAND(t, MAX, SLOTS, G, D);
    tx_tensor v = RAND(t, MAX, SLOTS, G, D), new_k = RAND(t, S, B, G, D), new_v = RAND(t, S, B, G, D);
    tx_tensor old_k = ZEROS(t, MAX, SLOTS, G, D);
    memcpy(old_k.data, k.data, (size_t)tx_numel(k) * sizeof(double));
    tx_past past = { .n = ZEROS(TX_I32, B), .slot = ZEROS(TX_I32, B) };
    memcpy(past.n.data, n_past, sizeof n_past);
    memcpy(past.slot.data, slot, sizeof slot);
    RUN(&ctx, cache_append, .k_cache = k, .v_cache = v, .k = new_k, .v = new_v, .past = past);
    for (int64_t i = 0; i < tx_numel(k); i++) {
        int64_t position = i / (SLOTS * G * D), at = i / (G * D) % SLOTS, b = 0;
        while (b < B && !(slot[b] == at && position >= n_past[b] && position < n_past[b] + S)) b++;
        double expect = b < B ? tx__ref_load(new_k, ((position - n_past[b]) * B + b) * G * D + i % (G * D))
                              : tx__ref_load(old_k, i);
        assert_true(tx__ref_load(k, i) == expect);
    }
    RUN(&ctx, attention_fwd, .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true, .past = past);
    for (int64_t b = 0; b < B; b++) {
        int64_t n = n_past[b] + S;
        tx_tensor alone = ZEROS(t, S, 1, G, R, D);
        RUN(&ctx, attention_fwd, .o = alone, .q = view5(q, b * G * R * D, alone.dim, B * G * R * D, 0, R * D, D),
            .k = view4(k, slot[b] * G * D, n, 1, G, D, SLOTS * G * D, 0, D),
            .v = view4(v, slot[b] * G * D, n, 1, G, D, SLOTS * G * D, 0, D), .scale = 0.5, .causal = true);
        for (int64_t i = 0; i < S; i++)
            for (int64_t j = 0; j < G * R * D; j++)
                assert_true(tx__ref_load(alone, i * G * R * D + j) == tx__ref_load(o, (i * B + b) * G * R * D + j));
    }
    ((int32_t *)past.n.data)[1] = MAX - 1;
    ASSERT_FAILS(tx_op_cache_append(&ctx, &(tx_cache_append_args){ k, v, new_k, new_v, past }), TX_ERR_ARG,
                 "past.n[1] is 8; it has to be in 0..7");
    ((int32_t *)past.n.data)[1] = 0;
    ((int32_t *)past.slot.data)[2] = SLOTS;
    ASSERT_FAILS(tx_op_attention_fwd(&ctx,
                                     &(tx_attention_fwd_args){
                                         .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true, .past = past }),
                 TX_ERR_ARG, "past.slot[2] is 4");
    past.slot.data = NULL;
    ASSERT_FAILS(tx_op_cache_append(&ctx, &(tx_cache_append_args){ k, v, new_k, new_v, past }), TX_ERR_SHAPE,
                 "past.slot=absent");
}

/* ---- embedding ---- */

typedef struct embedding_case {
    tx_tensor y, word, pos, kind, token, position, type, dy;
    double scale;
} embedding_case;

static double embedding_loss(void *user)
{
    embedding_case *k = user;
    RUN(&ctx, embedding_fwd, .y = k->y, .token = k->token, .position = k->position, .word = k->word, .pos = k->pos,
        .kind = k->kind, .type = k->type, .scale = k->scale);
    return weighted(k->y, k->dy);
}

static void test_embedding(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    embedding_case k = { ZEROS(t, 4, 2, 3),
                         RAND(t, 5, 3),
                         RAND(t, 4, 3),
                         RAND(t, 2, 3),
                         indices(ZEROS(TX_I32, 4, 2), 0, 5),
                         indices(ZEROS(TX_I32, 4, 2), 0, 4),
                         indices(ZEROS(TX_I32, 4, 2), 0, 2),
                         RAND(t, 4, 2, 3),
                         1 };
    tx_tensor table[2] = { k.pos, k.kind };
    for (int with = 0; with < 8; with++) { /* positions, types, a factor of words */
        tx_tensor dword = ZEROS(t, 5, 3), dpos = ZEROS(t, 4, 3), dkind = ZEROS(t, 2, 3), none = { 0 };
        k.pos = with & 1 ? table[0] : none;
        k.kind = with & 2 ? table[1] : none;
        k.scale = with & 4 ? 3 : 0;
        embedding_loss(&k);
        double want = (with & 4 ? 3 : 1) * tx__ref_load(k.word, ((int32_t *)k.token.data)[7] * 3 + 2);
        if (with & 1) want += tx__ref_load(k.pos, ((int32_t *)k.position.data)[7] * 3 + 2);
        if (with & 2) want += tx__ref_load(k.kind, ((int32_t *)k.type.data)[7] * 3 + 2);
        assert_true(tx__ref_load(k.y, 7 * 3 + 2) == want);
        RUN(&ctx, embedding_bwd, .dword = dword, .dpos = with & 1 ? dpos : none, .dkind = with & 2 ? dkind : none,
            .dy = k.dy, .token = k.token, .position = k.position, .type = k.type, .scale = k.scale);
        check_grad("dword", k.word, dword, embedding_loss, &k);
        if (with & 1) check_grad("dpos", k.pos, dpos, embedding_loss, &k);
        if (with & 2) check_grad("dkind", k.kind, dkind, embedding_loss, &k);
    }
    /* what is refused */
    tx_embedding_fwd_args a = { .y = k.y, .token = k.token, .type = k.type, .word = k.word, .kind = k.kind };
    ((int32_t *)k.type.data)[6] = 2;
    ASSERT_FAILS(tx_op_embedding_fwd(&ctx, &a), TX_ERR_ARG, "embedding_fwd: type[6] is 2; it has to be in 0..1");
    tx_embedding_bwd_args g = {
        .dword = k.word, .dkind = k.kind, .dy = k.dy, .token = k.token, .position = k.position, .type = k.type
    };
    ASSERT_FAILS(tx_op_embedding_bwd(&ctx, &g), TX_ERR_ARG, "embedding_bwd: type[6] is 2");
    a.type.data = g.type.data = NULL;
    ASSERT_FAILS(tx_op_embedding_fwd(&ctx, &a), TX_ERR_SHAPE, "type=absent");
    ASSERT_FAILS(tx_op_embedding_bwd(&ctx, &g), TX_ERR_SHAPE, "type=absent");
    a.type = k.type;
    a.kind = RAND(t, 2, 4);
    ASSERT_FAILS(tx_op_embedding_fwd(&ctx, &a), TX_ERR_SHAPE, "kind [types,h]");
    pool_free();
}

/* ---- loss ---- */

#include "backend/head_loss_ref.h"
#include "teacher_ref.h"

/* Many chunks are the same as one, each with the bias: the logits are so wide that there are two, of unequal length. */
static void test_head_loss_chunks(void **state)
{
    (void)state;
    const tx_dtype t = TX_F32;
    const int64_t rows = 401, h = 2, v = 65000;
    tx_tensor x = RAND(t, rows, h), w = RAND(t, v, h), y = indices(ZEROS(TX_I32, rows), 0, (int32_t)v);
    tx_tensor loss = ZEROS(t, rows), bias = RAND(t, v);
    RUN(&ctx, head_loss, .loss = loss, .x = x, .w = w, .bias = bias, .y = y, .n_valid = v);
    for (int64_t i = 0; i < rows; i += 200) {
        tx_tensor one = ZEROS(t, 1);
        RUN(&ctx, head_loss, .loss = one, .x = tx_slice_rows(x, i, 1), .w = w, .bias = bias, .y = tx_slice1(y, i, 1),
            .n_valid = v);
        assert_true(tx__ref_load(one, 0) == tx__ref_load(loss, i));
    }
    pool_free();
}

typedef struct entropy_case {
    tx_tensor loss, z, y, weight, z_loss;
    double smoothing, z_weight;
} entropy_case;

static double entropy_loss(void *user)
{
    entropy_case *k = user;
    RUN(&ctx, cross_entropy, .loss = k->loss, .z = k->z, .y = k->y, .n_valid = 6, .smoothing = k->smoothing,
        .z_weight = k->z_weight, .z_loss = k->z_loss);
    return weighted(k->loss, k->weight) + weighted(k->z_loss, k->weight);
}

/* Row 0 by the definition, -Σ q log softmax, and w log² Σ exp. */
static void check_cross_entropy(double smoothing, double z_weight)
{
    const tx_dtype t = TX_F64;
    entropy_case k = { ZEROS(t, 4), RAND(t, 4, 8), indices(ZEROS(TX_I32, 4), 0, 6), RAND(t, 4), ZEROS(t, 4),
                       smoothing,   z_weight };
    ((int32_t *)k.y.data)[1] = -1;
    ((double *)k.z.data)[7] = 1e300; /* padding: must not be looked at */
    tx_tensor dz = ZEROS(t, 4, 8);
    memcpy(dz.data, k.z.data, 32 * sizeof(double));
    RUN(&ctx, cross_entropy, .loss = k.loss, .z = dz, .y = k.y, .weight = k.weight, .n_valid = 6,
        .smoothing = smoothing, .z_weight = z_weight);
    check_grad("dz", k.z, dz, entropy_loss, &k);
    tx_tensor z = RAND(t, 4, 8), apart = ZEROS(t, 4, 8); /* the same beside z */
    memcpy(z.data, k.z.data, 32 * sizeof(double));
    tx_cross_entropy_args a = { .loss = k.loss, .z = z, .dz = apart, .y = k.y, .n_valid = 6, .smoothing = smoothing };
    a.z_weight = z_weight, a.z_loss = k.z_loss;
    ASSERT_FAILS(tx_op_cross_entropy(&ctx, &a), TX_ERR_SHAPE, "only with weight");
    a.weight = k.weight;
    ASSERT_OK(tx_op_cross_entropy(&ctx, &a));
    assert_memory_equal(apart.data, dz.data, 32 * sizeof(double));
    double sum = 0, want = 0;
    for (int j = 0; j < 6; j++) sum += exp(tx__ref_load(k.z, j));
    for (int j = 0; j < 6; j++) {
        double q = j == ((int32_t *)k.y.data)[0] ? 1 - smoothing : smoothing / 5;
        want -= q * (tx__ref_load(k.z, j) - log(sum));
    }
    ASSERT_NEAR(tx__ref_load(k.loss, 0), want, 1e-12, "loss");
    ASSERT_NEAR(tx__ref_load(k.z_loss, 0), z_weight * log(sum) * log(sum), 1e-12, "z-loss");
    assert_true(tx__ref_load(k.z_loss, 1) == 0); /* no label */
    pool_free();
}

/* Classes in three parts of 4 columns, the last without any, are what they are in one piece. */
static void check_cross_entropy_parts(double smoothing, double z_weight)
{
    const tx_dtype t = TX_F64;
    enum { ROWS = 3, V = 4, PARTS = 3, VALID = 7 };
    tx_tensor z = RAND(t, ROWS, PARTS * V), y = indices(ZEROS(TX_I32, ROWS), 0, VALID), weight = RAND(t, ROWS);
    tx_tensor loss = ZEROS(t, ROWS), want = ZEROS(t, ROWS), stats = ZEROS(t, PARTS, ROWS, 4), part[PARTS];
    tx_tensor z_loss = ZEROS(t, ROWS), z_want = ZEROS(t, ROWS);
    ((int32_t *)y.data)[1] = -1;
    for (int k = 0; k < PARTS; k++) {
        part[k] = ZEROS(t, ROWS, V);
        for (int i = 0; i < ROWS * V; i++)
            ((double *)part[k].data)[i] = tx__ref_load(z, i / V * PARTS * V + k * V + i % V);
    }
    RUN(&ctx, cross_entropy, .loss = want, .z = z, .y = y, .weight = weight, .n_valid = VALID, .smoothing = smoothing,
        .z_weight = z_weight, .z_loss = z_want);
    tx_classes classes[PARTS] = { { 0, 4, VALID }, { 4, 3, VALID }, { 8, 0, VALID } };
    for (int k = 0; k < PARTS; k++)
        RUN(&ctx, cross_entropy_part, .stats = tx_tensor2((double *)stats.data + k * ROWS * 4, t, ROWS, 4),
            .z = part[k], .y = y, .classes = classes[k], .keep = true);
    for (int k = 0; k < PARTS; k++) {
        RUN(&ctx, cross_entropy_join, .loss = loss, .z = part[k], .stats = stats, .y = y, .weight = weight,
            .classes = classes[k], .part = k, .smoothing = smoothing, .z_weight = z_weight, .z_loss = z_loss);
        for (int i = 0; i < ROWS; i++) ASSERT_NEAR(tx__ref_load(loss, i), tx__ref_load(want, i), 1e-13, "loss");
        for (int i = 0; i < ROWS; i++) ASSERT_NEAR(tx__ref_load(z_loss, i), tx__ref_load(z_want, i), 1e-13, "z-loss");
        for (int i = 0; i < ROWS * V; i++)
            ASSERT_NEAR(tx__ref_load(part[k], i), tx__ref_load(z, i / V * PARTS * V + k * V + i % V), 1e-13, "dz");
    }
    tx_cross_entropy_part_args a = { .stats = loss, .z = part[0], .y = y, .classes = classes[0] };
    ASSERT_FAILS(tx_op_cross_entropy_part(&ctx, &a), TX_ERR_SHAPE, "stats [rows,4]");
    pool_free();
}

static void test_cross_entropy(void **state)
{
    (void)state;
    check_cross_entropy(0, 0);
    check_cross_entropy(0.1, 0);
    check_cross_entropy(0, 0.3);
    check_cross_entropy(0.1, 0.3);
    check_cross_entropy_parts(0, 0);
    check_cross_entropy_parts(0.1, 0);
    check_cross_entropy_parts(0.1, 0.3);
    tx_tensor z = RAND(TX_F64, 1, 2), y = ZEROS(TX_I32, 1), loss = ZEROS(TX_F64, 1);
    const tx_cross_entropy_args one = { .loss = loss, .z = z, .y = y, .n_valid = 1, .smoothing = 0.1 };
    ASSERT_FAILS(tx_op_cross_entropy(&ctx, &one), TX_ERR_ARG, "smoothing 0.1 of 1 classes");
    const tx_cross_entropy_args below = { .loss = loss, .z = z, .y = y, .n_valid = 2, .z_weight = -1 };
    ASSERT_FAILS(tx_op_cross_entropy(&ctx, &below), TX_ERR_ARG, "z_weight -1; it has to be from 0 on");
    pool_free();
}

static void test_every_op_ran(void **state)
{
    (void)state;
    assert_every_op_called();
}

static int set_up(void **state)
{
    (void)state;
    ctx = open_ctx("ref", 1);
    count_calls(&ctx);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tx_ctx_deinit(&ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_rmsnorm_of_columns),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_glu),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_rope_positions),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_attention_grad),
        cmocka_unit_test(test_attention_kind_grad),
        cmocka_unit_test(test_max_logits),
        cmocka_unit_test(test_attention_parts),
        cmocka_unit_test(test_attention_past),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_head_loss),
        cmocka_unit_test(test_head_loss_bias),
        cmocka_unit_test(test_head_loss_formed),
        cmocka_unit_test(test_head_loss_chunks),
        cmocka_unit_test(test_teacher),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_fill_cast_sums),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_lion),
        cmocka_unit_test(test_adagrad),
        cmocka_unit_test(test_lamb),
        cmocka_unit_test(test_blend),
        cmocka_unit_test(test_onebit_lamb),
        cmocka_unit_test(test_root_mul),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_count_zeros),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_every_op_ran), /* last */
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
