/* labels: unit. Memory that several processes have in common; what launchers say. */
#include "support.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/launched.h"
#include "base/shared.h"

static void test_off_it_is_the_heap(void **state)
{
    (void)state;
    int *p;
    tx_shared_place place;
    ASSERT_OK(tx_shared_alloc(&p, 100, "a test"));
    assert_false(tx_shared_find(&place, p, 4));
    tx_shared_free(p);
    tx_shared_free(NULL);
}

/* This program as another process, which is told the place in five numbers, and writes where the first one reads. */
static int other_process(char **number)
{
    tx_shared_place place = { strtoull(number[0], NULL, 10), strtoull(number[1], NULL, 10),
                              strtoull(number[2], NULL, 10), strtoull(number[3], NULL, 10),
                              strtoull(number[4], NULL, 10) };
    int *there;
    if (tx_shared_map(&there, &place)) return 2;
    if (there[0] != 41) return 3;
    there[1] = 42;
    return 0;
}

static int run_other(const tx_shared_place *p)
{
    char number[5][24];
    const uint64_t n[5] = { p->pid, p->fd, p->key, p->bytes, p->offset };
    for (int i = 0; i < 5; i++) snprintf(number[i], sizeof number[i], "%" PRIu64, n[i]);
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        execl("/proc/self/exe", "other", number[0], number[1], number[2], number[3], number[4], (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void test_another_process_reads_and_writes_it(void **state)
{
    (void)state;
    enum { N = 3 << 18 };
    int *p, *q;
    tx_shared_place place, other;
    tx_shared_enable(true);
    ASSERT_OK(tx_shared_alloc(&p, N * sizeof *p, "a test"));
    tx_shared_enable(false);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < N; i++) assert_int_equal(p[i], 0);
    p[1000] = 41;
    assert_true(tx_shared_find(&place, p + 1000, 8));
    assert_int_equal(place.offset, 4000);
    assert_false(tx_shared_find(&other, p + N - 1, 8)); /* beyond its end */
    assert_int_equal(run_other(&place), 0);
    assert_int_equal(p[1001], 42);
    ASSERT_OK(tx_shared_map(&q, &place)); /* one's own */
    assert_ptr_equal(q, p + 1000);

    other = place;
    other.key++;
    ASSERT_FAILS(tx_shared_map(&q, &other), TX_ERR_NOTFOUND, "cannot be shared with this one");
    assert_int_equal(run_other(&other), 2);
    other = place;
    other.offset = other.bytes;
    ASSERT_FAILS(tx_shared_map(&q, &other), TX_ERR_NOTFOUND, "cannot be shared with this one");
    tx_shared_free(p);
    assert_false(tx_shared_find(&other, p + 1000, 8));
    assert_int_equal(run_other(&place), 2);
}

/* ---- launchers ---- */

static const char *const variables[] = { "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "MPI_LOCALRANKID",
                                         "MPI_LOCALNRANKS",
                                         "PMIX_RANK",
                                         "SLURM_PROCID",
                                         "SLURM_NTASKS",
                                         "SLURM_STEP_NUM_TASKS",
                                         "SLURM_LOCALID",
                                         "SLURM_STEP_TASKS_PER_NODE",
                                         "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE" };

/* With these variables alone, "NAME=VALUE NAME=VALUE". */
static tx_launched launched(const char *set)
{
    char text[256], *rest = NULL;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
    snprintf(text, sizeof text, "%s", set);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = 0;
        setenv(word, value + 1, 1);
    }
    return tx_launched_find();
}

static void check(const char *set, int rank, int size, int local_rank, int n_local)
{
    tx_launched l = launched(set);
    if (l.rank != rank || l.size != size || l.local_rank != local_rank || l.n_local != n_local)
        fail_msg("%s: rank %d of %d, %d of %d", set, l.rank, l.size, l.local_rank, l.n_local);
    assert_true((l.by != NULL) == (size > 1));
}

static void test_launchers(void **state)
{
    (void)state;
    check("", 0, 1, 0, 1);
    check("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4", 5,
          8, 1, 4);
    check("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", 1, 2, 1, 2);
    check("PMIX_RANK=3 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2(x4)", 3, 8, 1,
          2);
    check("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0", 0, 1, 0, 1); /* the shell of a job */
    check("LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", 0, 1, 1, 4);
    check("PMI_RANK=7 PMI_SIZE=2", 0, 1, 0, 1); /* nonsense */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_it_is_the_heap),
        cmocka_unit_test(test_another_process_reads_and_writes_it),
        cmocka_unit_test(test_launchers),
    };
    if (argc == 6) return other_process(argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
