/* labels: unit fault */
/* A file that grows holds whole puts, also when the disk has room for a part of one: the limit of a file's size plays
 * the disk. */
#include "support.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/append.h"

static void limit_files(rlim_t bytes)
{
    struct rlimit r;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void a_put_that_fails_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit before;
    tx_append a;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_OK(tx_append_open(&a, in_scratch("file"), true));
    ASSERT_OK(tx_append_put(&a, "one\n", 4));
    limit_files(6);
    ASSERT_FAILS(tx_append_put(&a, "two\n", 4), TX_ERR_IO, "file: cannot write: File too large");
    ASSERT_FAILS(tx_append_put(&a, "three\n", 6), TX_ERR_IO, "file: cannot write: File too large");
    assert_int_equal(a.n_put, 4);
    limit_files(before.rlim_cur);
    ASSERT_OK(tx_append_put(&a, "four\n", 5));
    assert_int_equal(a.n_put, 9);
    tx_append_close(&a);
    tx_str text = read_file(in_scratch("file"));
    assert_string_equal(text.data, "one\nfour\n");
    tx_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = { SCRATCH_TEST(a_put_that_fails_leaves_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
