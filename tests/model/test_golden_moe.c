/* labels: golden */
/* Small GPTs with experts, whose losses and gradients PyTorch has computed in fp64 (tests/data/golden/moe/make.py): of
 * each gradient its norm and its product with a drawn direction. */
#include "support.h"

#include "model/model.h"
#include "nn/moe.h"

enum { S = 9, B = 3, VOCAB = 30 };

#define FLAGS                                                                                                   \
    "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --ffn-hidden-size 24 --seq-length 9 "              \
    "--max-position-embeddings 9 --micro-batch-size 3 --lr 1 --train-iters 1 --data-path none "                 \
    "--make-vocab-size-divisible-by 4 --hidden-dropout 0 --attention-dropout 0 --tokenizer-type NullTokenizer " \
    "--vocab-size 29 --threads 1 "

/* make.py's numbers: number i of a name's. */
static double drawn(const char *name, int64_t i)
{
    uint32_t seed = 0, u;
    for (uint32_t k = 0; name[k]; k++) seed += (k + 1) * (uint32_t)(unsigned char)name[k];
    u = (seed * 7919u + (uint32_t)i) * 2654435761u;
    u ^= u >> 16;
    u *= 2246822519u;
    u ^= u >> 13;
    u *= 3266489917u;
    u ^= u >> 16;
    return (double)u / 0x1p32 - 0.5;
}

typedef struct rig {
    tx_config *cfg;
    tx_model *model;
    tx_ctx ctx;
    tx_batch batch;
    float *value, *grad;
} rig;

static void draw_params(rig *r)
{
    tx_params *ps = &r->model->params;
    r->value = calloc((size_t)ps->numel, sizeof *r->value);
    r->grad = calloc((size_t)ps->numel, sizeof *r->grad);
    assert_true(r->value && r->grad);
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        for (int64_t k = 0; k < tx_param_n_real(p); k++)
            r->value[p->offset + k] =
                (float)((p->n_dims == 1 ? 0.2 : 0.8) * drawn(p->name, k) + (p->init == TX_INIT_ONE ? 1 : 0));
    }
    tx_params_bind(ps, r->value, TX_F32, r->grad);
}

static void build(rig *r, const char *backend, const char *flags)
{
    char all[2048];
    int32_t rows[B * (S + 1)];
    tx_tensor *own[TX_BATCH_BUFFERS];
    const tx_batch_rule rule = { .eod = -1, .scale = 1 };
    *r = (rig){ 0 };
    snprintf(all, sizeof all, FLAGS "--backend %s %s", backend, flags);
    ASSERT_OK(tx_config_parse_string(&r->cfg, "pretrain-gpt", all));
    ASSERT_OK(tx_ctx_init(&r->ctx, backend, 1));
    const tx_model_type *type = tx_model_type_of(r->cfg);
    ASSERT_OK(type->create(&r->model, r->cfg, VOCAB, NULL));
    draw_params(r);
    type->shape(r->model, r->cfg, &r->batch, S, B);
    tx_batch_buffers(&r->batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++)
        if (own[i]->data) own[i]->data = calloc((size_t)tx_numel(*own[i]), tx_dtype_size(own[i]->dtype));
    for (int i = 0; i < B * (S + 1); i++) rows[i] = (int32_t)((drawn("tokens", i) + 0.5) * VOCAB);
    ASSERT_OK(type->collate(r->model, &r->batch, rows, &rule));
    r->batch.scale = 1;
    r->batch.dropout = (tx_dropout_key){ .seed = 5, .iteration = 1, .s_global = S };
    tx_tensor sums = r->model->expert_sums;
    r->model->expert_sums.data = calloc((size_t)tx_numel(sums), sizeof(float));
    ASSERT_OK(tx_model_fwd(&r->ctx, r->model, &r->batch, true)); /* dry */
    ASSERT_OK(tx_model_bwd(&r->ctx, r->model, &r->batch));
    ASSERT_OK(tx_ctx_take_memory(&r->ctx));
}

static void demolish(rig *r)
{
    tx_tensor *own[TX_BATCH_BUFFERS];
    tx_batch_buffers(&r->batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) free(own[i]->data);
    free(r->model->expert_sums.data);
    r->model->type->destroy(r->model);
    tx_ctx_deinit(&r->ctx);
    tx_config_free(r->cfg);
    free(r->value);
    free(r->grad);
}

static double number(const json_t *array, size_t i)
{
    return json_number_value(json_array_get(array, i));
}

static void check_gradients(const rig *r, const json_t *want)
{
    const tx_params *ps = &r->model->params;
    size_t n = 0;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        const json_t *of = json_object_get(want, p->name);
        char along[TX_PARAM_NAME_MAX + 1];
        double squares = 0, product = 0;
        snprintf(along, sizeof along, "%s!", p->name);
        for (int64_t k = 0; k < tx_param_n_real(p); k++) {
            double g = (double)r->grad[p->offset + k];
            squares += g * g;
            product += g * drawn(along, k);
        }
        if (!of) fail_msg("%s is not in result.json", p->name);
        double norm = number(of, 0), bound = 1e-5 * norm + 1e-7;
        ASSERT_NEAR(sqrt(squares), norm, bound, p->name);
        ASSERT_NEAR(product, number(of, 1), bound, p->name);
        n++;
    }
    assert_int_equal(json_object_size(want), n);
}

/* What backward has added up, of the layers with experts. */
static void check_sums(const rig *r, const json_t *model)
{
    const tx_tensor sums = r->model->expert_sums;
    const float *x = sums.data;
    size_t i, e;
    json_t *load;
    assert_int_equal(json_array_size(json_object_get(model, "load")), sums.dim[0]);
    json_array_foreach(json_object_get(model, "load"), i, load)
    {
        const float *row = x + (int64_t)i * sums.dim[1];
        const tx_moe_shape is = tx_config_moe(r->cfg, r->cfg->num_layers - sums.dim[0] + (int64_t)i);
        double own = is.aux_coeff * (double)row[TX_MOE_AUX] + is.z_coeff * (double)row[TX_MOE_Z];
        ASSERT_NEAR(own, number(json_object_get(model, "own"), i), 1e-6, "own losses");
        assert_int_equal((int64_t)row[TX_MOE_DROPPED], number(json_object_get(model, "dropped"), i));
        for (e = 0; e < json_array_size(load); e++) assert_int_equal((int64_t)row[TX_MOE_LOAD + e], number(load, e));
    }
}

static void losses_and_gradients(void **state)
{
    const char *backend = *state;
    json_t *all = load_json(data_path("golden/moe/result.json")), *model;
    size_t i;
    json_array_foreach(all, i, model)
    {
        rig r;
        tx_loss_sum sum[TX_MAX_LOSSES];
        build(&r, backend, json_string_value(json_object_get(model, "flags")));
        ASSERT_OK(tx_params_zero_grad(&r.ctx, &r.model->params, 0, r.model->params.n));
        ASSERT_OK(tx_model_fwd(&r.ctx, r.model, &r.batch, true));
        r.model->type->losses(r.model, &r.batch, B, sum);
        ASSERT_NEAR(sum->sum / (double)sum->n, json_number_value(json_object_get(model, "loss")), 5e-6, "loss");
        ASSERT_OK(tx_model_bwd(&r.ctx, r.model, &r.batch));
        check_gradients(&r, json_object_get(model, "gradients"));
        check_sums(&r, model);
        demolish(&r);
    }
    assert_int_equal(i, 4);
    json_decref(all);
}

int main(void)
{
    static char cpu[] = "cpu", ref[] = "ref";
    const struct CMUnitTest tests[] = {
        { "cpu", losses_and_gradients, NULL, NULL, cpu },
        { "ref", losses_and_gradients, NULL, NULL, ref },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
