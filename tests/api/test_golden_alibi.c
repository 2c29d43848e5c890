/* labels: golden */
/* A GPT with ALiBi that BigScience's formula was computed for in PyTorch (tests/data/golden/alibi/make.py): its
 * checkpoint is read, its enum of positions with it; logits behind texts that are longer than the model was made for,
 * all at once and over the cache; and steps of AdamW. Bounds: tests/data/golden/README.md. */
#include "decoder_logits.h"

#include "api/engine_internal.h"
#include "triax/engine.h"

enum { S = 16, B = 2, LONG = 40, VOCAB = 64 };

/* How far a number may lie from the golden one. */
typedef struct bounds {
    double logit, logits; /* the worst one, and their root mean square */
    double loss, norm;
} bounds;

typedef struct model_case {
    const char *backend, *flags;
    bounds in;
} model_case;

static tx_engine *open_engine(tx_config **cfg, const model_case *k)
{
    char flags[2048];
    tx_engine *e;
    snprintf(flags, sizeof flags,
             "--load %s --seq-length %d --micro-batch-size %d --train-iters 10 --lr 1e-3 --data-path none "
             "--tokenizer-type NullTokenizer --vocab-size %d --weight-decay 0.01 --clip-grad 1.0 --hidden-dropout 0 "
             "--attention-dropout 0 --finetune --backend %s %s",
             data_path("golden/alibi"), S, B, VOCAB - 1, k->backend, k->flags);
    ASSERT_OK(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_engine_create(&e, *cfg, VOCAB));
    assert_int_equal(tx_config_positions(e->cfg), TX_POSITIONS_ALIBI);
    return e;
}

static void read_rows(int32_t *out, const json_t *result, const char *name, size_t n)
{
    const json_t *rows = json_object_get(result, name);
    assert_int_equal(json_array_size(rows), B);
    for (size_t j = 0; j < B; j++)
        for (size_t i = 0; i < n; i++)
            out[j * n + i] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, j), i));
}

static void trajectory(void **state)
{
    const model_case *k = *state;
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, k);
    json_t *result = load_json(data_path("golden/alibi/result.json")), *row;
    int32_t tokens[B * (S + 1)];
    double loss;
    size_t i;
    read_rows(tokens, result, "batch", S + 1);
    json_array_foreach(json_object_get(result, "trajectory_f64"), i, row)
    {
        double norm = json_number_value(json_object_get(row, "grad_norm"));
        ASSERT_OK(tx_engine_set_lr(e, json_number_value(json_object_get(row, "lr"))));
        ASSERT_OK(tx_engine_forward(e, tokens, &loss));
        ASSERT_OK(tx_engine_backward(e));
        ASSERT_OK(tx_engine_step(e));
        ASSERT_NEAR(loss, json_number_value(json_object_get(row, "loss")), k->in.loss, "loss");
        ASSERT_NEAR(tx_engine_grad_norm(e), norm, k->in.norm * norm, "gradient norm");
    }
    assert_int_equal(i, 10);
    json_decref(result);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* Of every prefix of the texts at once, and of token after token. */
static void logits_beyond_the_training_length(void **state)
{
    const model_case *k = *state;
    tx_config *cfg;
    tx_engine *e = open_engine(&cfg, k);
    tx_decoder *d = decoder_of(e->trainer->model, k->backend, LONG);
    double *expect = load_npy_f64(data_path("golden/alibi/logits_f64.npy"), (size_t)B * LONG * VOCAB), most = 0;
    double squares = 0;
    json_t *result = load_json(data_path("golden/alibi/result.json"));
    int32_t tokens[B * LONG];
    float got[VOCAB];
    read_rows(tokens, result, "tokens", LONG);
    for (int cached = 0; cached < 2; cached++)
        for (int j = 0; j < B; j++) {
            tx_decoder_truncate(d, 0, 0);
            for (int n = 1; n <= LONG; n++) {
                wanted_row w = { got, VOCAB };
                if (cached)
                    ASSERT_OK(tx_decoder_append(d, 0, tokens + j * LONG + n - 1, 1,
                                                &(tx_logits_wanted){ n - 1, keep_row, &w }));
                else
                    logits_behind(d, tokens + j * LONG, n, got);
                for (int i = 0; i < VOCAB; i++) {
                    double want = expect[(j * LONG + n - 1) * VOCAB + i], off = fabs((double)got[i] - want);
                    ASSERT_NEAR((double)got[i], want, k->in.logit, "logit");
                    squares += off * off;
                    if (off > most) most = off;
                }
            }
        }
    double rms = sqrt(squares / (2 * B * LONG * VOCAB));
    print_message("%s %s: logits at most %.3g off, %.3g in the mean square\n", k->backend, k->flags, most, rms);
    ASSERT_NEAR(rms, 0, k->in.logits, "logits");
    free(expect);
    json_decref(result);
    tx_decoder_destroy(d);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
    static model_case cases[] = {
        { "cpu", "", { 2e-5, 2e-5, 2e-5, 1e-4 } },
        { "ref", "", { 2e-5, 2e-5, 2e-5, 1e-4 } },
        { "cpu", "--bf16", { 2e-1, 1.8e-2, 3e-2, 2e-2 } },
        { "cpu", "--fp16 --loss-scale 1024", { 2e-2, 2.3e-3, 5e-3, 5e-3 } },
    };
#define TEST(f, i)                                        \
    {                                                     \
#f, f, scratch_setup, scratch_teardown, &cases[i] \
    }
#define BOTH(i) TEST(trajectory, i), TEST(logits_beyond_the_training_length, i)
    const struct CMUnitTest tests[] = { BOTH(0), BOTH(1), BOTH(2), BOTH(3) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
