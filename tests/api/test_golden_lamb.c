/* labels: golden */
/* 200 steps of LAMB against DeepSpeed's FusedLamb (tests/data/golden/lamb/make.py): losses, and of each final parameter
 * its norm and its product with a drawn direction. */
#include "support.h"

#include "checkpoint/safetensors.h"
#include "triax/engine.h"

enum { S = 64, B = 4, VOCAB = 512, N_BATCHES = 5 };

static int32_t *batch_tokens(json_t *batch)
{
    static int32_t tokens[B * (S + 1)];
    json_t *rows = json_object_get(batch, "input_ids");
    for (size_t j = 0; j < B; j++)
        for (size_t i = 0; i <= S; i++)
            tokens[j * (S + 1) + i] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, j), i));
    return tokens;
}

/* As make.py's. */
static double drawn(const char *name, size_t i)
{
    uint32_t seed = 0;
    for (uint32_t k = 0; name[k]; k++) seed += (k + 1) * (unsigned char)name[k];
    uint32_t u = (seed * 7919 + (uint32_t)i) * 2654435761u;
    u ^= u >> 16;
    u *= 2246822519u;
    u ^= u >> 13;
    u *= 3266489917u;
    u ^= u >> 16;
    return (double)u / 0x1p32 - 0.5;
}

/* The largest distance from the golden numbers, over the tensor's norm. */
static double distance(const tx_st_tensor *x, const json_t *golden)
{
    size_t n = x->bytes / 4;
    float *value = malloc(x->bytes);
    double squares = 0, product = 0;
    ASSERT_OK(tx_st_read_f32(x, value, false));
    bool keys = strstr(x->name, "c_attn.bias") != NULL;
    for (size_t i = 0; i < n; i++) {
        bool left_out = keys && i / (n / 3) == 1;
        squares += (double)value[i] * (double)value[i];
        product += left_out ? 0 : (double)value[i] * drawn(x->name, i);
    }
    free(value);
    double norm = json_number_value(json_object_get(golden, "norm"));
    double off = fabs(product - json_number_value(json_object_get(golden, "product"))) / norm;
    return fmax(off, fabs(sqrt(squares) - norm) / norm);
}

static void run_is_deepspeeds(json_t *run, json_t *batches, const char *backend, const char *more)
{
    char flags[2048];
    tx_config *cfg;
    tx_engine *e;
    snprintf(flags, sizeof flags,
             "--load %s --seq-length %d --micro-batch-size %d --train-iters 200 --lr 1e-2 --data-path none "
             "--weight-decay 0.01 --clip-grad 1.0 --hidden-dropout 0 --attention-dropout 0 --optimizer lamb "
             "--backend %s %s %s",
             data_path("golden/gpt2"), S, B, backend, json_string_value(json_object_get(run, "flags")), more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, cfg, VOCAB));
    json_t *expect, *lr = json_object_get(run, "lr"), *golden;
    size_t i;
    double loss, off = 0, weights = 0;
    json_array_foreach(json_object_get(run, "loss"), i, expect)
    {
        ASSERT_OK(tx_engine_set_lr(e, json_number_value(json_array_get(lr, i))));
        ASSERT_OK(tx_engine_forward(e, batch_tokens(json_array_get(batches, i % N_BATCHES)), &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
        off = fmax(off, fabs(loss - json_number_value(expect)));
    }
    assert_int_equal(i, 200);
    tx_safetensors *out;
    ASSERT_OK(tx_engine_export(e, in_scratch("out")));
    ASSERT_OK(tx_safetensors_open(&out, in_scratch("out/model.safetensors")));
    const char *key, *worst = "";
    json_object_foreach(json_object_get(run, "final"), key, golden)
    {
        const char *name = strncmp(key, "transformer.", 12) ? key : key + 12;
        const tx_st_tensor *x = tx_safetensors_find(out, key);
        if (!x) x = tx_safetensors_find(out, name);
        if (!x) fail_msg("%s: not there", key);
        tx_st_tensor named = *x;
        named.name = key;
        double d = distance(&named, golden);
        if (d > weights) weights = d, worst = key;
    }
    print_message("%s, %s %s: losses at most %.2g off, weights %.2g (%s)\n",
                  json_string_value(json_object_get(run, "name")), backend, more, off, weights, worst);
    ASSERT_NEAR(off, 0, 1e-4, "loss");
    ASSERT_NEAR(weights, 0, 1e-5, worst);
    tx_safetensors_close(out);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void lamb_is_deepspeeds(void **state)
{
    (void)state;
    json_t *runs = load_json(data_path("golden/lamb/result.json")), *run;
    json_t *batches = load_json(data_path("golden/gpt2/train_batches.json"));
    size_t i;
    json_array_foreach(runs, i, run) run_is_deepspeeds(run, batches, "cpu", "");
    assert_int_equal(i, 3);
    json_decref(runs);
    json_decref(batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(lamb_is_deepspeeds, scratch_setup,
                                                                        scratch_teardown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
