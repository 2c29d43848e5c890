/* labels: golden unit */
/* Frequencies of rotary positions are those of transformers (tests/data/golden/rope), and which layers have which. */
#include "support.h"

#include <math.h>

#include "model/rotary.h"

#define FLAGS                                                                                                          \
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 8 --micro-batch-size 1 --global-batch-size " \
    "1 --lr 1 --train-iters 1 --data-path none --vocab-size 509 --tokenizer-type NullTokenizer "

static tx_config *options(const char *flags)
{
    char text[1024];
    tx_config *cfg;
    snprintf(text, sizeof text, FLAGS "--use-rotary-position-embeddings %s", flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", text));
    return cfg;
}

static tx_rope_args args_of(const tx_attention *w)
{
    return (tx_rope_args){ .n_rot = w->n_rot,
                           .theta = w->rope_theta,
                           .frequency = w->rope_frequency,
                           .grows_by = w->rope_grows_by,
                           .grows_from = w->rope_grows_from };
}

static void frequencies_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *cases = load_json(data_path("golden/rope/result.json")), *c;
    size_t i;
    assert_true(json_array_size(cases) > 10);
    json_array_foreach(cases, i, c)
    {
        const char *flags = json_string_value(json_object_get(c, "flags"));
        const json_t *want = json_object_get(c, "frequency");
        tx_config *cfg = options(flags);
        double *frequency;
        tx_attention w = { .layer = 1 };
        ASSERT_OK(tx_rotary_create(&frequency, cfg));
        tx_rotary_set(&w, frequency, cfg, 0);
        const tx_rope_args a = args_of(&w);
        assert_int_equal(a.n_rot, 2 * json_array_size(want));
        ASSERT_NEAR(w.rope_scale, json_number_value(json_object_get(c, "scale")), 1e-7, flags);
        double longer = tx_rope_longer(&a, json_integer_value(json_object_get(c, "length")));
        for (int64_t k = 0; k < a.n_rot / 2; k++) {
            double f = json_number_value(json_array_get(want, (size_t)k)), got = tx_rope_frequency(&a, k, longer);
            if (!(fabs(got - f) <= 1e-6 * f))
                fail_msg("%s: frequency %d is %.9g, expected %.9g", flags, (int)k, got, f);
        }
        tx_free(frequency);
        tx_config_free(cfg);
    }
    json_decref(cases);
}

static void layers_without_rotation(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int64_t n_rot[4];
    } cases[] = { { "", { 8, 8, 8, 8 } },
                  { "--no-rope-freq 2", { 8, 0, 8, 0 } },
                  { "--no-rope-freq 3 --rotary-percent 0.5", { 4, 4, 0, 4 } },
                  { "--no-rope-freq [1,0]+[0,1]", { 0, 8, 8, 0 } } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = options(cases[i].flags);
        double *frequency;
        ASSERT_OK(tx_rotary_create(&frequency, cfg));
        for (int64_t layer = 0; layer < 4; layer++) {
            tx_attention w = { .layer = 1 };
            tx_rotary_set(&w, frequency, cfg, layer);
            assert_int_equal(w.n_rot, cases[i].n_rot[layer]);
        }
        tx_free(frequency);
        tx_config_free(cfg);
    }
}

/* Gemma 3's and OLMo 3's layers. */
static void layers_with_a_window(void **state)
{
    (void)state;
    tx_config *cfg = options("--window-size 4 --window-attn-skip-freq 2 --rope-base 1e6 --window-rotary-base 100 "
                             "--rope-scaling-type yarn --rope-scaling-factor 8");
    double *frequency;
    ASSERT_OK(tx_rotary_create(&frequency, cfg));
    for (int64_t layer = 0; layer < 4; layer++) {
        tx_attention w = { .layer = 1 };
        tx_rotary_set(&w, frequency, cfg, layer);
        bool windowed = layer % 2 == 0;
        ASSERT_NEAR(w.rope_theta, windowed ? 100 : 1e6, 0, "base");
        ASSERT_NEAR(w.rope_frequency[1], windowed ? pow(100, -0.25) : frequency[1], 1e-15, "frequency");
        assert_true(windowed == (w.rope_scale <= 1));
    }
    tx_free(frequency);
    tx_config_free(cfg);
    cfg = options("--window-size 4 --window-attn-skip-freq 2 --rope-scaling-type linear --rope-scaling-factor 8");
    ASSERT_OK(tx_rotary_create(&frequency, cfg));
    tx_attention w = { .layer = 1 };
    tx_rotary_set(&w, frequency, cfg, 0);
    ASSERT_NEAR(w.rope_frequency[0], 0.125, 1e-15, "frequency");
    tx_free(frequency);
    tx_config_free(cfg);
}

static void what_a_head_has_no_room_for(void **state)
{
    (void)state;
    double *frequency;
    tx_config *cfg = options("--kv-channels 600");
    ASSERT_FAILS(tx_rotary_create(&frequency, cfg), TX_ERR_ARG, "rotary positions turn at most 512 numbers");
    tx_config_free(cfg);
    cfg = options("--kv-channels 600 --rotary-percent 0.5");
    ASSERT_OK(tx_rotary_create(&frequency, cfg));
    tx_free(frequency);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(layers_without_rotation),
        cmocka_unit_test(layers_with_a_window),
        cmocka_unit_test(what_a_head_has_no_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
