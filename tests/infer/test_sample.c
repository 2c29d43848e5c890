/* labels: golden unit */
/* Temperature, top-k and top-p against Hugging Face's distributions; greedy continuations of a trained model. */
#include "support.h"

#include "api/run_common.h"
#include "infer/generator.h"

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
            tx_sample_filter(&s, prob, logits, VOCAB, work);
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

/* The generator must go on as the stored model did. */
static void same_continuation(json_t *line, void *user)
{
    json_t *p = json_object_get(line, "prompt_ids"), *q = json_object_get(line, "new_ids");
    int32_t prompt[128], out[2 * 128];
    int64_t n = (int64_t)json_array_size(p), n_new = (int64_t)json_array_size(q), n_out[2];
    for (int64_t i = 0; i < n; i++) prompt[i] = (int32_t)json_integer_value(json_array_get(p, (size_t)i));
    ASSERT_OK(
        tx_generator_run(user, prompt, n, n_new, -1, &(tx_sampler){ .temperature = 1, .greedy = 1 }, 1, 0, out, n_out));
    for (int64_t i = 0; i < n_new; i++) {
        assert_int_equal(out[i], json_integer_value(json_array_get(q, (size_t)i)));
        assert_int_equal(out[n_new + i], out[i]); /* both samples */
    }
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
            tx_sample_filter(&(tx_sampler){ .temperature = 1, .top_k = k }, prob, logits, N, work);
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

static void greedy(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_source src;
    tx_model *model;
    tx_generator *g;
    void *value;
    char flags[1100];
    snprintf(flags, sizeof flags, "--load %s --prompt x", data_path("golden/generation/model"));
    ASSERT_OK(tx_config_parse_string(&cfg, "generate", flags));
    ASSERT_OK(tx_source_open(&src, cfg->load, &tx_comm_self));
    ASSERT_OK(tx_source_options(&src, cfg, false));
    ASSERT_OK(tx__model_load(&model, &value, cfg, &src));
    ASSERT_OK(tx_generator_create(&g, model, "cpu", 0, 2, 64, 128));
    assert_int_equal(for_each_json_line(data_path("golden/generation/greedy.jsonl"), same_continuation, g), 5);
    tx_generator_destroy(g);
    model->type->destroy(model);
    tx_free(value);
    tx_source_close(&src);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(filters), cmocka_unit_test(top_k_against_sorting),
                                        cmocka_unit_test(greedy) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
