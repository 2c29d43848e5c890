/* labels: unit */
/* The limits of control groups, in trees as the kernel shows them, and the machine's memory. */
#include "support.h"

#include "base/control_group.h"
#include "base/system_memory.h"

static void put(const char *path, const char *text)
{
    char dir[1024];
    snprintf(dir, sizeof dir, "%s", path);
    *strrchr(dir, '/') = 0;
    ASSERT_OK(tx_make_dirs(dir));
    write_text(path, text);
}

static void without_groups_there_is_no_limit(void **state)
{
    (void)state;
    assert_int_equal(tx_cgroup_memory(scratch_dir), 0);
    put(in_scratch("proc/self/cgroup"), "0::/a/b\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 0);
    put(in_scratch("sys/fs/cgroup/a/b/memory.max"), "max\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 0);
}

static void the_least_on_the_way_up_counts(void **state)
{
    (void)state;
    put(in_scratch("proc/self/cgroup"), "0::/a/b\n");
    put(in_scratch("sys/fs/cgroup/a/b/memory.max"), "3000000\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 3000000);
    put(in_scratch("sys/fs/cgroup/a/memory.max"), "2000000\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 2000000);
    put(in_scratch("sys/fs/cgroup/a/memory.max"), "max\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 3000000);
}

/* What /proc names is the host's path, which a container does not see; its own group is the mount. */
static void the_first_version_and_containers(void **state)
{
    (void)state;
    put(in_scratch("proc/self/cgroup"), "5:memory2:/x\n4:cpu,memory:/docker/17\n1:cpu:/\n0::/\n");
    put(in_scratch("sys/fs/cgroup/memory/memory.limit_in_bytes"), "123456789\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 123456789);
    put(in_scratch("sys/fs/cgroup/memory/docker/17/memory.limit_in_bytes"), "99999999999999999999999\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 123456789);
    put(in_scratch("sys/fs/cgroup/memory.max"), "1000\n");
    assert_int_equal(tx_cgroup_memory(scratch_dir), 1000);
}

static void processor_time_is_quota_over_period(void **state)
{
    (void)state;
    assert_int_equal(tx_cgroup_processors(scratch_dir), 0);
    put(in_scratch("proc/self/cgroup"), "3:cpu,cpuacct:/x\n0::/a/b\n");
    assert_int_equal(tx_cgroup_processors(scratch_dir), 0);
    put(in_scratch("sys/fs/cgroup/a/b/cpu.max"), "max 100000\n");
    put(in_scratch("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us"), "-1\n");
    put(in_scratch("sys/fs/cgroup/cpu/x/cpu.cfs_period_us"), "100000\n");
    assert_int_equal(tx_cgroup_processors(scratch_dir), 0);
    put(in_scratch("sys/fs/cgroup/a/cpu.max"), "250000 100000\n");
    assert_int_equal(tx_cgroup_processors(scratch_dir), 2500);
    put(in_scratch("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us"), "200000\n");
    assert_int_equal(tx_cgroup_processors(scratch_dir), 2000);
}

static void this_machine_has_memory(void **state)
{
    (void)state;
    const char *whose = NULL;
    size_t all = tx_system_memory(&whose), left = tx_system_memory_free();
    assert_true(all > (size_t)16 << 20);
    assert_true(left > 0);
    assert_non_null(whose);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(without_groups_there_is_no_limit), SCRATCH_TEST(the_least_on_the_way_up_counts),
        SCRATCH_TEST(the_first_version_and_containers), SCRATCH_TEST(processor_time_is_quota_over_period),
        cmocka_unit_test(this_machine_has_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
