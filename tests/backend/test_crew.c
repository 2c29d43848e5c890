/* labels: unit. Threads that stay together: every unit is done once, whoever is late. */
#include <sched.h>
#include <stdatomic.h>

#include "backend/cpu/cpu.h"
#include "support.h"

enum { MOST = 300, JOBS = 400 };

typedef struct rig {
    tx_ctx c;
    _Atomic int done[MOST];
    int in_all;
    char matrix[1 << 16];
} rig;

static void count(const void *arg, int64_t first, int64_t end, int thread)
{
    rig *r = *(rig *const *)arg;
    (void)thread;
    for (int64_t i = first; i < end; i++) atomic_fetch_add(&r->done[i], 1);
    if (first % 7 == 3) sched_yield();
}

/* Of all sizes; some read what is foreseen in the next run. */
static tx_status all_jobs(void *user)
{
    rig *r = user;
    tx__crew *w = tx__crew_of(&r->c);
    assert_non_null(w);
    for (int k = 0; k < JOBS; k++) {
        int64_t n = 1 + k * 37 % MOST;
        for (int i = 0; i < MOST; i++) atomic_store(&r->done[i], 0);
        tx__crew_share(w, &(tx__crew_job){ .unit = count,
                                           .arg = &r,
                                           .n = n,
                                           .step = k % 5,
                                           .reads = k % 2 ? r->matrix : NULL,
                                           .bytes = (size_t)n * 200 - 1,
                                           .unit_bytes = 200 });
        for (int i = 0; i < MOST; i++) assert_int_equal(atomic_load(&r->done[i]), i < n);
        r->in_all++;
    }
    return TX_OK;
}

static tx_status fails(void *user)
{
    (void)user;
    return TX_FAIL(TX_ERR_ARG, "half-way");
}

static void every_unit_is_done_once(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 5; threads += 3) {
        rig *r = calloc(1, sizeof *r);
        assert_non_null(r);
        ASSERT_OK(tx_ctx_init(&r->c, "cpu", threads));
        ASSERT_OK(tx_ctx_take_memory(&r->c));
        for (int run = 0; run < 3; run++) ASSERT_OK(r->c.backend->together(&r->c, all_jobs, r));
        assert_int_equal(r->in_all, 3 * JOBS);
        assert_null(tx__crew_of(&r->c));
        ASSERT_FAILS(r->c.backend->together(&r->c, fails, r), TX_ERR_ARG, "half-way");
        assert_null(tx__crew_of(&r->c));
        tx_ctx_deinit(&r->c);
        free(r);
    }
}

static tx_status alone(void *user)
{
    const rig *r = user;
    return tx__crew_of(&r->c) ? TX_FAIL(TX_ERR_STATE, "there is one") : TX_OK;
}

static void one_thread_is_no_crew(void **state)
{
    (void)state;
    rig r = { 0 };
    ASSERT_OK(tx_ctx_init(&r.c, "cpu", 1));
    ASSERT_OK(tx_ctx_take_memory(&r.c));
    ASSERT_OK(r.c.backend->together(&r.c, alone, &r));
    tx_ctx_deinit(&r.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unit_is_done_once),
        cmocka_unit_test(one_thread_is_no_crew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
