/* labels: golden */
/* Hugging Face's families (tests/data/families): loaded without a flag that names them, logits, loss and gradients are
 * those of transformers in fp64, so are 100 ids of a greedy continuation over the cache; and through a native
 * checkpoint and back every tensor has the same bytes and config.json says the same model. TX_FAMILY names one to run
 * alone. */
#include "decoder_logits.h"

#include "api/engine_internal.h"
#include "checkpoint/safetensors.h"
#include "model/hf_format.h"
#include "triax/engine.h"
#include "triax/jobs.h"

enum { B = 2, S = 24, V = 64, PROMPT = 12, NEW = 100, MAX_GRAD = 200000 };

static const char *const families[] = {
    "gpt2",
    "llama",
    "llama_biases",
    "llama3",
    "llama_linear",
    "llama_dynamic",
    "qwen2",
    "qwen2_window",
    "qwen3",
    "qwen3_yarn",
    "mistral",
    "seed_oss",
    "helium",
    "granite",
    "smollm3",
    "stablelm_parallel",
    "phi3",
    "arcee",
    "nemotron",
    "olmo2",
    "olmo3",
    "exaone4",
    "gemma",
    "gemma2",
    "gemma3",
    "cohere",
    "cohere2",
    "gpt_neox",
    "gpt_neox_serial",
    "gptj",
    "phi",
    "falcon_7b",
    "falcon_40b",
    "falcon_11b",
    "falcon_serial",
    "bloom",
    "mpt",
    "opt",
    "gpt_bigcode",
    "starcoder2",
    "mixtral_window",
    "olmoe",
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

static const char *file_of(const char *family, const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "families/%s/%s", family, file);
    return data_path(name);
}

/* TX_TEST_DEVICE=gpu: the numbers of a GPU. */
static const char *backend(void)
{
    const char *other = getenv("TX_TEST_DEVICE");
    return other ? other : "cpu";
}

static tx_engine *open_engine(tx_config **cfg, const char *folder, const char *more)
{
    char flags[2048];
    tx_engine *e;
    snprintf(flags, sizeof flags,
             "--load %s --seq-length %d --micro-batch-size %d --train-iters 2 --lr 1e-3 --data-path none "
             "--hidden-dropout 0 --attention-dropout 0 --backend %s %s",
             folder, S, B, backend(), more);
    ASSERT_OK(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, *cfg, V));
    return e;
}

static int32_t *tokens_of(const json_t *expected)
{
    static int32_t tokens[B * (S + 1)];
    const json_t *rows = json_object_get(expected, "tokens");
    for (size_t i = 0; i < B * (S + 1); i++)
        tokens[i] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, i / (S + 1)), i % (S + 1)));
    return tokens;
}

static const float *read_tensor(const tx_safetensors *st, const char *name, size_t *n)
{
    static float x[MAX_GRAD];
    const tx_st_tensor *t = tx_safetensors_find(st, name);
    if (!t || t->bytes > sizeof x) fail_msg("%s: missing or too long", name);
    *n = t->bytes / sizeof *x;
    ASSERT_OK(tx_st_read_f32(t, x, false));
    return x;
}

/* ---- numbers ---- */

static double compare_logits(tx_engine *e, const int32_t *tokens, const tx_safetensors *expected)
{
    tx_decoder *d = decoder_of(e->trainer->model, backend(), 128);
    float got[V];
    size_t n;
    const float *want = read_tensor(expected, "logits", &n);
    double most = 0;
    assert_int_equal(n, B * S * V);
    for (int j = 0; j < B; j++)
        for (int k = 1; k <= S; k++) {
            logits_behind(d, tokens + j * (S + 1), k, got);
            for (int v = 0; v < V; v++) most = fmax(most, fabs((double)got[v] - (double)want[(j * S + k - 1) * V + v]));
        }
    tx_decoder_destroy(d);
    return most;
}

/* The norm and some of the numbers of each gradient, over its norm. One that is 0, of keys' biases, is rounding on both
 * sides, and small beside the largest. */
static double compare_gradients(const char *ours, const tx_safetensors *expected)
{
    static float x[MAX_GRAD];
    tx_safetensors *got;
    double most = 0, largest = 0;
    int n_grads = 0;
    ASSERT_OK(tx_safetensors_open(&got, ours));
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < tx_safetensors_count(got); i++) {
            const tx_st_tensor *t = tx_safetensors_at(got, i);
            char name[300];
            size_t n = t->bytes / sizeof(float), m, every;
            double norm = 0, off = 0;
            snprintf(name, sizeof name, "norm/%s", t->name);
            if (!tx_safetensors_find(expected, name)) continue; /* of experts, which transformers packs */
            double want_norm = (double)*read_tensor(expected, name, &m);
            if (pass == 0) {
                largest = fmax(largest, want_norm);
                n_grads++;
                continue;
            }
            assert_true(n <= MAX_GRAD);
            ASSERT_OK(tx_st_read_f32(t, x, false));
            for (size_t k = 0; k < n; k++) norm += (double)x[k] * (double)x[k];
            snprintf(name, sizeof name, "grad/%s", t->name);
            const float *want = read_tensor(expected, name, &m);
            every = n / 48 ? n / 48 : 1;
            assert_int_equal(m, (n + every - 1) / every);
            for (size_t k = 0; k < m; k++) {
                double d = (double)x[k * every] - (double)want[k];
                off += d * d;
            }
            bool none = want_norm < 1e-12 * largest;
            double unit = none ? largest : want_norm;
            double share = sqrt((double)m / (double)n);
            double worst = fmax(fabs(sqrt(norm) - want_norm) / unit, sqrt(off) / (unit * share));
            if (worst > 1e-5) print_message("%s: gradient %.3g off, of norm %.3g\n", t->name, worst, want_norm);
            most = fmax(most, worst);
        }
    assert_true(n_grads > 8);
    tx_safetensors_close(got);
    return most;
}

static void compare_greedy(tx_engine *e, const int32_t *tokens, const json_t *expected)
{
    tx_decoder *d = decoder_of(e->trainer->model, backend(), 128);
    const json_t *want = json_object_get(expected, "greedy");
    int32_t text[PROMPT + NEW];
    float last[V];
    assert_int_equal(json_array_size(want), NEW);
    memcpy(text, tokens, PROMPT * sizeof *text);
    go_on_greedily(d, text, PROMPT, NEW, last);
    for (size_t i = 0; i < NEW; i++)
        if (text[PROMPT + i] != json_integer_value(json_array_get(want, i)))
            fail_msg("id %zu of the continuation is %d, not %lld", i, text[PROMPT + i],
                     (long long)json_integer_value(json_array_get(want, i)));
    tx_decoder_destroy(d);
}

static void numbers(void **state)
{
    const char *family = *state;
    char more[512];
    double loss;
    tx_config *cfg;
    tx_safetensors *expected;
    json_t *said = load_json(file_of(family, "expected.json"));
    snprintf(more, sizeof more, "--dump-step 1 %s", in_scratch("dump"));
    tx_engine *e = open_engine(&cfg, file_of(family, ""), more);
    ASSERT_OK(tx_safetensors_open(&expected, file_of(family, "expected.safetensors")));
    const int32_t *tokens = tokens_of(said);
    double logits = compare_logits(e, tokens, expected);
    compare_greedy(e, tokens, said);
    ASSERT_OK(tx_engine_forward(e, tokens, &loss));
    ASSERT_OK(tx_engine_backward(e));
    ASSERT_OK(tx_engine_step(e));
    double want = json_number_value(json_object_get(said, "loss"));
    double grads = compare_gradients(in_scratch("dump/grads.safetensors"), expected);
    print_message("%s: logits %.2g off, gradients %.2g, loss %.2g\n", family, logits, grads, fabs(loss - want));
    ASSERT_NEAR(logits, 0, 2e-5, "logits");
    ASSERT_NEAR(loss, want, 5e-6, "loss");
    ASSERT_NEAR(grads, 0, 1e-5, "gradients");
    tx_safetensors_close(expected);
    json_decref(said);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* ---- there and back ---- */

static void convert(const char *to, const char *from, const char *into)
{
    char flags[1024];
    tx_config *cfg;
    snprintf(flags, sizeof flags, "--to %s %s %s --true-vocab-size %d", to, from, into, V);
    ASSERT_OK(tx_config_parse_string(&cfg, "convert", flags));
    ASSERT_OK(tx_convert(cfg));
    tx_config_free(cfg);
}

static void same_tensors(const char *a, const char *b)
{
    tx_safetensors *x, *y;
    ASSERT_OK(tx_safetensors_open(&x, a));
    ASSERT_OK(tx_safetensors_open(&y, b));
    assert_int_equal(tx_safetensors_count(x), tx_safetensors_count(y));
    for (size_t i = 0; i < tx_safetensors_count(x); i++) {
        const tx_st_tensor *s = tx_safetensors_at(x, i), *t = tx_safetensors_find(y, s->name);
        if (!t || s->bytes != t->bytes || s->n_dims != t->n_dims || s->dim[0] != t->dim[0] ||
            memcmp(s->data, t->data, s->bytes) != 0)
            fail_msg("%s: is not what it was", s->name);
    }
    tx_safetensors_close(x);
    tx_safetensors_close(y);
}

static bool has_tensor(const void *user, const char *name)
{
    return tx_safetensors_find(user, name);
}

/* What a folder's config.json means. */
static json_t *meaning_of(const char *folder)
{
    char path[600];
    tx_safetensors *st;
    const tx_hf_format *f;
    json_t *o;
    snprintf(path, sizeof path, "%s/config.json", folder);
    json_t *config = load_json(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ASSERT_OK(tx_safetensors_open(&st, path));
    ASSERT_OK(tx_hf_format_find(&f, json_string_value(json_object_get(config, "model_type")), has_tensor, st));
    ASSERT_OK(tx_hf_options(f, &o, config));
    json_decref(config);
    tx_safetensors_close(st);
    return o;
}

static void there_and_back(void **state)
{
    const char *family = *state;
    char native[512], back[512], first[512];
    tx_str differ = { 0 };
    snprintf(first, sizeof first, "%s", file_of(family, ""));
    snprintf(native, sizeof native, "%s", in_scratch("native"));
    snprintf(back, sizeof back, "%s", in_scratch("back"));
    convert("native", first, native);
    convert("huggingface", native, back);
    same_tensors(file_of(family, "model.safetensors"), in_scratch("back/model.safetensors"));
    json_t *a = meaning_of(first), *b = meaning_of(back);
    if (tx_config_shapes_differ(a, b, &differ)) fail_msg("config.json says another model: %s", differ.data);
    json_decref(a);
    json_decref(b);
    tx_str_free(&differ);
}

int main(void)
{
    static struct CMUnitTest tests[2 * N_FAMILIES];
    const char *only = getenv("TX_FAMILY");
    size_t n = 0;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (only && strcmp(only, families[i])) continue;
        tests[n++] = (struct CMUnitTest){ families[i], numbers, scratch_setup, scratch_teardown, (void *)families[i] };
        tests[n++] =
            (struct CMUnitTest){ families[i], there_and_back, scratch_setup, scratch_teardown, (void *)families[i] };
    }
    return _cmocka_run_group_tests("families", tests, n, NULL, NULL);
}
