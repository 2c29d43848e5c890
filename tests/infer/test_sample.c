/* labels: golden unit */
/* Temperature, top-k and top-p against Hugging Face's distributions; greedy continuations of a trained model. */
#include "support.h"

#include <math.h>

#include "api/run_common.h"
#include "base/alloc.h"
#include "infer/generator.h"

#define VOCAB 512

static void filters(void **state)
{
    (void)state;
    json_t *prompts = load_json("golden/generation/filtered.json"), *prompt, *one;
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

static void greedy(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_source src;
    tx_model *model;
    tx_generator *g;
    float *value;
    char flags[1100];
    snprintf(flags, sizeof flags, "--load %s --prompt x", data_path("golden/generation/model"));
    OK(tx_config_parse_string(&cfg, "generate", flags));
    OK(tx_source_open(&src, cfg->load));
    OK(tx_source_options(&src, cfg, false));
    OK(tx__model_load(&model, &value, cfg, &src));
    OK(tx_generator_create(&g, model, "cpu", 0, 2, 64, 128));
    FILE *f = fopen(data_path("golden/generation/greedy.jsonl"), "r");
    char line[65536];
    int n_prompts = 0;
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL), *p = json_object_get(o, "prompt_ids"),
               *q = json_object_get(o, "new_ids");
        int32_t prompt[128], out[2 * 128];
        int64_t n = (int64_t)json_array_size(p), n_new = (int64_t)json_array_size(q), n_out[2];
        for (int64_t i = 0; i < n; i++) prompt[i] = (int32_t)json_integer_value(json_array_get(p, (size_t)i));
        OK(tx_generator_run(g, prompt, n, n_new, -1, &(tx_sampler){ .temperature = 1, .greedy = 1 }, 1, 0, out, n_out));
        for (int64_t i = 0; i < n_new; i++) {
            assert_int_equal(out[i], json_integer_value(json_array_get(q, (size_t)i)));
            assert_int_equal(out[n_new + i], out[i]); /* both samples */
        }
        json_decref(o);
        n_prompts++;
    }
    assert_int_equal(n_prompts, 5);
    fclose(f);
    tx_generator_destroy(g);
    model->type->destroy(model);
    tx_free(value);
    tx_source_close(&src);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(filters), cmocka_unit_test(greedy) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
