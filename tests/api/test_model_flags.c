/* labels: unit */
/* Options of the model behind the engine: other words for the same model give the same bits, and a checkpoint keeps the
 * shape. */
#include "engine_test.h"

/* Megatron-LM's words for grouped queries; left out, the checkpoint's number is taken. */
static void query_groups_are_key_value_heads(void **state)
{
    (void)state;
    tx_config *cfg;
    run_and_save(in_scratch("named"), "--num-key-value-heads 1", 10, 0);
    run_and_save(in_scratch("grouped"), "--group-query-attention", 5, 5);
    assert_same_checkpoint("named", "grouped");
    tx_engine *e = create(&cfg, "--group-query-attention --num-query-groups 3");
    ASSERT_FAILS_LINES(tx_engine_load_checkpoint(e, in_scratch("named")), TX_ERR_ARG,
                       "--num-key-value-heads is 3, in the checkpoint it is 1");
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(query_groups_are_key_value_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
