/* labels: unit */
/* Which cores a process takes, on machines that hwloc makes up (HWLOC_SYNTHETIC). Processors are numbered as made up:
 * the hyperthreads of a core are neighbours. */
#include "support.h"

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
        cmocka_unit_test(launchers_say_who_this_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
