/* labels: unit parallel threads. Groups of ranks as threads of this process; plans; errors. */
#include "support.h"

#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm_body.h"

static const int team_sizes[] = { 1, 2, 3, 4, 8 };
enum { N_TEAMS = sizeof team_sizes / sizeof team_sizes[0] };

static tx_status everything(tx_world *w, void *user)
{
    return body_all(w, *(int *)user, false);
}

/* Every rank computes what it must get by itself, bit for bit. */
static void test_ranks_agree_with_a_serial_loop(void **state)
{
    (void)state;
    for (int i = 0; i < N_TEAMS; i++) ASSERT_OK(tx_world_threads(team_sizes[i], everything, &(int){ 1 }));
}

#ifndef __SANITIZE_THREAD__ /* OpenMP's own locks are unknown to ThreadSanitizer */
static void test_ranks_with_threads_of_their_own(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(2, everything, &(int){ 2 }));
}
#endif

static void test_a_world_of_one(void **state)
{
    (void)state;
    tx_world *w;
    ASSERT_OK(tx_world_self(&w));
    assert_int_equal(tx_world_size(w), 1);
    assert_int_equal(tx_world_seat(w, 0)->n_local, 1);
    ASSERT_OK(body_all(w, 1, false));
    assert_int_equal(tx_comm_volumes(tx_world_comm(w))[TX_COMM_ALL_REDUCE].calls, 0);
    float x[4] = { 1, 2, 3, 4 }, y[4] = { 0 };
    tx_comm *g = &tx_comm_self;
    ASSERT_OK(tx_reduce_scatter(NULL, g, tx_tensor1(y, TX_F32, 4), tx_tensor1(x, TX_F32, 4)));
    assert_memory_equal(x, y, sizeof x);
    y[3] = 0;
    tx_all_to_all_rows rows = { &(int64_t){ 3 }, &(int64_t){ 3 }, 3 };
    ASSERT_OK(tx_all_to_all(NULL, g, tx_tensor1(y, TX_F32, 4), tx_tensor1(x, TX_F32, 4), &rows));
    assert_true(y[2] == 3 && y[3] == 0);
    tx_world_close(w);
}

/* ---- a dry run ---- */

static void test_a_plan_counts_and_moves_nothing(void **state)
{
    (void)state;
    tx_comm *g;
    tx_ctx c = { .dry = true };
    tx_request r = { 0 };
    ASSERT_OK(tx_comm_plan(&g, 1024, 5, "data-parallel"));
    tx_tensor x = tx_tensor2(TX_DRY_ADDRESS, TX_BF16, 1024, 100), y = tx_tensor2(TX_DRY_ADDRESS, TX_BF16, 1, 100);
    ASSERT_OK(tx_all_reduce(&c, g, x, TX_SUM));
    ASSERT_OK(tx_all_reduce_start(&c, g, x, &r));
    ASSERT_OK(tx_wait(&c, &r));
    ASSERT_OK(tx_reduce_scatter(&c, g, y, x));
    ASSERT_OK(tx_all_gather(&c, g, x, y));
    ASSERT_OK(tx_broadcast(&c, g, x, 3));
    ASSERT_OK(tx_send_start(&c, g, y, 6, 0, &r));
    ASSERT_OK(tx_wait(&c, &r));
    ASSERT_OK(tx_recv(&c, g, y, 4, 0));
    ASSERT_OK(tx_all_to_all(&c, g, y, y, &(tx_all_to_all_rows){ NULL, NULL, 1024 }));
    ASSERT_OK(tx_comm_poll(&c, g));
    ASSERT_OK(tx_comm_barrier(g));
    const tx_comm_volume *v = tx_comm_volumes(g);
    static const int64_t calls[TX_N_COMM_OPS] = { 2, 1, 1, 1, 1, 1 };
    for (int i = 0; i < TX_N_COMM_OPS; i++) {
        assert_int_equal(v[i].calls, calls[i]);
        assert_int_equal(v[i].bytes, calls[i] * (i == TX_COMM_SEND ? 200 : 204800));
    }
    ASSERT_NEAR(tx_comm_sent(TX_COMM_ALL_REDUCE, 1024, v[TX_COMM_ALL_REDUCE].bytes), 2 * 1023 / 1024.0 * 2 * 204800,
                1e-6, "all-reduce");
    ASSERT_NEAR(tx_comm_sent(TX_COMM_REDUCE_SCATTER, 1024, v[TX_COMM_REDUCE_SCATTER].bytes), 1023 / 1024.0 * 204800,
                1e-6, "reduce-scatter");
    ASSERT_NEAR(tx_comm_sent(TX_COMM_ALL_TO_ALL, 1024, v[TX_COMM_ALL_TO_ALL].bytes), 1023 / 1024.0 * 200, 1e-6,
                "all-to-all");
    ASSERT_NEAR(tx_comm_sent(TX_COMM_SEND, 1024, v[TX_COMM_SEND].bytes), 200, 0, "send");
    tx_comm_close(g);
}

static tx_status counts(tx_world *w, void *user)
{
    (void)user;
    tx_comm *g = tx_world_comm(w);
    float x[1000] = { 0 };
    TX_TRY(tx_all_reduce(NULL, g, tx_tensor1(x, TX_F32, 1000), TX_SUM));
    TX_TRY(tx_all_gather(NULL, g, tx_tensor1(x, TX_F32, 400), tx_tensor1(x + 500, TX_F32, 100)));
    int64_t rows[4] = { 1, 2, 0, 3 }, from[4];
    for (int i = 0; i < 4; i++) from[i] = rows[tx_comm_rank(g)];
    TX_TRY(tx_all_to_all(NULL, g, tx_tensor2(x + 500, TX_F32, 50, 10), tx_tensor2(x, TX_F32, 6, 10),
                         &(tx_all_to_all_rows){ rows, from, 24 }));
    TX_TRY(tx_comm_barrier(g));
    const tx_comm_volume *v = tx_comm_volumes(g);
    EXPECT(v[TX_COMM_ALL_TO_ALL].calls == 1 && v[TX_COMM_ALL_TO_ALL].bytes == 960, "%lld",
           (long long)v[TX_COMM_ALL_TO_ALL].bytes);
    EXPECT(v[TX_COMM_ALL_REDUCE].calls == 1 && v[TX_COMM_ALL_REDUCE].bytes == 4000, "%lld",
           (long long)v[TX_COMM_ALL_REDUCE].bytes);
    EXPECT(v[TX_COMM_ALL_GATHER].calls == 1 && v[TX_COMM_ALL_GATHER].bytes == 1600, "%lld",
           (long long)v[TX_COMM_ALL_GATHER].bytes);
    return TX_OK;
}

static void test_real_calls_are_counted_alike(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(4, counts, NULL));
}

/* No call of a group that has been used once goes to the heap. */
static tx_status allocates(tx_world *w, void *user)
{
    _Atomic uint64_t *before = user;
    tx_comm *g = tx_world_comm(w);
    static float x[4][4000];
    static const int64_t rows[4] = { 250, 250, 250, 250 };
    tx_request r = { 0 };
    TX_TRY(tx_comm_barrier(g));
    if (tx_world_rank(w) == 0) *before = tx_alloc_count();
    TX_TRY(tx_comm_barrier(g));
    for (int i = 0; i < 100; i++) {
        tx_tensor mine = tx_tensor1(x[tx_world_rank(w)], TX_F32, 4000);
        TX_TRY(tx_all_reduce(NULL, g, mine, TX_SUM));
        TX_TRY(tx_send_start(NULL, g, tx_slice1(mine, 0, 1000), tx_world_rank(w) ^ 1, 0, &r));
        TX_TRY(tx_recv(NULL, g, tx_slice1(mine, 2000, 1000), tx_world_rank(w) ^ 1, 0));
        TX_TRY(tx_wait(NULL, &r));
        TX_TRY(tx_all_to_all(NULL, g, tx_slice1(mine, 2000, 1000), tx_slice1(mine, 0, 1000),
                             &(tx_all_to_all_rows){ rows, rows, 4000 }));
    }
    TX_TRY(tx_comm_barrier(g));
    EXPECT(tx_alloc_count() == *before, "%lld allocations", (long long)(tx_alloc_count() - *before));
    return tx_comm_barrier(g);
}

static void test_calls_allocate_nothing(void **state)
{
    (void)state;
    _Atomic uint64_t before = 0;
    ASSERT_OK(tx_world_threads(4, allocates, &before));
}

/* ---- errors ---- */

static tx_status one_fails(tx_world *w, void *user)
{
    float x[8] = { 0 };
    tx_comm *g = tx_world_comm(w);
    TX_TRY(tx_all_reduce(NULL, g, tx_tensor1(x, TX_F32, 8), TX_SUM));
    if (tx_world_rank(w) == 2) return TX_FAIL(TX_ERR_IO, "the disk is full");
    tx_status st = *(int *)user ? tx_recv(NULL, g, tx_tensor1(x, TX_F32, 8), 2, 7)
                                : tx_all_reduce(NULL, g, tx_tensor1(x, TX_F32, 8), TX_SUM);
    EXPECT(st == TX_ERR_COMM && tx_world_aborted(w), "%d", (int)st);
    EXPECT(!strcmp(tx_last_error(), "rank 2 ended the job: the disk is full"), "%s", tx_last_error());
    return st;
}

static void test_a_rank_that_fails_ends_the_others(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        double t = tx_clock();
        ASSERT_FAILS(tx_world_threads(4, one_fails, &how), TX_ERR_IO, "the disk is full");
        assert_true(tx_clock() - t < 5);
    }
}

/* Rank 1 reads data, rank 2 waits for rank 1 in another group, and 0 and 3 for both. */
static tx_status late(tx_world *w, void *user)
{
    _Atomic int *release = user;
    tx_ctx c = { .n_threads = 1, .at = { .layer = 3, .backward = true } };
    tx_comm *g = tx_world_comm(w), *pair;
    float x[8] = { 0 };
    int rank = tx_world_rank(w);
    TX_TRY(tx_comm_split(&pair, g, rank == 1 || rank == 2, "tensor-parallel"));
    tx_world_set_timeout(w, rank == 2 ? 30 : 0.5);
    TX_TRY(tx_all_reduce(&c, g, tx_tensor1(x, TX_F32, 8), TX_SUM));
    tx_status st = TX_OK;
    if (rank == 1) {
        tx_world_note(w, "reading data");
        while (!*release) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    } else if (rank == 2) {
        c.at = (tx_model_place){ .layer = 2 };
        st = tx_all_gather(&c, pair, tx_tensor1(x, TX_F32, 8), tx_tensor1(x, TX_F32, 4));
        EXPECT(st == TX_ERR_COMM && tx_world_aborted(w), "%d", (int)st);
    } else
        st = tx_all_reduce(&c, g, tx_tensor1(x, TX_F32, 8), TX_SUM);
    *release = 1;
    tx_comm_close(pair);
    return st;
}

static void test_a_late_rank_is_named(void **state)
{
    (void)state;
    _Atomic int release = 0;
    ASSERT_FAILS(
        tx_world_threads(4, late, &release), TX_ERR_COMM,
        "ranks 1 and 2 have not reached all-reduce #1 of the world group (layer 3, backward) within 0.5 s; rank 1 "
        "was last seen reading data, rank 2 in all-gather #0 of the tensor-parallel group (layer 2, forward)");
}

static tx_status nothing_sent(tx_world *w, void *user)
{
    (void)user;
    float x[8] = { 0 };
    tx_world_set_timeout(w, 0.3);
    if (tx_world_rank(w) == 0) return TX_OK;
    return tx_recv(NULL, tx_world_comm(w), tx_tensor1(x, TX_F32, 8), 0, 1);
}

static void test_a_message_that_does_not_come(void **state)
{
    (void)state;
    ASSERT_FAILS(
        tx_world_threads(2, nothing_sent, NULL), TX_ERR_COMM,
        "rank 0 has not sent what is waited for in receive #0 of the world group within 0.3 s; rank 0 was last "
        "seen at its end");
}

static tx_status differ(tx_world *w, void *user)
{
    (void)user;
    float x[8] = { 0 };
    return tx_all_reduce(NULL, tx_world_comm(w), tx_tensor1(x, TX_F32, 7 + tx_world_rank(w)), TX_SUM);
}

static void test_sizes_that_differ_are_told(void **state)
{
    (void)state;
    ASSERT_FAILS(tx_world_threads(2, differ, NULL), TX_ERR_COMM, "do not agree on all-reduce #0 of the world group");
}

static tx_status other_size(tx_world *w, void *user)
{
    (void)user;
    float x[100] = { 0 };
    tx_request r = { 0 };
    tx_comm *g = tx_world_comm(w);
    if (tx_world_rank(w) == 1) return tx_recv(NULL, g, tx_tensor1(x, TX_F32, 90), 0, 1);
    TX_TRY(tx_send_start(NULL, g, tx_tensor1(x, TX_F32, 100), 1, 1, &r));
    return tx_wait(NULL, &r);
}

static void test_a_message_of_another_size(void **state)
{
    (void)state;
    ASSERT_FAILS(tx_world_threads(2, other_size, NULL), TX_ERR_COMM,
                 "rank 0 has sent 400 bytes in a message (tag 1) of the world group, rank 1 expects 360");
}

static tx_status other_rows(tx_world *w, void *user)
{
    float x[40] = { 0 };
    int64_t to[2] = { 2, 2 }, from[2] = { 2, *(int *)user };
    tx_all_to_all_rows rows = { to, tx_world_rank(w) ? to : from, 8 };
    return tx_all_to_all(NULL, tx_world_comm(w), tx_tensor2(x, TX_F32, 10, 2), tx_tensor2(x + 20, TX_F32, 10, 2),
                         &rows);
}

static void test_rows_that_nobody_sends(void **state)
{
    (void)state;
    for (int rows = 0; rows < 4; rows += 3) {
        char expect[128];
        snprintf(expect, sizeof expect, "rank 1 sends 2 rows in all-to-all #0 of the world group, rank 0 expects %d",
                 rows);
        ASSERT_FAILS(tx_world_threads(2, other_rows, &rows), TX_ERR_COMM, expect);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_agree_with_a_serial_loop),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_ranks_with_threads_of_their_own),
#endif
        cmocka_unit_test(test_a_world_of_one),
        cmocka_unit_test(test_a_plan_counts_and_moves_nothing),
        cmocka_unit_test(test_real_calls_are_counted_alike),
        cmocka_unit_test(test_calls_allocate_nothing),
        cmocka_unit_test(test_a_rank_that_fails_ends_the_others),
        cmocka_unit_test(test_a_late_rank_is_named),
        cmocka_unit_test(test_a_message_that_does_not_come),
        cmocka_unit_test(test_sizes_that_differ_are_told),
        cmocka_unit_test(test_a_message_of_another_size),
        cmocka_unit_test(test_rows_that_nobody_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
