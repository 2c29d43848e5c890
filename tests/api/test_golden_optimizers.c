/* labels: golden */
/* 200 steps of a small GPT by optimizers of PyTorch and DeepSpeed (tests/data/golden/optimizers), through the public
 * engine: every loss, and the parameters at the end; with both backends, and the state offloaded. */
#include "support.h"

#include "checkpoint/safetensors.h"
#include "triax/engine.h"

enum { S = 16, B = 4, VOCAB = 61, STEPS = 200, N_BATCHES = 5 };

/* Relative, of a loss; and of a parameter, the norm of the difference over its norm. */
#define LOSS   2e-6
#define PARAMS 1e-5

typedef struct run_case {
    const char *name, *flags;
} run_case;

static const char *golden(const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "golden/optimizers/%s", file);
    return data_path(name);
}

static void tokens_of(int32_t tokens[B * (S + 1)], const json_t *batch)
{
    const json_t *rows = json_object_get(batch, "input_ids");
    for (size_t j = 0; j < B; j++)
        for (size_t i = 0; i <= S; i++)
            tokens[j * (S + 1) + i] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, j), i));
}

/* The gradient of a key's bias is nothing but rounding, and what an optimizer makes of it means nothing. */
static double distance(const char *name, const float *x, const float *y, size_t n)
{
    double diff = 0, norm = 0;
    const bool qkv = strstr(name, "c_attn.bias") != NULL;
    for (size_t i = 0; i < n; i++) {
        if (qkv && i / (n / 3) == 1) continue;
        diff += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        norm += (double)y[i] * (double)y[i];
    }
    return sqrt(diff / norm);
}

static double compare_files(const char *ours, const char *theirs)
{
    tx_safetensors *a, *b;
    double most = 0;
    ASSERT_OK(tx_safetensors_open(&a, ours));
    ASSERT_OK(tx_safetensors_open(&b, theirs));
    assert_int_equal(tx_safetensors_count(a), tx_safetensors_count(b));
    for (size_t i = 0; i < tx_safetensors_count(b); i++) {
        const tx_st_tensor *y = tx_safetensors_at(b, i), *x = tx_safetensors_find(a, y->name);
        if (!x || x->bytes != y->bytes) fail_msg("%s: missing or misshapen", y->name);
        float *u = test_malloc(x->bytes), *v = test_malloc(y->bytes);
        ASSERT_OK(tx_st_read_f32(x, u, false));
        ASSERT_OK(tx_st_read_f32(y, v, false));
        double off = distance(y->name, u, v, y->bytes / sizeof *v);
        ASSERT_NEAR(off, 0, PARAMS, y->name);
        most = fmax(most, off);
        test_free(u);
        test_free(v);
    }
    tx_safetensors_close(a);
    tx_safetensors_close(b);
    return most;
}

static void trains_as_upstream(void **state)
{
    const run_case *k = *state;
    char flags[2048], file[64];
    int32_t tokens[B * (S + 1)];
    tx_config *cfg;
    tx_engine *e;
    json_t *all = load_json(golden("result.json")), *batches = load_json(golden("train_batches.json"));
    const json_t *run = json_object_get(all, k->name), *losses = json_object_get(run, "losses");
    double loss, most = 0;
    snprintf(flags, sizeof flags,
             "--load %s --seq-length %d --micro-batch-size %d --train-iters %d --lr %.17g --lr-decay-style constant "
             "--data-path none --clip-grad 1.0 --hidden-dropout 0 --attention-dropout 0 %s %s",
             golden(""), S, B, STEPS, json_number_value(json_object_get(run, "lr")),
             json_string_value(json_object_get(run, "flags")), k->flags);
    assert_int_equal(json_array_size(losses), STEPS);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, cfg, VOCAB));
    for (size_t i = 0; i < STEPS; i++) {
        tokens_of(tokens, json_array_get(batches, i % N_BATCHES));
        ASSERT_OK(tx_engine_forward(e, tokens, &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
        double off = fabs(loss / json_number_value(json_array_get(losses, i)) - 1);
        ASSERT_NEAR(off, 0, LOSS, "loss");
        most = fmax(most, off);
    }
    ASSERT_OK(tx_engine_export(e, in_scratch("out")));
    snprintf(file, sizeof file, "%s.safetensors", k->name);
    double params = compare_files(in_scratch("out/model.safetensors"), golden(file));
    print_message("%s %s: a loss at most %.1e off, a parameter %.1e\n", k->name, k->flags, most, params);
    json_decref(all);
    json_decref(batches);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
#define OFFLOADED "--zero-stage 1 --offload-optimizer cpu"
    static run_case cases[] = {
        { "adam_l2", "--backend cpu" },  { "adam_l2", "--backend ref" },  { "adam_l2", OFFLOADED },
        { "nesterov", "--backend cpu" }, { "nesterov", "--backend ref" }, { "nesterov", OFFLOADED },
        { "dampened", "--backend cpu" }, { "dampened", "--backend ref" }, { "dampened", OFFLOADED },
        { "adagrad", "--backend cpu" },  { "adagrad", "--backend ref" },  { "ds_adagrad", OFFLOADED },
        { "lion", "--backend cpu" },     { "lion", "--backend ref" },     { "lion", OFFLOADED },
    };
    enum { N = sizeof cases / sizeof *cases };
    struct CMUnitTest tests[N];
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ cases[i].name, trains_as_upstream, scratch_setup, scratch_teardown, &cases[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
