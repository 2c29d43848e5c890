/* labels: unit threads fault
 * A run around an engine (triax/run.h), as a client's program has it: it is triax pretrain-gpt's, in its own
 * process or on threads. */
#include "support.h"

#include <omp.h>
#include <signal.h>

#include "triax/data.h"
#include "triax/jobs.h"
#include "triax/random.h"
#include "triax/run.h"

#define SMALL                                                                                                \
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "  \
    "--micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 6 --eval-iters 1 --eval-interval 4 " \
    "--log-interval 2 --save-interval 4 --tokenizer-type NullTokenizer --vocab-size 511 --split 8,1,1 "      \
    "--threads 1 "

static tx_config *options(const char *save, const char *more)
{
    char flags[2048];
    tx_config *cfg;
    snprintf(flags, sizeof flags, SMALL "--data-path %s --save %s %s", data_path("dataset/tiny_text_document"), save,
             more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    return cfg;
}

static tx_status train(tx_run *run, tx_config *cfg, double *loss)
{
    tx_engine *e = NULL;
    const tx_engine_args args = {
        .size = sizeof args, .config = cfg, .world = tx_run_world(run), .with_tokenizer = true
    };
    tx_status st = tx_engine_initialize(&e, &args);
    if (!st && tx_tokenizer_vocab_size(tx_engine_tokenizer(e)) != 512) st = TX_FAIL(TX_ERR_STATE, "another vocabulary");
    if (!st) st = tx_run_train(run, e, NULL);
    if (!st && tx_engine_iteration(e) != 6) st = TX_FAIL(TX_ERR_STATE, "another number of iterations");
    if (!st && loss) *loss = tx_engine_loss(e);
    tx_engine_destroy(e);
    return st;
}

/* Each of them stands in the log behind the one before. */
static void assert_order(const char *const *line, size_t n)
{
    const char *at = logged;
    for (size_t i = 0; i < n; i++) {
        const char *next = strstr(at, line[i]);
        if (!next) fail_msg("\"%s\" is not in the log, or too early:%s", line[i], logged);
        at = next + 1;
    }
}

static void a_client_has_the_run_of_the_program(void **state)
{
    (void)state;
    static const char *const said[] = {
        "> building NullTokenizer tokenizer ...",
        "building GPT model ...",
        "setting number of micro-batches to constant 2",
        "backend: ",
        " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): ",
        "[after model, optimizer, and learning rate scheduler are built] datetime: ",
        "> building train, validation, and test datasets ...",
        "[after dataloaders are built] datetime: ",
        "done with setup ...",
        "training ...",
        " iteration        4/       6 |",
        "validation loss at iteration 4 |",
        "  successfully saved checkpoint at iteration       4 to ",
        " iteration        6/       6 |",
        "[after training is done] datetime: ",
        "  successfully saved checkpoint at iteration       6 to ",
        "from validation set |",
        "from test set |",
    };
    static const char *const files[] = { "iter_0000006/shard_00000.safetensors", "iter_0000004/shard_00000.safetensors",
                                         "latest" };
    tx_config *cfg = options(in_scratch("program"), "--reset-position-ids");
    ASSERT_OK(tx_pretrain(cfg));
    tx_config_free(cfg);
    tx_run *run;
    cfg = options(in_scratch("client"), "--reset-position-ids");
    log_begin();
    ASSERT_OK(tx_run_open(&run, cfg, NULL));
    tx_status st = train(run, cfg, NULL);
    ASSERT_OK(tx_run_close(run, st));
    log_end();
    tx_config_free(cfg);
    assert_order(said, sizeof said / sizeof *said);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_same_file(in_scratch("program/%s", files[i]), in_scratch("client/%s", files[i]));
    assert_true(tx_path_exists(in_scratch("client/metrics.jsonl")));
}

/* ---- threads ---- */

typedef struct job {
    const char *save, *more[2]; /* of each rank */
    double loss[2];
} job;

static tx_status rank_of(tx_world *world, void *user)
{
    job *j = user;
    int rank = tx_world_rank(world);
    tx_run *run = NULL;
    char flags[2048];
    tx_config *cfg;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags, SMALL "--data-path %s --save %s %s", data_path("dataset/tiny_text_document"), j->save,
             j->more[rank]);
    tx_status st = tx_config_parse_string(&cfg, "pretrain-gpt", flags);
    if (st) return st;
    st = tx_run_open(&run, cfg, world);
    if (!st && tx_run_world(run) != world) st = TX_FAIL(TX_ERR_STATE, "another world");
    if (!st) st = train(run, cfg, &j->loss[rank]);
    st = tx_run_close(run, st);
    tx_config_free(cfg);
    return st;
}

static void threads_train_what_one_rank_does(void **state)
{
    (void)state;
    static const char *const layout[] = { "--world-size 2", "--world-size 2 --tensor-model-parallel-size 2" };
    job one = { .save = in_scratch("one"), .more = { "--world-size 1" } };
    ASSERT_OK(tx_world_threads(1, rank_of, &one));
    for (int i = 0; i < 2; i++) {
        job two = { .save = in_scratch("two-%d", i), .more = { layout[i], layout[i] } };
        ASSERT_OK(tx_world_threads(2, rank_of, &two));
        for (int k = 0; k < 2; k++) ASSERT_NEAR(two.loss[k], one.loss[0], 1e-6, layout[i]);
        assert_true(tx_path_exists(in_scratch("two-%d/iter_0000006", i)));
    }
}

static void threads_fail_together(void **state)
{
    (void)state;
    job other = { .save = in_scratch("ck"), .more = { "--world-size 2 --seed 1", "--world-size 2 --seed 2" } };
    assert_int_not_equal(tx_world_threads(2, rank_of, &other), TX_OK); /* TX_ERR_COMM where rank 0 is told first */
    ASSERT_CONTAINS(tx_last_error(), "other options than rank 0: \"--seed=2\", there \"--seed=1\"");
    const char *two = "--world-size 2"; /* rank 0 alone makes the folder, behind the setup */
    write_text(in_scratch("file"), "");
    job nowhere = { .save = in_scratch("file/ck"), .more = { two, two } };
    ASSERT_FAILS(tx_world_threads(2, rank_of, &nowhere), TX_ERR_IO, "/file");
    const char *alone = "--world-size 1";
    job many = { .save = in_scratch("ck"), .more = { alone, alone } };
    ASSERT_FAILS(tx_world_threads(2, rank_of, &many), TX_ERR_ARG, "--world-size 1, but 2 ranks are running");
}

/* ---- a client's model on a client's data ---- */

enum { N_IN = 4, N_CLASSES = 2, B = 2 };

/* One layer: z = x Wᵀ, and the cross-entropy of it. */
typedef struct saved {
    tx_tensor dz;
} saved;

static tx_status forward(tx_ctx *c, const tx_layer_call *k)
{
    saved *s = k->saved;
    tx_tensor none = { 0 };
    s->dz = tx_ctx_push(c, TX_F32, 2, (int64_t[]){ k->b, N_CLASSES });
    tx_tensor z = tx_ctx_push(c, TX_F32, 2, (int64_t[]){ k->b, N_CLASSES });
    TX_RUN(c, gemm, .c = z, .a = k->input[0], .b = k->weight[0].value, .trans_b = true);
    TX_RUN(c, cross_entropy, .loss = tx_slice1(k->loss, 0, k->b), .z = z, .dz = k->train ? s->dz : none,
           .y = tx_slice1(k->input[1], 0, k->b), .weight = k->train ? tx_slice1(k->loss_weight, 0, k->b) : none,
           .n_valid = N_CLASSES);
    return TX_OK;
}

static tx_status backward(tx_ctx *c, const tx_layer_call *k)
{
    const saved *s = k->saved;
    TX_RUN(c, gemm, .c = k->weight[0].grad, .a = s->dz, .b = k->input[0], .trans_a = true, .accumulate = true);
    return TX_OK;
}

static const tx_param_spec weight[] = { { .name = "weight", .dim = { N_CLASSES, N_IN }, .init = TX_INIT_NORMAL } };
static const tx_layer layer[] = { { .name = "classifier",
                                    .param = weight,
                                    .n_params = 1,
                                    .forward = forward,
                                    .backward = backward,
                                    .saved_size = sizeof(saved) } };
static const tx_client_model classifier = {
    .size = sizeof classifier,
    .name = "classifier",
    .input = { { TX_F32, 1, { N_IN } }, { TX_I32, 1, { 1 } } },
    .n_inputs = 2,
    .layer = layer,
    .n_layers = 1,
    .loss_name = "class loss",
};

static volatile sig_atomic_t n_interrupts;

static void on_interrupt(int number)
{
    (void)number;
    n_interrupts = n_interrupts + 1;
}

typedef struct own_data {
    tx_engine *e;
    int stop_split; /* rank 0 gets SIGINT and SIGTERM when it reads there, that many iterations being done; 0: never */
    int64_t stop_at;
    int n_read[3];
    float x[B * N_IN];
    int32_t label[B];
    const void *input[2];
} own_data;

/* Samples 2 i and 2 i + 1: the class is the number's sign. */
static tx_status give(own_data *d, int split, int64_t i, const void **batch)
{
    const tx_rng rng = { .seed = 4, .stream = (uint32_t)split };
    if (d->stop_at && split == d->stop_split && tx_engine_iteration(d->e) == d->stop_at &&
        tx_engine_global_rank(d->e) == 0) {
        raise(SIGINT);
        raise(SIGTERM);
        d->stop_at = 0;
    }
    d->n_read[split]++;
    for (int64_t j = 0; j < B; j++) {
        for (int64_t k = 0; k < N_IN; k++)
            d->x[j * N_IN + k] = (float)tx_rng_normal(&rng, (uint64_t)((i * B + j) * N_IN + k));
        d->label[j] = d->x[j * N_IN] > 0;
    }
    d->input[0] = d->x;
    d->input[1] = d->label;
    *batch = d->input;
    return TX_OK;
}

/* Of the micro-batches that the data-parallel ranks read in turn. */
static int64_t number(const own_data *d, int64_t micro)
{
    return micro * tx_engine_data_parallel_size(d->e) + tx_engine_data_parallel_rank(d->e);
}

static tx_status read_train(void *user, int64_t micro, const void **batch)
{
    own_data *d = user;
    return give(d, 0, 4 * tx_engine_iteration(d->e) + number(d, micro), batch);
}

static tx_status read_valid(void *user, int64_t micro, const void **batch)
{
    return give(user, 1, number(user, micro), batch);
}

static tx_status read_test(void *user, int64_t micro, const void **batch)
{
    return give(user, 2, number(user, micro), batch);
}

#ifdef __SANITIZE_THREAD__ /* there the bandwidth of memory, which a profile measures first, takes minutes */
#define PROFILE ""
#else
#define PROFILE "--profile 2 "
#endif
#define OWN                                                                                                       \
    "--threads 1 --micro-batch-size 2 --global-batch-size 8 --train-iters 40 --lr 0.1 --lr-decay-style constant " \
    "--eval-iters 2 --eval-interval 20 --log-interval 20 --save-interval 20 --zero-stage 2 " PROFILE

typedef struct own_job {
    const char *save;
    int n;
    int stop_split;
    int64_t stop_at, iteration;
    double loss;
    int n_read[3];
} own_job;

static tx_status own_rank(tx_world *world, void *user)
{
    own_job *j = user;
    char flags[2048];
    own_data d = { .stop_split = j->stop_split, .stop_at = j->stop_at };
    tx_run *run = NULL;
    tx_config *cfg;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags, OWN "--world-size %d --save %s", j->n, j->save);
    tx_status st = tx_config_parse_string(&cfg, "engine", flags);
    if (st) return st;
    st = tx_run_open(&run, cfg, world);
    if (!st)
        st = tx_engine_initialize(&d.e, &(tx_engine_args){ .size = sizeof(tx_engine_args),
                                                           .config = cfg,
                                                           .world = tx_run_world(run),
                                                           .model = &classifier });
    if (!st && tx_run_train(run, d.e, NULL) != TX_ERR_ARG) st = TX_FAIL(TX_ERR_STATE, "datasets of a client's model");
    const tx_run_data data = { sizeof data, read_train, read_valid, read_test, &d };
    if (!st) st = tx_run_train(run, d.e, &data);
    if (!st && tx_engine_global_rank(d.e) == 0) {
        j->loss = tx_engine_loss(d.e);
        j->iteration = tx_engine_iteration(d.e);
        memcpy(j->n_read, d.n_read, sizeof j->n_read);
    }
    tx_engine_destroy(d.e);
    st = tx_run_close(run, st);
    tx_config_free(cfg);
    return st;
}

static void a_clients_model_runs_on_its_own_data(void **state)
{
    (void)state;
    static const char *const said[] = {
        "building the client's model ...",
        "[after model, optimizer, and learning rate scheduler are built] datetime: ",
        "[after dataloaders are built] datetime: ",
        " iteration       20/      40 |",
        "validation loss at iteration 20 | class loss value: ",
        " iteration       40/      40 |",
        "  successfully saved checkpoint at iteration      40 to ",
        "from validation set |",
        "from test set |",
    };
    own_job one = { .save = in_scratch("one"), .n = 1 }, two = { .save = in_scratch("two"), .n = 2 };
    log_begin();
    ASSERT_OK(tx_world_threads(1, own_rank, &one));
    log_end();
    assert_order(said, sizeof said / sizeof *said);
    assert_null(strstr(logged, "datasets"));
    assert_true(one.loss < 0.3);
    assert_int_equal(one.n_read[0], 40 * 4);
    assert_int_equal(one.n_read[1], 3 * 2 * 4); /* at 20, at 40 and at the end */
    assert_int_equal(one.n_read[2], 2 * 4);
    ASSERT_OK(tx_world_threads(2, own_rank, &two));
    ASSERT_NEAR(two.loss, one.loss, 1e-6, "two ranks");
    assert_int_equal(two.n_read[0], 40 * 2);
    assert_same_file(in_scratch("one/latest"), in_scratch("two/latest"));
}

/* A run takes signals that the program does not handle itself, and gives them back. */
static void a_signal_ends_a_clients_run(void **state)
{
    (void)state;
    struct sigaction before, now, own = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &own, &before);
    for (int n = 1; n <= 2; n++) {
        own_job step = { .save = in_scratch("step%d", n), .n = n, .stop_at = 7 },
                evaluation = { .save = in_scratch("evaluation%d", n), .n = n, .stop_split = 1, .stop_at = 20 };
        n_interrupts = 0;
        log_begin();
        ASSERT_OK(tx_world_threads(n, own_rank, &step));
        log_end();
        assert_int_equal(n_interrupts, 1);
        assert_int_equal(step.iteration, 8); /* the one under way is finished */
        assert_int_equal(step.n_read[0], 8 * 4 / n);
        assert_int_equal(step.n_read[1] + step.n_read[2], 0);
        ASSERT_CONTAINS(logged,
                        "SIGTERM: the run saves and ends after this iteration; a second signal ends it at once");
        ASSERT_CONTAINS(logged, "[exiting program after receiving SIGTERM.] datetime: ");
        assert_true(tx_path_exists(in_scratch("step%d/iter_0000008/manifest.json", n)));

        log_begin();
        ASSERT_OK(tx_world_threads(n, own_rank, &evaluation));
        log_end();
        assert_int_equal(evaluation.iteration, 20);
        assert_int_equal(evaluation.n_read[1], 4 / n); /* of 8 / n */
        ASSERT_CONTAINS(logged, "a signal has come: no evaluation at iteration 20");
        assert_null(strstr(logged, "validation loss"));
        assert_true(tx_path_exists(in_scratch("evaluation%d/iter_0000020/manifest.json", n)));
        assert_true(!sigaction(SIGTERM, NULL, &now) && now.sa_handler == SIG_DFL);
    }
    sigaction(SIGINT, &before, NULL);
}

/* ---- what is refused ---- */

static void a_kill_switch_leaves_nothing_to_do(void **state)
{
    (void)state;
    char more[1200];
    snprintf(more, sizeof more, "--kill-switch-file %s", write_text(in_scratch("stop"), ""));
    tx_config *cfg = options(in_scratch("ck"), more);
    tx_run *run = (tx_run *)cfg;
    log_begin();
    ASSERT_OK(tx_run_open(&run, cfg, NULL));
    log_end();
    assert_null(run);
    ASSERT_CONTAINS(logged, "[Detected kill switch at ");
    assert_int_equal(tx_run_close(NULL, TX_OK), TX_OK);
    assert_int_equal(tx_run_close(NULL, TX_ERR_IO), TX_ERR_IO);
    tx_config_free(cfg);
}

static void data_that_is_not_there_is_known_at_once(void **state)
{
    (void)state;
    tx_config *cfg = options(in_scratch("ck"), "");
    ASSERT_OK(tx_train_data_exists(cfg));
    tx_config_free(cfg);
    cfg = options(in_scratch("ck"), "--data-path nothere");
    ASSERT_FAILS(tx_train_data_exists(cfg), TX_ERR_NOTFOUND, "nothere");
    tx_config_free(cfg);
}

static void calls_that_cannot_be_are_refused(void **state)
{
    (void)state;
    char more[1200];
    int32_t rows[2][17] = { { 0 } };
    tx_run *run;
    tx_engine *e;
    double loss;
    snprintf(more, sizeof more, "--eval-tasks LAMBADA=%s",
             write_text(in_scratch("task.jsonl"), "{\"text\": \"1 2\"}\n"));
    tx_config *cfg = options(in_scratch("ck"), more);
    ASSERT_OK(tx_run_open(&run, cfg, NULL));
    const tx_engine_args args = { .size = sizeof args, .config = cfg, .world = tx_run_world(run), .vocab_size = 512 };
    ASSERT_OK(tx_engine_initialize(&e, &args));
    assert_null(tx_engine_tokenizer(e));
    const tx_run_data unsized = { .train = read_train };
    ASSERT_FAILS(tx_run_train(run, e, &unsized), TX_ERR_ARG, "tx_run_data.size");
    ASSERT_FAILS(tx_run_train(run, e, NULL), TX_ERR_ARG, "--eval-tasks needs an engine with a tokenizer");
    ASSERT_OK(tx_engine_forward(e, rows, &loss));
    ASSERT_FAILS(tx_run_train(run, e, NULL), TX_ERR_STATE, "between iterations");
    ASSERT_OK(tx_engine_backward(e)); /* the engine is as it was */
    tx_engine_destroy(e);
    ASSERT_OK(tx_run_close(run, TX_OK));
    tx_config_free(cfg);
}

static void there_is_data_or_no_training(void **state)
{
    (void)state;
    static const char *const more[] = { "", "--skip-train-iteration-range 2-3" };
    for (int i = 0; i < 2; i++) {
        tx_config *cfg = options(in_scratch("ck"), more[i]);
        tx_engine *e;
        tx_run *run;
        ASSERT_OK(tx_run_open(&run, cfg, NULL));
        const tx_engine_args args = {
            .size = sizeof args, .config = cfg, .world = tx_run_world(run), .vocab_size = 512
        };
        const tx_run_data nothing = { .size = sizeof nothing };
        ASSERT_OK(tx_engine_initialize(&e, &args));
        ASSERT_FAILS(tx_run_train(run, e, &nothing), TX_ERR_ARG,
                     i ? "is for datasets" : "a run needs data for training");
        tx_engine_destroy(e);
        ASSERT_FAILS(tx_run_close(run, TX_ERR_ARG), TX_ERR_ARG, "");
        tx_config_free(cfg);
    }
}

/* The end of a document is the tokenizer's. */
static void options_that_need_it_need_a_tokenizer(void **state)
{
    (void)state;
    tx_config *cfg = options(in_scratch("ck"), "--reset-position-ids");
    tx_engine *e;
    tx_engine_args args = { .size = sizeof args, .config = cfg, .vocab_size = 512 };
    ASSERT_FAILS(tx_engine_initialize(&e, &args), TX_ERR_ARG, "--reset-position-ids");
    args.with_tokenizer = true;
    args.vocab_size = 0;
    ASSERT_OK(tx_engine_initialize(&e, &args));
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static void running_out_of_memory_is_survived(void **state)
{
    (void)state;
    tx_config *cfg = options(in_scratch("ck"), "");
    tx_status st;
    int n = 0;
    do {
        tx_run *run;
        allocation_fails_at(n++);
        st = tx_run_open(&run, cfg, NULL);
        allocations_succeed();
        if (st) assert_null(run);
        assert_int_equal(st, st ? TX_ERR_NOMEM : TX_OK);
        assert_int_equal(tx_run_close(run, st), st);
    } while (st);
    assert_true(n > 1);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_client_has_the_run_of_the_program),
        SCRATCH_TEST(threads_train_what_one_rank_does),
        SCRATCH_TEST(threads_fail_together),
        SCRATCH_TEST(a_clients_model_runs_on_its_own_data),
        SCRATCH_TEST(a_signal_ends_a_clients_run),
        SCRATCH_TEST(a_kill_switch_leaves_nothing_to_do),
        SCRATCH_TEST(data_that_is_not_there_is_known_at_once),
        SCRATCH_TEST(calls_that_cannot_be_are_refused),
        SCRATCH_TEST(options_that_need_it_need_a_tokenizer),
        SCRATCH_TEST(there_is_data_or_no_training),
        SCRATCH_TEST(running_out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
