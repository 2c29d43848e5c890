/* labels: golden unit */
/* Learning rate and weight decay against Megatron's own scheduler. */
#include "support.h"

#include "optim/schedule.h"

static tx_decay_style style_of(const char *word)
{
    return !strcmp(word, "linear")                ? TX_DECAY_LINEAR
           : !strcmp(word, "cosine")              ? TX_DECAY_COSINE
           : !strcmp(word, "inverse-square-root") ? TX_DECAY_INVERSE_SQRT
                                                  : TX_DECAY_CONSTANT;
}

static void against_megatron(void **state)
{
    (void)state;
    json_t *cases = load_json(data_path("golden/lr.json")), *c, *row;
    size_t i, k, n = 0;
    json_array_foreach(cases, i, c)
    {
#define NUMBER(key) json_number_value(json_object_get(c, key))
        tx_schedule s = {
            .lr_style = style_of(json_string_value(json_object_get(c, "style"))),
            .wd_style = style_of(json_string_value(json_object_get(c, "wd_incr_style"))),
            .max_lr = NUMBER("max_lr"),
            .min_lr = NUMBER("min_lr"),
            .start_wd = NUMBER("start_wd"),
            .end_wd = NUMBER("end_wd"),
            .warmup = NUMBER("lr_warmup_steps"),
            .decay = NUMBER("lr_decay_steps"),
            .wd_incr = NUMBER("wd_incr_steps"),
        };
        json_array_foreach(json_object_get(c, "num_steps_lr_wd"), k, row)
        {
            double want[3];
            for (size_t m = 0; m < 3; m++) want[m] = json_number_value(json_array_get(row, m));
            ASSERT_NEAR(tx_schedule_lr(&s, want[0]), want[1], 1e-12 * want[1], "learning rate");
            ASSERT_NEAR(tx_schedule_wd(&s, want[0]), want[2], 1e-12 * want[2], "weight decay");
            n++;
        }
    }
    assert_true(n > 200);
    json_decref(cases);
}

static void from_options(void **state)
{
    (void)state;
    tx_config *cfg;
    ASSERT_OK(tx_config_parse_string(
        &cfg, "pretrain-gpt",
        "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 4 --max-position-embeddings 4 "
        "--micro-batch-size 2 --global-batch-size 8 --train-iters 100 --lr-decay-iters 50 --lr 1e-3 --min-lr 1e-5 "
        "--lr-decay-style cosine --lr-warmup-fraction 0.1 --data-path x --tokenizer-type NullTokenizer --vocab-size "
        "9"));
    tx_schedule s = tx_schedule_from_config(cfg);
    assert_true(s.decay == 400 && s.warmup == 40 && s.wd_incr == 800);
    assert_true(tx_schedule_lr(&s, 0) == 0);
    ASSERT_NEAR(tx_schedule_lr(&s, 20), 5e-4, 1e-12 * 5e-4, "half-way through the warm-up");
    ASSERT_NEAR(tx_schedule_lr(&s, 800), 1e-5, 1e-12 * 1e-5, "after the decay");
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(against_megatron), cmocka_unit_test(from_options) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
