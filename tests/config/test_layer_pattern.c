/* labels: unit */
/* test_layer_pattern.c - the words of Python that say which layers have experts, beside what Python makes of them. */
#include "../support.h"

#include "config/config.h"
#include "config/layer_pattern.h"

static void is(const char *text, const char *layers)
{
    tx_layer_pattern p;
    for (int64_t i = 0; layers[i]; i++) {
        if (!tx_layer_pattern_read(text, i, &p)) fail_msg("%s: is not read", text);
        if (!p.listed || p.n != (int64_t)strlen(layers)) fail_msg("%s: %lld layers", text, (long long)p.n);
        if (p.at != (layers[i] == '1')) fail_msg("%s: layer %lld is %d", text, (long long)i, p.at);
    }
    assert_true(tx_layer_pattern_read(text, p.n, &p) && !p.at);
}

static void lists(void **state)
{
    (void)state;
    is("[1]", "1");
    is("[0, 1,1 ]", "011");
    is("[1]*3+[0]*1", "1110");
    is("([1]*3+[0]*1)*3", "111011101110");
    is("2*[0,1]", "0101");
    is("2*[0,1]*2", "01010101");
    is("[0]*2+([1]+[0])*2", "001010");
    is("[0]+(([1]*2+[0])*2+[1])*2", "011011011101101");
    is("([0]*(1+1)+[1]) * 2 + [1]", "0010011");
    is("[0]*0+[1]", "1");
    is("[]+[1]", "1");
    is("[1]*(2*2)", "1111");
}

static void numbers(void **state)
{
    (void)state;
    tx_layer_pattern p;
    assert_true(tx_layer_pattern_read("1", 7, &p) && !p.listed && p.n == 1 && p.at);
    assert_true(tx_layer_pattern_read(" 3 ", 6, &p) && p.n == 3 && p.at);
    assert_true(tx_layer_pattern_read("3", 7, &p) && !p.at);
    assert_true(tx_layer_pattern_read("2*3+1", 7, &p) && p.n == 7 && p.at);
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "0",      "-1",      "x",     "[1",          "[1,]",    "[2]",
        "[1]+1",     "1+[1]",  "[1]*[1]", "([1]",  "[1])",        "[1] [1]", "[-1]",
        "[1]*",      "+[1]",   "[]",      "[1]*0", "[1]*9999999", "1e3",     "[1]*1000000*2",
        "9999999*9", "[1,0]%2"
    };
    tx_layer_pattern p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tx_layer_pattern_read(bad[i], 0, &p)) fail_msg("%s is read", bad[i]);
    assert_false(tx_layer_pattern_read("(((((((((([1]))))))))))", 0, &p));
}

#define FLAGS                                                                                                       \
    "--num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 --lr 1e-3 " \
    "--micro-batch-size 1 --train-iters 1 --data-path none --tokenizer-type NullTokenizer --vocab-size 8 "          \
    "--moe-router-topk 2 "

static void layers_have(const char *flags, const int64_t experts[4])
{
    tx_config *cfg;
    char all[1024];
    snprintf(all, sizeof all, "%s%s", FLAGS, flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    for (int64_t i = 0, n = 0; i < 4; i++) {
        assert_int_equal(tx_config_moe(cfg, i).n_experts, experts[i]);
        assert_int_equal(tx_config_expert_layers(cfg, i), n);
        n += experts[i] > 1;
    }
    tx_config_free(cfg);
}

static void options(void **state)
{
    (void)state;
    tx_config *cfg;
    layers_have("--num-experts 4", (const int64_t[]){ 4, 4, 4, 4 });
    layers_have("--num-experts 4 --moe-layer-freq 3", (const int64_t[]){ 4, 1, 1, 4 });
    layers_have("--num-experts 4 --moe-layer-freq [0]+[1]*3", (const int64_t[]){ 1, 4, 4, 4 });
    layers_have("--num-experts 4 8 --moe-layer-freq ([0]+[1])*2", (const int64_t[]){ 1, 4, 1, 8 });
    ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS "--num-experts 4 --moe-layer-freq [0]+[1]*2"),
                 TX_ERR_ARG, "--moe-layer-freq [0]+[1]*2 is a list of 3 layers, and --num-layers is 4");
    ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS "--num-experts 4 --moe-layer-freq 0.5"), TX_ERR_ARG,
                 "--moe-layer-freq 0.5 is neither a whole number of at least 1 nor a list of 0 and 1");
    ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS "--num-experts 4 --moe-layer-freq [0]*4"),
                 TX_ERR_ARG, "--moe-layer-freq [0]*4: no layer has experts");
    ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS "--num-experts 4 8 4 --moe-layer-freq [0,1]*2"),
                 TX_ERR_ARG, "--num-experts has 3 numbers, but 2 of 4 layers have experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(numbers),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
