/* labels: golden */
/* The adapters of tests/data/golden/lora, which PEFT has made beside the models of golden/gpt2 and golden/llama: loss,
 * every gradient of A and B, and 10 steps of AdamW; on both backends. Bounds: tests/data/golden/README.md. */
#include "support.h"

#include "api/engine_internal.h"
#include "checkpoint/safetensors.h"
#include "model/peft_format.h"
#include "triax/engine.h"

enum { B = 4, S = 64, VOCAB = 512, STEPS = 10 };

typedef struct lora_case {
    const char *base, *backend, *flags;
    int b, s;
} lora_case;

static const char *golden(const char *folder, const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "golden/%s/%s", folder, file);
    return data_path(name);
}

static json_t *load_json_of(const char *path)
{
    json_t *o = json_load_file(path, 0, NULL);
    if (!o) fail_msg("%s: cannot be read", path);
    return o;
}

static int32_t *tokens_of(const json_t *batch)
{
    static int32_t tokens[B * (S + 1)];
    const json_t *rows = json_object_get(batch, "input_ids");
    size_t n = 0;
    for (size_t j = 0; j < json_array_size(rows); j++)
        for (size_t i = 0; i < json_array_size(json_array_get(rows, j)); i++)
            tokens[n++] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, j), i));
    return tokens;
}

/* Of each A and B, the norm of the difference over the norm; and nothing else has a gradient. */
static void compare_gradients(const tx_trainer *t, const char *file)
{
    const tx_params *ps = &t->model->params;
    const tx_hf_format *format;
    tx_safetensors *f;
    size_t n = 0;
    ASSERT_OK(tx_hf_format_of(&format, t->model));
    ASSERT_OK(tx_safetensors_open(&f, file));
    for (int i = 0, layer; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        tx_hf_part part;
        if (tx_lora_target_of(p->name, &layer) < 0) {
            assert_true(p->frozen && !p->weight->grad.data);
            continue;
        }
        ASSERT_OK(tx_peft_part(format, t->model, p, &part));
        const tx_st_tensor *golden_tensor = tx_safetensors_find(f, part.name);
        if (!golden_tensor) fail_msg("%s: is not there", part.name);
        float *theirs = malloc(golden_tensor->bytes), *ours = malloc(golden_tensor->bytes);
        ASSERT_OK(tx_st_read_f32(golden_tensor, theirs, false));
        tx_hf_copy(t->model, &part, ours, (float *)t->zero.grad + p->offset, true);
        double diff = 0, norm = 0;
        for (int64_t k = 0; k < p->numel; k++) {
            diff += ((double)ours[k] - theirs[k]) * ((double)ours[k] - theirs[k]);
            norm += (double)theirs[k] * (double)theirs[k];
        }
        ASSERT_NEAR(sqrt(diff) / sqrt(norm), 0, 1e-5, part.name);
        free(theirs);
        free(ours);
        n++;
    }
    assert_int_equal(n, tx_safetensors_count(f));
    tx_safetensors_close(f);
}

static void adapters(void **state)
{
    const lora_case *k = *state;
    char flags[2048], folder[64], base[512];
    tx_config *cfg;
    tx_engine *e;
    snprintf(folder, sizeof folder, "lora/%s", k->base);
    snprintf(base, sizeof base, "%s", golden(k->base, ""));
    json_t *batches = load_json_of(golden(k->base, "train_batches.json"));
    json_t *result = load_json_of(golden(folder, "result.json")), *row;
    size_t b = json_array_size(json_object_get(json_array_get(batches, 0), "input_ids"));
    size_t s = json_array_size(json_array_get(json_object_get(json_array_get(batches, 0), "input_ids"), 0)) - 1;
    assert_true(b <= B && s <= S);
    snprintf(flags, sizeof flags,
             "--load %s --lora-base %s --seq-length %zu --micro-batch-size %zu --train-iters 20 --lr 1e-3 --data-path "
             "none --weight-decay 0.01 --clip-grad 1.0 --hidden-dropout 0 --attention-dropout 0 --backend %s %s",
             golden(folder, ""), base, s, b, k->backend, k->flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, cfg, VOCAB));
    assert_int_equal(cfg->lora_rank, 3);
    size_t i;
    json_array_foreach(json_object_get(result, "steps"), i, row)
    {
        double loss, norm = json_number_value(json_object_get(row, "grad_norm"));
        ASSERT_OK(tx_engine_set_lr(e, 1e-3));
        ASSERT_OK(tx_engine_forward(e, tokens_of(json_array_get(batches, i % 5)), &loss));
        ASSERT_OK(tx_engine_backward(e));
        if (i == 0) compare_gradients(e->trainer, golden(folder, "grads.safetensors"));
        ASSERT_OK(tx_engine_step(e));
        ASSERT_NEAR(loss, json_number_value(json_object_get(row, "loss")), i ? 2e-5 : 5e-6, "loss");
        ASSERT_NEAR(tx_engine_grad_norm(e), norm, 1e-4 * norm, "gradient norm");
    }
    assert_int_equal(i, STEPS);
    json_decref(result);
    json_decref(batches);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
    static lora_case cases[] = { { .base = "gpt2", .backend = "ref", .flags = "" },
                                 { .base = "gpt2", .backend = "cpu", .flags = "" },
                                 { .base = "llama", .backend = "ref", .flags = "" },
                                 { .base = "llama", .backend = "cpu", .flags = "--recompute-granularity selective" } };
    const struct CMUnitTest tests[] = {
        { "gpt2_ref", adapters, NULL, NULL, &cases[0] },
        { "gpt2_cpu", adapters, NULL, NULL, &cases[1] },
        { "llama_ref", adapters, NULL, NULL, &cases[2] },
        { "llama_cpu", adapters, NULL, NULL, &cases[3] },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
