/* labels: unit */
/* Configs that are copied with other flags, and sizes. */
#include "support.h"

#include "config/option_table.h"

#define FLAGS                                                                                                         \
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --lr 1 "    \
    "--micro-batch-size 4 --train-iters 10 --tokenizer-type NullTokenizer --vocab-size 9 --data-path 1 a 2 b --save " \
    "x "                                                                                                              \
    "--save-interval 5 --no-bias-gelu-fusion --swiglu"

static tx_config *parsed(void)
{
    tx_config *c;
    ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", FLAGS));
    return c;
}

/* Every option's text and whether it was given. */
static void assert_same_options(const tx_config *a, const tx_config *b, const char *but)
{
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        tx_str x = { 0 }, y = { 0 };
        if (!tx__has_member(o) || !strcmp(o->flag, but)) continue;
        ASSERT_OK(tx__option_format(&x, a, o));
        ASSERT_OK(tx__option_format(&y, b, o));
        if (strcmp(x.data, y.data) || tx__is_given(a, o) != tx__is_given(b, o))
            fail_msg("--%s: %s and %s", o->flag, x.data, y.data);
        tx_str_free(&x);
        tx_str_free(&y);
    }
}

static void a_copy_is_the_same_but_for_the_flags(void **state)
{
    (void)state;
    tx_config *c = parsed(), *d;
    ASSERT_OK(tx_config_with(&d, c, ""));
    assert_same_options(c, d, "");
    assert_ptr_not_equal(c->save, d->save);
    tx_config_free(d);
    ASSERT_OK(tx_config_with(&d, c, "--micro-batch-size 2"));
    assert_same_options(c, d, "micro-batch-size");
    assert_int_equal(d->micro_batch_size, 2);
    assert_int_equal(d->global_batch_size, 4); /* derived once, it stays */
    tx_config_free(c);
    assert_string_equal(d->data_path.item[3], "b");
    tx_config_free(d);
}

static void a_copy_keeps_the_rules(void **state)
{
    (void)state;
    tx_config *c = parsed(), *d = NULL;
    ASSERT_FAILS(tx_config_with(&d, c, "--micro-batch-size 3"), TX_ERR_ARG, "is not divisible by micro batch size (3)");
    ASSERT_FAILS(tx_config_with(&d, c, "--squared-relu"), TX_ERR_ARG, "give one of the six");
    ASSERT_FAILS(tx_config_with(&d, c, "--no-such-flag"), TX_ERR_ARG, "unknown flag");
    assert_null(d);
    tx_config_free(c);
}

static void every_allocation_of_a_copy_may_fail(void **state)
{
    (void)state;
    tx_config *c = parsed(), *d = NULL;
    tx_status st = TX_ERR_NOMEM;
    int n = 0;
    for (; st; n++) {
        allocation_fails_at(n);
        st = tx_config_with(&d, c, "--micro-batch-size 2 --save y");
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    }
    assert_true(n > 10);
    tx_config_free(d);
    tx_config_free(c);
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bytes; /* 0: refused */
    } row[] = { { "1", 1 },
                { "80B", 80 },
                { "80BB", 0 },
                { "8G", 8.0 * (1 << 30) },
                { "8GiB", 8.0 * (1 << 30) },
                { "8GB", 8e9 },
                { "512m", 512.0 * (1 << 20) },
                { "1.5GiB", 1.5 * (1 << 30) },
                { "2T", 2.0 * (1 << 30) * 1024 },
                { "1_000k", 1024000 },
                { "16777216P", 0 },
                { "0", 0 },
                { "0.5", 0 },
                { "", 0 },
                { "G", 0 },
                { "-1G", 0 },
                { "8Q", 0 },
                { "8 G", 0 },
                { "8GG", 0 },
                { "8iB", 0 },
                { "1e3G", 0 },
                { "inf", 0 },
                { "auto", 0 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t bytes = 0;
        if (tx_size_parse(row[i].text, &bytes) != (row[i].bytes > 0) || (double)bytes != row[i].bytes)
            fail_msg("\"%s\": %zu bytes", row[i].text, bytes);
    }
}

static void the_memory_limit_is_a_size(void **state)
{
    (void)state;
    tx_config *c;
    static const char *const good[] = { "auto", "off", "8G", "1.5GiB", "90%", "0.9", ".5", "1.0", "100%", "12.5%" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char flags[1024];
        snprintf(flags, sizeof flags, FLAGS " --memory-limit %s", good[i]);
        ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", flags));
        tx_config_free(c);
    }
    ASSERT_FAILS(
        tx_config_parse_string(&c, "pretrain-gpt", FLAGS " --memory-limit much"), TX_ERR_ARG,
        "--memory-limit much is not a size; allowed: auto, off, a size such as 8G, 512M or 1.5GiB, or a share of "
        "the memory such as 90% or 0.9");
    static const char *const bad[] = { "0%", "0.0", "101%", "90%%", "%", "90 %", "-5%", "9e1%" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double share;
        if (tx_share_parse(bad[i], &share)) fail_msg("\"%s\" is taken for a share", bad[i]);
    }
    double share;
    assert_true(tx_share_parse("90%", &share) && share == 0.9);
    assert_true(tx_share_parse("0.25", &share) && share == 0.25);
    assert_false(tx_share_parse("1", &share)); /* a byte? its unit is missing */
    ASSERT_FAILS(tx_config_parse_string(&c, "pretrain-gpt", FLAGS " --memory-limit 150%"), TX_ERR_ARG,
                 "--memory-limit 150% is not a size; allowed: ");
    ASSERT_FAILS(tx_config_parse_string(&c, "pretrain-gpt", FLAGS " --memory-limit"), TX_ERR_ARG,
                 "--memory-limit needs a value");
}

/* Whoever writes 80 means no bytes; from a mebibyte on a number alone may be one. */
static void a_small_size_has_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *command, *flags, *says; /* NULL: taken */
    } row[] = {
        { "pretrain-gpt", FLAGS " --memory-limit 80",
          "--memory-limit 80 is 80 bytes; write 80GiB, 80GB, 80MiB ... or, for bytes, 80B" },
        { "pretrain-gpt", FLAGS " --memory-limit 1048575", "--memory-limit 1048575 is 1048575 bytes; write" },
        { "pretrain-gpt", FLAGS " --memory-limit 1048576", NULL },
        { "pretrain-gpt", FLAGS " --memory-limit 100K", NULL },
        { "pretrain-gpt", FLAGS " --memory-limit 80B", NULL },
        { "plan", FLAGS " --memory-limit 1.5", "--memory-limit 1.5 is 1 bytes; write 1.5GiB" },
        { "serve", "--load x --max-body 64", "--max-body 64 is 64 bytes; write 64GiB" },
        { "serve", "--load x --max-body 2GiB", "--max-body 2GiB is more than 1GiB" },
        { "serve", "--load x --max-body much", "--max-body much is not a size; allowed: a size up to 1GiB" },
        { "serve", "--load x --max-body 64KiB", NULL },
        { "convert", "--to huggingface in out --max-shard-size 5", "--max-shard-size 5 is 5 bytes; write 5GiB, 5GB" },
        { "convert", "--to huggingface in out --max-shard-size 5G", NULL },
        { "zero-to-fp32", "in out --max_shard_size 5", "--max_shard_size 5 is 5 bytes; write 5GiB, 5GB" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tx_config *c = NULL;
        tx_status st = tx_config_parse_string(&c, row[i].command, row[i].flags);
        if (!st != !row[i].says || (st && !strstr(tx_last_error(), row[i].says)))
            fail_msg("%s %s: %s", row[i].command, row[i].flags, st ? tx_last_error() : "taken");
        tx_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_the_same_but_for_the_flags), cmocka_unit_test(a_copy_keeps_the_rules),
        cmocka_unit_test(every_allocation_of_a_copy_may_fail),  cmocka_unit_test(sizes),
        cmocka_unit_test(the_memory_limit_is_a_size),           cmocka_unit_test(a_small_size_has_a_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
