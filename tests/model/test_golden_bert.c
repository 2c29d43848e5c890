/* labels: golden */
/* The golden BERT of tests/data/golden: Hugging Face's BertForPreTraining, whose layers normalise last. Logits of both
 * heads, both losses, every gradient, 20 steps of AdamW, on both backends. Bounds: tests/data/golden/README.md. */
#include "support.h"

#include "checkpoint/safetensors.h"
#include "data/bert_dataset.h"
#include "model/hf_format.h"
#include "train/trainer.h"

enum { S = 48, B = 4, VOCAB = 512, H = 64 };

typedef struct bounds {
    double logits, loss, trajectory, norm, grads, params;
} bounds;

typedef struct model_case {
    const char *device, *flags;
    const bounds *in;
} model_case;

/* TX_TEST_DEVICE names another one to run the fast backend's cases on. */
static const char *device_of(const model_case *k)
{
    const char *other = getenv("TX_TEST_DEVICE");
    return other && !strcmp(k->device, "cpu") ? other : k->device;
}

static const char *golden(const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "golden/bert/%s", file);
    return data_path(name);
}

/* ---- parameters there ---- */

/* One of their tensors as fp32; there are as many in a file as parts of our parameters. */
static float *theirs_of(tx_safetensors *file, const tx_hf_part *part)
{
    const tx_st_tensor *x = tx_safetensors_find(file, part->name);
    if (!x || x->n_dims != part->n_dims || x->dim[0] != part->dim[0] || (x->n_dims == 2 && x->dim[1] != part->dim[1]))
        fail_msg("%s: missing or misshapen", part->name);
    float *to = malloc(x->bytes);
    ASSERT_OK(tx_st_read_f32(x, to, false));
    return to;
}

static int64_t numel_of(const tx_hf_part *part)
{
    return part->dim[0] * (part->n_dims == 2 ? part->dim[1] : 1);
}

/* A tx_weights_fn. */
static tx_status golden_weights(void *user, const tx_params *ps, float *weights)
{
    tx_safetensors *file;
    const tx_hf_format *names;
    ASSERT_OK(tx_hf_format_of(&names, user));
    size_t n = 0;
    ASSERT_OK(tx_safetensors_open(&file, golden("model.safetensors")));
    for (int i = 0; i < ps->n; i++) {
        tx_hf_part part[TX_HF_MAX_PARTS];
        for (int k = tx_hf_parts(names, user, &ps->param[i], part); k-- > 0; n++) {
            float *theirs = theirs_of(file, &part[k]);
            tx_hf_copy(user, &part[k], theirs, weights + ps->param[i].offset, false);
            free(theirs);
        }
    }
    assert_int_equal(n, tx_safetensors_count(file));
    tx_safetensors_close(file);
    return TX_OK;
}

/* Norm of the difference over the norm, or the largest difference, of each tensor of a file. A key's bias has no
 * gradient but rounding.   @whole of our parameters   @scale  what it is a multiple of theirs by */
static void compare(const tx_trainer *t, float *whole, const char *path, double scale, double relative, double absolute)
{
    float *flat, *owned = NULL;
    const tx_model *m = t->model;
    ASSERT_OK(tx_zero_see_whole(&t->zero, whole, TX_F32, &flat, &owned));
    tx_safetensors *file;
    const tx_hf_format *names;
    const tx_params *ps = &m->params;
    ASSERT_OK(tx_hf_format_of(&names, m));
    ASSERT_OK(tx_safetensors_open(&file, path));
    for (int i = 0; i < ps->n; i++) {
        tx_hf_part part[TX_HF_MAX_PARTS];
        for (int k = tx_hf_parts(names, m, &ps->param[i], part); k-- > 0;) {
            if (strstr(part[k].name, "key.bias")) continue;
            int64_t n = numel_of(&part[k]);
            float *theirs = theirs_of(file, &part[k]), *ours = malloc((size_t)n * sizeof *ours);
            double diff = 0, norm = 0, largest = 0;
            tx_hf_copy(m, &part[k], ours, flat + ps->param[i].offset, true);
            for (int64_t j = 0; j < n; j++) {
                double d = (double)ours[j] / scale - (double)theirs[j];
                diff += d * d;
                norm += (double)theirs[j] * (double)theirs[j];
                largest = fmax(largest, fabs(d));
            }
            if (relative > 0) ASSERT_NEAR(sqrt(diff / norm), 0, relative, part[k].name);
            if (absolute > 0) ASSERT_NEAR(largest, 0, absolute, part[k].name);
            free(theirs);
            free(ours);
        }
    }
    tx_safetensors_close(file);
    tx_free(owned);
}

/* ---- a run ---- */

static int64_t entry(const json_t *batch, const char *key, int j, int i)
{
    const json_t *row = json_array_get(json_object_get(batch, key), (size_t)j);
    return json_integer_value(json_is_array(row) ? json_array_get(row, (size_t)i) : row);
}

static const int32_t *rows_of(const json_t *batch)
{
    static int32_t rows[B * (3 * S + 2)];
    for (int j = 0; j < B; j++) {
        const tx_bert_ids in = tx_bert_ids_of(rows + j * tx_bert_row_len(S), S);
        *in.n_tokens = 0;
        *in.is_random = (int32_t)entry(batch, "next_sentence_label", j, 0);
        for (int i = 0; i < S; i++) {
            int64_t label = entry(batch, "labels", j, i);
            in.tokens[i] = (int32_t)entry(batch, "input_ids", j, i);
            in.types[i] = (int32_t)entry(batch, "token_type_ids", j, i);
            in.labels[i] = label == -100 ? -1 : (int32_t)label;
            *in.n_tokens += (int32_t)entry(batch, "attention_mask", j, i);
        }
    }
    return rows;
}

static tx_trainer *open_trainer(tx_config **cfg, const model_case *k)
{
    char flags[2048];
    tx_trainer *t;
    snprintf(flags, sizeof flags,
             "--post-layernorm --num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 "
             "--layernorm-epsilon 1e-12 --no-bias-gelu-fusion --seq-length 48 --micro-batch-size 4 --train-iters 20 "
             "--lr 1e-3 --weight-decay 0.01 --clip-grad 1.0 --hidden-dropout 0 --attention-dropout 0 --mask-prob 0.3 "
             "--tokenizer-type BertWordPieceLowerCase --vocab-file none --data-path none --device %s %s",
             device_of(k), k->flags);
    ASSERT_OK(tx_config_parse_string(cfg, "pretrain-bert", flags));
    ASSERT_OK(tx_trainer_create(&t, *cfg, VOCAB, -1, true, NULL));
    ASSERT_OK(tx_trainer_set_weights(t, golden_weights, t->model));
    return t;
}

static void trajectory(void **state)
{
    const model_case *k = *state;
    tx_config *cfg;
    tx_trainer *t = open_trainer(&cfg, k);
    json_t *result = load_json(golden("result.json")), *batches = load_json(golden("train_batches.json")), *row;
    size_t i;
    double loss;
    json_array_foreach(json_object_get(result, "trajectory_f64"), i, row)
    {
        t->lr_override = json_number_value(json_object_get(row, "lr"));
        ASSERT_OK(tx_trainer_forward(t, rows_of(json_array_get(batches, i % 5)), &loss));
        if (i == 0) {
            ASSERT_NEAR(loss, json_number_value(json_object_get(result, "loss_f64")), k->in->loss, "loss");
            ASSERT_NEAR(t->losses[0], json_number_value(json_object_get(result, "mlm_loss_f64")), k->in->loss,
                        t->model->loss_name[0]);
            ASSERT_NEAR(t->losses[1], json_number_value(json_object_get(result, "nsp_loss_f64")), k->in->loss,
                        t->model->loss_name[1]);
        }
        double scale = t->scaler.scale;
        ASSERT_OK(tx_trainer_backward(t));
        if (i == 0) compare(t, t->zero.grad, golden("grads.safetensors"), scale, k->in->grads, 0);
        ASSERT_OK(tx_trainer_step(t));
        double norm = json_number_value(json_object_get(row, "grad_norm"));
        ASSERT_NEAR(loss, json_number_value(json_object_get(row, "loss")), k->in->trajectory, "trajectory loss");
        ASSERT_NEAR(t->grad_norm, norm, k->in->norm * norm, "trajectory gradient norm");
    }
    assert_int_equal(i, 20);
    compare(t, t->zero.master, golden("final_params.safetensors"), 1, 0, k->in->params);
    json_decref(result);
    json_decref(batches);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

enum { ROWS = S * B };

typedef struct scores {
    tx_trainer *t;
    const int32_t *rows;
    float word[ROWS * VOCAB], pair[B * 2];
} scores;

static tx_status fill_rows(void *user, int64_t micro, tx_batch *batch)
{
    const scores *s = user;
    (void)micro;
    return tx__trainer_fill_batch(s->t, batch, s->rows);
}

static tx_status read_scores(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host)
{
    scores *s = user;
    tx_ctx *c = &s->t->ctx;
    tx_model *m = s->t->model;
    size_t y_bytes = (size_t)ROWS * H * tx_dtype_size(batch->y.dtype);
    float *word = NULL, *pair = NULL;
    void *y = NULL; /* a copy: the heads use its place again */
    tx_status st;
    (void)micro, (void)host;
    if (c->dry) return TX_OK;
    TX_GOTO(tx_device_take(c->device, &word, sizeof s->word, false, "test"));
    TX_GOTO(tx_device_take(c->device, &pair, sizeof s->pair, false, "test"));
    TX_GOTO(tx_device_take(c->device, &y, y_bytes, false, "test"));
    TX_GOTO(tx_device_copy(c->device, TX_STREAM_COMPUTE, y, batch->y.data, y_bytes));
    TX_GOTO(m->type->logits(c, m, tx_tensor2(word, TX_F32, ROWS, VOCAB), tx_tensor2(y, m->stream, ROWS, H)));
    TX_GOTO(m->type->pair_logits(c, m, tx_tensor2(pair, TX_F32, B, 2), tx_tensor2(y, m->stream, B, H)));
    TX_GOTO(tx_device_read(c->device, s->word, word, sizeof s->word));
    TX_GOTO(tx_device_read(c->device, s->pair, pair, sizeof s->pair));
out:
    tx_device_give(c->device, y);
    tx_device_give(c->device, word);
    tx_device_give(c->device, pair);
    return st;
}

/* Of every position, padding too, and of every pair. */
static void logits(void **state)
{
    const model_case *k = *state;
    tx_config *cfg;
    tx_trainer *t = open_trainer(&cfg, k);
    static scores s;
    json_t *in = load_json(golden("batch.json"));
    double *expect = load_npy_f64(golden("mlm_logits_f64.npy"), (size_t)ROWS * VOCAB);
    double *expect_pair = load_npy_f64(golden("nsp_logits_f64.npy"), (size_t)B * 2);
    s.t = t;
    s.rows = rows_of(in);
    const tx_feed feed = { .fill = fill_rows, .look = read_scores, .units = &t->zero.hooks, .user = &s };
    tx_stage_begin(&t->stage, &feed);
    ASSERT_OK(tx_stage_run(&t->stage, 1, false));
    ASSERT_OK(tx_stage_end(&t->stage));
    double most = 0;
    for (int j = 0; j < B; j++)
        for (int i = 0; i < S * VOCAB; i++) {
            double got = (double)s.word[(i / VOCAB * B + j) * VOCAB + i % VOCAB], want = expect[j * S * VOCAB + i];
            ASSERT_NEAR(got, want, k->in->logits, "logit");
            if (fabs(got - want) > most) most = fabs(got - want);
        }
    print_message("bert %s %s: logits at most %.3g off\n", k->device, k->flags, most);
    for (int i = 0; i < B * 2; i++) ASSERT_NEAR((double)s.pair[i], expect_pair[i], k->in->logits, "logit of a pair");
    free(expect);
    free(expect_pair);
    json_decref(in);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

/* As GPT's (tests/api/test_golden_models.c). PyTorch's own bf16 is 3.4e-2 off in a logit, and ours 3.04e-2 in one. */
static const bounds fp32 = { 2e-5, 5e-6, 2e-5, 1e-4, 1e-5, 1e-4 }, fp16 = { 5e-3, 1e-3, 5e-4, 3e-3, 1e-2, 1e-2 };
static bounds bf16 = { 3.1e-2, 5e-3, 5e-3, 5e-3, 5e-2, 1e-2 };

int main(void)
{
    if (getenv("TX_TEST_DEVICE")) bf16.logits = 3.4e-2; /* sums in yet another order: as far off as PyTorch's own */
    static model_case cases[] = {
        { "cpu", "", &fp32 },
        { "ref", "", &fp32 },
        { "cpu", "--bf16", &bf16 },
        { "cpu", "--fp16 --initial-loss-scale 65536", &fp16 },
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(logits, &cases[0]),     cmocka_unit_test_prestate(logits, &cases[1]),
        cmocka_unit_test_prestate(logits, &cases[2]),     cmocka_unit_test_prestate(logits, &cases[3]),
        cmocka_unit_test_prestate(trajectory, &cases[0]), cmocka_unit_test_prestate(trajectory, &cases[1]),
        cmocka_unit_test_prestate(trajectory, &cases[2]), cmocka_unit_test_prestate(trajectory, &cases[3]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
