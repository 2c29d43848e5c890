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

static void refuses_export(const char *more)
{
    tx_config *cfg;
    tx_engine *e = create(&cfg, more);
    ASSERT_FAILS(tx_engine_export(e, in_scratch("none")), TX_ERR_UNSUPPORTED, "no model with these options");
    assert_false(tx_path_exists(in_scratch("none")));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* Into `to` the weights of `from`, with the halves of each gated matrix and bias exchanged. */
static void copy_with_halves_exchanged(tx_engine *to, const tx_engine *from)
{
    const tx_params *ps = &from->trainer->model->params;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        const float *x = (const float *)from->trainer->value + p->offset;
        float *y = (float *)to->trainer->value + p->offset;
        int64_t half = strstr(p->name, "dense_h_to_4h") ? p->numel / 2 : 0;
        memcpy(y, x + half, (size_t)(p->numel - half) * sizeof(float));
        memcpy(y + p->numel - half, x, (size_t)half * sizeof(float));
    }
}

/* BigScience's gate is the second half, Megatron-LM's the first: exchanged, they are one model. */
static void glu_activation_swiglu_is_swiglu_with_its_halves_exchanged(void **state)
{
    (void)state;
    tx_config *a_cfg, *b_cfg;
    double a_loss[3], b_loss[3];
    tx_engine *a = create(&a_cfg, "--backend ref --threads 1 --swiglu --ffn-hidden-size 40");
    tx_engine *b = create(&b_cfg, "--backend ref --threads 1 --glu-activation swiglu --no-bias-gelu-fusion "
                                  "--ffn-hidden-size 40");
    copy_with_halves_exchanged(b, a);
    train(a, 3, a_loss);
    train(b, 3, b_loss);
    assert_true(a_loss[0] == b_loss[0]);
    for (int i = 1; i < 3; i++) ASSERT_NEAR(a_loss[i], b_loss[i], 1e-5, "loss");
    tx_engine_destroy(a);
    tx_engine_destroy(b);
    tx_config_free(a_cfg);
    tx_config_free(b_cfg);
}

/* Kept in the checkpoint; both halves have the whole width, 4 x hidden size. */
static void gated_mlps_resume_and_keep_their_shape(void **state)
{
    (void)state;
    static const char *const kind[] = { "geglu", "liglu", "reglu", "swiglu" };
    tx_config *cfg;
    char flags[128];
    for (int i = 0; i < 4; i++) {
        snprintf(flags, sizeof flags, "--no-bias-gelu-fusion --glu-activation %s", kind[i]);
        run_and_save(in_scratch("straight"), flags, 10, 0);
        run_and_save(in_scratch("cut"), flags, 5, 0);
        snprintf(flags, sizeof flags, "--load %s", in_scratch("cut")); /* the gate comes from the checkpoint */
        run_and_save(in_scratch("cut"), flags, 5, 0);
        assert_same_checkpoint("straight", "cut");
        refuses_export(flags);
    }
    tx_engine *e = create(&cfg, "--no-bias-gelu-fusion --glu-activation geglu");
    const tx_params *ps = &e->trainer->model->params;
    assert_int_equal(tx_params_find(ps, "encoder.layers.0.mlp.dense_h_to_4h.weight")->dim[0], 8 * 48);
    ASSERT_FAILS_LINES(tx_engine_load_checkpoint(e, in_scratch("cut")), TX_ERR_ARG,
                       "--glu-activation is geglu, in the checkpoint it is swiglu");
    tx_engine_destroy(e);
    tx_config_free(cfg);

    e = create(&cfg, LLAMA);
    ASSERT_OK(tx_engine_export(e, in_scratch("llama")));
    tx_engine_destroy(e);
    tx_config_free(cfg);
    char more[2048];
    snprintf(more, sizeof more, FLAGS "--glu-activation geglu --no-bias-gelu-fusion --load %s", in_scratch("llama"));
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", more));
    ASSERT_FAILS_LINES(tx_engine_create(&e, cfg, 509), TX_ERR_ARG,
                       "--glu-activation is geglu, in the checkpoint it is None");
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(query_groups_are_key_value_heads),
        cmocka_unit_test(glu_activation_swiglu_is_swiglu_with_its_halves_exchanged),
        SCRATCH_TEST(gated_mlps_resume_and_keep_their_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
