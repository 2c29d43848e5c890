/* labels: unit */
/* Every flag of the programs whose scripts triax takes, by tests/data/config/upstream_flags.txt: typed with as many
 * values as it has there, it is known, to both models' commands, and takes as many. */
#include "support.h"

#include "config/option_table.h"

static void is_known(const char *command, const char *flag, const char *values)
{
    static const char *const wrong[] = { "unknown flag", "is a flag of", "takes no value", "needs a value",
                                         "is not a flag" };
    char dashed[160], one[] = "1", two[] = "1";
    tx_config *cfg = NULL;
    snprintf(dashed, sizeof dashed, "--%s", flag);
    char *argv[] = { dashed, one, two };
    int argc = *values == '+' ? 3 : *values == '1' ? 2 : 1;
    tx_status st = tx_config_parse(&cfg, command, argc, argv);
    tx_config_free(cfg);
    assert_int_equal(st, TX_ERR_ARG); /* a model's shape is missing, at least */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (strstr(tx_last_error(), wrong[i])) fail_msg("%s --%s: %s", command, flag, tx_last_error());
}

static void every_flag_is_known(void **state)
{
    (void)state;
    tx_str text = read_file(data_path("config/upstream_flags.txt"));
    char *rest = NULL;
    int n = 0;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *values = strchr(line, ' ');
        if (*line == '#') continue;
        assert_non_null(values);
        *values++ = 0;
        char *command = strchr(values, ' ');
        is_known(command ? command + 1 : "pretrain-gpt", line, values);
        if (!command) is_known("pretrain-bert", line, values);
        n++;
    }
    assert_true(n > 1400);
    tx_str_free(&text);
}

static void one_of_a_family_is_named_as_typed(void **state)
{
    (void)state;
    tx_config *cfg = NULL;
    assert_int_equal(tx_config_parse_string(&cfg, "pretrain-gpt", "--moe_router-group-topk=2"), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "--moe_router-group-topk is not built yet: leave the flag out");
    assert_int_equal(tx_config_parse_string(&cfg, "pretrain-gpt", "--moe- 2"), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "unknown flag --moe-");
    assert_int_equal(tx_config_parse_string(&cfg, "pretrain-gpt", "--moe-loss-coeff 2"), TX_ERR_ARG);
    assert_null(strstr(tx_last_error(), "moe")); /* a row of its own: without effect */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flag_is_known),
        cmocka_unit_test(one_of_a_family_is_named_as_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
