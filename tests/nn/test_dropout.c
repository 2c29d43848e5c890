/* labels: unit op */
/* test_dropout.c - dropout alone: which elements fall out depends on seed, iteration, sample, layer, site and element,
 * and on nothing else: neither on how the tensor is cut over ranks and micro-batches, nor on type, backend and threads.
 * Backward lets through what forward has let through, also when forward has run again in between. */
#include "support.h"

#include "numbers.h"

#include "nn/dropout.h"

enum { S = 12, B = 4, H = 37, N = S * B * H };

static const tx_dropout_key whole = { .seed = 5, .iteration = 3, .sample = 8, .s_global = S, .on = true };

static tx_ctx open_ctx(const char *backend, int n_threads)
{
    tx_ctx c;
    ASSERT_OK(tx_ctx_init(&c, backend, n_threads));
    ASSERT_OK(tx_ctx_take_memory(&c));
    return c;
}

static tx_dropout mlp_mask(const tx_dropout_key *key, double p)
{
    return tx_dropout_at(key, p, 2, TX_DROP_MLP_OUT);
}

static void forward(tx_ctx *c, tx_tensor y, tx_tensor x, tx_tensor residual, tx_dropout mask)
{
    ASSERT_OK(
        tx_op_dropout_add_fwd(c, &(tx_dropout_add_fwd_args){ .y = y, .x = x, .residual = residual, .mask = mask }));
}

static void backward(tx_ctx *c, tx_tensor dx, tx_tensor dy, tx_dropout mask)
{
    ASSERT_OK(tx_op_dropout_add_bwd(c, &(tx_dropout_add_bwd_args){ .dx = dx, .dy = dy, .mask = mask }));
}

/* What of ones stays: 0 or 1 / (1 - p) each.   @keep [s, b, H] of F64 */
static void mask_of(double *keep, int64_t s, int64_t b, tx_dropout mask)
{
    tx_ctx c = open_ctx("ref", 1);
    tx_tensor y = tx_tensor3(keep, TX_F64, s, b, H), x = make(TX_F64, s, b, H);
    for (int64_t i = 0; i < tx_numel(x); i++) set(x, i, 1);
    forward(&c, y, x, (tx_tensor){ 0 }, mask);
    free(x.data);
    tx_ctx_deinit(&c);
}

/* ---- the mask ---- */

static void a_mask_is_that_of_its_names(void **state)
{
    (void)state;
    static double first[N], other[N];
    mask_of(first, S, B, mlp_mask(&whole, 0.3));
    mask_of(other, S, B, mlp_mask(&whole, 0.3));
    assert_memory_equal(first, other, sizeof first);

    tx_dropout_key key[3] = { whole, whole, whole };
    key[0].seed++, key[1].iteration++, key[2].sample += B;
    const tx_dropout changed[] = { mlp_mask(&key[0], 0.3),
                                   mlp_mask(&key[1], 0.3),
                                   mlp_mask(&key[2], 0.3),
                                   tx_dropout_at(&whole, 0.3, 3, TX_DROP_MLP_OUT),
                                   tx_dropout_at(&whole, 0.3, 2, TX_DROP_ATTENTION_OUT),
                                   tx_dropout_at(&whole, 0.3, 0, TX_DROP_EMBEDDING) };
    for (size_t k = 0; k < sizeof changed / sizeof *changed; k++) {
        int same = 0;
        mask_of(other, S, B, changed[k]);
        for (int i = 0; i < N; i++) same += (first[i] > 0) == (other[i] > 0);
        if (fabs((double)same / N - (0.7 * 0.7 + 0.3 * 0.3)) >
            0.05) /* as two that have nothing to do with each other */
            fail_msg("change %d: %d of %d elements are as before", (int)k, same, N);
    }
}

/* Ranks that have some of the positions, and micro-batches of fewer samples, see their part of the same mask. */
static void a_part_has_its_part_of_the_mask(void **state)
{
    (void)state;
    static double all[N], part[N];
    static const int cut_s[] = { 1, 2, 3, 4 }, cut_b[] = { 1, 2, 4 };
    mask_of(all, S, B, mlp_mask(&whole, 0.3));
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++) {
            int s = S / cut_s[i], b = B / cut_b[j];
            for (int s0 = 0; s0 < S; s0 += s)
                for (int b0 = 0; b0 < B; b0 += b) {
                    tx_dropout_key key = whole;
                    key.at.first += s0;
                    key.sample += (uint64_t)b0;
                    mask_of(part, s, b, mlp_mask(&key, 0.3));
                    for (int is = 0; is < s; is++)
                        for (int ib = 0; ib < b; ib++)
                            assert_memory_equal(part + (is * b + ib) * H, all + ((s0 + is) * B + b0 + ib) * H,
                                                H * sizeof *all);
                }
        }
}

static void p_is_how_many_fall_out(void **state)
{
    (void)state;
    static double keep[N];
    static const double p[] = { 0, 0.1, 0.5, 0.9 };
    for (int k = 0; k < 4; k++) {
        tx_dropout mask = mlp_mask(&whole, p[k]);
        int n = 0;
        mask_of(keep, S, B, mask);
        for (int i = 0; i < N; i++) {
            double scale = 1 / (1 - mask.drop / 65536.0);
            if (keep[i] != 0 && fabs(keep[i] - scale) > 1e-12 * scale)
                fail_msg("%g stays of 1 with p %g", keep[i], p[k]);
            n += keep[i] == 0;
        }
        if (fabs((double)n / N - p[k]) > 4 * sqrt(p[k] * (1 - p[k]) / N))
            fail_msg("p %g: %d of %d fall out", p[k], n, N);
    }
    tx_dropout_key evaluation = whole;
    evaluation.on = false;
    mask_of(keep, S, B, mlp_mask(&evaluation, 0.5));
    for (int i = 0; i < N; i++) assert_true(keep[i] == 1);
}

/* ---- forward and backward ---- */

/* y = r + m x, so by differences of forward dx = m dy and dr = dy, whatever the step. */
static void backward_is_what_differences_say(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("ref", 1);
    tx_tensor x = make(TX_F64, S, B, H), r = make(TX_F64, S, B, H), y = make(TX_F64, S, B, H),
              d = make(TX_F64, S, B, H), dy = make(TX_F64, S, B, H), dx = make(TX_F64, S, B, H);
    tx_dropout mask = mlp_mask(&whole, 0.3);
    double f[2];
    fill_drawn(r, 1), fill_drawn(dy, 2), fill_drawn(d, 3);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < N; i++) set(x, i, draw(4, i) + (side ? 0.25 : -0.25) * get(d, i));
        forward(&c, y, x, r, mask);
        f[side] = dot(dy, y);
    }
    backward(&c, dx, dy, mask);
    double slope = dot(dx, d);
    if (!(fabs((f[1] - f[0]) / 0.5 - slope) <= 1e-10 * fabs(slope)))
        fail_msg("by its gradient %.12g, by differences %.12g", slope, (f[1] - f[0]) / 0.5);
    free(x.data), free(r.data), free(y.data), free(d.data), free(dy.data), free(dx.data);
    tx_ctx_deinit(&c);
}

/* On cpu in each type, with 1 and 3 threads: ref's elements fall out, of forward and of backward, after forward has run
 * again and in place; and what stays is off by a rounding. */
static void cpu_drops_what_ref_drops(void **state)
{
    (void)state;
    static double keep[N];
    tx_dropout mask = mlp_mask(&whole, 0.3);
    mask_of(keep, S, B, mask);
    for (int k = 0; k < N_FLOAT_TYPES; k++) {
        tx_dtype t = float_types[k].t;
        size_t bytes = N * tx_dtype_size(t);
        tx_tensor x = make(t, S, B, H), r = make(t, S, B, H), y = make(t, S, B, H), again = make(t, S, B, H),
                  dx = make(t, S, B, H);
        fill_drawn(x, 1), fill_drawn(r, 2);
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            tx_ctx c = open_ctx("cpu", n_threads);
            forward(&c, n_threads == 1 ? y : again, x, r, mask);
            backward(&c, dx, x, mask);
            for (int i = 0; i < N; i++) {
                double want = get(r, i) + keep[i] * get(x, i), bound = 2 * float_types[k].epsilon * 3;
                if (keep[i] == 0 && (get(y, i) != get(r, i) || get(dx, i) != 0))
                    fail_msg("%s: element %d of %d falls out on ref alone", tx_dtype_name(t), i, N);
                if (fabs(get(y, i) - want) > bound || fabs(get(dx, i) - keep[i] * get(x, i)) > bound)
                    fail_msg("%s: element %d: %g, not %g", tx_dtype_name(t), i, get(y, i), want);
            }
            forward(&c, again, x, r, mask); /* as backward does it again */
            assert_memory_equal(again.data, y.data, bytes);
            memcpy(again.data, x.data, bytes);
            forward(&c, again, again, r, mask);
            assert_memory_equal(again.data, y.data, bytes);
            memcpy(again.data, x.data, bytes);
            backward(&c, again, again, mask);
            assert_memory_equal(again.data, dx.data, bytes);
            tx_ctx_deinit(&c);
        }
        free(x.data), free(r.data), free(y.data), free(again.data), free(dx.data);
    }
}

/* Some columns of more, as a tensor rank has them of what an adapter reads: fp32, each backend. */
static void columns_have_their_part_of_the_mask(void **state)
{
    (void)state;
    static const char *const backend[] = { "ref", "cpu" };
    enum { FIRST = 11, WIDTH = 13 };
    static double all[N];
    mask_of(all, S, B, mlp_mask(&whole, 0.3));
    for (int k = 0; k < 2; k++) {
        tx_ctx c = open_ctx(backend[k], 2);
        tx_tensor x = make(TX_F32, S, B, WIDTH), y = make(TX_F32, S, B, WIDTH);
        tx_dropout mask = mlp_mask(&whole, 0.3);
        mask.columns = H;
        mask.first_column = FIRST;
        for (int64_t i = 0; i < tx_numel(x); i++) set(x, i, 1);
        forward(&c, y, x, (tx_tensor){ 0 }, mask);
        for (int64_t i = 0; i < tx_numel(y); i++) {
            double kept = all[i / WIDTH * H + FIRST + i % WIDTH];
            assert_int_equal(((const float *)y.data)[i] != 0, kept != 0);
        }
        free(x.data);
        free(y.data);
        tx_ctx_deinit(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_is_that_of_its_names), cmocka_unit_test(a_part_has_its_part_of_the_mask),
        cmocka_unit_test(p_is_how_many_fall_out),      cmocka_unit_test(backward_is_what_differences_say),
        cmocka_unit_test(cpu_drops_what_ref_drops),    cmocka_unit_test(columns_have_their_part_of_the_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
