/* labels: unit */
/* An evaluation of a model with experts: nothing of their own losses is in its loss, and what experts had no room for
 * is counted, without a trace in the iteration that follows. */
#include "support.h"

#include "train/metrics.h"

enum { S = 16, B = 4, N = 6 /* micro-batches */, EXPERTS = 4 };

static tx_status read_rows(void *user, int64_t micro, const void **rows)
{
    int32_t *out = user;
    for (int64_t k = 0; k < B * (S + 1); k++) out[k] = (int32_t)((micro * 31 + k * k) % 61);
    *rows = out;
    return TX_OK;
}

typedef struct outcome {
    double loss, moe_loss, load, trained;
    tx_expert_means means;
    char line[512];
} outcome;

static outcome evaluate(const char *flags, bool train)
{
    int32_t rows[B * (S + 1)];
    char all[1000];
    tx_config *cfg;
    tx_trainer *t;
    outcome o = { .load = 0 };
    snprintf(all, sizeof all,
             "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 4 --lr 1e-3 --train-iters 4 --tokenizer-type NullTokenizer --vocab-size 63 "
             "--data-path x --threads 1 --num-experts 4 --topk 2 --moe-min-capacity 0 %s",
             flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    ASSERT_OK(tx_trainer_create(&t, cfg, 64, -1, true, NULL));
    if (train) ASSERT_OK(tx_trainer_train(t, read_rows, rows));
    ASSERT_OK(tx_trainer_score(t, N * B, read_rows, rows, &o.loss, NULL));
    assert_int_equal(t->n_expert_layers, 1);
    for (int e = 0; e < EXPERTS; e++) o.load += t->expert->load[e];
    o.means = t->expert_means;
    tx_evaluation_line(o.line, sizeof o.line, t, NULL, "the end", &o.loss);
    ASSERT_OK(tx_trainer_train(t, read_rows, rows));
    o.trained = t->iteration_loss;
    o.moe_loss = t->moe_loss;
    tx_trainer_destroy(t);
    tx_config_free(cfg);
    return o;
}

static void a_loss_is_of_the_model_alone(void **state)
{
    (void)state;
    outcome none = evaluate("--moe-loss-coeff 0", false);
    outcome much = evaluate("--moe-loss-coeff 10 --moe-z-loss-coeff 10", false);
    assert_true(none.loss == much.loss && none.trained == much.trained);
    assert_true(none.moe_loss == 0 && much.moe_loss > 10);
    assert_true(none.means.z_loss > 0 && none.means.z_loss == much.means.z_loss);
    assert_true(none.load == N * B * S * 2);
}

static void what_is_dropped_is_told(void **state)
{
    (void)state;
    outcome half = evaluate("--moe-eval-capacity-factor 0.5", false);
    outcome all = evaluate("--disable-moe-token-dropping", false);
    assert_true(half.means.dropped >= 0.5 && half.means.dropped < 1 && half.load == N * B * S * 2);
    assert_true(all.means.dropped == 0 && half.loss != all.loss);
    ASSERT_CONTAINS(half.line, " | dropped tokens: ");
    assert_null(strstr(all.line, "dropped")); /* there is no limit */
}

static void an_evaluation_leaves_no_trace(void **state)
{
    (void)state;
    outcome once = evaluate("", true), twice = evaluate("--moe-eval-capacity-factor 0.5", true);
    assert_true(once.trained == twice.trained && once.moe_loss == twice.moe_loss);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_is_of_the_model_alone),
        cmocka_unit_test(what_is_dropped_is_told),
        cmocka_unit_test(an_evaluation_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
