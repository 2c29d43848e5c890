/* labels: golden */
/* 200 steps of --optimizer muon against PyTorch's own Muon and AdamW in fp64 (tests/data/golden/muon), and of adafactor
 * against Hugging Face's Adafactor (tests/data/golden/adafactor): every loss, and of each parameter its norm and some
 * of its numbers. */
#include "support.h"

#include "checkpoint/safetensors.h"
#include "triax/engine.h"

enum { B = 4, S = 64, VOCAB = 512, STEPS = 200, MAX_NUMEL = 1 << 16 };

/* Of a loss, and of a parameter by its norm. */
#define LOSS   2e-5
#define PARAMS 1e-5

static int32_t *batch_tokens(json_t *batch)
{
    static int32_t tokens[B * (S + 1)];
    json_t *rows = json_object_get(batch, "input_ids");
    for (size_t j = 0; j < B; j++)
        for (size_t i = 0; i <= S; i++)
            tokens[j * (S + 1) + i] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, j), i));
    return tokens;
}

/* An optimizer, and the folder of the model that it trains. */
typedef struct walk {
    const char *optimizer, *model;
    json_t *all, *batches;
} walk;

static json_t *load_golden(const char *folder, const char *file)
{
    char name[64];
    snprintf(name, sizeof name, "golden/%s/%s", folder, file);
    return load_json(data_path(name));
}

static tx_engine *open_engine(tx_config **cfg, const walk *w, json_t *of)
{
    char flags[2048], folder[512];
    tx_engine *e;
    snprintf(folder, sizeof folder, "%s/%s", data_path("golden"), w->model);
    snprintf(
        flags, sizeof flags,
        "--load %s --seq-length %d --micro-batch-size %d --train-iters %d --lr 1e-3 --data-path none --weight-decay "
        "%.17g --clip-grad 1 --hidden-dropout 0 --attention-dropout 0 --optimizer %s --threads 1 %s",
        folder, S, B, STEPS, json_real_value(json_object_get(w->all, "weight_decay")), w->optimizer,
        json_string_value(json_object_get(of, "flags")));
    ASSERT_OK(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, *cfg, VOCAB));
    return e;
}

/* The largest distance of a number, by the root mean square of the parameter's. */
static double compare_param(const tx_safetensors *file, const char *name, json_t *of)
{
    static float x[MAX_NUMEL];
    json_t *sample = json_object_get(of, "x"), *one;
    size_t n = (size_t)json_integer_value(json_object_get(of, "n")), i;
    size_t every = (size_t)json_integer_value(json_object_get(of, "every"));
    const tx_st_tensor *t = tx_safetensors_find(file, name);
    if (!t || t->bytes != n * sizeof *x) fail_msg("%s: missing or misshapen", name);
    assert_true(n <= MAX_NUMEL);
    ASSERT_OK(tx_st_read_f32(t, x, false));
    double norm = json_number_value(json_object_get(of, "norm")), squares = 0, off = 0;
    for (i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    if (!strstr(name, "c_attn.bias")) /* that of keys is noise of a gradient of 0 */
        ASSERT_NEAR(sqrt(squares) / norm, 1, PARAMS, name);
    json_array_foreach(sample, i, one)
    {
        if (strstr(name, "c_attn.bias") && i * every / (n / 3) == 1) continue;
        off = fmax(off, fabs((double)x[i * every] - json_number_value(one)) / (norm / sqrt((double)n)));
    }
    return off;
}

static void run_case(const walk *w, json_t *of)
{
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, w, of);
    json_t *rates = json_object_get(of, "lr"), *lr, *losses = json_object_get(of, "losses"), *param;
    double loss, off = 0, most = 0;
    size_t i;
    if (!rates) rates = json_object_get(w->all, "lr"); /* the same in all cases */
    json_array_foreach(rates, i, lr)
    {
        ASSERT_OK(tx_engine_set_lr(e, json_number_value(lr)));
        ASSERT_OK(tx_engine_forward(e, batch_tokens(json_array_get(w->batches, i % 5)), &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
        off = fmax(off, fabs(loss - json_number_value(json_array_get(losses, i))));
    }
    assert_int_equal(i, STEPS);
    ASSERT_OK(tx_engine_export(e, in_scratch("out")));
    tx_safetensors *file;
    ASSERT_OK(tx_safetensors_open(&file, in_scratch("out/model.safetensors")));
    const char *name, *worst = "";
    json_object_foreach(json_object_get(of, "params"), name, param)
    {
        double x = compare_param(file, name, param);
        if (x > most) most = x, worst = name;
    }
    print_message("%s: losses at most %.2g off, numbers %.2g (%s)\n", json_string_value(json_object_get(of, "flags")),
                  off, most, worst);
    ASSERT_NEAR(off, 0, LOSS, "loss");
    ASSERT_NEAR(most, 0, PARAMS, worst);
    tx_safetensors_close(file);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    ASSERT_OK(tx_remove_tree(in_scratch("out")));
}

static void trajectories(const char *optimizer, const char *model)
{
    walk w = { optimizer, model, load_golden(optimizer, "result.json"), load_golden(model, "train_batches.json") };
    json_t *of;
    size_t i;
    json_array_foreach(json_object_get(w.all, "cases"), i, of) run_case(&w, of);
    assert_true(i > 1);
    json_decref(w.all);
    json_decref(w.batches);
}

static void muon(void **state)
{
    (void)state;
    trajectories("muon", "gpt2");
}

static void adafactor(void **state)
{
    (void)state;
    trajectories("adafactor", "llama");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(muon), cmocka_unit_test(adafactor) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
