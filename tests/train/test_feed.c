/* labels: unit */
/* The feed of a stage: what of an evaluation that failed reaches the next one. On a device, where losses arrive late.
 */
#include "support.h"

#include "train/trainer.h"

enum { S = 16, B = 2, N = 6 /* micro-batches */ };

typedef struct source {
    int32_t rows[B * (S + 1)];
    int64_t fails_at; /* micro-batch; -1: none */
} source;

static tx_status read_rows(void *user, int64_t micro, const void **rows)
{
    source *from = user;
    if (micro == from->fails_at) return TX_FAIL(TX_ERR_IO, "the data cannot be read");
    for (int64_t k = 0; k < B * (S + 1); k++) from->rows[k] = (int32_t)((micro * 31 + k * 7) % 61);
    *rows = from->rows;
    return TX_OK;
}

static void no_loss_of_a_failed_evaluation_is_counted(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_trainer *t;
    double mean[TX_MAX_LOSSES], want[TX_MAX_LOSSES];
    source from = { .fails_at = -1 };
    const char *module = getenv("TX_GPU_MODULE_32");
    if (!module || !strcmp(module, "none")) exit(77);
    setenv("TX_GPU_MODULE", module, 1);
    ASSERT_OK(tx_config_parse_string(
        &cfg, "pretrain-gpt",
        "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
        "--micro-batch-size 2 --lr 1 --train-iters 1 --tokenizer-type NullTokenizer --vocab-size 63 --data-path x "
        "--device gpu"));
    ASSERT_OK(tx_trainer_create(&t, cfg, 64, -1, true, NULL));
    ASSERT_OK(tx_trainer_score(t, N * B, read_rows, &from, want, NULL));
    from.fails_at = 3;
    ASSERT_FAILS(tx_trainer_score(t, N * B, read_rows, &from, mean, NULL), TX_ERR_IO, "cannot be read");
    from.fails_at = -1;
    ASSERT_OK(tx_trainer_score(t, N * B, read_rows, &from, mean, NULL));
    assert_true(*mean == *want);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
    unsetenv("TX_GPU_MODULE");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_loss_of_a_failed_evaluation_is_counted) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
