/* labels: unit */
/* A bad iteration is searched: forward, backward and parameters are told apart, the trainer is as before; no checkpoint
 * is made of parameters that are not finite. */
#include "support.h"

#include "train/non_finite.h"

enum { S = 8, B = 2, V = 96 };

#define FLAGS                                                                                               \
    "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 "   \
    "--micro-batch-size 2 --global-batch-size 6 --lr 1e-3 --train-iters 20 --tokenizer-type NullTokenizer " \
    "--vocab-size 95 --data-path none --threads 1 "

static tx_config *cfg;
static tx_trainer *t;
static int32_t rows[B * (S + 1)];

static void open_trainer(const char *more)
{
    char flags[1024];
    snprintf(flags, sizeof flags, FLAGS "%s", more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_OK(tx_trainer_create(&t, cfg, V, 95, true, NULL));
}

static void close_trainer(void)
{
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

static int64_t n_read;
static tx_status read_rows(void *user, int64_t micro, const void **out)
{
    (void)user;
    n_read++;
    for (int i = 0; i < B * (S + 1); i++) rows[i] = (int32_t)((micro * 31 + i * 7) % (V - 6));
    *out = rows;
    return TX_OK;
}

/* One iteration; its status. */
static tx_status iterate(void)
{
    double loss;
    tx_status st = TX_OK;
    for (int64_t i = 0; i < 3 && !st; i++) {
        const void *in;
        ASSERT_OK(read_rows(NULL, i, &in));
        ASSERT_OK(tx_trainer_forward(t, in, &loss));
        ASSERT_OK(tx_trainer_backward(t));
        st = tx_trainer_step(t);
    }
    return st;
}

static float *value(const char *name, int64_t i)
{
    return t->zero.master + tx_params_find(&t->model->params, name)->offset + i;
}

static tx_non_finite search(void)
{
    tx_non_finite out;
    tx_bad_iteration bad = { .iteration = t->iteration,
                             .consumed_train_samples = t->consumed_train_samples - 6,
                             .n_micro = 3 };
    n_read = 0;
    ASSERT_OK(tx_non_finite_search(t, &bad, read_rows, NULL, &out));
    return out;
}

static void nothing_is_found_in_a_good_iteration(void **state)
{
    (void)state;
    open_trainer("");
    ASSERT_OK(iterate());
    ASSERT_OK(iterate());
    assert_false(tx_non_finite_is_fault(t));
    tx_trainer before = *t;
    float *kept = malloc((size_t)t->model->params.numel * sizeof(float));
    memcpy(kept, t->zero.value, (size_t)t->model->params.numel * sizeof(float));
    tx_non_finite f = search();
    assert_false(f.found);
    assert_int_equal(n_read, 3);
    assert_int_equal(f.micro, 2);
    assert_memory_equal(kept, t->zero.value, (size_t)t->model->params.numel * sizeof(float));
    free(kept);
    assert_true(t->iteration == before.iteration && t->micro == 0 && t->n_micro == before.n_micro &&
                t->want == before.want && t->consumed_train_samples == before.consumed_train_samples &&
                t->iteration_loss == before.iteration_loss && t->ctx.acts.used == before.ctx.acts.used &&
                !t->ctx.watch && t->zero.optim.t == before.zero.optim.t);
    close_trainer();
}

static void parameters_come_first(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t at;
        float v;
        const char *say;
    } plant[] = {
        { "embedding.position_embeddings.weight", 3 * 16 + 4, NAN,
          "parameter embedding.position_embeddings.weight holds NaN at row 3, column 4; micro-batch 1 of 3: the first "
          "value that is not finite is NaN in the output of embedding (forward, embedding_fwd): sample 0, position 3, "
          "element 4" },
        { "encoder.layers.1.input_layernorm.bias", 7, INFINITY,
          "parameter encoder.layers.1.input_layernorm.bias holds +inf at element 7; micro-batch 1 of 3: the first "
          "value "
          "that is not finite is +inf in the output of encoder.layers.1.input_layernorm (forward, layernorm_fwd): "
          "sample 0, position 0, element 7" },
        { "encoder.layers.0.self_attention.query_key_value.bias", 5, -INFINITY,
          "is -inf in the output of encoder.layers.0.self_attention.query_key_value (forward, gemm): sample 0, "
          "position "
          "0, element 5" },
        { "encoder.layers.1.mlp.dense_4h_to_h.bias", 2, NAN,
          "is NaN in the output of encoder.layers.1.mlp.dense_4h_to_h (forward, gemm): sample 0, position 0, element "
          "2" },
        { "encoder.final_layernorm.weight", 9, NAN,
          "is NaN in the output of encoder.final_layernorm (forward, layernorm_fwd): sample 0, position 0, element 9" },
    };
    for (size_t i = 0; i < sizeof plant / sizeof *plant; i++) {
        open_trainer("");
        *value(plant[i].name, plant[i].at) = plant[i].v;
        ASSERT_OK(iterate());
        assert_true(tx_non_finite_is_fault(t));
        tx_non_finite f = search();
        assert_true(f.found && f.micro == 0);
        ASSERT_CONTAINS(f.text, plant[i].say);
        assert_int_equal(n_read, 1); /* no further than it has to */
        close_trainer();
    }
}

/* The head is tied: a word's row meets every position as a column of the logits, before any sample has the word. */
static void logits(void **state)
{
    (void)state;
    open_trainer("");
    *value("embedding.word_embeddings.weight", 93 * 16) = NAN;
    ASSERT_OK(iterate());
    ASSERT_CONTAINS(search().text,
                    "NaN in the output of output_layer (forward, gemm): sample 0, position 0, element 93");
    close_trainer();
}

/* Of an iteration's micro-batches only the last ones are known. */
static void from_a_later_micro_batch_on(void **state)
{
    (void)state;
    open_trainer("");
    *value("encoder.final_layernorm.bias", 1) = NAN;
    ASSERT_OK(iterate());
    tx_non_finite out;
    tx_bad_iteration bad = { .iteration = 1, .first_micro = 1, .n_micro = 2 };
    n_read = 0;
    ASSERT_OK(tx_non_finite_search(t, &bad, read_rows, NULL, &out));
    assert_true(out.found && out.micro == 1 && n_read == 1);
    ASSERT_CONTAINS(out.text, "; micro-batch 2 of 3: the first value that is not finite is NaN in the output of ");
    assert_true(t->micro == 0 && t->n_micro == 3 && t->iteration == 1);
    close_trainer();
}

/* Finite numbers whose products are not: the forward is finite, the backward is not. */
static void backward(void **state)
{
    (void)state;
    open_trainer("--hidden-dropout 0 --attention-dropout 0 --untie-embeddings-and-output-weights --layernorm-epsilon "
                 "1e-20 --init-method-std 1e-5 ");
    for (int64_t i = 0; i < 16; i++) *value("encoder.final_layernorm.weight", i) = 1e36f; /* times 1e5, behind that */
    for (int64_t i = 0; i < V * 16; i++) *value("output_layer.weight", i) *= 1e5f;
    ASSERT_OK(iterate());
    tx_non_finite f = search();
    assert_true(f.found);
    ASSERT_CONTAINS(f.text, "micro-batch 1 of 3: the first value that is not finite is ");
    ASSERT_CONTAINS(f.text,
                    "in the gradient that comes out of encoder.final_layernorm (backward, layernorm_bwd): sample ");
    assert_null(strstr(f.text, "parameter "));
    close_trainer();
}

/* Activations' gradients are finite here, a matrix's are not. */
static void try_gradient(const char *how)
{
    char flags[512];
    snprintf(flags, sizeof flags,
             "--hidden-dropout 0 --attention-dropout 0 --untie-embeddings-and-output-weights --init-method-std 1 %s",
             how);
    open_trainer(flags);
    for (int64_t i = 0; i < V * 16; i++) *value("output_layer.weight", i) *= 1e36f;
    for (int64_t i = 0; i < 64 * 16; i++) {
        *value("encoder.layers.1.mlp.dense_h_to_4h.weight", i) *= 1e6f;
        *value("encoder.layers.1.mlp.dense_4h_to_h.weight", i) *= 1e-6f;
    }
    ASSERT_OK(tx_zero_publish(&t->zero));
    ASSERT_OK(iterate());
    ASSERT_CONTAINS(search().text, "inf in the gradient of encoder.layers.1.mlp.dense_4h_to_h.weight (gemm): row ");
    close_trainer();
}

static void gradient_of_a_parameter(void **state)
{
    (void)state;
    static const char *const how[] = { "", "--zero-stage 2", "--bf16 --grad-dtype bf16",
                                       "--bf16 --grad-dtype bf16 --zero-stage 3" };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) try_gradient(how[i]);
}

static void stops_after_as_many_as_asked(void **state)
{
    (void)state;
    open_trainer("--max-consecutive-skips 3 ");
    *value("encoder.final_layernorm.bias", 0) = NAN;
    ASSERT_OK(iterate());
    ASSERT_OK(iterate());
    ASSERT_FAILS(iterate(), TX_ERR_NUMERIC,
                 "--max-consecutive-skips 3: so many iterations in a row had gradients that are not finite");
    assert_true(t->skipped == 3 && t->interval.nan == 3 && t->iteration == 3 && t->zero.optim.t == 0);
    close_trainer();
}

static void no_checkpoint_of_bad_parameters(void **state)
{
    (void)state;
    open_trainer("");
    ASSERT_OK(iterate());
    ASSERT_OK(tx_trainer_save(t, in_scratch("ck"), NULL, NULL));
    assert_string_equal(t->origin, in_scratch("ck/iter_0000001"));
    ASSERT_OK(iterate());
    *value("encoder.layers.0.mlp.dense_h_to_4h.bias", 1) = INFINITY;
    ASSERT_FAILS(tx_trainer_save(t, in_scratch("ck"), NULL, NULL), TX_ERR_NUMERIC,
                 "iteration 2 is not saved: encoder.layers.0.mlp.dense_h_to_4h.bias is not finite");
    assert_n_files(in_scratch("ck"), 2);
    assert_string_equal(t->origin, in_scratch("ck/iter_0000001"));
    close_trainer();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_found_in_a_good_iteration),
        cmocka_unit_test(parameters_come_first),
        cmocka_unit_test(logits),
        cmocka_unit_test(from_a_later_micro_batch_on),
        cmocka_unit_test(backward),
        cmocka_unit_test(gradient_of_a_parameter),
        cmocka_unit_test(stops_after_as_many_as_asked),
        SCRATCH_TEST(no_checkpoint_of_bad_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
