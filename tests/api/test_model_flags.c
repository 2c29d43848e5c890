/* labels: unit */
/* Options of the model behind the engine: other words for the same model give the same bits, and a checkpoint keeps the
 * shape. */
#include "decoder_logits.h"
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
    ASSERT_FAILS_LINES(tx_engine_load_checkpoint(e, in_scratch("named"), NULL, NULL, NULL), TX_ERR_ARG,
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
        const float *x = (const float *)from->trainer->zero.value + p->offset;
        float *y = (float *)to->trainer->zero.value + p->offset;
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
    ASSERT_FAILS_LINES(tx_engine_load_checkpoint(e, in_scratch("cut"), NULL, NULL, NULL), TX_ERR_ARG,
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

/* ---------------------------------------------------------------- the embedding's norm */

#define STILL "--backend ref --threads 1 --hidden-dropout 0 --attention-dropout 0 --global-batch-size 2 "

static double loss_of(tx_engine *e)
{
    int32_t tokens[B * (S + 1)];
    tx_loss_sum loss;
    batch(tokens, 0);
    ASSERT_OK(tx_trainer_evaluate(e->trainer, tokens, B, &loss));
    return loss.sum / (double)loss.n;
}

static float *values_of(const tx_engine *e, const char *name, int64_t *n)
{
    const tx_param *p = tx_params_find(&e->trainer->model->params, name);
    assert_non_null(p);
    if (n) *n = p->numel;
    return (float *)e->trainer->zero.value + p->offset;
}

/* Made-up factors and offsets, so that neither is at its beginning. */
static void scatter_norm(tx_engine *e)
{
    static const char *const name[] = { "embedding.word_embeddings.norm.weight",
                                        "embedding.word_embeddings.norm.bias" };
    for (int k = 0; k < 2; k++) {
        tx_rng rng = { .seed = 8, .stream = (uint32_t)k };
        int64_t n;
        float *x = values_of(e, name[k], &n);
        for (int64_t i = 0; i < n; i++) x[i] += (float)(tx_rng_uniform(&rng, (uint64_t)i) - 0.5);
    }
}

/* An embedding whose rows are what the norm makes of them is the same model without it. */
static void embed_layernorm_is_an_embedding_of_normed_rows(void **state)
{
    (void)state;
    static const char *const more[] = { "", "--use-rotary-position-embeddings" };
    for (int k = 0; k < 2; k++) {
        tx_config *a_cfg, *b_cfg;
        char flags[512];
        snprintf(flags, sizeof flags, STILL "--untie-embeddings-and-output-weights %s", more[k]);
        tx_engine *b = create(&b_cfg, flags);
        tx_engine *a = create(&a_cfg, strcat(flags, " --embed-layernorm --layernorm-epsilon 1e-5"));
        const tx_params *ps = &b->trainer->model->params;
        scatter_norm(a);
        for (int i = 0; i < ps->n; i++)
            memcpy((float *)b->trainer->zero.value + ps->param[i].offset, values_of(a, ps->param[i].name, NULL),
                   (size_t)ps->param[i].numel * sizeof(float));
        const float *gamma = values_of(a, "embedding.word_embeddings.norm.weight", NULL);
        const float *beta = values_of(a, "embedding.word_embeddings.norm.bias", NULL);
        float *word = values_of(b, "embedding.word_embeddings.weight", NULL);
        for (int64_t row = 0; row < 509; row++) {
            double mean = 0, square = 0;
            float *x = word + row * 48;
            for (int i = 0; i < 48; i++) mean += (double)x[i] / 48;
            for (int i = 0; i < 48; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean) / 48;
            for (int i = 0; i < 48; i++)
                x[i] = (float)(((double)x[i] - mean) / sqrt(square + 1e-5) * (double)gamma[i] + (double)beta[i]);
        }
        ASSERT_NEAR(loss_of(a), loss_of(b), 1e-5, "loss");
        tx_engine_destroy(a);
        tx_engine_destroy(b);
        tx_config_free(a_cfg);
        tx_config_free(b_cfg);
    }
}

/* The loss rises along a gradient as steeply as the gradient is long. */
static void check_slope(tx_engine *e, const float *grads, const char *name)
{
    int64_t n;
    float *x = values_of(e, name, &n), *was = malloc((size_t)n * sizeof *was);
    const float *grad = grads + (x - (float *)e->trainer->zero.value);
    double length = 0, loss[2];
    for (int64_t i = 0; i < n; i++) length += (double)grad[i] * (double)grad[i];
    length = sqrt(length);
    assert_true(length > 0);
    memcpy(was, x, (size_t)n * sizeof *was);
    const double step = 0.01;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n; i++) x[i] = was[i] + (float)((k ? step : -step) * (double)grad[i] / length);
        loss[k] = loss_of(e);
    }
    memcpy(x, was, (size_t)n * sizeof *was);
    free(was);
    ASSERT_NEAR((loss[1] - loss[0]) / (2 * step), length, 3e-3 * length + 1e-5, name);
}

static void embed_layernorm_has_the_gradient_of_its_loss(void **state)
{
    (void)state;
    static const char *const more[] = { "", "--apply-layernorm-1p", "--untie-embeddings-and-output-weights" };
    for (int k = 0; k < 3; k++) {
        tx_config *cfg;
        char flags[512];
        int32_t tokens[B * (S + 1)];
        double loss;
        snprintf(flags, sizeof flags, STILL "--embed-layernorm --init-method-std 0.2 --lr 0 --min-lr 0 %s", more[k]);
        tx_engine *e = create(&cfg, flags);
        scatter_norm(e);
        batch(tokens, 0);
        ASSERT_OK(tx_engine_forward(e, tokens, &loss));
        ASSERT_OK(tx_engine_backward(e));
        size_t size = (size_t)e->trainer->model->params.numel * sizeof(float);
        float *grads = malloc(size);
        memcpy(grads, e->trainer->zero.grad, size);
        ASSERT_OK(tx_engine_step(e)); /* which changes nothing */
        check_slope(e, grads, "embedding.word_embeddings.weight");
        check_slope(e, grads, "embedding.word_embeddings.norm.weight");
        check_slope(e, grads, "embedding.word_embeddings.norm.bias");
        check_slope(e, grads, "embedding.position_embeddings.weight");
        free(grads);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
}

/* Kept in the checkpoint, in half precision with either residual stream too; Hugging Face has no such folder. */
static void embed_layernorm_resumes(void **state)
{
    (void)state;
    static const char *const more[] = { "", "--bf16 --fp32-residual-connection", "--fp16 --loss-scale 64" };
    char flags[256];
    for (int k = 0; k < 3; k++) {
        snprintf(flags, sizeof flags, "--embed-layernorm %s", more[k]);
        run_and_save(in_scratch("straight"), flags, 10, 0);
        run_and_save(in_scratch("cut"), flags, 5, 0);
        snprintf(flags, sizeof flags, "%s --load %s", more[k], in_scratch("cut"));
        run_and_save(in_scratch("cut"), flags, 5, 0);
        assert_same_checkpoint("straight", "cut");
    }
    refuses_export("--embed-layernorm");
}

/* Tokens one at a time over the cache, and all at once. */
static void embed_layernorm_decodes(void **state)
{
    (void)state;
    enum { PROMPT = 5, NEW = 9 };
    tx_config *cfg;
    tx_engine *e = create(&cfg, "--embed-layernorm --init-method-std 0.2");
    int32_t tokens[PROMPT + NEW] = { 5, 77, 300, 5, 9 };
    float cached[509], whole[509];
    scatter_norm(e);
    tx_decoder *d = decoder_of(e->trainer->model, "cpu", S);
    go_on_greedily(d, tokens, PROMPT, NEW, cached);
    logits_behind(d, tokens, PROMPT + NEW - 1, whole);
    for (int i = 0; i < 509; i++) ASSERT_NEAR((double)cached[i], (double)whole[i], 1e-5, "logit");
    tx_decoder_destroy(d);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(query_groups_are_key_value_heads),
        cmocka_unit_test(glu_activation_swiglu_is_swiglu_with_its_halves_exchanged),
        SCRATCH_TEST(gated_mlps_resume_and_keep_their_shape),
        cmocka_unit_test(embed_layernorm_is_an_embedding_of_normed_rows),
        cmocka_unit_test(embed_layernorm_has_the_gradient_of_its_loss),
        SCRATCH_TEST(embed_layernorm_resumes),
        cmocka_unit_test(embed_layernorm_decodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
