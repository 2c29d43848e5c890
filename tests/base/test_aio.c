/* labels: unit fault threads. A scratch file that is read and written while the caller does something else, with and
 * without io_uring; what a bad folder, a full disk and a failing one say. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/aio.h"

#define MIB ((size_t)1 << 20)

/* The scratch folder may well be in memory; what it is on is told apart where that matters. */
static tx_aio_options options(bool plain)
{
    tx_aio_options o = tx_aio_defaults();
    o.plain = plain;
    o.in_memory = true;
    return o;
}

static tx_aio *open_aio(const char *name, size_t bytes, tx_aio_options o)
{
    tx_aio *a;
    ASSERT_OK(tx_aio_open(&a, scratch_dir, name, bytes, &o));
    return a;
}

static unsigned char *buffer(size_t bytes)
{
    unsigned char *p;
    ASSERT_OK(tx_aio_alloc(&p, bytes, "a test"));
    assert_int_equal((uintptr_t)p % TX_AIO_ALIGN, 0);
    return p;
}

static void fill(unsigned char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)((i >> 12) * 131 + i * 7 + seed);
}

static void write_now(tx_aio *a, const void *p, uint64_t offset, size_t n)
{
    tx_aio_request r = { 0 };
    tx_aio_write_start(a, p, offset, n, &r);
    ASSERT_OK(tx_aio_wait(&r));
}

static void read_now(tx_aio *a, void *p, uint64_t offset, size_t n)
{
    tx_aio_request r = { 0 };
    tx_aio_read_start(a, p, offset, n, &r);
    ASSERT_OK(tx_aio_wait(&r));
}

/* ---- what is written is read ---- */

static void round_trips(tx_aio_options o)
{
    static const size_t sizes[] = { 0, 4096, 8192, MIB - 4096, MIB, MIB + 4096, 5 * MIB + 8192 };
    const size_t bytes = 7 * MIB;
    unsigned char *out = buffer(bytes), *in = buffer(bytes);
    tx_aio *a = open_aio("f", bytes, o);
    assert_n_files(scratch_dir, 0); /* it has no name */
    read_now(a, in, 0, bytes);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(in[i], 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t at = s * 4096;
        fill(out, sizes[s], s);
        write_now(a, out, at, sizes[s]);
        memset(in, 0xee, sizes[s] + 4096);
        read_now(a, in, at, sizes[s]);
        assert_memory_equal(in, out, sizes[s]);
        for (size_t i = 0; i < 4096; i++) assert_int_equal(in[sizes[s] + i], 0xee);
    }
    tx_aio_request none = { 0 };
    ASSERT_OK(tx_aio_wait(&none));
    tx_aio_close(a);
    tx_aio_free(out);
    tx_aio_free(in);
}

static void test_round_trips(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        tx_aio_options o = options(plain);
        round_trips(o);
        o.block_size = 8192;
        o.queue_depth = 3;
        round_trips(o);
        o.single_submit = true;
        o.n_threads = 2;
        round_trips(o);
        o.overlap_events = false;
        round_trips(o);
        o.queue_depth = 1;
        o.n_threads = 1;
        round_trips(o);
    }
}

enum { N_REQUESTS = 24, EACH = 40 * 4096, ALL = N_REQUESTS * EACH };

/* Writes and reads mixed, in ALL bytes from `at`, waited for in some order while others are started. It may run in any
 * thread, so it returns what it finds. */
static tx_status many_under_way(tx_aio *a, uint64_t at, unsigned char *out, unsigned char *in, uint64_t seed)
{
    tx_aio_request r[2 * N_REQUESTS] = { 0 };
    for (uint64_t round = 0; round < 3; round++) {
        fill(out, ALL, seed + round);
        for (size_t i = 0; i < N_REQUESTS; i++) tx_aio_write_start(a, out + i * EACH, at + i * EACH, EACH, &r[i]);
        for (size_t k = 0; k < N_REQUESTS; k++) { /* 7 and 24 have no common divisor: each once */
            size_t i = (k * 7 + seed) % N_REQUESTS;
            TX_TRY(tx_aio_wait(&r[i]));
            tx_aio_read_start(a, in + i * EACH, at + i * EACH, EACH, &r[N_REQUESTS + i]);
        }
        for (size_t i = N_REQUESTS; i-- > 0;) TX_TRY(tx_aio_wait(&r[N_REQUESTS + i]));
        if (memcmp(in, out, ALL)) return TX_FAIL(TX_ERR_IO, "round %d: not what was written", (int)round);
    }
    return TX_OK;
}

static void test_several_under_way_and_waited_for_in_any_order(void **state)
{
    (void)state;
    unsigned char *p = buffer(2 * ALL);
    for (int plain = 0; plain < 2; plain++) {
        tx_aio_options o = options(plain);
        o.block_size = 3 * 4096;
        tx_aio *a = open_aio("f", ALL + 4096, o);
        ASSERT_OK(many_under_way(a, 4096, p, p + ALL, 5));
        tx_aio_close(a);
    }
    tx_aio_free(p);
}

/* What is under way when the file is closed is done first: the buffers are the caller's again. */
static void test_closing_waits(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        tx_aio *a = open_aio("f", 8 * MIB, options(plain));
        unsigned char *p = buffer(8 * MIB);
        tx_aio_request r[2] = { 0 };
        tx_aio_write_start(a, p, 0, 4 * MIB, &r[0]);
        tx_aio_read_start(a, p + 4 * MIB, 4 * MIB, 4 * MIB, &r[1]);
        tx_aio_close(a);
        for (int i = 0; i < 2; i++) assert_true(r[i].n == 0 && r[i].n_pending == 0 && r[i].error == 0);
        tx_aio_free(p);
    }
    tx_aio_close(NULL);
}

/* ---- ranks as threads ---- */

typedef struct rank {
    pthread_t thread;
    tx_aio *aio;
    uint64_t at;
    unsigned char *buf;
    tx_status st;
} rank;

static void *run_rank(void *user)
{
    rank *r = user;
    r->st = many_under_way(r->aio, r->at, r->buf, r->buf + ALL, r->at / 4096);
    return NULL;
}

/* Each has a file, or two share one. */
static void ranks_as_threads(bool plain, bool shared)
{
    enum { RANKS = 2 };
    rank r[RANKS] = { 0 };
    tx_aio *a[RANKS] = { open_aio("f", 2 * ALL, options(plain)), open_aio("g", 2 * ALL, options(plain)) };
    for (size_t i = 0; i < RANKS; i++) {
        r[i] = (rank){ .aio = a[shared ? 0 : i], .at = i * ALL, .buf = buffer(2 * ALL) };
        assert_int_equal(pthread_create(&r[i].thread, NULL, run_rank, &r[i]), 0);
    }
    for (size_t i = 0; i < RANKS; i++) pthread_join(r[i].thread, NULL);
    for (size_t i = 0; i < RANKS; i++) {
        assert_int_equal(r[i].st, TX_OK);
        tx_aio_close(a[i]);
        tx_aio_free(r[i].buf);
    }
}

static void test_ranks_as_threads(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++)
        for (int shared = 0; shared < 2; shared++) ranks_as_threads(plain, shared);
}

/* ---- what may be wrong with a folder ---- */

static void assert_refused(const char *dir, uint64_t bytes, tx_status code, const char *part)
{
    tx_aio *a = NULL;
    tx_aio_options o = options(false);
    ASSERT_FAILS(tx_aio_open(&a, dir, "f", bytes, &o), code, part);
    ASSERT_CONTAINS(tx_last_error(), dir);
    assert_null(a);
}

static void test_folders(void **state)
{
    (void)state;
    tx_aio *a;
    tx_aio_options o = options(false);
    ASSERT_OK(tx_aio_open(&a, in_scratch("new"), "f", 4096, &o));
    assert_true(tx_path_is_dir(in_scratch("new")));
    tx_aio_close(a);
    assert_refused(in_scratch("a/b"), 4096, TX_ERR_IO, "the folder above it does not exist");
    assert_refused(write_text(in_scratch("file"), "x"), 4096, TX_ERR_IO, "is not a folder");
    write_text(in_scratch("f"), "somebody's");
    assert_refused(scratch_dir, 4096, TX_ERR_IO, "File exists");
    tx_str kept = read_file(in_scratch("f"));
    assert_string_equal(kept.data, "somebody's");
    tx_str_free(&kept);
}

/* Root may write anywhere, so it becomes somebody for a moment. */
static void test_a_folder_that_may_only_be_read(void **state)
{
    (void)state;
    bool root = geteuid() == 0;
    assert_int_equal(chmod(scratch_dir, 0555), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    bool reached = !faccessat(AT_FDCWD, scratch_dir, X_OK, AT_EACCESS); /* not where /tmp is root's alone */
    if (reached) {
        assert_refused(scratch_dir, 4096, TX_ERR_IO, "cannot create: Permission denied");
        assert_refused(in_scratch("new"), 4096, TX_ERR_IO, "cannot create the folder: Permission denied");
    }
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(scratch_dir, 0755), 0);
}

static void test_a_folder_in_memory(void **state)
{
    (void)state;
    tx_aio *a = NULL;
    tx_aio_options o = tx_aio_defaults();
    char name[32];
    if (!tx_path_is_dir("/dev/shm")) skip();
    ASSERT_FAILS(tx_aio_open(&a, "/dev/shm", "f", 4096, &o), TX_ERR_IO, "/dev/shm: is in memory, not on a disk");
    setenv("TX_AIO_IN_MEMORY", "1", 1);
    snprintf(name, sizeof name, "triax-test-%ld", (long)getpid());
    tx_status st = tx_aio_open(&a, "/dev/shm", name, 4096, &o);
    unsetenv("TX_AIO_IN_MEMORY");
    ASSERT_OK(st);
    tx_aio_close(a);
}

/* A word that the environment has for it and that means nothing is not taken for none. */
static void test_what_the_environment_says_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *word, *message;
    } bad[] = { { "TX_AIO", "uring", "TX_AIO is \"uring\": it can be plain or auto" },
                { "TX_AIO_IN_MEMORY", "yes", "TX_AIO_IN_MEMORY is \"yes\": it can be 1 or 0" } };
    static const char *const good[2][3] = { { "TX_AIO", "auto", "" }, { "TX_AIO_IN_MEMORY", "0", "" } };
    tx_aio *a;
    tx_aio_options o = tx_aio_defaults();
    for (int i = 0; i < 2; i++) {
        char *before = getenv(bad[i].variable), *kept = before ? strdup(before) : NULL;
        a = NULL;
        setenv(bad[i].variable, bad[i].word, 1);
        ASSERT_FAILS(tx_aio_open(&a, scratch_dir, "f", 4096, &o), TX_ERR_ARG, bad[i].message);
        assert_null(a);
        for (int k = 1; k < 3; k++) {
            setenv(good[i][0], good[i][k], 1);
            tx_status st = tx_aio_open(&a, scratch_dir, "f", 4096, &o);
            if (st && !strstr(tx_last_error(), "is in memory")) fail_msg("%s", tx_last_error());
            if (!st) tx_aio_close(a);
        }
        if (kept)
            setenv(bad[i].variable, kept, 1);
        else
            unsetenv(bad[i].variable);
        free(kept);
    }
}

static void test_a_disk_that_is_too_full(void **state)
{
    (void)state;
    struct statvfs s;
    assert_int_equal(statvfs(scratch_dir, &s), 0);
    uint64_t there = (uint64_t)s.f_bavail * s.f_frsize;
    assert_refused(scratch_dir, there + ((uint64_t)1 << 40), TX_ERR_IO, "the disk is too full: ");
    ASSERT_CONTAINS(tx_last_error(), " are needed, ");
    assert_n_files(scratch_dir, 0);
}

static void test_options_out_of_range(void **state)
{
    (void)state;
    tx_aio *a;
    tx_aio_options o = options(false);
    o.block_size = 1000;
    ASSERT_FAILS(tx_aio_open(&a, scratch_dir, "f", 4096, &o), TX_ERR_ARG, "block_size is 1000");
    o = options(false);
    o.queue_depth = 0;
    ASSERT_FAILS(tx_aio_open(&a, scratch_dir, "f", 4096, &o), TX_ERR_ARG, "queue_depth is 0");
    o = options(false);
    o.n_threads = 1000;
    ASSERT_FAILS(tx_aio_open(&a, scratch_dir, "f", 4096, &o), TX_ERR_ARG, "intra_op_parallelism is 1000");
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        tx_aio *a = NULL;
        tx_aio_options o = options(plain);
        tx_status st = TX_ERR_NOMEM;
        for (int n = 0; st; n++) {
            allocation_fails_at(n);
            st = tx_aio_open(&a, scratch_dir, "f", 4096, &o);
            allocations_succeed();
            if (st) assert_int_equal(st, TX_ERR_NOMEM);
            assert_true(n < 100);
        }
        tx_aio_close(a);
    }
    unsigned char *p;
    ASSERT_FAILS(tx_aio_alloc(&p, SIZE_MAX - 10, "a test"), TX_ERR_NOMEM, "a test");
    tx_aio_free(NULL);
}

/* ---- a disk that fails while it is used ---- */

/* The process may write files of `most` bytes; the signal that comes with a refusal is ignored. Returns the former. */
static struct rlimit limit_files(rlim_t most)
{
    struct rlimit before, now;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    now = (struct rlimit){ most, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    return before;
}

static void test_a_limit_on_files(void **state)
{
    (void)state;
    struct rlimit before = limit_files(MIB);
    assert_refused(scratch_dir, 2 * MIB, TX_ERR_IO, "(ulimit -f)");
    setrlimit(RLIMIT_FSIZE, &before);
}

/* A write that is cut short goes on where it stopped, and there it is told why. Requests beside it are not touched. */
static void test_a_write_that_fails_half_way(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        tx_aio_options o = options(plain);
        o.block_size = 4 * MIB;
        tx_aio *a = open_aio("f", 8 * MIB, o);
        unsigned char *p = buffer(8 * MIB);
        tx_aio_request bad = { 0 }, good = { 0 };
        fill(p, 8 * MIB, 3);
        struct rlimit before = limit_files(5 * MIB);
        tx_aio_write_start(a, p + 2 * MIB, 2 * MIB, 6 * MIB, &bad);
        tx_aio_write_start(a, p, 0, 2 * MIB, &good);
        tx_status st = tx_aio_wait(&bad);
        setrlimit(RLIMIT_FSIZE, &before);
        ASSERT_OK(tx_aio_wait(&good));
        assert_int_equal(st, TX_ERR_IO);
        ASSERT_CONTAINS(tx_last_error(), "/f: cannot write at byte 5242880: File too large");
        tx_aio_write_start(a, p + 2 * MIB, 2 * MIB, 6 * MIB, &bad); /* the request and the file are good for more */
        ASSERT_OK(tx_aio_wait(&bad));
        unsigned char *q = buffer(8 * MIB);
        read_now(a, q, 0, 8 * MIB);
        assert_memory_equal(p, q, 8 * MIB);
        tx_aio_close(a);
        tx_aio_free(p);
        tx_aio_free(q);
    }
}

/* A file that ends before what is asked for: the place is where it ends, whatever the blocks. */
static void test_a_file_that_was_cut_off(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        tx_aio_options o = options(plain);
        o.block_size = 2 * MIB;
        tx_aio *a = open_aio("f", 8 * MIB, o);
        unsigned char *p = buffer(8 * MIB);
        tx_aio_request r = { 0 };
        assert_int_equal(ftruncate(tx_aio_fd(a), (off_t)(MIB + 8192)), 0);
        tx_aio_read_start(a, p, 0, 2 * MIB, &r);
        ASSERT_FAILS(tx_aio_wait(&r), TX_ERR_IO, "/f: cannot read at byte 1056768: No data available");
        tx_aio_read_start(a, p, 0, 8 * MIB, &r);
        ASSERT_FAILS(tx_aio_wait(&r), TX_ERR_IO, "/f: cannot read at byte 1056768: No data available");
        read_now(a, p, 0, MIB);
        tx_aio_close(a);
        tx_aio_free(p);
    }
}

/* ---- which way ---- */

static void test_the_way_is_told(void **state)
{
    (void)state;
    tx_aio *a = open_aio("f", 4096, options(true));
    assert_true(strstr(tx_aio_how(a), "threads, ") == tx_aio_how(a));
    bool direct = fcntl(tx_aio_fd(a), F_GETFL) & O_DIRECT;
    ASSERT_CONTAINS(tx_aio_how(a), direct ? "O_DIRECT" : "page cache");
    tx_aio_close(a);
    setenv("TX_AIO", "plain", 1);
    a = open_aio("f", 4096, options(false));
    unsetenv("TX_AIO");
    ASSERT_CONTAINS(tx_aio_how(a), "threads, ");
    tx_aio_close(a);
    a = open_aio("f", 4096, options(false));
    print_message("here: %s\n", tx_aio_how(a));
    tx_aio_close(a);
}

/* From now on all threads of this process get EPERM for one system call, as a container's does. */
static bool forbid(int call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

enum { CANNOT_FORBID = 77, N_ASKED = 20 };

/* In a process of its own, because what is forbidden stays so. 0: threads took over, and one line says so. */
static int without(int call, unsigned char *p)
{
    tx_aio *a;
    tx_aio_options o = options(false);
    if (!forbid(call)) return CANNOT_FORBID;
    logged[0] = 0;
    tx_log_set(log_keep, NULL, TX_LOG_DEBUG);
    if (tx_aio_open(&a, scratch_dir, "f", ALL, &o)) return 1;
    if (!strstr(tx_aio_how(a), "threads, ")) return 2;
    if (!strstr(logged, "io_uring is not to be had (")) return 3;
    if (many_under_way(a, 0, p, p + ALL, 1)) return 4;
    tx_aio_close(a);
    return 0;
}

/* The same when a ring is in use already: all that is asked for fails, and nothing waits for ever. */
static int broken(int call, unsigned char *p)
{
    tx_aio *a;
    tx_aio_options o = options(false);
    tx_aio_request r[N_ASKED] = { 0 };
    if (tx_aio_open(&a, scratch_dir, "f", N_ASKED * MIB, &o)) return 1;
    if (!strstr(tx_aio_how(a), "io_uring") || !forbid(call)) return CANNOT_FORBID;
    for (size_t i = 0; i < N_ASKED; i++) tx_aio_write_start(a, p + i * MIB, i * MIB, MIB, &r[i]);
    for (size_t i = 0; i < N_ASKED; i++)
        if (tx_aio_wait(&r[i]) != TX_ERR_IO || !strstr(tx_last_error(), "Operation not permitted")) return 2;
    tx_aio_close(a);
    return 0;
}

static void test_io_uring_may_be_forbidden(void **state)
{
    (void)state;
    static const struct {
        int (*f)(int call, unsigned char *p);
        int call;
    } cases[] = { { without, SYS_io_uring_setup }, { without, SYS_io_uring_enter }, { broken, SYS_io_uring_enter } };
    unsigned char *p = buffer(N_ASKED * MIB); /* here: OpenMP's threads, which zero it, do not live on in a child */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = 0;
        pid_t child = fork();
        if (!child) _exit(cases[i].f(cases[i].call, p));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WEXITSTATUS(status) == CANNOT_FORBID) {
            tx_aio_free(p);
            skip();
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    tx_aio_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_round_trips),
        SCRATCH_TEST(test_several_under_way_and_waited_for_in_any_order),
        SCRATCH_TEST(test_closing_waits),
        SCRATCH_TEST(test_ranks_as_threads),
        SCRATCH_TEST(test_folders),
        SCRATCH_TEST(test_a_folder_that_may_only_be_read),
        SCRATCH_TEST(test_a_folder_in_memory),
        SCRATCH_TEST(test_what_the_environment_says_wrong),
        SCRATCH_TEST(test_a_disk_that_is_too_full),
        SCRATCH_TEST(test_options_out_of_range),
        SCRATCH_TEST(test_memory_runs_out),
        SCRATCH_TEST(test_a_limit_on_files),
        SCRATCH_TEST(test_a_write_that_fails_half_way),
        SCRATCH_TEST(test_a_file_that_was_cut_off),
        SCRATCH_TEST(test_the_way_is_told),
        SCRATCH_TEST(test_io_uring_may_be_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
