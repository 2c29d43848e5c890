/* test_engines.c - an engine's calls in every order, and several engines in one process: in turns, and on threads at
 * once. Each does what it does alone, bit for bit. */
/* labels: threads */
#include <pthread.h>

#include "engine_test.h"

enum { STEPS = 4 };

typedef struct run {
    const char *more;
    double loss[STEPS], norm[STEPS];
    tx_status st;
} run;

static tx_status micro_batches(tx_engine *e, double *loss, double *norm)
{
    int32_t rows[B * (S + 1)];
    double one;
    for (int64_t was = tx_engine_iteration(e); tx_engine_iteration(e) == was;) {
        batch(rows, tx_engine_micro_steps(e));
        TX_TRY(tx_engine_forward(e, rows, &one));
        TX_TRY(tx_engine_backward(e));
        TX_TRY(tx_engine_step(e));
    }
    *loss = tx_engine_loss(e);
    *norm = tx_engine_grad_norm(e);
    return TX_OK;
}

static tx_status make(tx_engine **e, tx_config **cfg, const char *more)
{
    char flags[4096];
    snprintf(flags, sizeof flags, "%s --threads 1 --device cpu --world-size 1 %s", FLAGS, more);
    TX_TRY(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    return tx_engine_create(e, *cfg, 509);
}

static void *alone(void *user)
{
    run *r = user;
    tx_config *cfg = NULL;
    tx_engine *e = NULL;
    r->st = make(&e, &cfg, r->more);
    for (int i = 0; !r->st && i < STEPS; i++) r->st = micro_batches(e, &r->loss[i], &r->norm[i]);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return NULL;
}

static void same(const run *a, const run *b)
{
    ASSERT_OK(a->st);
    ASSERT_OK(b->st);
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
}

#define DROPOUT "--hidden-dropout 0.1 --attention-dropout 0.1 "
static const char *const models[] = { DROPOUT, DROPOUT LLAMA "--bf16 --lr 2e-3 --seed 11" };

static void engines_in_turns(void **state)
{
    (void)state;
    run expect[2], got[2] = { 0 };
    tx_config *cfg[2] = { 0 };
    tx_engine *e[2];
    for (int k = 0; k < 2; k++) {
        expect[k] = (run){ .more = models[k] };
        alone(&expect[k]);
        ASSERT_OK(make(&e[k], &cfg[k], models[k]));
    }
    int32_t rows[2][B * (S + 1)];
    double loss;
    for (int i = 0; i < STEPS; i++) {
        do { /* call by call */
            for (int k = 0; k < 2; k++) {
                batch(rows[k], tx_engine_micro_steps(e[k]));
                ASSERT_OK(tx_engine_forward(e[k], rows[k], &loss));
            }
            for (int k = 2; k-- > 0;) ASSERT_OK(tx_engine_backward(e[k]));
            for (int k = 0; k < 2; k++) ASSERT_OK(tx_engine_step(e[k]));
        } while (tx_engine_iteration(e[0]) == i);
        for (int k = 0; k < 2; k++) {
            got[k].loss[i] = tx_engine_loss(e[k]);
            got[k].norm[i] = tx_engine_grad_norm(e[k]);
        }
    }
    for (int k = 0; k < 2; k++) {
        same(&expect[k], &got[k]);
        tx_engine_destroy(e[k]);
        tx_config_free(cfg[k]);
    }
    assert_true(expect[0].loss[0] != expect[1].loss[0]);
}

static void engines_at_once(void **state)
{
    (void)state;
    enum { N = 4 };
    run expect[2], got[N];
    pthread_t thread[N];
    for (int k = 0; k < 2; k++) {
        expect[k] = (run){ .more = models[k] };
        alone(&expect[k]);
    }
    for (int k = 0; k < N; k++) {
        got[k] = (run){ .more = models[k % 2] };
        assert_int_equal(pthread_create(&thread[k], NULL, alone, &got[k]), 0);
    }
    for (int k = 0; k < N; k++) assert_int_equal(pthread_join(thread[k], NULL), 0);
    for (int k = 0; k < N; k++) same(&expect[k % 2], &got[k]);
}

/* ---- every call in every state ---- */

typedef struct calls {
    tx_engine *e;
    int32_t rows[B * (S + 1)];
} calls;

static tx_status read_rows(void *user, int64_t micro, const void **out)
{
    calls *c = user;
    batch(c->rows, micro);
    *out = c->rows;
    return TX_OK;
}

static tx_status call_forward(calls *c)
{
    double loss;
    batch(c->rows, tx_engine_micro_steps(c->e));
    return tx_engine_forward(c->e, c->rows, &loss);
}

static tx_status call_backward(calls *c)
{
    return tx_engine_backward(c->e);
}

static tx_status call_step(calls *c)
{
    return tx_engine_step(c->e);
}

static tx_status call_evaluate(calls *c)
{
    double loss;
    batch(c->rows, 99);
    return tx_engine_evaluate(c->e, c->rows, &loss);
}

static tx_status call_train_batch(calls *c)
{
    double loss;
    return tx_engine_train_batch(c->e, read_rows, c, &loss);
}

static tx_status call_eval_batch(calls *c)
{
    double loss;
    return tx_engine_eval_batch(c->e, 2 * B, read_rows, c, &loss);
}

static tx_status call_sum(calls *c)
{
    double x = 3;
    return tx_engine_sum(c->e, &x, 1);
}

static tx_status call_save(calls *c)
{
    return tx_engine_save_checkpoint(c->e, in_scratch("saved"), "some", NULL);
}

static tx_status call_load(calls *c)
{
    return tx_engine_load_checkpoint(c->e, in_scratch("before"), NULL, NULL, NULL);
}

/* Micro-batches of an iteration are two: A first forward is next, B backward of the first, C its step, D the second's
 * forward, E its backward, F its step. fine: where a call is, and changes nothing that is compared. */
static const struct {
    const char *name;
    tx_status (*call)(calls *c);
    const char *next, *fine;
} table[] = {
    { "forward", call_forward, "AD", "" },
    { "backward", call_backward, "BE", "" },
    { "step", call_step, "CF", "" },
    { "evaluate", call_evaluate, "", "AD" }, /* between iterations or micro-batches */
    { "train_batch", call_train_batch, "A", "" },
    { "eval_batch", call_eval_batch, "", "A" },
    { "sum", call_sum, "", "A" },
    { "save_checkpoint", call_save, "", "A" },
    { "load_checkpoint", call_load, "", "A" },
};
enum { N_CALLS = sizeof table / sizeof *table };

/* Before each of an iteration's calls all those that are wrong there, and those that change nothing. */
static void wrong_calls_change_nothing(void **state)
{
    (void)state;
    run expect = { .more = models[0] };
    tx_config *cfg = NULL;
    calls c = { 0 };
    static const int order[] = { 0, 1, 2, 0, 1, 2 };
    int n_refused = 0;
    alone(&expect);
    ASSERT_OK(make(&c.e, &cfg, models[0]));
    for (int i = 0; i < STEPS; i++) {
        ASSERT_OK(tx_engine_save_checkpoint(c.e, in_scratch("before"), NULL, NULL));
        for (int at = 0; at < 6; at++) {
            const char here = (char)('A' + at);
            for (int k = 0; k < N_CALLS; k++) {
                if (strchr(table[k].next, here)) continue;
                tx_status st = table[k].call(&c);
                bool fine = strchr(table[k].fine, here) != NULL;
                if (st != (fine ? TX_OK : TX_ERR_STATE))
                    fail_msg("%s at %c: status %d, %s", table[k].name, here, (int)st, st ? tx_last_error() : "");
                n_refused += !fine;
            }
            ASSERT_OK(table[order[at]].call(&c));
        }
        assert_int_equal(tx_engine_iteration(c.e), i + 1);
        assert_true(tx_engine_loss(c.e) == expect.loss[i] && tx_engine_grad_norm(c.e) == expect.norm[i]);
    }
    assert_int_equal(n_refused, STEPS * (6 * N_CALLS - 6 - 1 - 6));
    tx_engine_destroy(c.e);
    tx_config_free(cfg);
}

/* What every header allows to be NULL, and outputs of calls that fail. */
static void nothing_is_freed_as_well(void **state)
{
    (void)state;
    tx_engine *e = NULL;
    tx_config *cfg = NULL;
    tx_engine_destroy(NULL);
    tx_config_free(NULL);
    tx_tokenizer_close(NULL);
    tx_vocab_trainer_free(NULL);
    tx_dataset_close(NULL);
    tx_world_close(NULL);
    tx_text_free(NULL);
    tx_ids_free(&(tx_ids){ 0 });
    tx_bytes_free(&(tx_bytes){ 0 });
    ASSERT_FAILS(tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args) }), TX_ERR_ARG,
                 "tx_engine_args.config is missing");
    ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-nothing", ""), TX_ERR_NOTFOUND, "pretrain-nothing");
    assert_true(!e && !cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_in_turns),
        cmocka_unit_test(engines_at_once),
        SCRATCH_TEST(wrong_calls_change_nothing),
        cmocka_unit_test(nothing_is_freed_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
