/* labels: unit */
#include "data/data_groups.h"
#include "support.h"

static tx_status parse(tx_data_group *g, const char *text)
{
    return tx_data_group_parse(g, "train-weighted-split-paths", text, strlen(text));
}

static void a_group_is_taken_apart(void **state)
{
    (void)state;
    tx_data_group g;
    ASSERT_OK(parse(&g, "NAME_ABC: 0.6 0:0.6 A,0.3 0:1 dir/B,  0.1 0.5:1  C "));
    assert_string_equal(g.name, "NAME_ABC");
    assert_int_equal(g.n, 3);
    assert_true(g.blend);
    assert_string_equal(g.set[1].path, "dir/B");
    assert_string_equal(g.set[1].range, "0:1");
    assert_true(g.set[1].weight == 0.3);
    assert_string_equal(g.set[2].path, "C");
    tx_data_group_free(&g);
    ASSERT_OK(parse(&g, "one: 0 0:1 A")); /* alone, its weight says nothing */
    assert_false(g.blend);
    tx_data_group_free(&g);
}

static void refuses_other_texts(void **state)
{
    (void)state;
    tx_data_group g;
    ASSERT_FAILS(parse(&g, ""), TX_ERR_ARG, "\"NAME: WEIGHT");
    ASSERT_FAILS(parse(&g, "A"), TX_ERR_ARG, "--train-weighted-split-paths");
    ASSERT_FAILS(parse(&g, "N:"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: 1 0:1"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: 1 0:1 A B"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: 1 0:1 A,"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: x 0:1 A"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: -1 0:1 A"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: nan 0:1 A"), TX_ERR_ARG, "\"WEIGHT START:END PATH\"");
    ASSERT_FAILS(parse(&g, "N: 0 0:1 A, 0 0:1 B"), TX_ERR_ARG, "above 0");
    static const char *const range[] = { "1:0", "0:0", "0:1.1", "-0.1:1", "0", "0:1:2", "a:b", "0:", ":1", "nan:1" };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
        char text[64];
        snprintf(text, sizeof text, "N: 1 %s A", range[i]);
        ASSERT_FAILS(parse(&g, text), TX_ERR_ARG, "is no range of documents");
    }
}

/* ---- all of the options ---- */

/* A run with those flags in addition; up to the first NULL. */
static tx_config *config(const char *const *more)
{
    static const char *const base[] = { "--num-layers=1",
                                        "--hidden-size=8",
                                        "--num-attention-heads=1",
                                        "--max-position-embeddings=8",
                                        "--micro-batch-size=2",
                                        "--seq-length=8",
                                        "--lr=1",
                                        "--train-iters=10",
                                        "--tokenizer-type=NullTokenizer",
                                        "--vocab-size=511" };
    char *argv[32];
    int n = 0;
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) argv[n++] = (char *)(uintptr_t)base[i];
    for (; *more; more++) argv[n++] = (char *)(uintptr_t)*more;
    tx_config *c;
    ASSERT_OK(tx_config_parse(&c, "pretrain-gpt", n, argv));
    return c;
}

#define CONFIG(...) config((const char *const[]){ __VA_ARGS__, NULL })

static void a_file_says_the_same(void **state)
{
    (void)state;
    tx_data_groups typed, filed;
    write_text(in_scratch("train"), "\"T: 1 0:0.9 a, 2 0:1 b\"\n");
    write_text(in_scratch("valid"), "\"V: 1 0.9:1 a\" \"W: 1 0:1 c\"\n");
    tx_config *c = CONFIG("--train-weighted-split-paths", "T: 1 0:0.9 a, 2 0:1 b", "--valid-weighted-split-paths",
                          "V: 1 0.9:1 a", "W: 1 0:1 c");
    ASSERT_OK(tx_data_groups_open(&typed, c));
    tx_config_free(c);
    c = CONFIG("--train-weighted-split-paths-path", in_scratch("train"), "--valid-weighted-split-paths-path",
               in_scratch("valid"));
    ASSERT_OK(tx_data_groups_open(&filed, c));
    assert_int_equal(typed.n, 3);
    assert_int_equal(filed.n, 3);
    for (int g = 0; g < 3; g++) {
        assert_string_equal(typed.group[g].name, filed.group[g].name);
        assert_int_equal(typed.group[g].split, g ? TX_SPLIT_VALID : TX_SPLIT_TRAIN);
        assert_int_equal(filed.group[g].split, typed.group[g].split);
        assert_int_equal(filed.group[g].n, typed.group[g].n);
        for (int i = 0; i < typed.group[g].n; i++)
            assert_string_equal(typed.group[g].set[i].path, filed.group[g].set[i].path);
    }
    tx_data_groups_close(&typed);
    tx_data_groups_close(&filed);
    static const char *const bad[] = {
        "",       "\n",         "T: 1 0:1 a\n",       "\"T: 1 0:1 a\n",
        "\"a\" ", "\"a\"\"b\"", "\"T: 1 0:1 a\" x\n", "\"T: 1 0:1 a\"\n\"V: 1 0:1 a\"\n"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(in_scratch("train"), bad[i]);
        tx_status st = tx_data_groups_open(&filed, c);
        assert_true(st == TX_ERR_FORMAT || st == TX_ERR_ARG);
        ASSERT_CONTAINS(tx_last_error(), "--train-weighted-split-paths-path");
    }
    write_text(in_scratch("train"), "\"T: 1 0:1 a\" \"U: 1 0:1 b\"\n");
    ASSERT_FAILS(tx_data_groups_open(&filed, c), TX_ERR_ARG, "training has one group of datasets, 2 are given");
    tx_config_free(c);
}

static void a_folder_stands_before_the_prefixes(void **state)
{
    (void)state;
    tx_data_groups all;
    tx_config *c = CONFIG("--data-path", "0.5", "x", "0.5", "y/z", "--aml-data-download-path", "/mnt/data");
    ASSERT_OK(tx_data_groups_open(&all, c));
    assert_string_equal(all.group[0].set[0].path, "/mnt/data/x");
    assert_string_equal(all.group[0].set[1].path, "/mnt/data/y/z");
    tx_data_groups_close(&all);
    for (int k = 0;; k++) {
        allocation_fails_at(k);
        tx_status st = tx_data_groups_open(&all, c);
        allocations_succeed();
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(k < 20);
    }
    tx_data_groups_close(&all);
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_taken_apart),
        cmocka_unit_test(refuses_other_texts),
        SCRATCH_TEST(a_file_says_the_same),
        cmocka_unit_test(a_folder_stands_before_the_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
