/* labels: unit */
/* Which cores a process takes, on machines that hwloc makes up (HWLOC_SYNTHETIC). Processors are numbered as made up:
 * the hyperthreads of a core are neighbours. */
#include "support.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include "base/cores.h"

static const tx_local_rank alone = { 0, 1 };

static void check(const char *machine, const char *mask, tx_local_rank local, int n_threads, const char *places)
{
    tx_cores c;
    tx_str text = { 0 };
    setenv("HWLOC_SYNTHETIC", machine, 1);
    ASSERT_OK(tx_cores_find(&c, mask, local, scratch_dir));
    unsetenv("HWLOC_SYNTHETIC");
    ASSERT_OK(tx_cores_places(&text, &c, c.n));
    assert_string_equal(text.data, places);
    assert_int_equal(c.n_threads, n_threads);
    tx_str_free(&text);
    tx_cores_free(&c);
}

static void a_core_is_one_whatever_its_hyperthreads(void **state)
{
    (void)state;
    check("node:2 core:2 pu:2", NULL, alone, 4, "{0,1},{2,3},{4,5},{6,7}");
    check("core:3 pu:1", NULL, alone, 3, "{0},{1},{2}");
}

static void the_mask_counts(void **state)
{
    (void)state;
    check("node:2 core:2 pu:2", "3-5", alone, 2, "{3},{4,5}");
    check("node:2 core:2 pu:2", "7", alone, 1, "{7}");
}

static void launched_processes_divide_the_cores(void **state)
{
    (void)state;
    check("node:2 core:2 pu:2", NULL, (tx_local_rank){ 0, 2 }, 2, "{0,1},{2,3}");
    check("node:2 core:2 pu:2", NULL, (tx_local_rank){ 1, 2 }, 2, "{4,5},{6,7}");
    check("core:5 pu:1", NULL, (tx_local_rank){ 1, 2 }, 3, "{2},{3},{4}");
    check("core:2 pu:1", NULL, (tx_local_rank){ 3, 4 }, 1, "{1}");
    check("node:2 core:2 pu:2", "0-3", (tx_local_rank){ 1, 2 }, 2, "{0,1},{2,3}"); /* its mask is its share */
}

/* A launcher that was given some of the cores leaves its mask to all its processes, and says so. */
static void they_divide_the_launchers_cores(void **state)
{
    (void)state;
    setenv("TX_LAUNCHER_CPUS", "0-3", 1);
    check("node:2 core:2 pu:2", "0-3", (tx_local_rank){ 0, 2 }, 1, "{0,1}");
    check("node:2 core:2 pu:2", "0-3", (tx_local_rank){ 1, 2 }, 1, "{2,3}");
    check("node:2 core:2 pu:2", "0-3", alone, 2, "{0,1},{2,3}");
    check("node:2 core:2 pu:2", "4-7", (tx_local_rank){ 1, 2 }, 2, "{4,5},{6,7}"); /* bound by mpirun: its own share */
    check("node:2 core:2 pu:2", "0-1", (tx_local_rank){ 1, 2 }, 1, "{0,1}");
    setenv("TX_LAUNCHER_CPUS", "x", 1);
    check("node:2 core:2 pu:2", "0-3", (tx_local_rank){ 1, 2 }, 2, "{0,1},{2,3}");
    unsetenv("TX_LAUNCHER_CPUS");
}

static void a_quota_limits_the_threads(void **state)
{
    (void)state;
    ASSERT_OK(tx_make_dirs(in_scratch("proc/self")));
    ASSERT_OK(tx_make_dirs(in_scratch("sys/fs/cgroup")));
    write_text(in_scratch("proc/self/cgroup"), "0::/\n");
    write_text(in_scratch("sys/fs/cgroup/cpu.max"), "150000 100000\n");
    check("core:4 pu:1", NULL, alone, 2, "{0},{1},{2},{3}");
    check("core:4 pu:1", NULL, (tx_local_rank){ 0, 2 }, 1, "{0},{1}");
}

static void threads_are_bound_when_no_other_program_would_take_their_cores(void **state)
{
    (void)state;
    tx_cores own = { .n = 4 }, share = { .n = 4, .shared = true };
    assert_true(tx_cores_bind(&own, 4) && tx_cores_bind(&share, 4) && tx_cores_bind(&share, 2));
    assert_false(tx_cores_bind(&own, 2) || tx_cores_bind(&own, 5) || tx_cores_bind(&share, 5));
}

static void processes_that_are_more_than_the_cores_stay_free(void **state)
{
    (void)state;
    setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1);
    for (int i = 0; i < 4; i++) {
        tx_cores c;
        ASSERT_OK(tx_cores_find(&c, "0-1", (tx_local_rank){ i, 4 }, scratch_dir));
        assert_true(c.n == 1 && c.n_threads == 1 && c.crowded && !c.shared);
        assert_false(tx_cores_bind(&c, 1));
        tx_cores_free(&c);
    }
    unsetenv("HWLOC_SYNTHETIC");
}

static void launchers_say_who_this_is(void **state)
{
    (void)state;
    setenv("LOCAL_RANK", "1", 1);
    assert_int_equal(tx_local_rank_find().n, 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    assert_int_equal(tx_local_rank_find().rank, 1);
    assert_int_equal(tx_local_rank_find().n, 2);
    setenv("LOCAL_RANK", "2", 1);
    assert_int_equal(tx_local_rank_find().n, 1);
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
}

/* ---- ranks that are threads ---- */

struct team {
    tx_local_rank local;
    int n_threads;
    cpu_set_t first, second; /* where its threads may run; second: of two threads */
};

static void *bind_team(void *user)
{
    struct team *t = user;
    cpu_set_t *set[] = { &t->first, &t->second };
    if (tx_cores_bind_team(t->local, t->n_threads)) return NULL;
#pragma omp parallel num_threads(t->n_threads)
    sched_getaffinity(0, sizeof(cpu_set_t), set[omp_get_thread_num()]);
    return NULL;
}

static void run_team(struct team *t)
{
    pthread_t thread;
    CPU_ZERO(&t->first);
    CPU_ZERO(&t->second);
    assert_int_equal(pthread_create(&thread, NULL, bind_team, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void threads_that_are_ranks_have_cores_of_their_own(void **state)
{
    (void)state;
    cpu_set_t mine, both;
    tx_cores c;
    ASSERT_OK(tx_cores_find(&c, NULL, alone, scratch_dir));
    int n = c.n;
    tx_cores_free(&c);
    sched_getaffinity(0, sizeof mine, &mine);
    struct team many = { .local = { 0, n + 1 }, .n_threads = 1 };
    run_team(&many); /* more ranks than cores: free to move */
    assert_true(CPU_EQUAL(&many.first, &mine));
    if (n < 2) skip();
    struct team left = { .local = { 0, 2 }, .n_threads = 1 }, right = { .local = { 1, 2 }, .n_threads = 1 };
    struct team pair = { .local = { 0, 1 }, .n_threads = 2 };
    run_team(&left);
    run_team(&right);
    CPU_AND(&both, &left.first, &right.first);
    assert_true(CPU_COUNT(&left.first) > 0 && CPU_COUNT(&right.first) > 0);
    assert_int_equal(CPU_COUNT(&both), 0);
    run_team(&pair);
    CPU_AND(&both, &pair.first, &pair.second);
    assert_true(CPU_COUNT(&pair.first) > 0 && CPU_COUNT(&pair.second) > 0);
    assert_int_equal(CPU_COUNT(&both), 0);
}

int main(void)
{
    unsetenv("HWLOC_COMPONENTS"); /* else hwloc makes nothing up */
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_core_is_one_whatever_its_hyperthreads),
        SCRATCH_TEST(the_mask_counts),
        SCRATCH_TEST(launched_processes_divide_the_cores),
        SCRATCH_TEST(they_divide_the_launchers_cores),
        SCRATCH_TEST(a_quota_limits_the_threads),
        cmocka_unit_test(threads_are_bound_when_no_other_program_would_take_their_cores),
        cmocka_unit_test(processes_that_are_more_than_the_cores_stay_free),
        cmocka_unit_test(launchers_say_who_this_is),
        SCRATCH_TEST(threads_that_are_ranks_have_cores_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
