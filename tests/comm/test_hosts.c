/* labels: unit parallel threads. Collectives that go host by host, between ranks as threads: the bits of a serial loop,
 * what hosts send each other, and errors. */
#include "support.h"

#include <time.h>

#include "base/clock.h"
#include "threads_on_hosts.h"

/* Hosts of ranks 0, 1, ...: even and uneven numbers, one rank alone first, last or between, ranks that alternate. */
static const char *const placements[] = { "00122", "0001111", "0101", "01111233", "0001", "0111", "0011222", "011022" };
enum { N_PLACEMENTS = sizeof placements / sizeof placements[0] };

static tx_status collectives(tx_world *w, void *user)
{
    float *x = NULL, *y = NULL;
    tx_ctx c = { .n_threads = *(int *)user };
    tx_comm *g = tx_world_comm(w);
    tx_status st;
    TX_GOTO(tx_alloc(&x, 1, (size_t)16 << 20, "a test"));
    TX_GOTO(tx_alloc(&y, 1, (size_t)16 << 20, "a test"));
    TX_GOTO(body_collectives(&c, g, x, y));
    TX_GOTO(body_under_way(&c, g, x));
    TX_GOTO(tx_comm_barrier(g));
out:
    tx_free(x);
    tx_free(y);
    return st;
}

static void test_bits_are_those_of_a_serial_loop(void **state)
{
    (void)state;
    for (int i = 0; i < as_many(N_PLACEMENTS, 2); i++) {
        print_message("ranks on hosts %s\n", placements[i]);
        ASSERT_OK(threads_on_hosts(placements[i], collectives, &(int){ 1 }));
    }
}

static tx_status everything(tx_world *w, void *user)
{
    return body_all(w, *(int *)user, false);
}

/* Messages, all-to-alls and groups of some ranks as well. */
static void test_all_calls_on_two_hosts(void **state)
{
    (void)state;
    ASSERT_OK(threads_on_hosts("000111", everything, &(int){ 1 }));
#ifndef __SANITIZE_THREAD__ /* OpenMP's own locks are unknown to ThreadSanitizer */
    ASSERT_OK(threads_on_hosts("001", everything, &(int){ 2 }));
#endif
}

/* ---- what crosses ---- */

typedef struct crossing_case {
    const char *hosts;
    tx_comm_op op;
    tx_dtype dtype;
    bool flat;
    double expected;
} crossing_case;

enum { TENSOR = 1 << 20 }; /* elements */

static tx_status call_once(tx_world *w, void *user)
{
    const crossing_case *k = user;
    tx_comm *g;
    void *x = NULL;
    tx_status st;
    tx_world_by_hosts(w, !k->flat);
    TX_TRY(tx_comm_split(&g, tx_world_comm(w), 0, "all"));
    int n = tx_comm_size(g);
    int64_t part = TENSOR / n;
    tx_tensor whole, mine;
    TX_GOTO(tx_alloc(&x, TENSOR, 8, "a test"));
    whole = tx_tensor1(x, k->dtype, part * n);
    mine = tx_tensor1((char *)x + (size_t)(part * tx_comm_rank(g)) * tx_dtype_size(k->dtype), k->dtype, part);
    TX_GOTO(tx_comm_barrier(g));
    if (tx_comm_rank(g) == 0)
        for (int i = 0; i < MOST_RANKS; i++) crossing[i] = 0;
    TX_GOTO(tx_comm_barrier(g)); /* whose messages are empty */
    if (k->op == TX_COMM_ALL_REDUCE) st = tx_all_reduce(NULL, g, whole, TX_SUM);
    if (k->op == TX_COMM_REDUCE_SCATTER) st = tx_reduce_scatter(NULL, g, mine, whole);
    if (k->op == TX_COMM_ALL_GATHER) st = tx_all_gather(NULL, g, whole, mine);
    if (k->op == TX_COMM_BROADCAST) st = tx_broadcast(NULL, g, whole, n - 1);
    if (!st) st = tx_comm_barrier(g);
    EXPECT(st || tx_comm_volumes(g)[k->op].bytes == part * n * (int64_t)tx_dtype_size(k->dtype), "%d", (int)k->op);
out:
    tx_free(x);
    return st;
}

static tx_comm_hosts hosts_of(const char *text)
{
    int count[10] = { 0 };
    tx_comm_hosts at = { .size = (int)strlen(text) };
    for (const char *t = text; *t; t++) {
        at.hosts += !count[*t - '0']++;
        if (count[*t - '0'] > at.most) at.most = count[*t - '0'];
    }
    return at;
}

/* Numbers that were found by hand, the formula, and what was sent are the same. */
static void test_what_the_busiest_host_sends(void **state)
{
    (void)state;
    static const crossing_case cases[] = {
        { "00001111", TX_COMM_ALL_REDUCE, TX_F32, false, 1 },
        { "00001111", TX_COMM_ALL_REDUCE, TX_F32, true, 4 },
        { "00001111", TX_COMM_ALL_REDUCE, TX_BF16, false, 2 },
        { "00001111", TX_COMM_ALL_REDUCE, TX_BF16, true, 4 },
        { "00001111", TX_COMM_REDUCE_SCATTER, TX_F32, false, 1 },
        { "00001111", TX_COMM_REDUCE_SCATTER, TX_F32, true, 2 },
        { "00001111", TX_COMM_ALL_GATHER, TX_I32, false, 0.5 },
        { "00001111", TX_COMM_ALL_GATHER, TX_I32, true, 2 },
        { "00001111", TX_COMM_BROADCAST, TX_F64, false, 1 },
        { "00001111", TX_COMM_BROADCAST, TX_F64, true, 4 },
        { "00112233", TX_COMM_ALL_REDUCE, TX_F32, false, 2 },
        { "00112233", TX_COMM_ALL_REDUCE, TX_F32, true, 3 },
        { "00112233", TX_COMM_ALL_GATHER, TX_F16, false, 0.75 },
        { "00112233", TX_COMM_BROADCAST, TX_F32, false, 1 },
        { "0001", TX_COMM_ALL_REDUCE, TX_F32, false, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const crossing_case *k = &cases[i];
        int64_t most = 0, bytes = TENSOR / (int64_t)strlen(k->hosts) * (int64_t)strlen(k->hosts);
        bytes *= (int64_t)tx_dtype_size(k->dtype);
        ASSERT_OK(threads_on_hosts(k->hosts, call_once, (void *)(uintptr_t)k));
        for (int h = 0; h < MOST_RANKS; h++)
            if (crossing[h] > most) most = crossing[h];
        print_message("%s of %s on hosts %s\n", tx_comm_op_names[k->op], tx_dtype_name(k->dtype), k->hosts);
        ASSERT_NEAR((double)most / (double)bytes, k->expected, 1e-3, "what was sent");
        ASSERT_NEAR(tx_comm_crossing(k->op, k->dtype, hosts_of(k->hosts), !k->flat), k->expected, 1e-9, "the formula");
        if (k->flat) continue;
        assert_true(tx_comm_goes_by_hosts(k->op, k->dtype, hosts_of(k->hosts), bytes));
        assert_false(tx_comm_goes_by_hosts(k->op, k->dtype, hosts_of(k->hosts), 1000));
    }
}

static void test_what_saves_nothing_goes_the_other_way(void **state)
{
    (void)state;
    const int64_t large = 1 << 30;
    tx_comm_hosts pairs = { 4, 2, 2, false }, apart = { 8, 2, 4, true }, alone = { 8, 8, 1, false },
                  one = { 8, 1, 8, false };
    assert_true(tx_comm_goes_by_hosts(TX_COMM_ALL_REDUCE, TX_F32, pairs, large));
    assert_false(tx_comm_goes_by_hosts(TX_COMM_ALL_REDUCE, TX_BF16, pairs, large)); /* sums are fp32 */
    assert_false(tx_comm_goes_by_hosts(TX_COMM_REDUCE_SCATTER, TX_F32, pairs, large));
    assert_true(tx_comm_goes_by_hosts(TX_COMM_ALL_GATHER, TX_BF16, pairs, large));
    assert_false(tx_comm_goes_by_hosts(TX_COMM_ALL_REDUCE, TX_F32, apart, large)); /* not in the order of ranks */
    assert_true(tx_comm_goes_by_hosts(TX_COMM_ALL_GATHER, TX_F32, apart, large));
    for (int op = 0; op < TX_N_COMM_OPS; op++) {
        assert_false(tx_comm_goes_by_hosts((tx_comm_op)op, TX_F32, alone, large));
        assert_false(tx_comm_goes_by_hosts((tx_comm_op)op, TX_F32, one, large));
    }
    assert_false(tx_comm_goes_by_hosts(TX_COMM_ALL_TO_ALL, TX_F32, pairs, large));
}

/* ---- memory, errors ---- */

static tx_status allocates(tx_world *w, void *user)
{
    _Atomic uint64_t *before = user;
    tx_comm *g = tx_world_comm(w);
    static float x[4][400000];
    tx_tensor mine = tx_tensor1(x[tx_world_rank(w)], TX_F32, 400000);
    tx_ctx c = { .n_threads = 1 };
    for (int i = 0; i < 20; i++) {
        if (i == 2) TX_TRY(tx_comm_barrier(g));
        if (i == 2 && tx_world_rank(w) == 0) *before = tx_alloc_count();
        if (i == 2) TX_TRY(tx_comm_barrier(g));
        TX_TRY(tx_all_reduce(&c, g, mine, TX_SUM));
        TX_TRY(tx_broadcast(&c, g, mine, 3));
        TX_TRY(tx_all_gather(&c, g, mine, tx_slice1(mine, 100000 * tx_world_rank(w), 100000)));
    }
    TX_TRY(tx_comm_barrier(g));
    EXPECT(tx_alloc_count() == *before, "%lld allocations", (long long)(tx_alloc_count() - *before));
    return tx_comm_barrier(g);
}

static void test_calls_allocate_nothing(void **state)
{
    (void)state;
    _Atomic uint64_t before = 0;
    ASSERT_OK(threads_on_hosts("0011", allocates, &before));
}

/* One rank reads data: the ranks of its host know it, and name it before those of the other host name them all. */
static tx_status late(tx_world *w, void *user)
{
    _Atomic int *n_done = user;
    static float x[4][100000];
    int rank = tx_world_rank(w), last = tx_world_size(w) - 1;
    tx_tensor mine = tx_tensor1(x[rank], TX_F32, 100000);
    TX_TRY(tx_all_reduce(NULL, tx_world_comm(w), mine, TX_SUM));
    tx_world_set_timeout(w, 0.5);
    if (rank == last) {
        tx_world_note(w, "reading data");
        while (*n_done < last) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        return TX_OK;
    }
    tx_status st = tx_all_reduce(NULL, tx_world_comm(w), mine, TX_SUM);
    ++*n_done;
    return st;
}

static void test_a_late_rank_is_named_by_its_host(void **state)
{
    (void)state;
    _Atomic int n_done = 0;
    double start = tx_clock();
    ASSERT_FAILS(
        threads_on_hosts("0011", late, &n_done), TX_ERR_COMM,
        "rank 3 has not reached all-reduce #1 of the world group within 0.5 s; rank 3 was last seen reading data");
    assert_true(tx_clock() - start < 5);
    n_done = 0; /* nobody beside it: the other host waits in vain */
    ASSERT_FAILS(threads_on_hosts("0001", late, &n_done), TX_ERR_COMM,
                 "rank 3 has not reached all-reduce #1 of the world group within 0.5 s; rank 3 is on host node1");
}

static tx_status differ(tx_world *w, void *user)
{
    static float x[4][200000];
    int rank = tx_world_rank(w);
    tx_world_set_timeout(w, 3);
    return tx_all_reduce(NULL, tx_world_comm(w), tx_tensor1(x[rank], TX_F32, rank == *(int *)user ? 150000 : 150001),
                         TX_SUM);
}

static void test_sizes_that_differ_are_told(void **state)
{
    (void)state;
    for (int rank = 0; rank < 4; rank += 3)
        ASSERT_FAILS(threads_on_hosts("0011", differ, &rank), TX_ERR_COMM, "all-reduce #0 of the world group: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_those_of_a_serial_loop),
        cmocka_unit_test(test_all_calls_on_two_hosts),
        cmocka_unit_test(test_what_the_busiest_host_sends),
        cmocka_unit_test(test_what_saves_nothing_goes_the_other_way),
        cmocka_unit_test(test_calls_allocate_nothing),
        cmocka_unit_test(test_a_late_rank_is_named_by_its_host),
        cmocka_unit_test(test_sizes_that_differ_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
