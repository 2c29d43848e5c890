/* labels: unit */
/* Backward of whole models against finite differences of their objective, in double precision; and what must not
 * matter to it. */
#include "support.h"

#include "../nn/whole_table.h"
#include "base/rng.h"
#include "data/bert_dataset.h"
#include "model/model.h"

#define FLAGS                                                                                                      \
    "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 9 --max-position-embeddings 9 "          \
    "--micro-batch-size 3 --lr 1 --train-iters 1 --data-path none --make-vocab-size-divisible-by 4 --backend ref " \
    "--threads 1 "
#define GPT  FLAGS "--tokenizer-type NullTokenizer --vocab-size 29 "
#define BERT FLAGS "--model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file none --mask-prob 0.4 "

enum { VOCAB = 30, S = 9, B = 3 };

typedef struct rig {
    tx_config *cfg;
    tx_model *model;
    tx_ctx ctx;
    tx_batch batch;
    double *value, *grad;
    int32_t rows[B * (3 * S + 2)];
} rig;

static void *zeros(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    assert_non_null(p);
    return p;
}

/* Every number of the model in double precision. Weights begin larger than in training, so that all of it matters. */
static void make_params(rig *r)
{
    tx_params *ps = &r->model->params;
    float *drawn = zeros(ps->numel, sizeof *drawn);
    r->value = zeros(ps->numel, sizeof *r->value);
    r->grad = zeros(ps->numel, sizeof *r->grad);
    init_whole(ps, drawn, 5, (tx_init_method){ .std = 0.3, .n_layers = 2 });
    for (int64_t i = 0; i < ps->numel; i++) r->value[i] = (double)drawn[i];
    free(drawn);
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        const tx_rng rng = { .seed = 9, .stream = (uint32_t)i };
        for (int64_t k = 0; p->n_dims == 1 && k < tx_param_n_real(p); k++)
            r->value[p->offset + k] += 0.2 * (tx_rng_uniform(&rng, (uint64_t)k) - 0.5);
        *p->weight = (tx_weight){ .value = tx_param_view(p, r->value + p->offset, TX_F64),
                                  .grad = tx_param_view(p, r->grad + p->offset, TX_F64) };
    }
}

static void make_rows(rig *r)
{
    const tx_rng rng = { .seed = 3 };
    int64_t n = r->model->type->samples->row_len(S);
    for (int64_t i = 0; i < B * n; i++) r->rows[i] = (int32_t)(VOCAB * tx_rng_uniform(&rng, (uint64_t)i));
    for (int64_t j = 0; j < B && r->model->type->samples->masked; j++) {
        const tx_bert_ids to = tx_bert_ids_of(r->rows + j * n, S);
        *to.n_tokens = (int32_t)(S - 2 * j);
        *to.is_random = (int32_t)j % 2;
        for (int i = 0; i < S; i++) {
            to.types[i] = i > 3;
            to.labels[i] = i % 3 == 1 && i < *to.n_tokens ? to.tokens[S - i] : -1;
        }
    }
}

/* The batch in float, but where its numbers meet the model's. */
static void fill(rig *r)
{
    const tx_batch_rule rule = { .eod = -1, .scale = 0.5 };
    tx_batch *batch = &r->batch;
    tx_tensor *own[TX_BATCH_BUFFERS], narrow[TX_BATCH_BUFFERS];
    tx_batch_buffers(batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) {
        narrow[i] = *own[i];
        if (own[i]->dtype == TX_F64) own[i]->dtype = TX_F32;
    }
    ASSERT_OK(r->model->type->collate(r->model, batch, r->rows, &rule));
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) {
        own[i]->dtype = narrow[i].dtype;
        if (own[i]->dtype != TX_F64) continue;
        float *from = own[i]->data;
        double *to = own[i]->data;
        for (int64_t k = tx_numel(*own[i]); k-- > 0;) {
            float x;
            memcpy(&x, from + k, sizeof x);
            to[k] = (double)x;
        }
    }
}

static tx_tensor draw(uint64_t seed, int64_t rows, int64_t n)
{
    const tx_rng rng = { .seed = seed };
    double *x = zeros(rows * n, sizeof *x);
    for (int64_t i = 0; i < rows * n; i++) x[i] = 2 * tx_rng_uniform(&rng, (uint64_t)i) - 1;
    return tx_tensor2(x, TX_F64, rows, n);
}

/* What its head reads and its head's matrix; its sum has the weight of the others. */
static void add_teacher(rig *r)
{
    r->batch.teacher = (tx_teaching){ draw(31, S * B, 6), { .w = draw(32, r->model->vocab_padded, 6) } };
    if (r->cfg->final_logit_softcap > 0) r->batch.teacher.head.form = (tx_logit_form){ .scale = 0.6, .cap = 2 };
    r->batch.scale = 0.5;
}

static void build(rig *r, const char *flags)
{
    tx_tensor *own[TX_BATCH_BUFFERS];
    *r = (rig){ 0 };
    ASSERT_OK(tx_config_parse_string(&r->cfg, strstr(flags, "BERT") ? "pretrain-bert" : "pretrain-gpt", flags));
    ASSERT_OK(tx_ctx_init(&r->ctx, tx_device_choice_word(r->cfg->device), 1));
    const tx_model_type *type = tx_model_type_of(r->cfg);
    ASSERT_OK(type->create(&r->model, r->cfg, VOCAB, NULL));
    r->model->dtype = r->model->stream = TX_F64;
    make_params(r);
    type->shape(r->model, r->cfg, &r->batch, S, B);
    if (r->cfg->random_ltd) tx_routing_shape(r->model, &r->batch, r->cfg->random_ltd_min_value, S);
    tx_batch_buffers(&r->batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) {
        if (!own[i]->data) continue;
        if (own[i]->dtype == TX_F32) own[i]->dtype = TX_F64;
        own[i]->data = zeros(tx_numel(*own[i]), tx_dtype_size(own[i]->dtype));
    }
    make_rows(r);
    fill(r);
    if (r->model->is_taught) add_teacher(r);
    r->batch.dropout =
        (tx_dropout_key){ .seed = 5, .iteration = 1, .sample = 0, .s_global = S, .on = r->cfg->hidden_dropout > 0 };
    r->batch.dropout.on |= r->cfg->random_ltd || r->cfg->progressive_layer_drop;
    r->batch.dropout.layer_drop = r->cfg->progressive_layer_drop ? 0.8 : 0;
    tx_routing_draw(r->model, r->cfg, &r->batch);
    ASSERT_OK(tx_model_fwd(&r->ctx, r->model, &r->batch, true)); /* dry */
    ASSERT_OK(tx_model_bwd(&r->ctx, r->model, &r->batch));
    ASSERT_OK(tx_ctx_take_memory(&r->ctx));
}

static void demolish(rig *r)
{
    tx_tensor *own[TX_BATCH_BUFFERS];
    tx_batch_buffers(&r->batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) free(own[i]->data);
    free(r->batch.teacher.x.data);
    free(r->batch.teacher.head.w.data);
    r->model->type->destroy(r->model);
    tx_ctx_deinit(&r->ctx);
    tx_config_free(r->cfg);
    free(r->value);
    free(r->grad);
}

static double weighted(tx_tensor weight, tx_tensor loss)
{
    double sum = 0;
    for (int64_t i = 0; i < (weight.data ? tx_numel(weight) : 0); i++)
        sum += ((double *)weight.data)[i] * ((double *)loss.data)[i];
    return sum;
}

static void gradients(rig *r)
{
    ASSERT_OK(tx_params_zero_grad(&r->ctx, &r->model->params, 0, r->model->params.n));
    ASSERT_OK(tx_model_fwd(&r->ctx, r->model, &r->batch, true));
    ASSERT_OK(tx_model_bwd(&r->ctx, r->model, &r->batch));
}

/* A teacher's part is of training alone; a z-loss, too. */
static double objective(rig *r)
{
    double taught = 0;
    bool trains = r->model->is_taught || r->model->z_weight > 0;
    if (trains)
        gradients(r);
    else
        ASSERT_OK(tx_model_fwd(&r->ctx, r->model, &r->batch, false));
    for (int64_t i = 0; r->batch.taught.data && i < B * S; i++) taught += ((double *)r->batch.taught.data)[i];
    tx_tensor of_other = trains ? r->batch.weight : r->batch.pair_weight;
    return taught * r->batch.scale / (B * S) + weighted(r->batch.weight, r->batch.loss) +
           weighted(r->batch.other_loss.data ? of_other : (tx_tensor){ 0 }, r->batch.other_loss);
}

/* Of each parameter the derivative in three directions. */
static void check_gradients(rig *r, const char *what)
{
    const double step = 3e-6; /* whose square is what differences are off by */
    const tx_params *ps = &r->model->params;
    gradients(r);
    double *grad = zeros(ps->numel, sizeof *grad);
    memcpy(grad, r->grad, (size_t)ps->numel * sizeof *grad);
    for (int i = 0; i < 3 * ps->n; i++) {
        const tx_param *p = &ps->param[i / 3];
        const tx_rng rng = { .seed = 21, .stream = (uint32_t)i };
        int64_t n = tx_param_n_real(p);
        double *x = r->value + p->offset, *was = zeros(n, sizeof *was), f[2], slope = 0;
        memcpy(was, x, (size_t)n * sizeof *x);
        for (int side = 0; side < 2; side++) {
            for (int64_t k = 0; k < n; k++)
                x[k] = was[k] + (side ? step : -step) * (tx_rng_uniform(&rng, (uint64_t)k) - 0.5);
            f[side] = objective(r);
        }
        memcpy(x, was, (size_t)n * sizeof *x);
        for (int64_t k = 0; k < n; k++) slope += grad[p->offset + k] * (tx_rng_uniform(&rng, (uint64_t)k) - 0.5);
        double difference = (f[1] - f[0]) / (2 * step);
        if (!(fabs(difference - slope) <= 1e-9 + 1e-7 * fabs(slope)))
            fail_msg("%s: %s: by its gradient %.12g, by differences %.12g", what, p->name, slope, difference);
        free(was);
    }
    free(grad);
}

#define NO_DROPOUT " --hidden-dropout 0 --attention-dropout 0"
#define DROPOUT    " --hidden-dropout 0.2 --attention-dropout 0.1"

#define DROPS                                                                                       \
    " --random-ltd --random-ltd-min-value 5 --random-ltd-max-value 5 --random-ltd-require-steps 1 " \
    "--random-ltd-seq-per-step 1 --random-ltd-layer-id 0 1"

#define FADES " --progressive-layer-drop"

static const char *const models[] = {
    GPT DROPOUT,
    GPT "--swiglu --ffn-hidden-size 24 --normalization rmsnorm --use-rotary-position-embeddings "
        "--untie-embeddings-and-output-weights "
        "--disable-bias-linear --num-key-value-heads 1" NO_DROPOUT,
    GPT "--disable-bias-linear --add-qkv-bias --qk-layernorm --use-rotary-position-embeddings --num-key-value-heads "
        "1" DROPOUT,
    GPT "--normalization rmsnorm --qk-layernorm-whole --use-rotary-position-embeddings --rotary-interleaved "
        "--no-rope-freq 2 --num-attention-heads 4 --num-key-value-heads 2" DROPOUT,
    GPT "--position-embedding-type yarn --rope-scaling-factor 3 --rope-original-positions 4 --rotary-percent "
        "0.5" DROPOUT,
    GPT "--use-rotary-position-embeddings --rope-scaling-type dynamic --rope-scaling-factor 2 "
        "--rope-original-positions 4" NO_DROPOUT,
    GPT "--embed-layernorm --apply-residual-connection-post-layernorm" DROPOUT,
    GPT "--position-embedding-type alibi --num-key-value-heads 1 --embed-layernorm" DROPOUT,
    GPT "--window-size 3 --window-attn-skip-freq 2 --attention-logit-softcap 2 --softmax-type learnable "
        "--attention-scale 0.4 --use-rotary-position-embeddings --num-key-value-heads 1" DROPOUT,
    GPT "--window-size 2,0 --softmax-type off-by-one --position-embedding-type alibi --reset-attention-mask" NO_DROPOUT,
    GPT "--kd --load-teacher none" DROPOUT,
    GPT "--kd --load-teacher none --kd-temp 2 --kd-beta-ce 0.7 --label-smoothing 0.1 --z-loss-weight 0.3" NO_DROPOUT,
    GPT "--num-experts 4 --topk 2 --moe-loss-coeff 0 --disable-moe-token-dropping" DROPOUT,
    GPT "--num-experts 4 --moe-router-topk 2 --moe-shared-expert-intermediate-size 12 --moe-shared-expert-gate "
        "--swiglu --moe-ffn-hidden-size 8 "
        "--ffn-hidden-size 24" NO_DROPOUT,
    GPT "--parallel-residual two_norms --embedding-scale 3 --residual-scale 0.7 --logits-scale 0.6 --relu" DROPOUT,
    GPT "--parallel-residual one_norm --untie-embeddings-and-output-weights --output-bias --disable-attention-bias "
        "--recompute-granularity selective" FADES DROPOUT,
    GPT
    "--parallel-residual one_norm --disable-norm-bias --qk-layernorm --logits-scale 0.5 "
    "--disable-bias-linear --add-attention-dense-bias --gated-activation silu --ffn-hidden-size 24" DROPS NO_DROPOUT,
    GPT
    "--norm-placement both --embedding-scale 4 --final-logit-softcap 2 --gated-activation gelu_tanh "
    "--ffn-hidden-size 24 --normalization rmsnorm --use-rotary-position-embeddings --disable-bias-linear" NO_DROPOUT,
    GPT "--norm-placement both --final-logit-softcap 1.5 --z-loss-weight 0.3 --kd --load-teacher none --kd-temp 2 "
        "--recompute-granularity selective --residual-scale 0.5" DROPS DROPOUT,
    GPT "--norm-placement branch --gated-activation relu --ffn-hidden-size 24" FADES DROPS DROPOUT,
    GPT "--norm-placement branch --num-experts 4 --topk 2 --moe-loss-coeff 0 --disable-moe-token-dropping "
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1" NO_DROPOUT,
    GPT "--parallel-residual two_norms --num-experts 4 --topk 2 --moe-loss-coeff 0 --disable-moe-token-dropping "
        "--normalization rmsnorm" DROPOUT,
    BERT "--parallel-residual two_norms --relu --embedding-scale 2 --disable-norm-bias" DROPOUT,
    BERT "--norm-placement both" DROPOUT,
    GPT FADES NO_DROPOUT,
    GPT FADES DROPOUT,
    BERT FADES DROPOUT,
    GPT DROPS FADES DROPOUT,
    GPT DROPS DROPOUT,
    GPT "--disable-bias-linear --qk-layernorm --use-rotary-position-embeddings --num-key-value-heads 1 "
        "--reset-attention-mask --recompute-granularity selective" DROPS NO_DROPOUT,
    GPT "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1" DROPS DROPOUT,
    BERT DROPS DROPOUT,
    BERT "--post-layernorm" DROPS NO_DROPOUT,
    BERT NO_DROPOUT,
    BERT DROPOUT,
    BERT "--bert-no-binary-head" DROPOUT,
    BERT "--attention-logit-softcap 1 --softmax-type learnable --attention-scale 0.3" DROPOUT,
    BERT "--post-layernorm" NO_DROPOUT,
    BERT "--post-layernorm --no-bias-gelu-fusion" DROPOUT,
    BERT "--post-layernorm --bert-no-binary-head --openai-gelu" NO_DROPOUT,
};

static void gradients_are_those_of_the_objective(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        rig r;
        build(&r, models[i]);
        check_gradients(&r, models[i] + sizeof FLAGS - 1);
        demolish(&r);
    }
}

static double size_of_gradients(const rig *r, const char *prefix)
{
    double sum = 0;
    for (int i = 0; i < r->model->params.n; i++) {
        const tx_param *p = &r->model->params.param[i];
        if (strncmp(p->name, prefix, strlen(prefix)) != 0) continue;
        for (int64_t k = 0; k < p->numel; k++) sum += fabs(r->grad[p->offset + k]);
    }
    return sum;
}

/* Of the micro-batches that begin with samples 0 to 9 some pass the second layer by, whose gradients are zero then,
 * also where nothing was in their place before; none passes the first one by. */
static void a_dropped_layer_has_no_gradient(void **state)
{
    (void)state;
    int n_dropped = 0;
    rig r;
    build(&r, GPT FADES DROPOUT);
    for (uint64_t sample = 0; sample < 10; sample++) {
        r.batch.dropout.sample = sample;
        for (int64_t k = 0; k < r.model->params.numel; k++) r.grad[k] = 7;
        gradients(&r);
        bool dropped = size_of_gradients(&r, "encoder.layers.1.") == 0;
        n_dropped += dropped;
        assert_true(size_of_gradients(&r, "encoder.layers.0.") > 0);
        if (n_dropped == 1 && dropped) check_gradients(&r, "the second layer is dropped");
        if (sample + 1 - (uint64_t)n_dropped == 1 && !dropped) check_gradients(&r, "the second layer is computed");
    }
    assert_in_range(n_dropped, 1, 9);
    demolish(&r);
}

static void nothing_is_masked(void **state)
{
    (void)state;
    for (int post = 0; post < 2; post++) {
        rig r;
        build(&r, post ? BERT "--post-layernorm" DROPOUT : BERT DROPOUT);
        for (int64_t j = 0; j < B; j++)
            memset(tx_bert_ids_of(r.rows + j * tx_bert_row_len(S), S).labels, 0xff, S * sizeof(int32_t));
        fill(&r);
        check_gradients(&r, "nothing is masked");
        tx_loss_sum sum[TX_MAX_LOSSES];
        r.model->type->losses(r.model, &r.batch, 0, sum);
        assert_true(sum[0].n == 0 && sum[0].sum == 0);
        demolish(&r);
    }
}

/* What tokens are, and of what type, behind the last of a sample: the same losses and gradients, bit for bit. */
static void padding_is_nothing(void **state)
{
    (void)state;
    static const char *const flags[] = { BERT DROPOUT, BERT "--post-layernorm" DROPOUT };
    for (int i = 0; i < 2; i++) {
        rig r;
        build(&r, flags[i]);
        int64_t numel = r.model->params.numel;
        double *grad = zeros(numel, sizeof *grad), loss[2], lm = objective(&r);
        gradients(&r);
        memcpy(grad, r.grad, (size_t)numel * sizeof *grad);
        memcpy(loss, r.batch.loss.data, sizeof loss);
        for (int64_t j = 0; j < B; j++) {
            const tx_bert_ids to = tx_bert_ids_of(r.rows + j * tx_bert_row_len(S), S);
            for (int64_t k = *to.n_tokens; k < S; k++) to.tokens[k] = (to.tokens[k] + 7) % VOCAB, to.types[k] ^= 1;
        }
        fill(&r);
        assert_true(objective(&r) == lm);
        gradients(&r);
        assert_memory_equal(r.grad, grad, (size_t)numel * sizeof *grad);
        assert_memory_equal(r.batch.loss.data, loss, sizeof loss);
        *tx_bert_ids_of(r.rows + 2 * tx_bert_row_len(S), S).n_tokens += 1; /* which is then something */
        fill(&r);
        assert_true(objective(&r) != lm);
        free(grad);
        demolish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_objective),
        cmocka_unit_test(a_dropped_layer_has_no_gradient),
        cmocka_unit_test(nothing_is_masked),
        cmocka_unit_test(padding_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
