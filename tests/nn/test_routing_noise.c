/* labels: unit op */
/* What is random in routing: the noise that a token's second choice is drawn by, and which tokens an expert has no room
 * for. Noise is Gumbel's; both depend on seed, iteration, layer, sample and position alone, on every backend. */
#include "support.h"

#include "nn/dropout.h"
#include "numbers.h"

enum { S = 64, B = 32, T = S * B, E = 8, DRAWS = T * E };

static const char *const backends[] = { "ref", "cpu" };
static const tx_dropout_key whole = { .seed = 5, .iteration = 3, .sample = 8, .s_global = S, .on = true };

typedef struct routed {
    int32_t choice[2 * T];
} routed;

/* Of the tokens of a micro-batch, whose logits are `row` [E] each. */
static void route(routed *r, const char *backend, const float *row, int64_t tokens, tx_router how)
{
    static float logits[DRAWS], probs[DRAWS], weight[2 * T];
    float stats[E + 1];
    int32_t chosen[E];
    tx_ctx c;
    ASSERT_OK(tx_ctx_init(&c, backend, 1));
    for (int64_t i = 0; i < tokens * E; i++) logits[i] = row[i % E];
    const tx_route_fwd_args a = { .probs = tx_tensor2(probs, TX_F32, tokens, E),
                                  .choice = tx_tensor2(r->choice, TX_I32, tokens, how.k),
                                  .weight = tx_tensor2(weight, TX_F32, tokens, how.k),
                                  .chosen = tx_tensor1(chosen, TX_I32, E),
                                  .stats = tx_tensor1(stats, TX_F32, E + 1),
                                  .logits = tx_tensor2(logits, TX_F32, tokens, E),
                                  .router = how };
    ASSERT_OK(tx_op_route_fwd(&c, &a)); /* dry */
    ASSERT_OK(tx_ctx_take_memory(&c));
    ASSERT_OK(tx_op_route_fwd(&c, &a));
    tx_ctx_deinit(&c);
}

static tx_router noisy(const tx_dropout_key *key, int layer, int64_t b)
{
    return (tx_router){ .k = 2,
                        .renormalise = true,
                        .noisy_second = true,
                        .scale = 1,
                        .b = b,
                        .random = tx_dropout_at(key, 0, layer, TX_RANDOM_ROUTER) };
}

/* The noise of expert e for the token of sample b and position s, by the contract of tx_router. */
static double noise_of(const tx_router *how, int64_t s, int64_t b, int64_t e)
{
    const tx_dropout *r = &how->random;
    uint64_t token = (r->sample + (uint64_t)b) * (uint64_t)r->s_global + (uint64_t)tx_position_of(&r->at, s);
    return -log(-log(tx_rng_uniform(&r->rng, token * E + (uint64_t)e)));
}

/* The first is the highest. */
static const float logits_of_all[E] = { 0.5f, 3, 0, 1, -1, 0.25f, 1.5f, -2 };

static void second_choices_have_the_noise_of_their_names(void **state)
{
    (void)state;
    const tx_router how = noisy(&whole, 2, B);
    static routed r;
    for (int k = 0; k < 2; k++) {
        route(&r, backends[k], logits_of_all, T, how);
        for (int64_t t = 0; t < T; t++) {
            int best = -1;
            double most = -INFINITY;
            for (int e = 0; e < E; e++) {
                double by = (double)logits_of_all[e] + noise_of(&how, t / B, t % B, e);
                if (e != 1 && by > most) most = by, best = e;
            }
            assert_int_equal(r.choice[2 * t], 1);
            assert_int_equal(r.choice[2 * t + 1], best);
        }
    }
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* P(X <= x) = exp(-exp(-x)): mean 0.5772, variance pi² / 6. Kolmogorov and Smirnov's distance of so many draws is above
 * 1.63 / sqrt(n) in one of a hundred samples, and the mean is off by three deviations in one of 400. */
static void noise_is_gumbels(void **state)
{
    (void)state;
    enum { LAYERS = 16, ALL = LAYERS * DRAWS };
    static double x[ALL];
    double sum = 0, squares = 0, distance = 0, n = ALL, variance = 1.6449340668482264;
    for (int layer = 0; layer < LAYERS; layer++) {
        const tx_router how = noisy(&whole, 1 + layer, B);
        for (int64_t i = 0; i < DRAWS; i++) x[layer * DRAWS + i] = noise_of(&how, i / E / B, i / E % B, i % E);
    }
    for (int64_t i = 0; i < ALL; i++) sum += x[i];
    for (int64_t i = 0; i < ALL; i++) squares += pow(x[i] - sum / n, 2);
    qsort(x, ALL, sizeof *x, ascending);
    for (int64_t i = 0; i < ALL; i++) {
        double p = exp(-exp(-x[i]));
        distance = fmax(distance, fmax(p - (double)i / n, (double)(i + 1) / n - p));
    }
    print_message("%d draws: mean %.4f, variance %.4f, distance %.4f\n", ALL, sum / n, squares / n, distance);
    ASSERT_NEAR(sum / n, 0.5772156649015329, 3 * sqrt(variance / n), "mean");
    ASSERT_NEAR(squares / n, variance, 3 * variance * sqrt(4.4 / n), "variance"); /* fourth moment: 5.4 of it squared */
    assert_true(distance < 1.63 / sqrt(n));
}

/* So a second choice is a draw from the softmax of what is left.   chi squared of 6 degrees: 16.8 is 1 % */
static void second_choices_are_drawn_by_the_softmax(void **state)
{
    (void)state;
    static routed r;
    double n[E] = { 0 }, sum = 0, chi = 0;
    route(&r, "cpu", logits_of_all, T, noisy(&whole, 1, B));
    for (int64_t t = 0; t < T; t++) n[r.choice[2 * t + 1]]++;
    for (int e = 0; e < E; e++) sum += e == 1 ? 0 : exp((double)logits_of_all[e]);
    for (int e = 0; e < E; e++) {
        double want = T * exp((double)logits_of_all[e]) / sum;
        if (e != 1) chi += pow(n[e] - want, 2) / want;
    }
    print_message("chi squared %.1f\n", chi);
    assert_true(n[1] < 1 && chi < 16.8);
}

/* Of two draws that have nothing to do with each other as many are the same as chance has it. */
static void other_names_draw_others(void **state)
{
    (void)state;
    static const float even[E] = { 0, 1 };
    static routed first, other;
    tx_dropout_key key[3] = { whole, whole, whole };
    key[0].seed++, key[1].iteration++, key[2].sample += B;
    const tx_router changed[] = { noisy(&key[0], 1, B), noisy(&key[1], 1, B), noisy(&key[2], 1, B),
                                  noisy(&whole, 2, B) };
    route(&first, "cpu", even, T, noisy(&whole, 1, B));
    route(&other, "cpu", even, T, noisy(&whole, 1, B));
    assert_memory_equal(&first, &other, sizeof first);
    for (int k = 0; k < 4; k++) {
        double same = 0, chance = 1. / (E - 1);
        route(&other, "cpu", even, T, changed[k]);
        for (int64_t t = 0; t < T; t++) same += first.choice[2 * t + 1] == other.choice[2 * t + 1];
        if (fabs(same / T - chance) > 3.3 * sqrt(chance * (1 - chance) / T))
            fail_msg("change %d: %g of %d tokens draw the same", k, same, T);
    }
}

/* Micro-batches of fewer samples, and those that begin at another position, draw their part of the same. */
static void a_part_draws_its_part(void **state)
{
    (void)state;
    static routed all, part;
    route(&all, "cpu", logits_of_all, T, noisy(&whole, 1, B));
    for (int64_t s = S; s >= S / 4; s /= 2)
        for (int64_t b = B; b >= 1; b /= 4)
            for (int64_t s0 = 0; s0 < S; s0 += s)
                for (int64_t b0 = 0; b0 < B; b0 += b) {
                    tx_dropout_key key = whole;
                    key.at.first += s0;
                    key.sample += (uint64_t)b0;
                    route(&part, "cpu", logits_of_all, s * b, noisy(&key, 1, b));
                    for (int64_t t = 0; t < s * b; t++)
                        assert_int_equal(part.choice[2 * t + 1], all.choice[2 * ((s0 + t / b) * B + b0 + t % b) + 1]);
                }
}

/* ---- which tokens are dropped ---- */

/* All tokens choose one expert, which has room for a quarter: over many iterations each of them stays in a quarter.
 * chi squared of `tokens` - 1 degrees is about normal; what stays is drawn without replacement, so that its variance is
 * of 3/4 of that. */
static void each_token_stays_as_often_as_others(void **state)
{
    (void)state;
    enum { TOKENS = 64, ROOM = TOKENS / 4, TIMES = 2000 };
    static routed r, again;
    double n[TOKENS] = { 0 }, chi = 0, want = TIMES * ROOM / (double)TOKENS;
    for (uint32_t i = 1; i <= TIMES; i++) {
        tx_dropout_key key = whole;
        key.iteration = i;
        const tx_router how = { .k = 1,
                                .capacity = ROOM,
                                .drop = TX_DROP_RANDOM,
                                .scale = 1,
                                .b = 4,
                                .random = tx_dropout_at(&key, 0, 1, TX_RANDOM_ROUTER) };
        int stay = 0;
        route(&r, "cpu", logits_of_all, TOKENS, how);
        for (int t = 0; t < TOKENS; t++) stay += r.choice[t] == 1, n[t] += r.choice[t] == 1;
        assert_int_equal(stay, ROOM);
        if (i > 3) continue;
        route(&again, "ref", logits_of_all, TOKENS, how);
        assert_memory_equal(r.choice, again.choice, TOKENS * sizeof *r.choice);
    }
    for (int t = 0; t < TOKENS; t++) chi += pow(n[t] - want, 2) / (want * 0.75);
    print_message("chi squared %.1f of %d\n", chi, TOKENS - 1);
    assert_true(fabs(chi - (TOKENS - 1)) < 3 * sqrt(2 * (TOKENS - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_choices_have_the_noise_of_their_names),
        cmocka_unit_test(noise_is_gumbels),
        cmocka_unit_test(second_choices_are_drawn_by_the_softmax),
        cmocka_unit_test(other_names_draw_others),
        cmocka_unit_test(a_part_draws_its_part),
        cmocka_unit_test(each_token_stays_as_often_as_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
