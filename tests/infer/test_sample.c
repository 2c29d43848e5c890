/* labels: golden unit */
/* The stages of the sampler: against Hugging Face's distributions, against their definitions, and the draw's
 * frequencies. */
#include "support.h"

#include "base/rng.h"
#include "infer/sample.h"

#define VOCAB 512

static void filters(void **state)
{
    (void)state;
    json_t *prompts = load_json(data_path("golden/generation/filtered.json")), *prompt, *one;
    size_t i, k, n_cases = 0;
    json_array_foreach(prompts, i, prompt)
    {
        float logits[VOCAB];
        double prob[VOCAB], work[VOCAB];
        for (size_t v = 0; v < VOCAB; v++)
            logits[v] = (float)json_number_value(json_array_get(json_object_get(prompt, "logits"), v));
        json_array_foreach(json_object_get(prompt, "cases"), k, one)
        {
            tx_sampler s = { .temperature = json_number_value(json_object_get(one, "temperature")),
                             .top_k = json_integer_value(json_object_get(one, "top_k")),
                             .top_p = json_number_value(json_object_get(one, "top_p")) };
            json_t *kept = json_object_get(one, "kept"), *p = json_object_get(one, "probs");
            tx_sample_filter(&(tx_token_probs){ prob, work, VOCAB }, &s, NULL, TX_STAGE_TOP_P, logits);
            size_t at = 0;
            for (int64_t v = 0; v < VOCAB; v++) {
                bool expected = at < json_array_size(kept) && json_integer_value(json_array_get(kept, at)) == v;
                if ((prob[v] > 0) != expected)
                    fail_msg("prompt %zu case %zu: token %lld kept wrongly or not", i, k, (long long)v);
                if (!expected) continue;
                if (fabs(prob[v] - json_number_value(json_array_get(p, at))) > 1e-5)
                    fail_msg("prompt %zu case %zu: probability", i, k);
                at++;
            }
            assert_int_equal(at, json_array_size(kept));
            n_cases++;
        }
    }
    assert_true(n_cases >= 10);
    json_decref(prompts);
}

/* top-k against sorting, with ties, ascending, descending and equal logits. */
static void top_k_against_sorting(void **state)
{
    (void)state;
    enum { N = 257 };
    float logits[N];
    double prob[N], work[N];
    for (int shape = 0; shape < 4; shape++)
        for (int64_t k = 1; k < N; k += k < 8 ? 1 : 31) {
            for (int i = 0; i < N; i++)
                logits[i] = (float)(shape == 0 ? i : shape == 1 ? -i : shape == 2 ? i * 7919 % 13 : 1);
            int64_t n_above, n_kept = 0;
            tx_sample_filter(&(tx_token_probs){ prob, work, N }, &(tx_sampler){ .temperature = 1, .top_k = k }, NULL,
                             TX_STAGE_TOP_P, logits);
            for (int i = 0; i < N; i++) n_kept += prob[i] > 0;
            assert_true(n_kept >= k);
            for (int i = 0; i < N; i++) { /* kept: fewer than k are larger */
                n_above = 0;
                for (int j = 0; j < N; j++) n_above += logits[j] > logits[i];
                if (logits[i] < logits[0] - 600 || logits[i] < logits[N - 1] - 600) continue; /* exp underflows */
                assert_int_equal(prob[i] > 0, n_above < k);
            }
        }
}

static double total(const double *p, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += p[i];
    return sum;
}

/* Each stage on logits for which its result can be worked out by hand. */
static void stages_in_order(void **state)
{
    (void)state;
    const float logits[5] = { 2, 1, 0, -1, -2 };
    const int32_t seen[4] = { 0, 4, 0, 4 }, never[1] = { 1 };
    const tx_sampler s = { .temperature = 0.5, .top_k = 3, .top_p = 0.6, .repetition_penalty = 2 };
    const tx_sample_past past = { .token = seen, .n = 4, .n_new = 1, .forbidden = never, .n_forbidden = 1 };
    /* 2 and -2 have been seen, once each for the penalty: 1, -, 0, -1, -4;  then 2, -, 0, -2, -8 */
    const double e = exp(1), raw = exp(2) + e + 1 + 1 / e + exp(-2),
                 second = exp(-1) / (1 + exp(-1) + exp(-2) + exp(-5));
    double prob[5], work[5];
    tx_sample_filter(&(tx_token_probs){ prob, work, 5 }, &s, &past, TX_STAGE_RAW, logits);
    ASSERT_NEAR(prob[1], e / raw, 1e-12, "raw");
    tx_sample_filter(&(tx_token_probs){ prob, work, 5 }, &s, &past, TX_STAGE_PENALTY, logits);
    ASSERT_NEAR(prob[2], second, 1e-12, "penalty");
    assert_true(prob[1] == 0);
    tx_sample_filter(&(tx_token_probs){ prob, work, 5 }, &s, &past, TX_STAGE_TEMPERATURE, logits);
    ASSERT_NEAR(prob[2] / prob[0], exp(-2), 1e-12, "temperature");
    ASSERT_NEAR(prob[4] / prob[0], exp(-10), 1e-12, "temperature of what was penalized");
    tx_sample_filter(&(tx_token_probs){ prob, work, 5 }, &s, &past, TX_STAGE_TOP_K, logits);
    assert_true(prob[0] > 0 && prob[1] == 0 && prob[2] > 0 && prob[3] > 0 && prob[4] == 0);
    ASSERT_NEAR(total(prob, 5), 1, 1e-12, "sum");
    tx_sample_filter(&(tx_token_probs){ prob, work, 5 }, &s, &past, TX_STAGE_TOP_P, logits);
    ASSERT_NEAR(prob[0], 1, 1e-12, "top-p leaves the likeliest alone");
    for (int i = 0; i < TX_N_STAGES; i++) assert_true(tx_sample_stage_names[i][0] != 0);
}

/* top_p gets smaller behind each new token, down to the bound. */
static void top_p_decays(void **state)
{
    (void)state;
    const float logits[4] = { 0, 0.001f, 0.002f, 0.003f }; /* a quarter each, told apart */
    const tx_sampler s = { .temperature = 1, .top_p = 0.95, .top_p_decay = 0.5, .top_p_bound = 0.3 };
    const int kept[5] = { 4, 2, 2, 2, 2 }; /* of 0.95, 0.475, and then 0.3 */
    double prob[4], work[4];
    for (int64_t n_new = 0; n_new < 5; n_new++) {
        int n = 0;
        tx_sample_filter(&(tx_token_probs){ prob, work, 4 }, &s, &(tx_sample_past){ .n_new = n_new }, TX_STAGE_TOP_P,
                         logits);
        for (int i = 0; i < 4; i++) n += prob[i] > 0;
        assert_int_equal(n, kept[n_new]);
    }
    const tx_sampler unbound = { .temperature = 1, .top_p = 0.95, .top_p_decay = 0.5 };
    tx_sample_filter(&(tx_token_probs){ prob, work, 4 }, &unbound, &(tx_sample_past){ .n_new = 3 }, TX_STAGE_TOP_P,
                     logits);
    ASSERT_NEAR(prob[3], 1, 0, "0.11875 keeps one");
}

/* The nucleus against its definition, with and without equal probabilities. */
static void top_p_against_sorting(void **state)
{
    (void)state;
    enum { N = 1000 };
    static float logits[N];
    static double prob[N], all[N], work[N];
    for (int shape = 0; shape < 3; shape++)
        for (int k = 1; k < 20; k++) {
            double p = k / 20.0;
            for (int i = 0; i < N; i++)
                logits[i] = shape == 0 ? (float)(i * 7919 % N) / 90 : shape == 1 ? (float)(i * 7919 % 13) : (float)(-i);
            tx_sample_filter(&(tx_token_probs){ all, work, N }, &(tx_sampler){ .temperature = 1 }, NULL, TX_STAGE_TOP_P,
                             logits);
            tx_sample_filter(&(tx_token_probs){ prob, work, N }, &(tx_sampler){ .temperature = 1, .top_p = p }, NULL,
                             TX_STAGE_TOP_P, logits);
            double kept = 0, least = 1, most_dropped = 0;
            for (int i = 0; i < N; i++) {
                if (prob[i] > 0) kept += all[i], least = fmin(least, all[i]);
                if (prob[i] == 0) most_dropped = fmax(most_dropped, all[i]);
            }
            assert_true(most_dropped <= least);
            assert_true(kept >= p - 1e-9);
            assert_true(kept - least < p + 1e-9);         /* one fewer would not reach it */
            for (int i = 0, kept_below = 0; i < N; i++) { /* of equals the higher ids are kept */
                if (all[i] == least && kept_below) assert_true(prob[i] > 0);
                kept_below |= all[i] == least && prob[i] > 0;
            }
            ASSERT_NEAR(total(prob, N), 1, 1e-9, "sum");
        }
}

/* Frequencies of many draws against the filtered distribution: Pearson's chi-square, over tokens that are expected at
 * least 5 times. Seeds are fixed, so this passes always or never; the bound is the 99.9 % quantile by Wilson and
 * Hilferty. */
static void frequencies(void **state)
{
    (void)state;
    enum { N = 300, DRAWS = 100000 };
    static float logits[N];
    static double prob[N], expected[N], work[N];
    static int count[N];
    const tx_sampler cases[] = {
        { .temperature = 1 },
        { .temperature = 0.7, .top_k = 40 },
        { .temperature = 1.5, .top_p = 0.9 },
        { .temperature = 1.2, .top_k = 100, .top_p = 0.8, .repetition_penalty = 1.3 },
    };
    const int32_t seen[3] = { 5, 17, 200 };
    const tx_sample_past past = { .token = seen, .n = 3 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const tx_rng noise = { .seed = 11, .stream = (uint32_t)c }, rng = { .seed = 12, .stream = (uint32_t)c };
        for (int i = 0; i < N; i++) {
            logits[i] = (float)(2 * tx_rng_normal(&noise, (uint64_t)i));
            count[i] = 0;
        }
        tx_sample_filter(&(tx_token_probs){ expected, work, N }, &cases[c], &past, TX_STAGE_TOP_P, logits);
        for (int i = 0; i < DRAWS; i++)
            count[tx_sample_token(&(tx_token_probs){ prob, work, N }, &cases[c], &past, logits,
                                  tx_rng_uniform(&rng, (uint64_t)i))]++;
        double chi2 = 0, df = -1;
        for (int i = 0; i < N; i++) {
            double e = expected[i] * DRAWS;
            if (e == 0) assert_int_equal(count[i], 0);
            if (e < 5) continue;
            chi2 += (count[i] - e) * (count[i] - e) / e;
            df++;
        }
        double bound = df * pow(1 - 2 / (9 * df) + 3.0902 * sqrt(2 / (9 * df)), 3);
        assert_true(df > 5);
        if (chi2 > bound) fail_msg("case %zu: chi-square %.1f of %g degrees, at most %.1f", c, chi2, df, bound);
    }
}

static void greedy_and_top(void **state)
{
    (void)state;
    const float logits[6] = { 1, 3, 3, -1, 2, 0 };
    const int32_t best[1] = { 1 }, seen[1] = { 1 };
    double prob[6], work[6];
    int32_t id[6];
    const tx_sampler greedy = { .temperature = 9, .top_p = 0.1, .greedy = true };
    assert_int_equal(tx_sample_token(&(tx_token_probs){ prob, work, 6 }, &greedy, NULL, logits, 0.99), 1);
    assert_int_equal(tx_sample_token(&(tx_token_probs){ prob, work, 6 }, &(tx_sampler){ .temperature = 1, .top_k = 1 },
                                     NULL, logits, 0.99),
                     1);
    const tx_sample_past not_best = { .forbidden = best, .n_forbidden = 1 };
    assert_int_equal(tx_sample_token(&(tx_token_probs){ prob, work, 6 }, &greedy, &not_best, logits, 0), 2);
    const tx_sampler penalty = { .greedy = true, .repetition_penalty = 1.1 };
    assert_int_equal(tx_sample_token(&(tx_token_probs){ prob, work, 6 }, &penalty,
                                     &(tx_sample_past){ .token = seen, .n = 1 }, logits, 0),
                     2);
    tx_sample_filter(&(tx_token_probs){ prob, work, 6 }, &(tx_sampler){ .temperature = 1, .top_k = 3 }, NULL,
                     TX_STAGE_TOP_P, logits);
    assert_int_equal(tx_sample_top(prob, 6, 5, id), 3);
    assert_int_equal(id[0], 1);
    assert_int_equal(id[1], 2);
    assert_int_equal(id[2], 4);
    assert_int_equal(tx_sample_top(prob, 6, 1, id), 1);
    assert_int_equal(id[0], 1);
    double sum = 0;
    for (int32_t i = 0; i < 6; i++) sum += exp(tx_logprob(logits, 6, i));
    ASSERT_NEAR(sum, 1, 1e-12, "log-probabilities");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters),        cmocka_unit_test(top_k_against_sorting), cmocka_unit_test(stages_in_order),
        cmocka_unit_test(top_p_decays),   cmocka_unit_test(top_p_against_sorting), cmocka_unit_test(frequencies),
        cmocka_unit_test(greedy_and_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
