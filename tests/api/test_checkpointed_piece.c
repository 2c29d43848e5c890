/* labels: unit threads parallel */
/* checkpoint(function): a piece of a layer's forward that keeps its inputs alone. The losses are those of the layer
 * without it, to the bits, on any layout of ranks, also with random numbers of a tracker; what is kept is less. */
#include "client_runs.h"

/* ---- the tests' model, with the mlp of its third layer as a piece ---- */

/* y = W2 tanh(W1 x) with what forward leaves, as mlp_forward has it, and as often as asked for, so that there is
 * something to keep. */
enum { TIMES = 32 };

typedef struct wide_saved {
    tx_tensor z[TIMES], a;
    uint64_t drawn; /* the number that forward drew */
} wide_saved;

/* As a number of the tracker says, which is another one each time. */
static tx_status drop(tx_ctx *c, const tx_piece_call *p, tx_tensor y, tx_tensor x, uint64_t drawn, bool backward)
{
    tx_dropout mask = tx_layer_dropout(p->layer, "piece", 0.3, 1);
    mask.rng.step = (uint32_t)drawn + 1;
    tx_tensor to = tx_tensor3(y.data, y.dtype, 1, y.dim[0], y.dim[1]), from = to;
    from.data = x.data;
    if (backward)
        TX_RUN(c, dropout_add_bwd, .dx = to, .dy = from, .mask = mask);
    else
        TX_RUN(c, dropout_add_fwd, .y = to, .x = from, .mask = mask);
    return TX_OK;
}

static tx_random_tracker tracker;
static int64_t n_forward;

static tx_status wide_forward(tx_ctx *c, const tx_piece_call *p)
{
    wide_saved *s = p->saved;
    const tx_weight *w = p->layer->weight;
    tx_dtype t = p->layer->dtype;
    int64_t dim[2] = { p->layer->b, INNER };
    tx_rng r;
    ASSERT_OK(tx_random_take(&tracker, "default-rng", 1, &r, &s->drawn));
    for (int i = 0; i < TIMES; i++) s->z[i] = tx_ctx_push(c, t, 2, dim);
    s->a = tx_ctx_push(c, t, 2, dim);
    for (int i = 0; i < TIMES; i++) TX_RUN(c, gemm, .c = s->z[i], .a = p->input[0], .b = w[0].value, .trans_b = true);
    TX_RUN(c, activation_fwd, .y = s->a, .x = s->z[TIMES - 1], .kind = TX_TANH);
    TX_TRY(drop(c, p, s->a, s->a, s->drawn, false));
    TX_RUN(c, gemm, .c = tx_as_rows(p->output[0]), .a = s->a, .b = w[1].value, .trans_b = true);
    n_forward += !tx_ctx_is_dry(c);
    return TX_OK;
}

static tx_status wide_backward(tx_ctx *c, const tx_piece_call *p)
{
    const wide_saved *s = p->saved;
    const tx_weight *w = p->layer->weight;
    tx_tensor d = tx_ctx_push(c, p->layer->dtype, 2, s->a.dim), dy = tx_as_rows(p->doutput[0]);
    TX_RUN(c, gemm, .c = w[1].grad, .a = dy, .b = s->a, .trans_a = true, .accumulate = true);
    TX_RUN(c, gemm, .c = d, .a = dy, .b = w[1].value);
    TX_TRY(drop(c, p, d, d, s->drawn, true));
    TX_RUN(c, activation_bwd, .dx = d, .dy = d, .x = s->z[TIMES - 1], .kind = TX_TANH);
    TX_RUN(c, gemm, .c = w[0].grad, .a = d, .b = p->input[0], .trans_a = true, .accumulate = true);
    TX_RUN(c, gemm, .c = p->dinput[0], .a = d, .b = w[0].value);
    return TX_OK;
}

static const tx_piece wide = {
    .forward = wide_forward, .backward = wide_backward, .saved_size = sizeof(wide_saved), .random = &tracker
};

typedef struct piece_saved {
    tx_kept_piece kept;
} piece_saved;

static tx_status piece_forward(tx_ctx *c, const tx_layer_call *k)
{
    piece_saved *s = k->saved;
    return tx_checkpoint_forward(c, k, &wide, k->train ? &s->kept : NULL, &k->x, 1, &k->y, 1);
}

static tx_status piece_backward(tx_ctx *c, const tx_layer_call *k)
{
    const piece_saved *s = k->saved;
    return tx_checkpoint_backward(c, k, &s->kept, &k->dy, &k->dx);
}

/* The same without: what is pushed stays. */
static tx_status kept_forward(tx_ctx *c, const tx_layer_call *k)
{
    tx_piece_call p = {
        .layer = k, .input = { k->x }, .output = { k->y }, .n_inputs = 1, .n_outputs = 1, .saved = k->saved
    };
    tx_random_tracker before = tracker;
    tx_status st = wide_forward(c, &p);
    if (tx_ctx_is_dry(c)) tracker = before;
    return st;
}

static tx_status kept_backward(tx_ctx *c, const tx_layer_call *k)
{
    tx_piece_call p = { .layer = k, .input = { k->x }, .n_inputs = 1, .n_outputs = 1, .saved = k->saved };
    p.doutput = &k->dy;
    p.dinput = &k->dx;
    return wide_backward(c, &p);
}

/* ---- runs ---- */

typedef struct piece_run {
    int n, pp;
    const char *flags;
    bool checkpoints;
    double loss[STEPS], norm[STEPS], scored;
    int64_t forwards, drawn;
} piece_run;

static tx_status piece_rank(tx_world *world, void *user)
{
    piece_run *r = user;
    tx_layer own[N_LAYERS];
    tx_client_model with = model;
    tx_config *cfg = NULL;
    char flags[1024];
    reader data = { .e = NULL };
    tx_status st;
    omp_set_num_threads(1);
    memcpy(own, layers, sizeof own);
    own[2].forward = r->checkpoints ? piece_forward : kept_forward;
    own[2].backward = r->checkpoints ? piece_backward : kept_backward;
    own[2].saved_size = r->checkpoints ? sizeof(piece_saved) : sizeof(wide_saved);
    with.layer = own;
    snprintf(flags, sizeof flags,
             "--micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --threads 1 --seed 3 --world-size %d "
             "--pipeline-model-parallel-size %d %s",
             r->n, r->pp, r->flags);
    TX_GOTO(tx_config_parse_string(&cfg, "engine", flags));
    TX_GOTO(tx_engine_initialize(
        &data.e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &with, .world = world }));
    while (tx_engine_iteration(data.e) < STEPS) {
        int64_t i = tx_engine_iteration(data.e);
        TX_GOTO(iteration(data.e, &data, r->pp == 1 && i % 2));
        if (tx_engine_global_rank(data.e)) continue;
        r->loss[i] = tx_engine_loss(data.e);
        r->norm[i] = tx_engine_grad_norm(data.e);
    }
    double scored;
    TX_GOTO(tx_engine_eval_batch(data.e, 8, read_batch, &data, &scored));
    if (tx_engine_global_rank(data.e) == 0) r->scored = scored;
out:
    tx_engine_destroy(data.e);
    tx_config_free(cfg);
    return st;
}

/* The tracker is one, so only one rank may have the layer: that of the pipeline's stage, or the only one. */
static piece_run run_piece(piece_run r)
{
    tracker = (tx_random_tracker){ .n = 0 };
    tx_model_parallel_seed(&tracker, 11, 0);
    n_forward = 0;
    if (tx_world_threads(r.n, piece_rank, &r)) fail_msg("%s: %s", r.flags, tx_last_error());
    r.forwards = n_forward;
    r.drawn = (int64_t)tracker.state[0].drawn;
    return r;
}

static void a_piece_is_computed_again(void **state)
{
    (void)state;
    static const struct {
        int n, pp;
        const char *flags;
    } layout[] = { { 1, 1, "" },       { 1, 1, GATHERED },
                   { 1, 1, "--bf16" }, { 1, 1, "--fp16 --initial-loss-scale 1024" },
                   { 2, 2, "" },       { 2, 2, "--bf16 --zero-stage 1" } };
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        piece_run r = { .n = layout[i].n, .pp = layout[i].pp, .flags = layout[i].flags };
        piece_run kept = run_piece(r);
        r.checkpoints = true;
        piece_run again = run_piece(r);
        for (int k = 0; k < STEPS; k++) {
            assert_true(again.loss[k] == kept.loss[k]);
            assert_true(again.norm[k] == kept.norm[k]);
        }
        assert_true(again.scored == kept.scored);
        assert_int_equal(kept.forwards, 4 * STEPS + 4); /* and those of the evaluation */
        assert_int_equal(again.forwards, 2 * 4 * STEPS + 4);
        assert_int_equal(again.drawn, kept.drawn); /* put back for the second time, and left as it was */
    }
}

/* Of two such layers one is there at a time. */
static void pieces_take_less_memory(void **state)
{
    (void)state;
    static const tx_param_spec params[] = { { .name = "in", .dim = { INNER, WIDE }, .init = TX_INIT_NORMAL },
                                            { .name = "out", .dim = { WIDE, INNER }, .init = TX_INIT_NORMAL } };
    int64_t taken[2];
    for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
        tx_layer own[5] = { layers[0], { .n_dims = 1 }, { .n_dims = 1 }, layers[2], layers[3] };
        tx_client_model with = model;
        tx_config *cfg;
        tx_engine *e;
        for (int i = 1; i < 3; i++)
            own[i] = (tx_layer){ .name = i == 1 ? "one" : "two",
                                 .param = params,
                                 .n_params = 2,
                                 .n_dims = 1,
                                 .dim = { WIDE },
                                 .forward = checkpoints ? piece_forward : kept_forward,
                                 .backward = checkpoints ? piece_backward : kept_backward,
                                 .saved_size = checkpoints ? sizeof(piece_saved) : sizeof(wide_saved) };
        with.layer = own;
        with.n_layers = 5;
        tracker = (tx_random_tracker){ .n = 0 };
        tx_model_parallel_seed(&tracker, 11, 0);
        ASSERT_OK(tx_config_parse_string(&cfg, "engine", "--micro-batch-size 2 --lr 1 --world-size 1"));
        const tx_engine_args args = { .size = sizeof args, .config = cfg, .model = &with };
        ASSERT_OK(tx_engine_initialize(&e, &args));
        taken[checkpoints] = tx_engine_memory_of(e).activations;
        assert_int_equal(tracker.state[0].drawn, 0); /* the plan draws nothing */
        tx_engine_destroy(e);
        tx_config_free(cfg);
    }
    int64_t of_a_piece = TIMES * B * INNER * 4;
    assert_in_range(taken[0] - taken[1], of_a_piece, 2 * of_a_piece);
}

static tx_status bad_forward(tx_ctx *c, const tx_layer_call *k)
{
    static const tx_piece nothing = { .forward = wide_forward },
                          large = { wide_forward, wide_backward, 5000, NULL, NULL };
    tx_kept_piece kept;
    if (!k->train) return tx_checkpoint_forward(c, k, &wide, NULL, &k->x, 1, &k->y, 1); /* nothing is kept then */
    ASSERT_FAILS(tx_checkpoint_forward(c, k, &nothing, &kept, &k->x, 1, &k->y, 1), TX_ERR_ARG,
                 "needs a forward and a backward");
    ASSERT_FAILS(tx_checkpoint_forward(c, k, &large, &kept, &k->x, 1, &k->y, 1), TX_ERR_ARG,
                 "saves at most 4096 bytes, not 5000");
    ASSERT_FAILS(tx_checkpoint_forward(c, k, &wide, NULL, &k->x, 1, &k->y, 1), TX_ERR_ARG, "kept for its backward");
    ASSERT_FAILS(tx_checkpoint_forward(c, k, &wide, &kept, &k->x, 5, &k->y, 1), TX_ERR_ARG,
                 "at most 4 inputs and outputs, not 5 and 1");
    return TX_FAIL(TX_ERR_STATE, "tried");
}

static void a_piece_that_cannot_be_is_refused(void **state)
{
    (void)state;
    tx_layer own[N_LAYERS];
    tx_client_model with = model;
    tx_config *cfg;
    tx_engine *e = NULL;
    tracker = (tx_random_tracker){ .n = 0 };
    tx_model_parallel_seed(&tracker, 11, 0);
    memcpy(own, layers, sizeof own);
    own[2].forward = bad_forward;
    with.layer = own;
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", "--micro-batch-size 2 --lr 1 --world-size 1"));
    const tx_engine_args args = { .size = sizeof args, .config = cfg, .model = &with };
    ASSERT_FAILS(tx_engine_initialize(&e, &args), TX_ERR_STATE, "tried");
    tx_config_free(cfg);
}

static void a_program_asks_whether_it_is_configured(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        bool is;
    } cases[] = { { "", false },
                  { "--checkpoint-activations", true },
                  { "--recompute-granularity full --recompute-method uniform", true },
                  { "--deepspeed-activation-checkpointing", true },
                  { "--deepscale --deepscale-activation-checkpointing", true } };
    tx_config *cfg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[256];
        snprintf(flags, sizeof flags, "--micro-batch-size 2 --lr 1 --world-size 1 %s", cases[i].flags);
        ASSERT_OK(tx_config_parse_string(&cfg, "engine", flags));
        assert_int_equal(tx_checkpointing_is_configured(cfg), cases[i].is);
        ASSERT_OK(tx_checkpointing_configure(cfg, &(tx_checkpointing){ .size = sizeof(tx_checkpointing) }));
        assert_true(tx_checkpointing_is_configured(cfg));
        tx_config_free(cfg);
    }
    bool own_flag = false;
    const tx_argument own[] = { { "ours", TX_ARGUMENT_FLAG, &own_flag, NULL, "Ours." }, { 0 } };
    char *argv[] = { "--deepscale",
                     "--ours",
                     "--deepscale_config",
                     (char *)write_text(in_scratch("ds.json"), "{}"),
                     "--deepscale-activation-checkpointing",
                     "--checkpoint-activations",
                     NULL };
    ASSERT_OK(tx_add_config_arguments(&cfg, "engine", own, 6, argv, "--micro-batch-size 2 --lr 1 --world-size 1"));
    assert_true(own_flag && tx_checkpointing_is_configured(cfg));
    tx_config_free(cfg);
    char *other[] = { "--deepspeed", "--deepspeed_config", argv[3], NULL };
    ASSERT_OK(tx_add_config_arguments(&cfg, "engine", own, 3, other, "--micro-batch-size 2 --lr 1 --world-size 1"));
    assert_false(tx_checkpointing_is_configured(cfg));
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_computed_again),
        cmocka_unit_test(pieces_take_less_memory),
        cmocka_unit_test(a_piece_that_cannot_be_is_refused),
        SCRATCH_TEST(a_program_asks_whether_it_is_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
