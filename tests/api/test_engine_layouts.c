/* labels: unit threads parallel resume fault
 * Engines of several ranks, as threads: they train what one trains, whatever ZeRO's stage and the layout, go on from
 * each other's checkpoints, and end together. */
#include "engine_test.h"

#include "engine_jobs.h"

enum { ROW = B * (S + 1) };

/* Under a sanitizer a run takes ten times as long: then a few have to do. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { N_TYPES = 2, STAGES_APART = 3 };
#else
enum { N_TYPES = 3, STAGES_APART = 1 };
#endif

/* ---- data: micro-batches are dealt out in turn ---- */

typedef struct reader {
    const tx_engine *e;
    const job *j;
    int32_t rows[ROW];
    int64_t first;
} reader;

static tx_status read_rows(void *user, int64_t micro, const void **rows)
{
    reader *r = user;
    int64_t data = tx_engine_data_parallel_size(r->e);
    if (r->j->fails_at == tx_engine_iteration(r->e) + 1 && tx_engine_global_rank(r->e) == 1)
        return TX_FAIL(TX_ERR_IO, "the data of rank 1 are gone");
    batch(r->rows, r->first + micro * data + tx_engine_data_parallel_rank(r->e));
    *rows = r->rows;
    return TX_OK;
}

/* The global batch is 4 micro-batches. */
static tx_status iteration(tx_engine *e, reader *r, bool by_hand)
{
    double loss;
    r->first = 4 * tx_engine_iteration(e);
    if (!by_hand) return tx_engine_train_batch(e, read_rows, r, &loss);
    for (int64_t k = 0; k < 4 / tx_engine_data_parallel_size(e); k++) {
        const void *rows;
        TX_TRY(read_rows(r, k, &rows));
        TX_TRY(tx_engine_forward(e, rows, &loss));
        TX_TRY(tx_engine_backward(e));
        TX_TRY(tx_engine_step(e));
    }
    return TX_OK;
}

/* ---- a rank ---- */

static tx_status load(tx_engine *e, const char *dir)
{
    char *path, *state;
    TX_TRY(tx_engine_load_checkpoint(e, dir, NULL, &path, &state));
    bool good = path && strstr(path, "/half") && state && !strcmp(state, "{\"rank\":0}");
    tx_text_free(path);
    tx_text_free(state);
    return good ? TX_OK : TX_FAIL(TX_ERR_NUMERIC, "another checkpoint, or another state of the client's");
}

/* What other ranks than the first say of the client's state does not count. */
static tx_status save(tx_engine *e, const char *dir)
{
    char state[32];
    snprintf(state, sizeof state, "{\"rank\": %d}", tx_engine_global_rank(e));
    return tx_engine_save_checkpoint(e, dir, "half", state);
}

/* Numbers of the last stage's ranks count, which are the last of the world. */
static tx_status sum(tx_engine *e, const job *j)
{
    enum { MANY = 5 };
    bool counts = tx_engine_global_rank(e) >= j->n - j->n / j->pp;
    double size = tx_engine_data_parallel_size(e), x[MANY];
    for (int i = 0; i < MANY; i++) x[i] = counts ? i + tx_engine_data_parallel_rank(e) : -1e9;
    TX_TRY(tx_engine_sum(e, x, MANY));
    for (int i = 0; i < MANY; i++)
        if (x[i] != i * size + size * (size - 1) / 2)
            return TX_FAIL(TX_ERR_NUMERIC, "the sum of number %d is %g", i, x[i]);
    return tx_engine_sum(e, x, -1) == TX_ERR_ARG && !tx_engine_sum(e, NULL, 0)
               ? TX_OK
               : TX_FAIL(TX_ERR_STATE, "sums of no numbers");
}

static tx_status train_rank(tx_engine *e, job *j, reader *r)
{
    bool writes = tx_engine_global_rank(e) == 0;
    while (tx_engine_iteration(e) < j->until) {
        int64_t i = tx_engine_iteration(e);
        TX_TRY(iteration(e, r, j->pp == 1 && i % 2));
        if (writes) j->loss[i] = tx_engine_loss(e), j->norm[i] = tx_engine_grad_norm(e);
    }
    double scored;
    r->first = 1000;
    TX_TRY(tx_engine_eval_batch(e, 10, read_rows, r, &scored));
    TX_TRY(sum(e, j));
    if (writes) j->scored = scored, j->micro_steps = tx_engine_micro_steps(e);
    return j->save ? save(e, j->save) : TX_OK;
}

static tx_status rank_of(tx_world *world, void *user)
{
    job *j = user;
    char flags[4096];
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    reader r = { .j = j };
    tx_status st;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags,
             "%s --global-batch-size 8 --num-layers 4 --hidden-dropout 0.1 --threads 1 --world-size %d "
             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s",
             FLAGS, j->n, j->tp, j->pp, j->flags);
    TX_GOTO(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    const tx_engine_args args = { .size = sizeof args, .config = cfg, .vocab_size = 509, .world = world };
    TX_GOTO(tx_engine_initialize(&e, &args));
    r.e = e;
    if (tx_engine_world_size(e) != j->n || tx_engine_global_rank(e) != tx_world_rank(world))
        st = TX_FAIL(TX_ERR_STATE, "another rank or size");
    if (!st && j->load) TX_GOTO(load(e, j->load));
    if (!st) st = train_rank(e, j, &r);
out:
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

/* ---- tests ---- */

static void every_stage_and_layout_is_one_rank(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        double bound;
    } type[] = { { "", 1e-6 }, { "--bf16", 2e-3 }, { "--fp16 --initial-loss-scale 1024", 5e-4 } };
    for (int k = 0; k < N_TYPES; k++) {
        job one = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = type[k].flags });
        assert_int_equal(one.micro_steps, 4 * STEPS);
        for (int stage = 0; stage < 4; stage += STAGES_APART)
            for (int n = 2; n <= 4; n += 2) {
                char flags[256];
                snprintf(flags, sizeof flags, "%s --zero-stage %d", type[k].flags, stage);
                job many = run((job){ .n = n, .tp = 1, .pp = 1, .flags = flags });
                same(&many, &one, 0, type[k].bound);
                assert_int_equal(many.micro_steps, 4 * STEPS / n);
            }
        job tensor = run((job){ .n = 3, .tp = 3, .pp = 1, .flags = type[k].flags });
        same(&tensor, &one, 0, type[k].bound);
        job pipe = run((job){ .n = 4, .tp = 1, .pp = 2, .flags = type[k].flags });
        same(&pipe, &one, 0, type[k].bound);
    }
}

static void ranks_go_on_from_others_checkpoints(void **state)
{
    (void)state;
    job one = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "" });
    run((job){ .n = 4, .tp = 1, .pp = 1, .flags = "--zero-stage 3", .until = 3, .save = in_scratch("ck") });
    job two = run((job){ .n = 2, .tp = 1, .pp = 2, .flags = "", .load = in_scratch("ck") });
    same(&two, &one, 3, 1e-6);
    job alone = run((job){ .n = 1, .tp = 1, .pp = 1, .flags = "", .load = in_scratch("ck") });
    same(&alone, &one, 3, 1e-6);
}

/* What a rank cannot do ends the others' calls, and its own words are the job's. */
static void ranks_end_together(void **state)
{
    (void)state;
    job j = { .n = 3, .tp = 3, .pp = 1, .flags = "", .until = STEPS, .fails_at = 4 };
    ASSERT_FAILS(tx_world_threads(3, rank_of, &j), TX_ERR_IO, "the data of rank 1 are gone");
    j = (job){ .n = 2, .tp = 1, .pp = 1, .flags = "", .until = STEPS };
    ASSERT_FAILS(tx_world_threads(3, rank_of, &j), TX_ERR_ARG, "--world-size 2, but 3 ranks are running");
}

static tx_status asks_for_what_cannot_be(tx_world *world, void *user)
{
    tx_engine *e = NULL;
    tx_engine_args args = { .config = user, .vocab_size = 509, .world = world };
    int32_t rows[ROW];
    double loss;
    if (tx_engine_initialize(&e, &args) != TX_ERR_ARG) return TX_FAIL(TX_ERR_STATE, "without a size");
    args.size = offsetof(tx_engine_args, loss_gradient) - 1;
    if (tx_engine_initialize(&e, &args) != TX_ERR_ARG || !strstr(tx_last_error(), "tx_engine_args.size"))
        return TX_FAIL(TX_ERR_STATE, "with less than the first version's size");
    struct {
        tx_engine_args known;
        void *newer;
    } of_later = { .known = args, .newer = &e };
    of_later.known.size = sizeof of_later;
    if (tx_engine_initialize(&e, &of_later.known) != TX_ERR_ARG || !strstr(tx_last_error(), "does not know"))
        return TX_FAIL(TX_ERR_STATE, "with a member that is not known");
    of_later.newer = NULL;
    TX_TRY(tx_engine_initialize(&e, &of_later.known));
    batch(rows, 0);
    tx_status st = tx_engine_forward(e, rows, &loss);
    if (st != TX_ERR_STATE || !strstr(tx_last_error(), "a whole iteration is trained at a time"))
        st = TX_FAIL(TX_ERR_NUMERIC, "forward with a pipeline: %s", tx_last_error());
    else if (tx_engine_export(e, "nowhere") != TX_ERR_UNSUPPORTED)
        st = TX_FAIL(TX_ERR_NUMERIC, "several ranks export");
    else
        st = TX_OK;
    tx_engine_destroy(e); /* wrong calls leave the ranks in step */
    return st;
}

static void wrong_calls_are_refused_on_all_ranks(void **state)
{
    (void)state;
    tx_config *cfg;
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt",
                                     FLAGS "--threads 1 --world-size 2 --pipeline-model-parallel-size 2"));
    ASSERT_OK(tx_world_threads(2, asks_for_what_cannot_be, cfg));
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_and_layout_is_one_rank),
        cmocka_unit_test(ranks_go_on_from_others_checkpoints),
        cmocka_unit_test(ranks_end_together),
        cmocka_unit_test(wrong_calls_are_refused_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
