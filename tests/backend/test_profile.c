/* labels: unit op fault */
/* The profile: what every op costs, which runs are counted and where, and that it changes no bit. */
#include "backend/op_test.h"

#include "base/clock.h"

static tx_ctx ctx;
static tx_profile profile;

static int setup(void **state)
{
    (void)state;
    ctx = open_ctx("cpu", 1);
    profile = (tx_profile){ 0 };
    ctx.profile = &profile;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tx_ctx_deinit(&ctx);
    tx_profile_free(&profile);
    pool_free();
    return 0;
}

/* ---- costs: pure functions of shapes, no memory is there ---- */

static tx_tensor fake(tx_dtype t, int n_dims, const int64_t *dim)
{
    static float some;
    tx_tensor x = { .data = &some, .dtype = t, .n_dims = n_dims };
    for (int i = n_dims - 1, stride = 1; i >= 0; stride *= (int)dim[i--]) {
        x.dim[i] = dim[i];
        x.stride[i] = stride;
    }
    return x;
}
#define F32(...) fake(TX_F32, DIMS(__VA_ARGS__))
#define B16(...) fake(TX_BF16, DIMS(__VA_ARGS__))
#define I32(...) fake(TX_I32, DIMS(__VA_ARGS__))
#define F64(...) fake(TX_F64, DIMS(__VA_ARGS__))
#define I64(...) fake(TX_I64, DIMS(__VA_ARGS__))

enum {
#define OP(op, ...) OP_##op,
#include "backend/ops.def"
    N_OPS
};
static bool seen[N_OPS];

static void assert_cost(const char *op, int number, tx_cost c, tx_cost_kind kind, double flops, double bytes)
{
    seen[number] = true;
    assert_true(c.kind == kind && (kind == TX_COST_MEMORY) == (flops == 0));
    ASSERT_NEAR(c.flops, flops, 0, op);
    ASSERT_NEAR(c.bytes, bytes, 0, op);
    assert_true(c.shape.n_dims > 0 && c.shape.dim[0] > 0);
}
#define COSTS(op, kind, flops, bytes, ...) \
    assert_cost(#op, OP_##op, tx__cost_##op(&(tx_##op##_args){ __VA_ARGS__ }), TX_COST_##kind, (flops), (bytes))

static void costs_of_products(void)
{
    tx_tensor y = I32(6), v = F32(6);
    COSTS(gemm, PRODUCT, 2 * 3 * 5 * 7, 4 * (21 + 35 + 15), .c = F32(3, 5), .a = F32(3, 7), .b = F32(7, 5));
    COSTS(gemm, PRODUCT, 2 * 3 * 5 * 7, 2 * (21 + 35 + 5) + 4 * 15, .c = F32(3, 5), .a = B16(3, 7), .b = B16(7, 5),
          .bias = B16(5));
    COSTS(gemm, PRODUCT, 2 * 3 * 5 * 7, 2 * (21 + 35) + 2 * 4 * 15, .c = F32(3, 5), .a = B16(7, 3), .b = B16(5, 7),
          .trans_a = true, .trans_b = true, .accumulate = true);
    COSTS(head_loss, PRODUCT, 2 * 6 * 4 * 8, 4 * (24 + 32 + 6 + 6), .loss = v, .x = F32(6, 4), .w = F32(8, 4), .y = y);
    COSTS(head_loss, PRODUCT, 3 * 2 * 6 * 4 * 8, 4 * (24 + 32 + 6 + 6 + 6 + 24 + 2 * 32), .loss = v, .x = F32(6, 4),
          .w = F32(8, 4), .y = y, .weight = v, .dx = F32(6, 4), .dw = F32(8, 4), .accumulate = true);
    COSTS(head_loss, PRODUCT, 3 * 2 * 6 * 4 * 8, 4 * (24 + 32 + 8 + 6 + 6 + 6 + 24 + 32 + 2 * 8), .loss = v,
          .x = F32(6, 4), .w = F32(8, 4), .y = y, .weight = v, .dx = F32(6, 4), .dw = F32(8, 4), .bias = F32(8),
          .dbias = F32(8));
    COSTS(head_loss, PRODUCT, 3 * 2 * 6 * 4 * 8 + 2 * 6 * 5 * 8, 4 * (24 + 32 + 6 + 6 + 6 + 24 + 32 + 30 + 40 + 6),
          .loss = v, .x = F32(6, 4), .w = F32(8, 4), .y = y, .weight = v, .dx = F32(6, 4), .dw = F32(8, 4),
          .teacher = { .loss = v, .x = F32(6, 5), .w = F32(8, 5) });
    COSTS(softcap_fwd, MEMORY, 0, 4 * 2 * 48, .y = F32(6, 8), .x = F32(6, 8));
    COSTS(softcap_bwd, MEMORY, 0, 4 * 2 * 48 + 2 * 48, .dx = B16(6, 8), .dy = F32(6, 8), .y = F32(6, 8));
}

/* s 5, b 2, groups 2, heads of a group 3, d 4 */
static void costs_of_attention(void)
{
    tx_tensor q = F32(5, 2, 2, 3, 4), k = F32(5, 2, 2, 4), lse = F32(2, 2, 3, 5), long_k = F32(8, 2, 2, 4);
    double head = 2 * 2 * 3 * 4, pairs = 15 * 2 * 3 * 4, size = 240, k_size = 80, stats = 60;
    int32_t first[10] = { 0, 0, 0, 0, 2, 0, 2, 3, 2, 3 }; /* query by query, both samples */
    tx_tensor first_key = { .data = first, .dtype = TX_I32, .n_dims = 2, .dim = { 5, 2 }, .stride = { 2, 1 } };
    COSTS(attention_fwd, ATTENTION, 2 * 2 * 2 * pairs, 4 * (2 * size + 2 * k_size + stats), .o = q, .lse = lse, .q = q,
          .k = k, .v = k, .causal = true);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * 25 * head, 4 * (2 * size + 2 * k_size), .o = q, .q = q, .k = k, .v = k);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * (15 + 5 * 3) * head, 4 * (2 * size + 4 * 64), .o = q, .q = q, .k = long_k,
          .v = long_k, .causal = true);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * (2 * 15 - 12) * head / 2, 4 * (2 * size + 2 * k_size), .o = q, .q = q,
          .k = k, .v = k, .causal = true, .first_key = first_key);
    int32_t n_past[2] = { 3, 0 }, slot[2] = { 5, 1 }; /* a cache of 6 slots: 8 and 5 keys */
    tx_past past = { .n = tx_tensor1(n_past, TX_I32, 2), .slot = tx_tensor1(slot, TX_I32, 2) };
    tx_tensor cache = F32(20, 6, 2, 4);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * (2 * 15 + 5 * 3) * head / 2, 4 * (2 * size + 2 * (8 + 5) * 8), .o = q,
          .q = q, .k = cache, .v = cache, .causal = true, .past = past);
    COSTS(max_logits, ATTENTION, 2 * 2 * pairs, 4 * (size + k_size + 2 * 6), .max = F32(2, 3), .q = q, .k = k,
          .causal = true);
    COSTS(cache_append, MEMORY, 0, 4 * 4 * k_size, .k_cache = cache, .v_cache = cache, .k = k, .v = k, .past = past);
    COSTS(attention_bwd, ATTENTION, 2 * 5 * 2 * pairs, 4 * (4 * size + 4 * k_size + stats), .dq = q, .dk = k, .dv = k,
          .do_ = q, .o = q, .lse = lse, .q = q, .k = k, .v = k, .causal = true);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * (2 + 3 + 4 + 5 + 5) * 2 * head / 2, 4 * (2 * size + 2 * k_size), .o = q,
          .q = q, .k = k, .v = k, .causal = true, .q_at = 7, .k_at = 6);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * (10 * 5 - 2) * head / 2, 4 * (2 * size + 2 * k_size), .o = q, .q = q,
          .k = k, .v = k, .causal = true, .q_at = 6, .k_at = 2, .first_key = first_key);
    COSTS(attention_bwd, ATTENTION, 2 * 5 * (0 + 0 + 1 + 2 + 3) * 2 * head / 2,
          4 * (4 * size + 2 * k_size + 2 * 3 * 2 * 8 + stats), .dq = q, .dk = k, .dv = k, .do_ = q, .o = q, .lse = lse,
          .q = q, .k = k, .v = k, .causal = true, .q_at = 1, .k_at = 3);
    COSTS(attention_join, MEMORY, 0, 4 * 3 * (size + stats), .o = q, .lse = lse, .part = q, .part_lse = lse);
    int32_t n[2] = { 2, 5 }; /* of 5 keys, the others pad */
    tx_tensor n_keys = tx_tensor1(n, TX_I32, 2);
    COSTS(attention_fwd, ATTENTION, 2 * 2 * 5 * (2 + 5) * head / 2, 4 * (2 * size + 2 * (2 + 5) * 8), .o = q, .q = q,
          .k = k, .v = k, .n_keys = n_keys);
    COSTS(attention_bwd, ATTENTION, 2 * 5 * 5 * (2 + 5) * head / 2,
          4 * (4 * size + 2 * k_size + 2 * (2 + 5) * 8 + stats), .dq = q, .dk = k, .dv = k, .do_ = q, .o = q,
          .lse = lse, .q = q, .k = k, .v = k, .n_keys = n_keys);
}

static void costs_of_norms(void)
{
    tx_tensor x = F32(6, 4), h = F32(4), r = F32(6), none = { 0 };
    COSTS(layernorm_fwd, MEMORY, 0, 4 * (48 + 8 + 12), .y = x, .mu = r, .rs = r, .x = x, .gamma = h, .beta = h);
    COSTS(layernorm_bwd, MEMORY, 0, 4 * (96 + 4 + 12 + 16), .dx = x, .dgamma = h, .dbeta = h, .dy = x, .x = x,
          .dres = x, .gamma = h, .mu = r, .rs = r);
    COSTS(rmsnorm_fwd, MEMORY, 0, 4 * (48 + 4 + 6), .y = x, .rs = r, .x = x, .gamma = h);
    COSTS(rmsnorm_bwd, MEMORY, 0, 4 * (72 + 4 + 6 + 8), .dx = x, .dgamma = h, .dy = x, .x = x, .dres = none, .gamma = h,
          .rs = r);
    COSTS(rmsnorm_fwd, MEMORY, 0, 4 * (48 + 4 + 12), .y = x, .rs = r, .x = x, .gamma = h, .squares = r, .columns = 8);
    COSTS(rmsnorm_bwd, MEMORY, 0, 4 * (72 + 4 + 12 + 8), .dx = x, .dgamma = h, .dy = x, .x = x, .gamma = h, .rs = r,
          .dots = r, .columns = 8);
    COSTS(row_dots, MEMORY, 0, 4 * (48 + 4 + 6), .y = r, .a = x, .b = x, .gamma = h);
}

static void costs_of_elements(void)
{
    tx_tensor x = F32(6, 4), cube = F32(3, 2, 4), twice = F32(6, 8), none = { 0 };
    COSTS(fill, MEMORY, 0, 96, .x = x);
    COSTS(cast, MEMORY, 0, 96 + 48, .y = B16(6, 4), .x = x);
    COSTS(copy, MEMORY, 0, 2 * 96, .y = x, .x = x);
    COSTS(add, MEMORY, 0, 96 + 48 + 96, .y = x, .a = x, .b = B16(6, 4));
    COSTS(col_sum, MEMORY, 0, 96 + 32, .y = F32(4), .x = x);
    COSTS(activation_fwd, MEMORY, 0, 192, .y = x, .x = x);
    COSTS(activation_bwd, MEMORY, 0, 288, .dx = x, .dy = x, .x = x);
    COSTS(glu_fwd, MEMORY, 0, 96 + 192, .y = x, .x = twice);
    COSTS(glu_bwd, MEMORY, 0, 96 + 384, .dx = twice, .dy = x, .x = twice);
    COSTS(rope, MEMORY, 0, 2 * 4 * 240 / 2.0, .x = F32(5, 2, 2, 3, 4), .n_rot = 2);
    COSTS(dropout_add_fwd, MEMORY, 0, 288, .y = cube, .x = cube, .residual = cube);
    COSTS(dropout_add_fwd, MEMORY, 0, 192, .y = cube, .x = cube, .residual = none);
    COSTS(dropout_add_bwd, MEMORY, 0, 192, .dx = cube, .dy = cube);
}

static void costs_of_the_rest(void)
{
    tx_tensor x = F32(6, 4), cube = F32(3, 2, 4), token = I32(3, 2), word = F32(50, 4), r = F32(6), flat = F32(24);
    COSTS(embedding_fwd, MEMORY, 0, 2 * 24 + 96 + 96, .y = cube, .token = token, .position = token, .word = word);
    COSTS(embedding_fwd, MEMORY, 0, 2 * 24 + 96 + 2 * 96, .y = cube, .token = token, .type = token, .word = word,
          .kind = word);
    COSTS(embedding_bwd, MEMORY, 0, 2 * 24 + 96 + 2 * 2 * 96, .dword = word, .dpos = word, .dy = cube, .token = token,
          .position = token);
    COSTS(cross_entropy, MEMORY, 0, 48 + 96, .loss = r, .z = x, .y = I32(6));
    COSTS(cross_entropy, MEMORY, 0, 72 + 192, .loss = r, .z = x, .y = I32(6), .weight = r);
    COSTS(cross_entropy, MEMORY, 0, 72 + 96 + 48, .loss = r, .z = x, .dz = B16(6, 4), .y = I32(6), .weight = r);
    COSTS(cross_entropy_part, MEMORY, 0, 24 + 96 + 2 * 96, .stats = x, .z = x, .y = I32(6), .keep = true);
    COSTS(cross_entropy_join, MEMORY, 0, 72 + 192 + 192, .loss = r, .z = x, .stats = F32(2, 6, 4), .y = I32(6),
          .weight = r);
    COSTS(distill_part, MEMORY, 0, 96 + 2 * 96 + 120, .stats = F32(6, 5), .t = x, .z = x, .n_here = 4);
    COSTS(distill_join, MEMORY, 0, 96 + 2 * 96 + 240 + 24, .loss = r, .t = x, .z = x, .stats = F32(2, 6, 5));
    COSTS(sumsq, MEMORY, 0, 96 + 8, .out = F64(1), .x = flat);
    COSTS(count_zeros, MEMORY, 0, 96 + 8, .out = F64(1), .x = flat);
    COSTS(magnitudes, MEMORY, 0, 96 + 32, .out = F64(1, 4), .x = flat);
    COSTS(exact_add, MEMORY, 0, 96 + 2 * 176, .sum = I64(TX_EXACT_WORDS), .x = F64(12));
    COSTS(clip, MEMORY, 0, 176 + 24, .out = F64(3), .sum = I64(TX_EXACT_WORDS));
    COSTS(adam, MEMORY, 0, 7 * 96 + 48, .p = flat, .m = flat, .v = flat, .g = flat, .low = B16(24));
    COSTS(blend, MEMORY, 0, 3 * 96 + 48, .y = flat, .x = flat, .z = flat, .low = B16(24), .alpha = 1);
    COSTS(sgd, MEMORY, 0, 5 * 96, .p = flat, .m = flat, .g = flat);
    COSTS(lion, MEMORY, 0, 5 * 96 + 48, .p = flat, .m = flat, .g = flat, .low = B16(24));
    COSTS(adagrad, MEMORY, 0, 5 * 96, .p = flat, .v = flat, .g = flat);
    COSTS(lamb_moments, MEMORY, 0, 6 * 96 + 16, .m = flat, .v = flat, .p = flat, .g = flat, .sums = F64(2, 1));
    COSTS(lamb_ratio, MEMORY, 0, 3 * 2 * 176 + 24, .out = F64(3), .sums = I64(3, 2, TX_EXACT_WORDS));
    COSTS(lamb_fresh, MEMORY, 0, 7 * 96 + 16 + 16, .m = flat, .fresh = flat, .x = flat, .v = flat, .p = flat,
          .sums = F64(2, 1), .most = F64(1));
    COSTS(lamb_coeff, MEMORY, 0, 3 * (3 * 8 + 4 * 4), .ratio = F64(3), .average = F32(3), .most = F64(3),
          .last = F32(3));
    COSTS(root_mul, MEMORY, 0, 3 * 96, .y = flat, .x = flat, .v = flat, .eps = 1);
    COSTS(sign_pack, MEMORY, 0, 2 * 96 + 4, .bits = I32(1), .x = flat, .scale = F64(1));
    COSTS(sign_sum, MEMORY, 0, 2 * 96 + 2 * 4 + 2 * 8, .y = flat, .bits = I32(2, 1), .scale = F64(2, 1),
          .accumulate = true);
    COSTS(quantize, MEMORY, 0, 96 + 4 * 129, .words = I32(129), .x = flat, .bits = 8);
    COSTS(dequantize_sum, MEMORY, 0, 2 * 96 + 2 * 4 * 65, .y = flat, .words = I32(2, 65), .bits = 4,
          .accumulate = true);
    COSTS(lamb_update, MEMORY, 0, 4 * 96 + 48, .p = flat, .m = flat, .v = flat, .low = B16(24));
}

/* 6 tokens, 4 experts, 2 choices. */
static void costs_of_experts(void)
{
    tx_tensor x = F32(6, 4), two = F32(6, 2), choice = I32(6, 2), pairs = I32(12), packed = F32(12, 4), load = I32(4);
    COSTS(route_fwd, MEMORY, 0, 2 * 96 + 2 * 48, .logits = x, .probs = x, .weight = two, .choice = choice);
    COSTS(route_bwd, MEMORY, 0, 3 * 96 + 2 * 48, .logits = x, .probs = x, .dlogits = x, .dweight = two,
          .choice = choice);
    COSTS(route_sums, MEMORY, 0, 2 * 28 + 20 + 16 + 48, .sums = F32(7), .stats = F32(5), .chosen = load,
          .choice = choice);
    COSTS(expert_order, MEMORY, 0, 3 * 48 + 16, .choice = choice, .row = pairs, .source = pairs, .count = load);
    COSTS(gather_rows, MEMORY, 0, 2 * 192 + 48, .y = packed, .index = pairs);
    tx_tensor some = F32(2, 3, 4), all = F32(5, 3, 4), at = I32(2, 3);
    COSTS(gather_tokens, MEMORY, 0, 2 * 96 + 24, .y = some, .x = all, .position = at);
    COSTS(scatter_tokens, MEMORY, 0, 2 * 96 + 24, .y = all, .x = some, .position = at);
    COSTS(combine_fwd, MEMORY, 0, 192 + 48 + 48 + 96, .y = x, .z = packed, .row = pairs, .weight = two);
    COSTS(combine_fwd, MEMORY, 0, 192 + 48 + 2 * 96, .y = x, .z = packed, .row = pairs, .accumulate = true);
    COSTS(combine_bwd, MEMORY, 0, 96 + 2 * 192 + 3 * 48, .dy = x, .z = packed, .dz = packed, .row = pairs,
          .weight = two, .dweight = two);
    tx_tensor w[4], bias[4];
    for (int e = 0; e < 4; e++) w[e] = F32(5, 4), bias[e] = F32(5);
    tx_tensors ws = { w, sizeof *w }, biases = { bias, sizeof *bias };
    COSTS(grouped_gemm, PRODUCT, 2 * 12 * 5 * 4, 192 + 4 * (80 + 20) + 16 + 240, .c = F32(12, 5), .a = packed, .b = ws,
          .bias = biases, .count = load, .trans_b = true);
    COSTS(grouped_dw, PRODUCT, 2 * 12 * 5 * 4, 240 + 192 + 16 + 4 * (2 * 80 + 2 * 20), .dy = F32(12, 5), .x = packed,
          .dw = ws, .dbias = biases, .count = load, .accumulate = true);
}

static void what_every_op_costs(void **state)
{
    (void)state;
    memset(seen, 0, sizeof seen);
    costs_of_products();
    costs_of_attention();
    costs_of_norms();
    costs_of_elements();
    costs_of_the_rest();
    costs_of_experts();
    for (int i = 0; i < N_OPS; i++) assert_true(seen[i]);
}

/* ---- runs ---- */

static const tx_profile_row *row(const char *op, const char *part, bool backward)
{
    for (int64_t i = 0; i < profile.n_rows; i++) {
        const tx_profile_row *r = &profile.row[i];
        if (!strcmp(r->op, op) && !strcmp(r->part, part) && r->backward == backward) return r;
    }
    fail_msg("no row %s of %s", op, part);
    return NULL;
}

static void runs_are_counted_by_op_part_and_direction(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 40, 8), y = ZEROS(TX_F32, 40, 8);
    double start = tx_clock(), inside = 0;
    for (int i = 0; i < 3; i++) {
        tx_at_layer(&ctx, i + 1);
        tx_at_part(&ctx, "here");
        RUN(&ctx, activation_fwd, .y = y, .x = x);
        tx_at_backward(&ctx, i > 0);
        RUN(&ctx, activation_bwd, .dx = y, .dy = y, .x = x);
        tx_at_backward(&ctx, false);
    }
    ctx.profile = NULL;
    RUN(&ctx, activation_fwd, .y = y, .x = x);
    double wall = tx_clock() - start;
    assert_int_equal(profile.n_rows, 3);
    assert_int_equal(profile.n_runs, 6);
    assert_int_equal(profile.n_events, 6);
    assert_int_equal(row("activation_fwd", "here", false)->calls, 3);
    assert_int_equal(row("activation_bwd", "here", false)->calls, 1);
    assert_int_equal(row("activation_bwd", "here", true)->calls, 2);
    ASSERT_NEAR(row("activation_fwd", "here", false)->bytes, 3 * 2 * 40 * 8 * 4, 0, "bytes");
    for (int64_t i = 0; i < profile.n_rows; i++) inside += profile.row[i].seconds;
    for (int64_t i = 0; i < 6; i++) inside -= profile.event[i].seconds;
    ASSERT_NEAR(inside, 0, 1e-12, "rows against events");
    for (int64_t i = 0; i < 6; i++) {
        const tx_profile_event *e = &profile.event[i];
        assert_true(e->at.layer == i / 2 + 1 && e->cost.shape.dim[0] == 40 && !e->cost.shape.data);
        assert_true(e->seconds >= 0 && e->start >= start && e->start + e->seconds <= start + wall);
        if (i) assert_true(e->start >= e[-1].start + e[-1].seconds);
    }
}

/* An op that is made of others is there as these, and the fast product as itself. */
static void composed_ops_are_their_parts(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 6, 4), w = RAND(TX_F32, 8, 4), y = indices(ZEROS(TX_I32, 6), 0, 8);
    tx_at_part(&ctx, "head");
    RUN(&ctx, head_loss, .loss = ZEROS(TX_F32, 6), .dx = ZEROS(TX_F32, 6, 4), .dw = ZEROS(TX_F32, 8, 4), .x = x, .w = w,
        .y = y, .weight = RAND(TX_F32, 6), .n_valid = 8);
    assert_int_equal(profile.n_rows, 3);
    assert_int_equal(row("gemm", "head", false)->calls, 1);
    assert_int_equal(row("cross_entropy", "head", false)->calls, 1);
    assert_int_equal(row("gemm", "head", true)->calls, 2);
    double flops = row("gemm", "head", false)->flops + row("gemm", "head", true)->flops;
    ASSERT_NEAR(flops, 3 * 2 * 6 * 4 * 8, 0, "flops");
}

static void a_refused_or_dry_op_is_no_run(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 6, 4);
    assert_int_equal(tx_op_cast(&ctx, &(tx_cast_args){ .y = ZEROS(TX_F32, 6), .x = x }), TX_ERR_SHAPE);
    ctx.dry = true;
    RUN(&ctx, cast, .y = ZEROS(TX_F32, 6, 4), .x = x);
    RUN(&ctx, gemm, .c = ZEROS(TX_F32, 6, 6), .a = x, .b = x, .trans_b = true);
    assert_int_equal(profile.n_runs, 0);
}

static void the_bits_are_the_same(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 33, 17), w = RAND(TX_F32, 9, 17), y = ZEROS(TX_F32, 33, 9), z = ZEROS(TX_F32, 33, 9);
    RUN(&ctx, gemm, .c = y, .a = x, .b = w, .trans_b = true);
    RUN(&ctx, activation_fwd, .y = y, .x = y);
    ctx.profile = NULL;
    RUN(&ctx, gemm, .c = z, .a = x, .b = w, .trans_b = true);
    RUN(&ctx, activation_fwd, .y = z, .x = z);
    assert_memory_equal(y.data, z.data, 33 * 9 * sizeof(float));
    assert_int_equal(profile.n_runs, 2);
}

static void events_are_bounded_and_rows_are_not(void **state)
{
    (void)state;
    tx_cost cost = { .kind = TX_COST_MEMORY, .bytes = 1, .shape = F32(1) };
    char part[100][8];
    for (int i = 0; i < 100; i++) snprintf(part[i], sizeof part[i], "%d", i);
    for (int i = 0; i < TX_PROFILE_MAX_EVENTS + 300; i++)
        ASSERT_OK(tx_profile_add(&profile, "op", &(tx_model_place){ .part = part[i % 100] }, i, 1, &cost));
    assert_int_equal(profile.n_events, TX_PROFILE_MAX_EVENTS);
    assert_int_equal(profile.n_left_out, 300);
    assert_int_equal(profile.n_rows, 100);
    assert_int_equal(row("op", "99", false)->calls, TX_PROFILE_MAX_EVENTS / 100 + 3);
}

static void no_memory(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 6, 4), y = ZEROS(TX_F32, 6, 4);
    for (int64_t n = 0; n < 2; n++) {
        tx_profile_free(&profile);
        allocation_fails_at(n);
        tx_status st = tx_op_cast(&ctx, &(tx_cast_args){ .y = y, .x = x });
        allocations_succeed();
        assert_int_equal(st, TX_ERR_NOMEM);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_every_op_costs),
        TEST(runs_are_counted_by_op_part_and_direction),
        TEST(composed_ops_are_their_parts),
        TEST(a_refused_or_dry_op_is_no_run),
        TEST(the_bits_are_the_same),
        TEST(events_are_bounded_and_rows_are_not),
        TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
