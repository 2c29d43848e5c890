/* labels: golden */
/* The golden models of tests/data/golden, through the public engine: logits, loss, every gradient, 20 steps of AdamW,
 * generation with a cache, on both backends. Bounds: tests/data/golden/README.md. */
#include "decoder_logits.h"

#include "api/engine_internal.h"
#include "checkpoint/safetensors.h"
#include "triax/engine.h"

enum { MAX_S = 64, MAX_B = 4, MAX_VOCAB = 512 };

/* Of a folder's batches and logits. */
typedef struct sizes {
    int b, s, vocab;
} sizes;

/* How far a number may lie from the golden one. */
typedef struct bounds {
    double logits, loss, trajectory, norm, grads, params;
} bounds;

typedef struct model_case {
    const char *folder, *backend, *flags;
    const bounds *in;
    const sizes *of;
} model_case;

/* TX_TEST_DEVICE names another one to run the fast backend's cases on. */
static const char *backend_of(const model_case *k)
{
    const char *other = getenv("TX_TEST_DEVICE");
    return other && !strcmp(k->backend, "cpu") ? other : k->backend;
}

/* A file of the case. */
static const char *golden(const model_case *k, const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "golden/%s/%s", k->folder, file);
    return data_path(name);
}

static int32_t *batch_tokens(const sizes *of, json_t *batch)
{
    static int32_t tokens[MAX_B * (MAX_S + 1)];
    size_t n_rows = (size_t)of->b, length = (size_t)of->s + 1;
    json_t *rows = json_object_get(batch, "input_ids");
    assert_int_equal(json_array_size(rows), n_rows);
    for (size_t j = 0; j < n_rows; j++)
        for (size_t i = 0; i < length; i++)
            tokens[j * length + i] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, j), i));
    return tokens;
}

static tx_engine *open_engine(tx_config **cfg, const model_case *k, const char *more)
{
    char flags[2048];
    tx_engine *e;
    snprintf(flags, sizeof flags,
             "--load %s --seq-length %d --micro-batch-size %d --train-iters 20 --lr 1e-3 --data-path none "
             "--weight-decay 0.01 "
             "--clip-grad 1.0 --hidden-dropout 0 --attention-dropout 0 --backend %s %s %s",
             golden(k, ""), k->of->s, k->of->b, backend_of(k), k->flags, more);
    ASSERT_OK(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, *cfg, k->of->vocab));
    return e;
}

/* Norm of the difference over the norm, per tensor of two safetensors files; key biases left out on request. */
static void compare_files(const char *ours, const char *theirs, double relative, double absolute, bool skip_key_bias)
{
    tx_safetensors *a, *b;
    ASSERT_OK(tx_safetensors_open(&a, ours));
    ASSERT_OK(tx_safetensors_open(&b, theirs));
    assert_int_equal(tx_safetensors_count(a), tx_safetensors_count(b));
    for (size_t i = 0; i < tx_safetensors_count(b); i++) {
        const tx_st_tensor *y = tx_safetensors_at(b, i), *x = tx_safetensors_find(a, y->name);
        if (!x || x->bytes != y->bytes || x->n_dims != y->n_dims || x->dim[0] != y->dim[0])
            fail_msg("%s: missing or misshapen", y->name);
        size_t n = y->bytes / 4;
        float *u = malloc(y->bytes), *v = malloc(y->bytes);
        ASSERT_OK(tx_st_read_f32(x, u, false));
        ASSERT_OK(tx_st_read_f32(y, v, false));
        double diff = 0, norm = 0, largest = 0;
        bool qkv_bias = strstr(y->name, "c_attn.bias") != NULL;
        for (size_t k = 0; k < n; k++) {
            if (skip_key_bias && qkv_bias && k / (n / 3) == 1) continue;
            double d = (double)u[k] - (double)v[k];
            diff += d * d;
            norm += (double)v[k] * (double)v[k];
            largest = fmax(largest, fabs(d));
        }
        if (relative > 0) ASSERT_NEAR(sqrt(diff) / sqrt(norm), 0, relative, y->name);
        if (absolute > 0) ASSERT_NEAR(largest, 0, absolute, y->name);
        free(u);
        free(v);
    }
    tx_safetensors_close(a);
    tx_safetensors_close(b);
}

static void trajectory(void **state)
{
    const model_case *k = *state;
    char more[512];
    snprintf(more, sizeof more, "--dump-step 1 %s", in_scratch("dump"));
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, k, more);
    json_t *result = load_json(golden(k, "result.json")), *batches = load_json(golden(k, "train_batches.json")), *row;
    size_t i;
    double loss;
    json_array_foreach(json_object_get(result, "trajectory_f64"), i, row)
    {
        ASSERT_OK(tx_engine_set_lr(e, json_number_value(json_object_get(row, "lr"))));
        ASSERT_OK(tx_engine_forward(e, batch_tokens(k->of, json_array_get(batches, i % 5)), &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
        double expect = json_number_value(json_object_get(row, "loss")),
               norm = json_number_value(json_object_get(row, "grad_norm"));
        ASSERT_NEAR(loss, expect, k->in->trajectory, "trajectory loss");
        ASSERT_NEAR(tx_engine_grad_norm(e), norm, k->in->norm * norm, "trajectory gradient norm");
        if (i == 0) ASSERT_NEAR(loss, json_number_value(json_object_get(result, "loss_f64")), k->in->loss, "loss");
    }
    assert_int_equal(i, 20);
    compare_files(in_scratch("dump/grads.safetensors"), golden(k, "grads.safetensors"), k->in->grads, 0, true);
    compare_files(in_scratch("dump/model.safetensors"), golden(k, "model.safetensors"), 1e-9, 0, false);
    ASSERT_OK(tx_engine_export(e, in_scratch("out")));
    compare_files(in_scratch("out/model.safetensors"), golden(k, "final_params.safetensors"), 0, k->in->params, true);
    json_decref(result);
    json_decref(batches);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* How far each parameter has come, biases left out that are in part noise. */
static void compare_changes(const char *ours, const char *begin, const json_t *changes)
{
    tx_safetensors *a, *b;
    ASSERT_OK(tx_safetensors_open(&a, ours));
    ASSERT_OK(tx_safetensors_open(&b, begin));
    assert_int_equal(tx_safetensors_count(b), json_object_size(changes));
    for (size_t i = 0; i < tx_safetensors_count(b); i++) {
        const tx_st_tensor *y = tx_safetensors_at(b, i), *x = tx_safetensors_find(a, y->name);
        const char *name = strncmp(y->name, "transformer.", 12) ? y->name : y->name + 12;
        double want = json_number_value(json_object_get(changes, name)), sum = 0;
        if (!x || x->bytes != y->bytes || !(want > 0)) fail_msg("%s: missing", y->name);
        if (strstr(name, "c_attn.bias")) continue;
        float *u = malloc(y->bytes), *v = malloc(y->bytes);
        ASSERT_OK(tx_st_read_f32(x, u, false));
        ASSERT_OK(tx_st_read_f32(y, v, false));
        for (size_t k = 0; k < y->bytes / 4; k++) sum += ((double)u[k] - v[k]) * ((double)u[k] - v[k]);
        ASSERT_NEAR(sqrt(sum), want, 1e-4 * want, name);
        free(u);
        free(v);
    }
    tx_safetensors_close(a);
    tx_safetensors_close(b);
}

/* The word embedding with a learning rate of its own; the rates are the schedule's, not set as above. */
static void decoupled(void **state)
{
    const model_case *k = *state;
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, k, "--lr-warmup-iters 4 --decoupled-lr 4e-3 --decoupled-min-lr 1e-4");
    json_t *golden_run = load_json(golden(k, "decoupled.json")), *row;
    json_t *batches = load_json(golden(k, "train_batches.json"));
    size_t i;
    double loss;
    json_array_foreach(json_object_get(golden_run, "steps"), i, row)
    {
        double lr = json_number_value(json_object_get(row, "lr")),
               own = json_number_value(json_object_get(row, "decoupled_lr")),
               expect = json_number_value(json_object_get(row, "loss")),
               norm = json_number_value(json_object_get(row, "grad_norm"));
        ASSERT_NEAR(tx_engine_lr(e), lr, 1e-12 * lr, "learning rate");
        ASSERT_NEAR(e->trainer->decoupled_lr, own, 1e-12 * own, "decoupled learning rate");
        ASSERT_OK(tx_engine_forward(e, batch_tokens(k->of, json_array_get(batches, i % 5)), &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
        ASSERT_NEAR(loss, expect, k->in->trajectory, "loss");
        ASSERT_NEAR(tx_engine_grad_norm(e), norm, k->in->norm * norm, "gradient norm");
    }
    assert_int_equal(i, 20);
    ASSERT_OK(tx_engine_export(e, in_scratch("out")));
    compare_changes(in_scratch("out/model.safetensors"), golden(k, "model.safetensors"),
                    json_object_get(golden_run, "change"));
    json_decref(golden_run);
    json_decref(batches);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* Logits of every position: each prefix of the batch's rows as a prompt. */
static void logits(void **state)
{
    const model_case *k = *state;
    const int b = k->of->b, s = k->of->s, vocab = k->of->vocab;
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, k, "");
    tx_decoder *d = decoder_of(e->trainer->model, backend_of(k), s);
    double *expect = load_npy_f64(golden(k, "logits_f64.npy"), (size_t)b * (size_t)s * (size_t)vocab);
    json_t *batch = load_json(golden(k, "batch.json"));
    int32_t *tokens = batch_tokens(k->of, batch);
    float got[MAX_VOCAB];
    double most = 0;
    for (int j = 0; j < b; j++)
        for (int n = 1; n <= s; n += j ? 9 : 1) { /* the first row in full, the others in part */
            logits_behind(d, tokens + j * (s + 1), n, got);
            for (int i = 0; i < vocab; i++) {
                double want = expect[(j * s + n - 1) * vocab + i], off = fabs((double)got[i] - want);
                ASSERT_NEAR((double)got[i], want, k->in->logits, "logit");
                if (off > most) most = off;
            }
        }
    print_message("%s %s %s: logits at most %.3g off\n", k->folder, backend_of(k), k->flags, most);
    free(expect);
    json_decref(batch);
    tx_decoder_destroy(d);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* The logits behind a prompt and new tokens, those one at a time over the cache, are those of all tokens at once. */
static void cached_is_recomputed(void **state)
{
    enum { PROMPT = 7, NEW = 20 };
    const model_case *k = *state;
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, k, "");
    tx_decoder *d = decoder_of(e->trainer->model, backend_of(k), k->of->s);
    json_t *batch = load_json(golden(k, "batch.json"));
    int32_t tokens[PROMPT + NEW];
    float cached[MAX_VOCAB], whole[MAX_VOCAB];
    memcpy(tokens, batch_tokens(k->of, batch), PROMPT * sizeof *tokens);
    go_on_greedily(d, tokens, PROMPT, NEW, cached);
    logits_behind(d, tokens, PROMPT + NEW - 1, whole);
    /* a GPU's library makes a product of other rows in another way */
    double bound = strcmp(backend_of(k), "gpu") ? 2e-6 : 5e-6;
    for (int i = 0; i < k->of->vocab; i++) ASSERT_NEAR((double)cached[i], (double)whole[i], bound, "logit");
    json_decref(batch);
    tx_decoder_destroy(d);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* Half: weights are rounded to 8 or 11 bits before anything is computed; what they are trained to is fp32. */
static const bounds fp32 = { 2e-5, 5e-6, 2e-5, 1e-4, 1e-5, 1e-4 }, bf16 = { 3e-2, 5e-3, 3e-3, 5e-3, 5e-2, 1e-2 },
                    bf16_llama = { 4e-2, 5e-3, 3e-3, 5e-3, 5e-2, 1e-2 }, /* PyTorch's own bf16 is 4.4e-2 off there */
    fp16 = { 5e-3, 1e-3, 5e-4, 3e-3, 1e-2, 1e-2 };

int main(void)
{
    static const sizes usual = { MAX_B, MAX_S, MAX_VOCAB }, small = { 4, 32, 64 };
    static model_case cases[] = {
        { "gpt2", "cpu", "", &fp32, &usual },
        { "gpt2", "ref", "", &fp32, &usual },
        { "llama", "cpu", "", &fp32, &usual },
        { "llama", "ref", "", &fp32, &usual },
        { "gpt2", "cpu", "--bf16", &bf16, &usual },
        { "llama", "cpu", "--bf16", &bf16_llama, &usual },
        { "llama", "cpu", "--bf16 --fp32-residual-connection", &bf16, &usual },
        { "gpt2", "cpu", "--fp16 --initial-loss-scale 65536", &fp16, &usual },
        { "llama", "cpu", "--fp16 --loss-scale 1024", &fp16, &usual },
        { "gpt2", "cpu", "--bf16 --grad-dtype bf16", &bf16, &usual },
        { "llama", "cpu", "--fp16 --loss-scale 1024 --grad-dtype fp16", &fp16, &usual },
        { "mixtral", "cpu", "", &fp32, &small },
        { "mixtral", "ref", "", &fp32, &small },
        { "qwen2_moe", "cpu", "", &fp32, &small },
        { "qwen2_moe", "ref", "", &fp32, &small },
        { "qwen3_moe", "cpu", "", &fp32, &small },
        { "qwen3_moe", "ref", "", &fp32, &small },
    };
#define TEST(f, i)                                        \
    {                                                     \
#f, f, scratch_setup, scratch_teardown, &cases[i] \
    }
#define TESTS(f)                                                                                                \
    TEST(f, 0), TEST(f, 1), TEST(f, 2), TEST(f, 3), TEST(f, 4), TEST(f, 5), TEST(f, 6), TEST(f, 7), TEST(f, 8), \
        TEST(f, 9), TEST(f, 10), TEST(f, 11), TEST(f, 12), TEST(f, 13), TEST(f, 14), TEST(f, 15), TEST(f, 16)
    const struct CMUnitTest tests[] = { TESTS(logits),
                                        TESTS(trajectory),
                                        TEST(decoupled, 0),
                                        TEST(decoupled, 1),
                                        TEST(cached_is_recomputed, 0),
                                        TEST(cached_is_recomputed, 1),
                                        TEST(cached_is_recomputed, 2),
                                        TEST(cached_is_recomputed, 3),
                                        TEST(cached_is_recomputed, 11),
                                        TEST(cached_is_recomputed, 13),
                                        TEST(cached_is_recomputed, 15) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
