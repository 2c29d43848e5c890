/* labels: fault */
/* test_checkpoint_crash.c - a process that dies at the N-th change of the disk, for every N, leaves the old checkpoint
 * or the new one, and the next save and load work. The system calls that change the disk are replaced by ones that
 * count. */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint_fixture.h"

static long dies_at = -1;        /* changes still allowed; < 0: any number */
static long interrupted_at = -1; /* calls still made before one fails with EINTR; < 0: any number */
static int can_exchange = 1;

/* Whether the call is interrupted. */
static int count(void)
{
    if (dies_at >= 0 && dies_at-- == 0) _exit(42);
    if (interrupted_at < 0 || interrupted_at-- > 0) return 0;
    errno = EINTR;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (fd > 2 && dies_at == 0) (void)!syscall(SYS_write, fd, bytes, n / 2); /* torn */
    if (fd > 2 && count()) return -1;
    return syscall(SYS_write, fd, bytes, n);
}

int fsync(int fd)
{
    if (count()) return -1;
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (count()) return -1;
    return (int)syscall(SYS_renameat2, -100, from, -100, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (count()) return -1;
    if (!can_exchange) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    if (count()) return -1;
    return (int)syscall(SYS_mkdirat, -100, path, mode);
}

int unlink(const char *path)
{
    if (count()) return -1;
    return (int)syscall(SYS_unlinkat, -100, path, 0);
}

int rmdir(const char *path)
{
    if (count()) return -1;
    return (int)syscall(SYS_unlinkat, -100, path, 0x200 /* AT_REMOVEDIR */);
}

/* Which of the two models DIR holds now: 0 or 1. Anything else is a failure of the test. */
static int which(const char *dir, const model *m)
{
    model got;
    tx_checkpoint *c;
    model_create(&got, 1, 8, 50, -1);
    ASSERT_OK(tx_checkpoint_open(&c, dir, &tx_comm_self));
    ASSERT_OK(tx_checkpoint_read(c, &got.ps, NULL, ALL_PARTS(got)));
    tx_checkpoint_close(c);
    int k = got.buf[0][0] == m[1].buf[0][0];
    assert_same_numbers(&m[k], &got, 3);
    model_destroy(&got);
    return k;
}

/* first: iteration of the old checkpoint, second: of the one whose saving is interrupted. */
static void die_everywhere(int64_t first, int64_t second)
{
    model m[2];
    int n_old = 0, n_new = 0, finished = 0;
    model_create(&m[0], 1, 8, 50, 1);
    model_create(&m[1], 1, 8, 50, 2);
    for (long k = 0; !finished; k++) {
        ASSERT_OK(tx_remove_tree(in_scratch("run")));
        ASSERT_OK(model_save(&m[0], in_scratch("run"), first, 1));
        pid_t child = fork();
        if (child == 0) {
            dies_at = k;
            _exit(model_save(&m[1], in_scratch("run"), second, 1) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 42));
        finished = WEXITSTATUS(status) == 0;
        int now = which(in_scratch("run"), m);
        assert_true(!finished || now == 1);
        if (now)
            n_new++;
        else
            n_old++;
        assert_true(now || n_new == 0); /* once new, never old again */
        ASSERT_OK(model_save(&m[0], in_scratch("run"), second + 1, 1));
        assert_int_equal(which(in_scratch("run"), m), 0);
        tx_names names;
        ASSERT_OK(tx_dir_list(in_scratch("run"), &names));
        for (size_t i = 0; i < names.n; i++) /* nothing is left lying about */
            assert_true(!strncmp(names.name[i], "iter_", 5) || !strncmp(names.name[i], "latest", 6));
        tx_names_free(&names);
    }
    assert_true(n_old >= 8 && n_new >= 2);
    model_destroy(&m[0]);
    model_destroy(&m[1]);
}

static void next_iteration(void **state)
{
    (void)state;
    die_everywhere(3, 4);
}

static void same_iteration(void **state)
{
    (void)state;
    die_everywhere(3, 3);
}

static void same_iteration_without_exchange(void **state)
{
    (void)state;
    can_exchange = 0;
    die_everywhere(3, 3);
    can_exchange = 1;
}

/* A process that has died, but whose parent does not ask for it. */
static void left_by_a_zombie(void **state)
{
    (void)state;
    model m;
    siginfo_t info;
    model_create(&m, 1, 8, 50, 1);
    ASSERT_OK(model_save(&m, in_scratch("run"), 1, 1));
    pid_t child = fork();
    if (child == 0) {
        dies_at = 6;
        _exit(model_save(&m, in_scratch("run"), 2, 1) ? 1 : 0);
    }
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_true(tx_path_exists(in_scratch("run/.tmp-iter_0000002-%ld", (long)child)));
    ASSERT_OK(model_save(&m, in_scratch("run"), 2, 1));
    assert_false(tx_path_exists(in_scratch("run/.tmp-iter_0000002-%ld", (long)child)));
    waitpid(child, NULL, 0);
    model_destroy(&m);
}

/* A signal may interrupt any call on a network file system; that is no reason to fail. */
static void interrupted(void **state)
{
    (void)state;
    model m[2];
    model_create(&m[0], 1, 8, 50, 1);
    model_create(&m[1], 1, 8, 50, 2);
    for (long k = 0, was = 0; was >= 0; k++) {
        ASSERT_OK(model_save(&m[0], in_scratch("run"), 3, 1));
        interrupted_at = k;
        ASSERT_OK(model_save(&m[1], in_scratch("run"), 3, 1));
        was = interrupted_at < 0 ? k : -1; /* all calls were made */
        interrupted_at = -1;
        assert_int_equal(which(in_scratch("run"), m), 1);
        assert_true(was >= 0 || k >= 20);
    }
    model_destroy(&m[0]);
    model_destroy(&m[1]);
}

/* The very first save of a run: there is nothing, or there is the checkpoint. */
static void first_save(void **state)
{
    (void)state;
    model m[2];
    int finished = 0, n_none = 0, n_native = 0;
    model_create(&m[0], 1, 8, 50, 1);
    model_create(&m[1], 1, 8, 50, 2);
    for (long k = 0; !finished; k++) {
        ASSERT_OK(tx_remove_tree(in_scratch("run")));
        pid_t child = fork();
        if (child == 0) {
            dies_at = k;
            _exit(model_save(&m[1], in_scratch("run"), 1, 1) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        tx_ckpt_kind kind;
        char detail[512];
        ASSERT_OK(tx_checkpoint_probe(in_scratch("run"), &kind, detail, sizeof detail));
        if (kind == TX_CKPT_NONE) {
            n_none++;
        } else {
            n_native++;
            assert_int_equal(which(in_scratch("run"), m), 1);
        }
    }
    assert_true(n_none >= 5 && n_native >= 2);
    model_destroy(&m[0]);
    model_destroy(&m[1]);
}

/* Removing old ones, with a death at every change: what is left under a checkpoint's name is whole. */
static void removing_old_ones(void **state)
{
    (void)state;
    model m;
    int finished = 0, n_left = 0;
    model_create(&m, 1, 8, 50, 1);
    for (long k = 0; !finished; k++) {
        tx_names names;
        ASSERT_OK(tx_remove_tree(in_scratch("run")));
        for (int i = 1; i <= 3; i++) ASSERT_OK(model_save(&m, in_scratch("run"), i, 1));
        pid_t child = fork();
        if (child == 0) {
            dies_at = k;
            _exit(tx_checkpoint_prune(in_scratch("run"), TX_CKPT_NATIVE, 3, 1, NULL) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        for (int i = 1; i <= 3; i++) {
            tx_checkpoint *c;
            if (!tx_path_exists(in_scratch("run/iter_%07d", i))) continue;
            ASSERT_OK(tx_checkpoint_open(&c, in_scratch("run/iter_%07d", i), &tx_comm_self));
            tx_checkpoint_close(c);
            n_left++;
        }
        ASSERT_OK(model_save(&m, in_scratch("run"), 4, 1));
        ASSERT_OK(tx_dir_list(in_scratch("run"), &names));
        for (size_t i = 0; i < names.n; i++)
            assert_true(!strncmp(names.name[i], "iter_", 5) || !strncmp(names.name[i], "latest", 6));
        tx_names_free(&names);
    }
    assert_true(n_left >= 10);
    model_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(next_iteration),    SCRATCH_TEST(same_iteration), SCRATCH_TEST(same_iteration_without_exchange),
        SCRATCH_TEST(left_by_a_zombie),  SCRATCH_TEST(interrupted),    SCRATCH_TEST(first_save),
        SCRATCH_TEST(removing_old_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
