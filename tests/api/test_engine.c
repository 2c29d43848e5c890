/* labels: unit resume fault */
/* The engine's promises: same seed same bits, a resumed run is the same run, padding changes nothing, a step allocates
 * nothing, wrong order of calls is refused, every failing allocation is survived. */
#include "engine_test.h"

/* Dropout is on: 0.1 by default. */
static void check_same_bits(const char *backend)
{
    run_and_save(in_scratch("a"), backend, 10, 0);
    run_and_save(in_scratch("b"), backend, 10, 0);
    run_and_save(in_scratch("c"), backend, 5, 5);
    assert_same_checkpoint("a", "b");
    assert_same_checkpoint("a", "c");
}

static void same_bits_cpu(void **state)
{
    (void)state;
    check_same_bits("--backend cpu");
}

static void same_bits_llama(void **state)
{
    (void)state;
    check_same_bits(LLAMA "--rotary-percent 0.5");
}

static void same_bits_ref(void **state)
{
    (void)state;
    check_same_bits("--backend ref --threads 1");
}

/* Everything that decides how an update is made, in the middle of what it does when the run is cut: one run of ten
 * iterations is five and five. */
static void resumed_runs_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const how[] = {
        "--optimizer sgd --sgd-momentum 0.8 --weight-decay 0.1 --clip-grad 0",
        "--lr-decay-style WSD --lr-wsd-decay-iters 6 --lr-wsd-decay-style minus_sqrt --lr-warmup-init 1e-4",
        "--weight-decay-incr-style cosine --start-weight-decay 0.01 --end-weight-decay 0.4",
        "--lr-decay-tokens 1100 --weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 1",
        "--lr-decay-style inverse-square-root",
        "--apply-layernorm-1p --hidden-dropout 0.2",
        "--optimizer muon --muon-nesterov --adam-beta1 0.8 --weight-decay 0.1",
    };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        run_and_save(in_scratch("straight%zu", i), how[i], 10, 0);
        run_and_save(in_scratch("cut%zu", i), how[i], 5, 5);
        char a[32], b[32];
        snprintf(a, sizeof a, "straight%zu", i);
        snprintf(b, sizeof b, "cut%zu", i);
        assert_same_checkpoint(a, b);
    }
}

/* What is computed again changes no number, so a run may go on with another choice; a checkpoint does not know it. */
static void recomputation_leaves_no_trace(void **state)
{
    (void)state;
    static const char *const how[] = {
        "--recompute-activations",
        "--recompute-granularity full --recompute-method block --recompute-num-layers 1",
        "--checkpoint-activations --checkpoint-num-layers 2",
        LLAMA "--recompute-granularity selective",
    };
    run_and_save(in_scratch("kept"), "", 10, 0);
    run_and_save(in_scratch("llama"), LLAMA, 10, 0);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char dir[32], more[1024];
        bool llama = strstr(how[i], "--swiglu");
        snprintf(dir, sizeof dir, "%zu", i);
        run_and_save(in_scratch("%s", dir), llama ? LLAMA : "", 5, 0);
        snprintf(more, sizeof more, "%s --load %s", how[i], in_scratch("%s", dir));
        run_and_save(in_scratch("%s", dir), more, 5, 0);
        assert_same_checkpoint(llama ? "llama" : "kept", dir);
    }
}

/* Batches of 2, 4, 6, 8 in equal stretches of 30 samples; by tokens, too. The fifth iteration is in the middle. */
#define RAMP                                                                                                       \
    "--num-layers 1 --hidden-size 48 --num-attention-heads 3 --seq-length 32 --max-position-embeddings 40 "        \
    "--micro-batch-size 2 --global-batch-size 8 --rampup-batch-size 2 2 30 --train-samples 70 --lr 1e-3 --seed 7 " \
    "--lr-decay-style cosine --lr-warmup-tokens 200 --lr-decay-tokens 2000 --data-path none "                      \
    "--tokenizer-type NullTokenizer --vocab-size 508 "

static void a_ramp_up_resumes_with_the_same_bits(void **state)
{
    (void)state;
    static const int64_t consumed[] = { 2, 4, 6, 8, 10, 14, 18, 22, 28, 34 };
    tx_config *cfg;
    tx_engine *e;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", RAMP));
    ASSERT_OK(tx_engine_create(&e, cfg, 509));
    for (int i = 0; i < 10; i++) {
        train(e, 1, NULL);
        assert_int_equal(e->trainer->consumed_train_samples, consumed[i]);
        assert_int_equal(e->trainer->place.samples, consumed[i]);
        assert_int_equal(e->trainer->consumed_train_tokens, 32 * consumed[i]);
        assert_int_equal(e->trainer->place.tokens, i ? 32 * consumed[i - 1] : 0);
    }
    ASSERT_OK(tx_engine_save_checkpoint(e, in_scratch("straight"), NULL, NULL));
    tx_engine_destroy(e);
    tx_config_free(cfg);
    for (int i = 0; i < 2; i++) {
        char flags[1024];
        snprintf(flags, sizeof flags, RAMP "%s %s", i ? "--load" : "", i ? in_scratch("cut") : "");
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        ASSERT_OK(tx_engine_create(&e, cfg, 509));
        train(e, 5, NULL);
        ASSERT_OK(tx_engine_save_checkpoint(e, in_scratch("cut"), NULL, NULL));
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    assert_same_checkpoint("straight", "cut");
}

/* Which of the schedule, the optimizer and the counts a run takes from a checkpoint. */
static void options_say_what_is_taken_from_a_checkpoint(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int64_t iteration, updates, schedule;
        double lr; /* of the next update */
    } take[] = {
        { "", 5, 5, 20, 0.0007222075445642905 },
        { "--finetune", 0, 0, 0, 0 },
        { "--reset-iteration", 0, 5, 20, 0.0007222075445642905 },
        { "--no-load-optim", 5, 0, 0, 0 },
        { "--no-load-lr-state", 5, 5, 0, 0 },
        { "--lr 2e-3 --override-opt_param-scheduler", 5, 5, 20, 0.0014135492607468354 },
        { "--lr 2e-3 --use-checkpoint-opt_param-scheduler", 5, 5, 20, 0.0007222075445642905 },
        { "--optimizer sgd --no-load-optim", 5, 0, 0, 0 },
    };
    tx_config *cfg;
    char flags[2048];
    run_and_save(in_scratch("ck"), "", 5, 0);
    for (size_t i = 0; i < sizeof take / sizeof *take; i++) {
        snprintf(flags, sizeof flags, "--load %s %s", in_scratch("ck"), take[i].flags);
        tx_engine *e = create(&cfg, flags);
        const tx_trainer *t = e->trainer;
        assert_int_equal(t->iteration, take[i].iteration);
        assert_int_equal(t->zero.optim.t, take[i].updates);
        assert_int_equal(t->place.samples, take[i].schedule);
        assert_int_equal(t->consumed_train_samples, 4 * take[i].iteration);
        assert_int_equal(t->consumed_train_tokens, 4 * 32 * take[i].iteration);
        ASSERT_NEAR(t->lr, take[i].lr, 1e-12, take[i].flags);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    static const char *const refused[][2] = {
        { "--lr 2e-3", "class input value 0.002 and checkpoint value 0.001 for learning rate do not match" },
        { "--optimizer sgd", "holds the state of another optimizer (there is no momentum_buffer)" },
        { "--optimizer muon", "holds the state of another optimizer (there is no muon_exp_avg)" },
        { "--optimizer adagrad", "holds the state of another optimizer (there is no sum)" },
        { "--optimizer lion", "holds the state of another optimizer (there is exp_avg_sq, too)" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tx_engine *e;
        snprintf(flags, sizeof flags, FLAGS "--load %s %s", in_scratch("ck"), refused[i][0]);
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        tx_status st = tx_engine_create(&e, cfg, 509);
        assert_true(st == TX_ERR_ARG || st == TX_ERR_NOTFOUND);
        ASSERT_CONTAINS(tx_last_error(), refused[i][1]);
        tx_config_free(cfg);
    }
}

/* Training sees the smoothed loss, evaluation the plain one. Half of the label's weight on all others: the loss of an
 * untrained model hardly changes, its gradient halves. */
static void smoothing_is_for_training_only(void **state)
{
    (void)state;
    static const char *const how[] = { "--hidden-dropout 0 --attention-dropout 0",
                                       "--hidden-dropout 0 --attention-dropout 0 --label-smoothing 0.5" };
    double evaluated[2], losses[2], norm[2];
    int32_t tokens[B * (S + 1)];
    batch(tokens, 0);
    for (int i = 0; i < 2; i++) {
        tx_config *cfg;
        tx_engine *e = create(&cfg, how[i]);
        ASSERT_OK(tx_engine_evaluate(e, tokens, &evaluated[i]));
        train(e, 1, &losses[i]);
        norm[i] = tx_engine_grad_norm(e);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    assert_true(evaluated[0] == evaluated[1]);
    assert_true(losses[0] != losses[1]);
    ASSERT_NEAR(losses[1], losses[0], 0.05, "loss");
    ASSERT_NEAR(norm[1] / norm[0], 0.5, 0.05, "gradient norm");
}

/* Training has it beside the plain loss, which evaluation has alone: with a padded vocabulary of 509, log Z of an
 * untrained model is hardly more than log 509. */
static void z_loss_is_beside_the_loss(void **state)
{
    (void)state;
    static const char *const how[] = { "--hidden-dropout 0 --attention-dropout 0",
                                       "--hidden-dropout 0 --attention-dropout 0 --z-loss-weight 0.01" };
    double evaluated[2], plain[2], total[2], norm[2];
    int32_t tokens[B * (S + 1)];
    batch(tokens, 0);
    for (int i = 0; i < 2; i++) {
        tx_config *cfg;
        tx_engine *e = create(&cfg, how[i]);
        ASSERT_OK(tx_engine_evaluate(e, tokens, &evaluated[i]));
        train(e, 1, &total[i]);
        norm[i] = tx_engine_grad_norm(e);
        plain[i] = e->trainer->losses[0];
        if (i) ASSERT_NEAR(e->trainer->losses[1], 0.01 * log(509) * log(509), 0.02, "z-loss");
        if (i) ASSERT_NEAR(e->trainer->losses[1], total[1] - plain[1], 1e-6, "what is added");
        if (i) assert_string_equal(e->trainer->model->loss_name[1], "head z loss");
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    assert_true(evaluated[0] == evaluated[1] && plain[0] == plain[1] && total[0] == plain[0]);
    assert_true(norm[0] != norm[1]); /* the gradient has it */
    ASSERT_NEAR(norm[1], norm[0], 0.5 * norm[0], "gradient norm");
}

static void zeros_of_the_gradient_are_counted(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e = create(&cfg, "--log-num-zeros-in-grad");
    train(e, 1, NULL);
    const tx_params *ps = &e->trainer->model->params;
    double zeros = 0;
    for (int i = 0; i < ps->n; i++)
        for (int64_t k = 0; k < ps->param[i].numel / ps->param[i].dim[0] * ps->param[i].rows_logical; k++)
            zeros += ((const float *)e->trainer->zero.grad)[ps->param[i].offset + k] == 0;
    assert_true(zeros >= 8 * 48); /* positions that no sample reaches */
    assert_true(e->trainer->num_zeros == zeros);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* A vocabulary of 509: rows that pad it change neither a loss nor a checkpoint; upstream's way they do. */
static void padding_is_nothing(void **state)
{
    (void)state;
    static const char *const padding[] = { "--make-vocab-size-divisible-by 1", "--make-vocab-size-divisible-by 128",
                                           "--make-vocab-size-divisible-by 1024",
                                           "--make-vocab-size-divisible-by 1024 --megatron-padded-logits" };
    double losses[4][10];
    tx_config *cfg;
    for (int i = 0; i < 4; i++) {
        tx_engine *e = create(&cfg, padding[i]);
        train(e, 10, losses[i]);
        const tx_model *m = e->trainer->model;
        const tx_param *word = &m->params.param[0];
        if (i < 3) { /* the padding is zero after ten updates */
            const float *rows = (const float *)word->weight->value.data + 509 * 48;
            for (int64_t k = 0; k < (m->vocab_padded - 509) * 48; k++) assert_true(rows[k] == 0);
        }
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    for (int k = 0; k < 10; k++) {
        assert_true(fabs(losses[1][k] - losses[0][k]) < 2e-5 && fabs(losses[2][k] - losses[0][k]) < 2e-5);
        assert_true(fabs(losses[3][k] - losses[0][k]) > 0.1); /* log(1024/509) at the start */
    }
}

static void a_checkpoint_loads_under_another_padding(void **state)
{
    (void)state;
    char load[512];
    tx_config *cfg;
    double straight[10], resumed[5];
    tx_engine *e = create(&cfg, "");
    train(e, 5, straight);
    ASSERT_OK(tx_engine_save_checkpoint(e, scratch_dir, NULL, NULL));
    train(e, 5, straight + 5);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    static const struct {
        const char *how;
        int64_t rows;
    } other[] = { { "--make-vocab-size-divisible-by 500", 1000 },
                  { "--make-vocab-size-divisible-by 10 --pad-vocab-size-to 700", 700 } };
    for (int i = 0; i < 2; i++) {
        snprintf(load, sizeof load, "--load %s %s", scratch_dir, other[i].how);
        e = create(&cfg, load);
        assert_int_equal(e->trainer->model->vocab_padded, other[i].rows);
        train(e, 5, resumed);
        for (int k = 0; k < 5; k++) assert_true(fabs(resumed[k] - straight[5 + k]) < 2e-5);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS " --pad-vocab-size-to 600"), TX_ERR_ARG,
                 "--pad-vocab-size-to 600 is not divisible by --make-vocab-size-divisible-by 128; try "
                 "--pad-vocab-size-to 512 or 640");
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS " --pad-vocab-size-to 384"));
    ASSERT_FAILS(tx_engine_create(&e, cfg, 509), TX_ERR_ARG,
                 "--pad-vocab-size-to 384 is less than the vocabulary's size of 509");
    tx_config_free(cfg);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e = create(&cfg, "");
    uint64_t before = tx_alloc_count();
    train(e, 3, NULL);
    int32_t tokens[B * (S + 1)];
    double loss;
    batch(tokens, 0);
    ASSERT_OK(tx_engine_evaluate(e, tokens, &loss));
    assert_int_equal(tx_alloc_count(), before);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void evaluation_changes_nothing(void **state)
{
    (void)state;
    tx_config *cfg;
    double plain[4], watched[4], loss, again;
    int32_t tokens[B * (S + 1)];
    tx_engine *e = create(&cfg, "");
    train(e, 4, plain);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    e = create(&cfg, "");
    batch(tokens, 99);
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(tx_engine_evaluate(e, tokens, &loss));
        ASSERT_OK(tx_engine_evaluate(e, tokens, &again));
        assert_true(loss == again);
        train(e, 1, &watched[i]);
        assert_true(watched[i] == plain[i]);
    }
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* The whole model's gradient, dropout on: along the gradient's own direction the loss must rise by its norm. */
static void gradient_against_differences(void **state)
{
    (void)state;
    static const char *const options[] = { "--hidden-dropout 0.3 --attention-dropout 0.3",
                                           "--no-bias-gelu-fusion",
                                           "--hidden-dropout 0 --attention-dropout 0.5 --backend ref",
                                           LLAMA,
                                           LLAMA "--rotary-percent 0.5 --kv-channels 12 --hidden-dropout 0.2",
                                           "--apply-residual-connection-post-layernorm --hidden-dropout 0.2",
                                           "--squared-relu --init-method-xavier-uniform",
                                           "--apply-layernorm-1p --apply-residual-connection-post-layernorm",
                                           "--no-position-embedding --disable-bias-linear --kv-channels 20",
                                           "--untie-embeddings-and-output-weights" };
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        tx_config *cfg;
        char flags[512];
        snprintf(flags, sizeof flags, "%s --global-batch-size 2 --init-method-std 0.1", options[k]);
        tx_engine *e = create(&cfg, flags);
        tx_trainer *t = e->trainer;
        int32_t tokens[B * (S + 1)];
        double loss, rise = 0, norm = 0;
        batch(tokens, 5);
        ASSERT_OK(tx_engine_forward(e, tokens, &loss));
        ASSERT_OK(tx_engine_backward(e));
        int64_t n = t->model->params.numel;
        float *g = malloc((size_t)n * sizeof *g), *w = malloc((size_t)n * sizeof *w);
        memcpy(g, t->zero.grad, (size_t)n * sizeof *g);
        memcpy(w, t->zero.value, (size_t)n * sizeof *w);
        for (int64_t i = 0; i < n; i++) norm += (double)g[i] * (double)g[i];
        norm = sqrt(norm);
        const double step = 2e-2;
        t->stage.slot[0].batch.units = NULL; /* from here on the trainer is not asked */
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int64_t i = 0; i < n; i++)
                t->zero.master[i] = (float)((double)w[i] + sign * step * (double)g[i] / norm);
            ASSERT_OK(tx_model_fwd(&t->ctx, t->model, &t->stage.slot[0].batch,
                                   true)); /* the same micro-batch, the same masks */
            const float *each = t->stage.slot[0].batch.loss.data;
            for (int i = 0; i < B * S; i++) rise += sign * (double)each[i] / (B * S);
            ASSERT_OK(tx_model_bwd(&t->ctx, t->model, &t->stage.slot[0].batch));
        }
        ASSERT_NEAR(rise / (2 * step), norm, 5e-3 * norm, options[k]);
        free(g);
        free(w);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
}

/* Two models of one seed, in which the factors of the norms are the same, however they are stored. */
static void a_norm_may_store_one_less(void **state)
{
    (void)state;
    tx_config *cfg[2];
    tx_engine *e[2];
    int32_t tokens[B * (S + 1)];
    double loss[2], losses[2][5];
    batch(tokens, 5);
    for (int k = 0; k < 2; k++) {
        e[k] = create(&cfg[k], k ? "--apply-layernorm-1p --global-batch-size 2" : "--global-batch-size 2");
        tx_trainer *t = e[k]->trainer;
        int n_norms = 0;
        for (int i = 0; i < t->model->params.n; i++) {
            const tx_param *p = &t->model->params.param[i];
            if (!strstr(p->name, "layernorm.weight")) continue;
            n_norms++;
            for (int64_t j = 0; j < p->numel; j++) {
                assert_true(t->zero.master[p->offset + j] == (k ? 0 : 1));
                t->zero.master[p->offset + j] += (float)(j % 16 - 8) / 64;
            }
        }
        assert_int_equal(n_norms, 5);
        ASSERT_OK(tx_engine_forward(e[k], tokens, &loss[k]));
        ASSERT_OK(tx_engine_backward(e[k]));
    }
    int64_t n = e[0]->trainer->model->params.numel;
    assert_int_equal(e[1]->trainer->model->params.numel, n);
    assert_true(loss[0] == loss[1]);
    assert_memory_equal(e[0]->trainer->zero.grad, e[1]->trainer->zero.grad, (size_t)n * sizeof(float));
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(tx_engine_step(e[k]));
        train(e[k], 5, losses[k]);
        tx_engine_destroy(e[k]);
        tx_config_free(cfg[k]);
    }
    for (int i = 0; i < 5; i++)
        ASSERT_NEAR(losses[0][i], losses[1][i], 1e-5, "a loss"); /* 1 + w is rounded once more */
}

static void order_of_calls(void **state)
{
    (void)state;
    tx_config *cfg;
    int32_t tokens[B * (S + 1)];
    double loss;
    tx_engine *e = create(&cfg, "");
    batch(tokens, 0);
    ASSERT_FAILS(tx_engine_backward(e), TX_ERR_STATE, "before forward");
    ASSERT_FAILS(tx_engine_step(e), TX_ERR_STATE, "before backward");
    ASSERT_OK(tx_engine_forward(e, tokens, &loss));
    ASSERT_FAILS(tx_engine_forward(e, tokens, &loss), TX_ERR_STATE, "backward is due");
    ASSERT_FAILS(tx_engine_save_checkpoint(e, "nowhere", NULL, NULL), TX_ERR_STATE, "between");
    ASSERT_OK(tx_engine_backward(e));
    ASSERT_OK(tx_engine_step(e));
    ASSERT_FAILS(tx_engine_save_checkpoint(e, "nowhere", NULL, NULL), TX_ERR_STATE, "between iterations");
    ASSERT_FAILS(tx_engine_load_checkpoint(e, data_path("golden/gpt2"), NULL, NULL, NULL), TX_ERR_STATE,
                 "between iterations");
    tokens[3] = 509;
    ASSERT_FAILS(tx_engine_forward(e, tokens, &loss), TX_ERR_FORMAT, "token id 509");
    tx_engine_destroy(e);
    tx_config_free(cfg);
    assert_false(tx_path_exists("nowhere"));
}

static void another_shape_is_refused(void **state)
{
    (void)state;
    char flags[2048];
    tx_config *cfg;
    tx_engine *e = create(&cfg, ""), *none = NULL;
    train(e, 1, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, scratch_dir, NULL, NULL));
    tx_engine_destroy(e);
    tx_config_free(cfg);
    snprintf(flags, sizeof flags, "%s --hidden-size 96 --load %s", FLAGS, scratch_dir);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx_engine_create(&none, cfg, 509), TX_ERR_ARG, "--hidden-size is 96, in the checkpoint it is 48");
    tx_config_free(cfg);
    snprintf(flags, sizeof flags, "%s --load %s", FLAGS, scratch_dir);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx_engine_create(&none, cfg, 400), TX_ERR_SHAPE, "509 tokens");
    tx_config_free(cfg);
    e = create(&cfg, "--num-attention-heads 6");
    ASSERT_FAILS_LINES(tx_engine_load_checkpoint(e, scratch_dir, NULL, NULL, NULL),
                       TX_ERR_ARG, /* and what follows from it */
                       "\n  --num-attention-heads  3                  6\n");
    ASSERT_FAILS(tx_engine_load_checkpoint(e, data_path("golden/gpt2"), NULL, NULL, NULL), TX_ERR_UNSUPPORTED,
                 "another program");
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* Export and --load of a Llama, its head tied to the embedding or not; a model that is neither has no such folder. */
static void hugging_face_folders_go_round(void **state)
{
    (void)state;
    static const char *const options[] = { LLAMA, "--normalization rmsnorm --use-rotary-position-embeddings --swiglu "
                                                  "--disable-bias-linear --kv-channels 10 --ffn-hidden-size 40" };
    tx_config *cfg;
    char flags[2048];
    for (int i = 0; i < 2; i++) {
        tx_engine *e = create(&cfg, options[i]), *again;
        train(e, 1, NULL);
        ASSERT_OK(tx_engine_export(e, in_scratch("%d", i)));
        tx_config *short_cfg;
        snprintf(flags, sizeof flags,
                 "--micro-batch-size 2 --seq-length 32 --train-iters 9 --lr 1 --data-path none --load %s",
                 in_scratch("%d", i));
        ASSERT_OK(tx_config_parse_string(&short_cfg, "pretrain-gpt", flags));
        ASSERT_OK(tx_engine_create(&again, short_cfg, 509));
        assert_int_equal(short_cfg->untie_embeddings_and_output_weights, i == 0);
        tx_params *a = &e->trainer->model->params, *b = &again->trainer->model->params;
        assert_true(a->n == b->n && a->numel == b->numel);
        assert_memory_equal(e->trainer->zero.value, again->trainer->zero.value, (size_t)a->numel * sizeof(float));
        tx_engine_destroy(again);
        tx_config_free(short_cfg);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    snprintf(flags, sizeof flags, "%s --squared-relu --load %s", FLAGS, in_scratch("0"));
    tx_engine *e = NULL;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS_LINES(tx_engine_create(&e, cfg, 509), TX_ERR_ARG,
                       "--squared-relu is True, in the checkpoint it is False");
    tx_config_free(cfg);
    static const char *const foreign[] = { "--apply-residual-connection-post-layernorm", "--apply-layernorm-1p" };
    for (int i = 0; i < 2; i++) {
        e = create(&cfg, foreign[i]);
        ASSERT_FAILS(tx_engine_export(e, in_scratch("none")), TX_ERR_UNSUPPORTED, "no model with these options");
        assert_false(tx_path_exists(in_scratch("none")));
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    snprintf(flags, sizeof flags, "%s --apply-layernorm-1p --dump-step 1 %s", FLAGS, in_scratch("none"));
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx_engine_create(&e, cfg, 509), TX_ERR_UNSUPPORTED, "no model with these options");
    tx_config_free(cfg);
}

/* Of a layer with a window twice the keys that its tokens see, and never more than all. */
static void flops_count_windows(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int window, n; /* layers that have it */
    } said[] = { { "--window-size 3", 3, 2 },
                 { "--window-size 3 --window-attn-skip-freq 2", 3, 1 },
                 { "--window-size 1000", 1000, 2 } };
    tx_config *cfg;
    tx_engine *e = create(&cfg, "");
    double plain = tx_model_flops(e->trainer->model, S, 5);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    for (int k = 0; k < 3; k++) {
        double pairs = 0;
        for (int i = 0; i < S; i++) pairs += i < said[k].window ? i + 1 : said[k].window + 1;
        double less = 2 * pairs < S * S ? S * S - 2 * pairs : 0; /* pairs of a sample and layer */
        e = create(&cfg, said[k].flags);
        ASSERT_NEAR(tx_model_flops(e->trainer->model, S, 5), plain - 6 * 5 * said[k].n * 2 * 3 * 16 * less, 1,
                    said[k].flags);
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
}

/* Six operations for each multiply-add of a token: of all matrices, as the head too, and of q kᵀ and p v. */
static void flops_count_the_matrices(void **state)
{
    (void)state;
    static const char *const options[] = { "", LLAMA "--kv-channels 20" };
    for (int k = 0; k < 2; k++) {
        tx_config *cfg;
        tx_engine *e = create(&cfg, options[k]);
        const tx_model *m = e->trainer->model;
        double adds = 2.0 * 2 * 3 * (k ? 20 : 16) * S; /* layers, the two products, heads */
        for (int i = 0; i < m->params.n; i++) {
            const tx_param *p = &m->params.param[i];
            bool looked_up = strstr(p->name, "position_embeddings") || (k && strstr(p->name, "word_embeddings"));
            if (p->n_dims == 2 && !looked_up) adds += (double)p->numel;
        }
        ASSERT_NEAR(tx_model_flops(m, S, 5), 6 * 5 * S * adds, 1, "FLOPs");
        tx_engine_destroy(e);
        tx_config_free(cfg);

        /* what is computed again is no work of the model's, and the head never is */
        static const struct {
            const char *flags;
            int n_again;
        } again[] = { { "--recompute-granularity full --recompute-method block", 1 },
                      { "--recompute-granularity full --recompute-method uniform", 2 },
                      { "--checkpoint-activations --checkpoint-num-layers 2", 2 },
                      { "--recompute-activations", 0 } };
        for (int i = 0; i < 4; i++) {
            char flags[1024];
            snprintf(flags, sizeof flags, "%s %s", options[k], again[i].flags);
            e = create(&cfg, flags);
            m = e->trainer->model;
            double layer = (adds - m->head_products) / 2, h = (double)m->hidden, V = (double)m->vocab_padded;
            ASSERT_NEAR(tx_model_flops(m, S, 5), 6 * 5 * S * adds, 1, again[i].flags);
            ASSERT_NEAR(tx_model_flops_again(m, S, 5), 2 * 5 * S * layer * again[i].n_again, 1, again[i].flags);
            /* arXiv:2104.04473 in its own words: 96 B s l h^2 (1 + s/6h + V/16lh) */
            double paper = 96.0 * 5 * S * 2 * h * h * (1 + S / (6 * h) + V / (16 * 2 * h));
            ASSERT_NEAR(tx_model_flops_2021(m, S, 5), paper, 1, again[i].flags);
            tx_engine_destroy(e);
            tx_config_free(cfg);
        }
    }
}

static void what_load_means(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e = NULL;
    char flags[2048];
    snprintf(flags, sizeof flags, "%s --load %s/none", FLAGS, scratch_dir);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx_engine_create(&e, cfg, 509), TX_ERR_NOTFOUND, "/none");
    tx_config_free(cfg);
    snprintf(flags, sizeof flags, "%s --load %s --save elsewhere --save-interval 5", FLAGS, scratch_dir);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx_engine_create(&e, cfg, 509), TX_ERR_NOTFOUND, "--load");
    tx_config_free(cfg);
    /* the same folder, absent, empty, with what was never finished, or with other things: a fresh start */
    for (int i = 0; i < 4; i++) {
        char load[512], save[512];
        if (i == 2) ASSERT_OK(tx_make_dirs(in_scratch(".tmp-iter_0000007-99")));
        if (i == 3) write_text(in_scratch("notes.txt"), "x");
        snprintf(load, sizeof load, i ? "%s" : "%s/new", scratch_dir);
        snprintf(save, sizeof save, i ? "%s/." : "%s/new/", scratch_dir);
        snprintf(flags, sizeof flags, "%s --load %s --save %s --save-interval 5", FLAGS, load, save);
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        ASSERT_OK(tx_engine_create(&e, cfg, 509));
        assert_int_equal(tx_engine_iteration(e), 0);
        tx_engine_destroy(e);
        tx_config_free(cfg);
        strcat(flags, " --exit-on-missing-checkpoint");
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        ASSERT_FAILS(tx_engine_create(&e, cfg, 509), TX_ERR_NOTFOUND, "--exit-on-missing-checkpoint is given");
        tx_config_free(cfg);
    }
}

static void gradients_that_are_not_finite(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e = create(&cfg, "");
    train(e, 1, NULL);
    float *beta = e->trainer->model->params.param[e->trainer->model->params.n - 1].weight->value.data;
    float keep = beta[0];
    double lr = tx_engine_lr(e), loss;
    beta[0] = NAN;
    train(e, 2, NULL); /* skipped and counted; neither schedule nor moments move */
    assert_int_equal(e->trainer->skipped, 2);
    assert_int_equal(tx_engine_iteration(e), 3);
    assert_true(tx_engine_lr(e) == lr);
    beta[0] = keep;
    train(e, 1, &loss);
    assert_true(isfinite(loss) && tx_engine_lr(e) != lr);
    beta[0] = NAN;
    int32_t tokens[B * (S + 1)];
    tx_status st = TX_OK;
    int n = 0;
    for (; !st && n < 100; n++) {
        batch(tokens, n);
        ASSERT_OK(tx_engine_forward(e, tokens, &loss));
        ASSERT_OK(tx_engine_backward(e));
        st = tx_engine_step(e);
    }
    assert_int_equal(st, TX_ERR_NUMERIC);
    assert_int_equal(n, 2 * 20);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* ---- a client's own name for a checkpoint, and its state ---- */

static void expect_loaded(tx_engine *e, const char *dir, const char *tag, const char *path, const char *state)
{
    char *got_path = NULL, *got_state = NULL;
    ASSERT_OK(tx_engine_load_checkpoint(e, dir, tag, &got_path, &got_state));
    if (path)
        assert_string_equal(got_path, path);
    else
        assert_null(got_path);
    if (state)
        assert_string_equal(got_state, state);
    else
        assert_null(got_state);
    tx_text_free(got_path);
    tx_text_free(got_state);
}

static void checkpoints_have_tags_and_a_clients_state(void **state)
{
    (void)state;
    static const char text[] = "{\"best\":0.10000000000000001,\"epoch\":3,\"note\":\"\u00e4\"}";
    static const char *const bad[] = { "",
                                       "a/b",
                                       "..",
                                       "iter_0000003",
                                       "global_step4",
                                       "latest",
                                       "a b",
                                       "\u00e4",
                                       "a-name-that-is-longer-than-it-may-be" };
    char dir[256], tagged[300], load[1024];
    tx_config *cfg;
    tx_engine *e = create(&cfg, "");
    snprintf(dir, sizeof dir, "%s", in_scratch("tags"));
    snprintf(tagged, sizeof tagged, "%s/epoch=3", dir);
    expect_loaded(e, dir, NULL, NULL, NULL); /* nothing is there, which is no error where it is asked for */
    ASSERT_FAILS(tx_engine_load_checkpoint(e, dir, NULL, NULL, NULL), TX_ERR_NOTFOUND, "tags");
    train(e, 1, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, NULL, NULL));
    train(e, 2, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, "epoch=3", text));
    assert_true(tx_path_exists(in_scratch("tags/epoch=3/manifest.json")));
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, "epoch=3", text)); /* again: it is replaced */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_FAILS(tx_engine_save_checkpoint(e, dir, bad[i], NULL), TX_ERR_ARG, "cannot have the tag");
    ASSERT_FAILS(tx_engine_save_checkpoint(e, dir, NULL, "[1]"), TX_ERR_ARG, "has to be a JSON object");
    ASSERT_FAILS(tx_engine_save_checkpoint(e, dir, NULL, "{"), TX_ERR_ARG, "the client's state is no JSON");

    expect_loaded(e, dir, "iter_0000001", in_scratch("tags/iter_0000001"), NULL);
    assert_int_equal(tx_engine_iteration(e), 1);
    expect_loaded(e, dir, NULL, tagged, "{\"best\":0.10000000000000001,\"epoch\":3,\"note\":\"ä\"}");
    assert_int_equal(tx_engine_iteration(e), 3);
    expect_loaded(e, dir, "epoch=4", NULL, NULL);
    ASSERT_FAILS(tx_engine_load_checkpoint(e, dir, "epoch=4", NULL, NULL), TX_ERR_NOTFOUND, "epoch=4");
    assert_int_equal(tx_engine_iteration(e), 3);
    tx_engine_destroy(e);
    tx_config_free(cfg);

    snprintf(load, sizeof load, "--load %s", dir); /* what `latest` names is what a run goes on from */
    e = create(&cfg, load);
    assert_int_equal(tx_engine_iteration(e), 3);
    train(e, 1, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, NULL, NULL));
    expect_loaded(e, dir, NULL, in_scratch("tags/iter_0000004"), NULL);
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* --save-format: a program's own saves and loads, with a tag and its state. */
static void saves_in_other_formats(void **state)
{
    (void)state;
    tx_config *cfg;
    char dir[256], load[1024];
    double straight[3], again[3];
    snprintf(dir, sizeof dir, "%s", in_scratch("ds"));
    tx_engine *e = create(&cfg, "--save-format deepspeed --zero-stage 1");
    train(e, 1, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, NULL, NULL));
    train(e, 1, NULL);
    ASSERT_OK(tx_engine_save_checkpoint(e, dir, "epoch=3", "{\"best\": 0.1, \"epoch\": 3}"));
    assert_true(tx_path_exists(in_scratch("ds/global_step1/mp_rank_00_model_states.pt")));
    assert_true(tx_path_exists(in_scratch("ds/epoch=3/mp_rank_00_model_states.pt")));
    train(e, 3, straight);
    expect_loaded(e, dir, NULL, in_scratch("ds/epoch=3"), "{\"best\":0.10000000000000001,\"epoch\":3}");
    assert_int_equal(tx_engine_iteration(e), 2);
    train(e, 3, again);
    assert_memory_equal(straight, again, sizeof straight);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    snprintf(load, sizeof load, "--zero-stage 1 --load %s", dir);
    e = create(&cfg, load);
    assert_int_equal(tx_engine_iteration(e), 2);
    train(e, 3, again);
    assert_memory_equal(straight, again, sizeof straight);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    e = create(&cfg, "--save-format megatron");
    train(e, 1, NULL);
    ASSERT_FAILS(tx_engine_save_checkpoint(e, in_scratch("m"), "epoch=3", NULL), TX_ERR_ARG,
                 "named by their iteration");
    ASSERT_OK(tx_engine_save_checkpoint(e, in_scratch("m"), NULL, NULL));
    assert_true(tx_path_exists(in_scratch("m/iter_0000001/mp_rank_00/model_optim_rng.pt")));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* ---- the N-th allocation fails, for all N ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_status st = TX_ERR_NOMEM;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", FLAGS LLAMA));
    for (int64_t n = 0; st; n++) {
        tx_engine *e = NULL;
        allocation_fails_at(n);
        st = tx_engine_create(&e, cfg, 509);
        tx_engine_destroy(e);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(n < 1000);
    }
    tx_config_free(cfg);
}

static const tx__engine_vocabulary no_eod = { 509, 509, -1 }, with_eod = { 509, 509, 508 };

/* --reset-position-ids: sample 0 has documents that end at 3 and 4, sample 1 has none that ends. */
static void positions_begin_again_behind_a_document(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e;
    tx_source none = { 0 };
    int32_t tokens[B * (S + 1)] = { 0 };
    double loss;
    char flags[2048];
    snprintf(flags, sizeof flags, "%s --reset-position-ids", FLAGS);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx__engine_create(&e, cfg, &none, &no_eod, NULL), TX_ERR_ARG,
                 "--reset-position-ids: the vocabulary has no <|endoftext|>");
    ASSERT_OK(tx__engine_create(&e, cfg, &none, &with_eod, NULL));
    tokens[3] = tokens[4] = 508;
    ASSERT_OK(tx_engine_forward(e, tokens, &loss));
    const int32_t *position = e->trainer->stage.slot[0].batch.position.data;
    for (int i = 0; i < S; i++) {
        assert_int_equal(position[i * B], i < 4 ? i : i < 5 ? 0 : i - 5);
        assert_int_equal(position[i * B + 1], i);
    }
    ASSERT_OK(tx_engine_backward(e));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

/* --reset-attention-mask with --reset-position-ids: a document behind another one is the same as one that begins the
 * sample, and nothing behind it changes what is before it. */
static void attention_stays_in_its_document(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_engine *e;
    tx_source none = { 0 };
    int32_t tokens[B * (S + 1)];
    double loss;
    char flags[2048];
    snprintf(flags, sizeof flags, "%s --reset-attention-mask --hidden-dropout 0 --attention-dropout 0", FLAGS);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    ASSERT_FAILS(tx__engine_create(&e, cfg, &none, &no_eod, NULL), TX_ERR_ARG,
                 "--reset-attention-mask: the vocabulary has no <|endoftext|>");
    cfg->reset_position_ids = true;
    ASSERT_OK(tx__engine_create(&e, cfg, &none, &with_eod, NULL));
    batch(tokens, 0);
    for (int i = 0; i < S + 1; i++) tokens[i] %= 508;
    tokens[9] = 508;
    memcpy(tokens + S + 1, tokens + 10, (S - 9) * sizeof *tokens); /* sample 1 begins with sample 0's second document */
    ASSERT_OK(tx_engine_forward(e, tokens, &loss));
    const int32_t *first_key = e->trainer->stage.slot[0].batch.first_key.data;
    const float *each = e->trainer->stage.slot[0].batch.loss.data;
    for (int i = 0; i < S; i++) assert_int_equal(first_key[i * B], i < 10 ? 0 : 10);
    for (int i = 10; i < S; i++) ASSERT_NEAR(each[i * B], each[(i - 10) * B + 1], 2e-6, "loss of a document");
    ASSERT_OK(tx_engine_backward(e));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(same_bits_cpu),
        SCRATCH_TEST(same_bits_llama),
        SCRATCH_TEST(same_bits_ref),
        SCRATCH_TEST(resumed_runs_have_the_same_bits),
        SCRATCH_TEST(recomputation_leaves_no_trace),
        SCRATCH_TEST(a_ramp_up_resumes_with_the_same_bits),
        SCRATCH_TEST(options_say_what_is_taken_from_a_checkpoint),
        cmocka_unit_test(smoothing_is_for_training_only),
        cmocka_unit_test(z_loss_is_beside_the_loss),
        cmocka_unit_test(zeros_of_the_gradient_are_counted),
        cmocka_unit_test(padding_is_nothing),
        SCRATCH_TEST(a_checkpoint_loads_under_another_padding),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(evaluation_changes_nothing),
        cmocka_unit_test(gradient_against_differences),
        cmocka_unit_test(a_norm_may_store_one_less),
        cmocka_unit_test(order_of_calls),
        SCRATCH_TEST(another_shape_is_refused),
        SCRATCH_TEST(hugging_face_folders_go_round),
        cmocka_unit_test(flops_count_the_matrices),
        cmocka_unit_test(flops_count_windows),
        SCRATCH_TEST(what_load_means),
        SCRATCH_TEST(saves_in_other_formats),
        cmocka_unit_test(gradients_that_are_not_finite),
        cmocka_unit_test(checkpoints_have_tags_and_a_clients_state),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(positions_begin_again_behind_a_document),
        cmocka_unit_test(attention_stays_in_its_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
