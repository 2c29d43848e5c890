/* labels: unit threads parallel */
/* A loss that the client changes between forward and backward: a factor, or a gradient by each loss. The same as a
 * model whose last layer computes that loss, on any layout of ranks, with layers computed again, in half precision, and
 * with a loss scale that overflows; and to the bits where only the factor 1 is said in other ways. */
#include <math.h>

#include "client_runs.h"

/* ---- the same model, whose last layer computes another loss: weighted cross entropies ---- */

/* What the client does to loss number i of a micro-batch. Powers of two: exact in every type. */
static double weight_of(int i)
{
    return i % 2 ? 0.25 : 2;
}

static tx_status weighted_forward(tx_ctx *c, const tx_layer_call *k)
{
    head_saved *s = k->saved;
    tx_tensor none = { 0 };
    s->dz = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_CLASSES });
    tx_tensor z = tx_ctx_push(c, k->dtype, 2, (int64_t[]){ k->b, N_CLASSES });
    tx_tensor weight = tx_ctx_push(c, TX_F32, 1, &k->b);
    float *w = weight.data, *from = k->loss_weight.data, *loss = k->loss.data;
    for (int i = 0; i < k->b && k->train && !tx_ctx_is_dry(c); i++) w[i] = (float)weight_of(i) * from[i];
    TX_RUN(c, gemm, .c = z, .a = tx_as_rows(k->x), .b = k->weight[0].value, .bias = k->weight[1].value,
           .trans_b = true);
    TX_RUN(c, cross_entropy, .loss = tx_slice1(k->loss, 0, k->b), .z = z, .dz = k->train ? s->dz : none,
           .y = tx_slice1(k->input[1], 0, k->b), .weight = k->train ? weight : none, .n_valid = N_CLASSES);
    for (int i = 0; i < k->b && !tx_ctx_is_dry(c); i++) loss[i] *= (float)weight_of(i);
    return TX_OK;
}

static const tx_layer weighted_layers[] = {
    LAYER("embed", embed_params, 2, embed, linear_saved, .n_dims = 1, .dim = { WIDE }),
    LAYER("twice", NULL, 0, twice, char, .n_dims = 1, .dim = { WIDE }),
    LAYER("mlp", mlp_params, 2, mlp, mlp_saved, .n_dims = 2, .dim = { 1, MIDDLE }),
    { .name = "head",
      .param = head_params,
      .n_params = 2,
      .forward = weighted_forward,
      .backward = head_backward,
      .saved_size = sizeof(head_saved) },
};

/* ---- runs ---- */

typedef enum how { MEAN, FACTOR, FROM, CALLBACK } how;

typedef struct run_of {
    int n, tp, pp;
    const char *flags;
    how how;
    bool weighted_model, weighs;
    double factor;
    double norm[STEPS], last; /* `last`: the mean loss at the end, of the plain model's head */
    int64_t skipped, calls;
} run_of;

static tx_status ask(void *user, int64_t micro, const float *loss, int64_t n, float *dloss)
{
    run_of *r = user;
    assert_int_equal(n, B);
    assert_in_range(micro, 0, 3);
    for (int64_t i = 0; i < n; i++) {
        assert_true(loss[i] > 0 && dloss[i] == 0.5f);
        if (r->weighs) dloss[i] *= (float)weight_of((int)i);
    }
    if (r->n == 1) r->calls++;
    return TX_OK;
}

static tx_status step_by_hand(tx_engine *e, reader *data, run_of *r)
{
    data->first = 4 * tx_engine_iteration(e);
    for (int64_t k = 0; k < 4 / tx_engine_data_parallel_size(e); k++) {
        const void *batch;
        float own[B];
        double loss;
        TX_TRY(read_batch(data, k, &batch));
        TX_TRY(tx_engine_forward(e, batch, &loss));
        TX_TRY(tx_engine_losses(e, own));
        ASSERT_NEAR((own[0] + own[1]) / 2, loss, 1e-6, "the mean of the losses");
        for (int i = 0; i < B; i++) own[i] = (float)(0.5 * (r->weighs ? weight_of(i) : 1));
        if (r->how == FACTOR) TX_TRY(tx_engine_backward_scaled(e, r->factor));
        if (r->how == FROM) TX_TRY(tx_engine_backward_from(e, own));
        if (r->how == MEAN || r->how == CALLBACK) TX_TRY(tx_engine_backward(e));
        TX_TRY(tx_engine_step(e));
    }
    return TX_OK;
}

static tx_status run_rank(tx_world *world, void *user)
{
    run_of *r = user;
    tx_config *cfg = NULL;
    char flags[2048];
    reader data = { .e = NULL };
    tx_client_model weighted = model;
    double loss;
    tx_status st;
    weighted.layer = weighted_layers;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags,
             "--micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --threads 1 --seed 3 --clip-grad 0 --world-size %d "
             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s",
             r->n, r->tp, r->pp, r->flags);
    TX_GOTO(tx_config_parse_string(&cfg, "engine", flags));
    tx_engine_args args = { .size = sizeof args,
                            .config = cfg,
                            .model = r->weighted_model ? &weighted : &model,
                            .world = world,
                            .loss_gradient = r->how == CALLBACK ? ask : NULL,
                            .loss_user = r };
    TX_GOTO(tx_engine_initialize(&data.e, &args));
    while (tx_engine_iteration(data.e) < STEPS) {
        int64_t i = tx_engine_iteration(data.e);
        bool whole = r->pp > 1 || (r->how == CALLBACK && i % 2);
        if (whole)
            TX_GOTO(iteration(data.e, &data, false));
        else
            TX_GOTO(step_by_hand(data.e, &data, r));
        if (tx_engine_global_rank(data.e)) continue;
        r->norm[i] = tx_engine_grad_norm(data.e);
        r->skipped = tx_engine_skipped_steps(data.e);
    }
    data.first = 1000;
    TX_GOTO(tx_engine_eval_batch(data.e, 8, read_batch, &data, &loss));
    if (!tx_engine_global_rank(data.e)) r->last = loss;
out:
    tx_engine_destroy(data.e);
    tx_config_free(cfg);
    return st;
}

static run_of run_it(run_of r)
{
    r.tp = r.tp ? r.tp : 1;
    r.pp = r.pp ? r.pp : 1;
    if (tx_world_threads(r.n, run_rank, &r)) fail_msg("%d ranks, %s: %s", r.n, r.flags, tx_last_error());
    return r;
}

static void assert_same_norms(const run_of *a, const run_of *b, double bound)
{
    for (int i = 0; i < STEPS; i++) ASSERT_NEAR(a->norm[i], b->norm[i], bound * b->norm[i], a->flags);
}

static void the_mean_said_in_other_words_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const layout[] = { "", GATHERED, "--zero-stage 2 --bf16", "--checkpoint-activations",
                                          "--fp16 --initial-loss-scale 1024" };
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        int n = 1 + (int)i % 2;
        run_of mean = run_it((run_of){ .n = n, .flags = layout[i], .how = MEAN });
        for (how h = FACTOR; h <= CALLBACK; h++) {
            run_of other = run_it((run_of){ .n = n, .flags = layout[i], .how = h, .factor = 1 });
            assert_same_norms(&other, &mean, 0);
            assert_true(other.last == mean.last);
        }
    }
}

static void a_gradient_by_each_loss_is_that_losses(void **state)
{
    (void)state;
    static const struct {
        int n, tp, pp;
        const char *more;
        double bound;
    } layout[] = { { 1, 1, 1, "", 0 },
                   { 2, 1, 1, "--zero-stage 1", 0 },
                   { 2, 1, 1, "--zero-stage 2", 0 },
                   { 2, 1, 1, GATHERED, 0 },
                   { 2, 2, 1, "", 0 },
                   { 2, 1, 2, "", 0 },
                   { 4, 1, 2, "--zero-stage 1 --checkpoint-activations", 0 },
                   { 1, 1, 1, "--checkpoint-activations --checkpoint-num-layers 2", 0 },
                   { 2, 1, 2, "--bf16", 1e-2 },
                   { 1, 1, 1, "--fp16 --initial-loss-scale 1024", 2e-3 } };
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        run_of r = {
            .n = layout[i].n, .tp = layout[i].tp, .pp = layout[i].pp, .flags = layout[i].more, .weighs = true
        };
        run_of own = r;
        own.weighted_model = true;
        own.weighs = false;
        own = run_it(own);
        for (how h = FROM; h <= CALLBACK; h++) {
            if (h == FROM && r.pp > 1) continue;
            r.how = h;
            run_of changed = run_it(r);
            assert_same_norms(&changed, &own, layout[i].bound);
        }
        run_of mean = run_it((run_of){ .n = r.n, .tp = r.tp, .pp = r.pp, .flags = r.flags });
        assert_true(fabs(mean.norm[0] - own.norm[0]) > 1e-3 * own.norm[0]);
    }
    run_of one = run_it((run_of){ .n = 1, .flags = "", .how = CALLBACK });
    assert_int_equal(one.calls, 4 * STEPS);
}

/* A factor is on the gradient: with none of Adam's division the first norm is so many times as large. */
static void a_factor_is_on_the_gradient(void **state)
{
    (void)state;
    static const char *const layout[] = { "", GATHERED, "--checkpoint-activations" };
    for (int i = 0; i < 3; i++) {
        run_of mean = run_it((run_of){ .n = 2, .flags = layout[i] });
        run_of eight = run_it((run_of){ .n = 2, .flags = layout[i], .how = FACTOR, .factor = 8 });
        run_of minus = run_it((run_of){ .n = 2, .flags = layout[i], .how = FACTOR, .factor = -1 });
        run_of none = run_it((run_of){ .n = 2, .flags = layout[i], .how = FACTOR });
        assert_true(eight.norm[0] == 8 * mean.norm[0]);
        assert_true(minus.norm[0] == mean.norm[0] && minus.last > mean.last);
        for (int k = 0; k < STEPS; k++) assert_true(none.norm[k] == 0);
    }
}

/* A factor that is too large for fp16 is an overflow like any other: skipped, and cured by a lower scale. */
static void an_overflow_by_a_factor_is_skipped(void **state)
{
    (void)state;
    run_of r = run_it((run_of){ .n = 2,
                                .flags = "--fp16 --initial-loss-scale 65536 --hysteresis 1 --zero-stage 2",
                                .how = FACTOR,
                                .factor = 64 });
    assert_in_range(r.skipped, 1, STEPS - 1);
    run_of plain =
        run_it((run_of){ .n = 2, .flags = "--fp16 --initial-loss-scale 65536 --hysteresis 1 --zero-stage 2" });
    assert_int_equal(plain.skipped, 0);
}

/* Forgotten in mid-batch: the gradients are those of the micro-batches behind. */
static void gradients_are_forgotten(void **state)
{
    (void)state;
    static const char *const layout[] = { "", "--zero-stage 2", GATHERED };
    for (int i = 0; i < 3; i++) {
        double norm[2], loss;
        for (int forgets = 0; forgets < 2; forgets++) {
            tx_config *cfg;
            char flags[512];
            const void *batch;
            reader r = { .e = NULL };
            snprintf(flags, sizeof flags, "--micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --world-size 1 %s",
                     layout[i]);
            ASSERT_OK(tx_config_parse_string(&cfg, "engine", flags));
            ASSERT_OK(tx_engine_initialize(
                &r.e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &model }));
            for (int k = 0; k < 4; k++) {
                ASSERT_OK(read_batch(&r, k, &batch));
                ASSERT_OK(tx_engine_forward(r.e, batch, &loss));
                ASSERT_OK(k < 2 && !forgets ? tx_engine_backward_scaled(r.e, 0) : tx_engine_backward(r.e));
                ASSERT_OK(tx_engine_step(r.e));
                if (forgets && k == 1) ASSERT_OK(tx_engine_zero_grad(r.e));
            }
            norm[forgets] = tx_engine_grad_norm(r.e);
            tx_engine_destroy(r.e);
            tx_config_free(cfg);
        }
        assert_true(norm[0] > 0 && norm[0] == norm[1]);
    }
}

static tx_status refuse(void *user, int64_t micro, const float *loss, int64_t n, float *dloss)
{
    (void)user, (void)micro, (void)loss, (void)n, (void)dloss;
    return TX_ERR_NUMERIC;
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    tx_config *cfg;
    reader r = { .e = NULL };
    double loss;
    const void *batch;
    float own[B] = { 0 };
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", "--micro-batch-size 2 --lr 1e-2 --world-size 1"));
    tx_engine_args args = { .size = sizeof args, .config = cfg, .model = &model };
    ASSERT_OK(tx_engine_initialize(&r.e, &args));
    ASSERT_FAILS(tx_engine_losses(r.e, own), TX_ERR_STATE, "between forward and backward");
    ASSERT_FAILS(tx_engine_backward_scaled(r.e, 1), TX_ERR_STATE, "between forward and backward");
    ASSERT_OK(read_batch(&r, 0, &batch));
    ASSERT_OK(tx_engine_forward(r.e, batch, &loss));
    ASSERT_FAILS(tx_engine_backward_scaled(r.e, NAN), TX_ERR_ARG, "nan is no factor of a loss");
    ASSERT_FAILS(tx_engine_backward_from(r.e, NULL), TX_ERR_ARG, "the gradient of the loss is missing");
    ASSERT_OK(tx_engine_backward_from(r.e, own));
    ASSERT_FAILS(tx_engine_backward_scaled(r.e, 1), TX_ERR_STATE, "between forward and backward");
    ASSERT_OK(tx_engine_step(r.e));
    tx_engine_destroy(r.e);
    args.loss_gradient = refuse;
    ASSERT_OK(tx_engine_initialize(&r.e, &args));
    assert_int_equal(tx_engine_forward(r.e, batch, &loss), TX_ERR_NUMERIC);
    tx_engine_destroy(r.e);
    tx_config_free(cfg);
    ASSERT_OK(
        tx_config_parse_string(&cfg, "pretrain-gpt",
                               "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 4 "
                               "--max-position-embeddings 4 --micro-batch-size 1 --train-iters 1 --lr 1 --data-path "
                               "none --tokenizer-type NullTokenizer --vocab-size 7 --world-size 1"));
    const int32_t rows[5] = { 0, 1, 2, 3, 4 };
    ASSERT_OK(tx_engine_create(&r.e, cfg, 8));
    ASSERT_OK(tx_engine_forward(r.e, rows, &loss));
    ASSERT_FAILS(tx_engine_backward_scaled(r.e, 2), TX_ERR_UNSUPPORTED, "of a client's model");
    tx_engine_destroy(r.e);
    args = (tx_engine_args){ .size = sizeof args, .config = cfg, .vocab_size = 8, .loss_gradient = refuse };
    ASSERT_FAILS(tx_engine_initialize(&r.e, &args), TX_ERR_UNSUPPORTED, "loss_gradient is for a client's model");
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_said_in_other_words_has_the_same_bits),
        cmocka_unit_test(a_gradient_by_each_loss_is_that_losses),
        cmocka_unit_test(a_factor_is_on_the_gradient),
        cmocka_unit_test(an_overflow_by_a_factor_is_skipped),
        cmocka_unit_test(gradients_are_forgotten),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
