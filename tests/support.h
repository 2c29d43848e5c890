/* support.h - what the tests of all rooms share: success and failure with triax's own words, stored data, a scratch
 * folder, files, the log, allocations that fail. */
#ifndef TX_TESTS_SUPPORT_H
#define TX_TESTS_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"

/* ---- asserts ---- */

#define ASSERT_OK(call)                                                                   \
    do {                                                                                  \
        tx_status status_ = (call);                                                       \
        if (status_) fail_msg("%s: status %d: %s", #call, (int)status_, tx_last_error()); \
    } while (0)

/* The call fails with that code and a sentence, one line, that holds `part`. */
#define ASSERT_FAILS(call, code, part)                                                                \
    do {                                                                                              \
        ASSERT_FAILS_LINES(call, code, part);                                                         \
        if (strchr(tx_last_error(), '\n')) fail_msg("%s: several lines: %s", #call, tx_last_error()); \
    } while (0)

/* The same for the few calls whose message may have several lines: a list of mistakes, a table. */
#define ASSERT_FAILS_LINES(call, code, part)                                                                          \
    do {                                                                                                              \
        tx_status status_ = (call);                                                                                   \
        if (status_ != (code) || !strstr(tx_last_error(), (part)))                                                    \
            fail_msg("%s: status %d, \"%s\"; expected %d, \"%s\"", #call, (int)status_, tx_last_error(), (int)(code), \
                     part);                                                                                           \
    } while (0)

#define ASSERT_CONTAINS(text, part)                                                       \
    do {                                                                                  \
        if (!strstr((text), (part))) fail_msg("\"%s\" is not in \"%s\"", (part), (text)); \
    } while (0)

/* cmocka's own compares floats. A NaN is near nothing. */
#define ASSERT_NEAR(got, expect, bound, what)                                                     \
    do {                                                                                          \
        double got_ = (got), expect_ = (expect), bound_ = (bound);                                \
        if (!(fabs(got_ - expect_) <= bound_))                                                    \
            fail_msg("%s: %.17g, expected %.17g: off by %.2e, allowed %.1e", what, got_, expect_, \
                     fabs(got_ - expect_), bound_);                                               \
    } while (0)

/* How much of a sample is taken: all n in `./test.sh all`; a few in the default set, and under a sanitizer, where
 * everything takes ten times as long. */
static inline int as_many(int n, int few)
{
#if defined __SANITIZE_THREAD__ /* sees a race in any combination in which the code is run at all */
    return n < few ? n : (few + 1) / 2;
#elif defined __SANITIZE_ADDRESS__
    return n < few ? n : few;
#else
    return n < few || getenv("TX_TEST_ALL") ? n : few;
#endif
}

/* What samples are drawn with. test.sh takes the day of the last commit, so that other days try other combinations;
 * TX_TEST_SEED repeats one, and is shown when a sample fails. */
static inline uint64_t sample_seed(void)
{
    const char *text = getenv("TX_TEST_SEED");
    return text ? strtoull(text, NULL, 10) : 0;
}

/* ---- paths: good for the thread's next 63 of them ---- */

static inline char *path_buffer(size_t *cap)
{
    static _Thread_local char buf[64][1024];
    static _Thread_local unsigned next;
    *cap = sizeof buf[0];
    return buf[next++ % 64];
}

/* A file under tests/data. */
static inline const char *data_path(const char *name)
{
    size_t cap;
    char *p = path_buffer(&cap);
    const char *root = getenv("TX_DATA");
    snprintf(p, cap, "%s/%s", root ? root : "tests/data", name);
    return p;
}

static char scratch_dir[256]; /* of one test (SCRATCH_TEST) or of a whole program (as its group's setup and teardown) */

static inline int scratch_setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/triax-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
    (void)state;
    return tx_remove_tree(scratch_dir) ? -1 : 0;
}

/* A test that begins with an empty scratch folder, which is removed after it. */
#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

/* <scratch folder>/<text>. */
__attribute__((format(printf, 1, 2))) static inline const char *in_scratch(const char *fmt, ...)
{
    size_t cap;
    char *p = path_buffer(&cap);
    if (!*scratch_dir) fail_msg("a test with files is a SCRATCH_TEST");
    int n = snprintf(p, cap, "%s/", scratch_dir);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p + n, cap - (size_t)n, fmt, ap);
    va_end(ap);
    return p;
}

/* ---- files ---- */

/* Gives the path back. */
static inline const char *write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) fail_msg("cannot write %s", path);
    return path;
}

static inline const char *write_text(const char *path, const char *text)
{
    return write_file(path, text, strlen(text));
}

static inline tx_str read_file(const char *path)
{
    tx_str s = { 0 };
    ASSERT_OK(tx_file_read(path, (size_t)1 << 30, &s));
    return s;
}

static inline void assert_same_file(const char *a, const char *b)
{
    tx_str x = read_file(a), y = read_file(b);
    size_t i = 0;
    while (i < x.len && i < y.len && x.data[i] == y.data[i]) i++;
    if (i < x.len || i < y.len) fail_msg("%s and %s differ from byte %zu on", a, b, i);
    tx_str_free(&x);
    tx_str_free(&y);
}

/* Files and folders in a folder. */
static inline void assert_n_files(const char *dir, size_t n)
{
    tx_names names;
    ASSERT_OK(tx_dir_list(dir, &names));
    if (names.n != n)
        for (size_t i = 0; i < names.n; i++) print_error("%s\n", names.name[i]);
    assert_int_equal(names.n, n);
    tx_names_free(&names);
}

static inline json_t *load_json(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, 0, &e);
    if (!j) fail_msg("%s:%d: %s", path, e.line, e.text);
    return j;
}

/* Calls f for every line of a JSON lines file and returns their number. */
static inline int for_each_json_line(const char *path, void (*f)(json_t *line, void *user), void *user)
{
    FILE *file = fopen(path, "rb");
    char *line = NULL;
    size_t cap = 0;
    int n = 0;
    if (!file) fail_msg("cannot open %s", path);
    for (ssize_t len; (len = getline(&line, &cap, file)) > 0; n++) {
        json_error_t e;
        json_t *j = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, &e);
        if (!j) fail_msg("%s:%d: %s", path, n + 1, e.text);
        f(j, user);
        json_decref(j);
    }
    free(line);
    fclose(file);
    return n;
}

/* The n fp64 numbers of a .npy file (freed with free). */
static inline double *load_npy_f64(const char *path, size_t n)
{
    tx_str file = read_file(path);
    size_t header = 10 + (size_t)(unsigned char)file.data[8] + ((size_t)(unsigned char)file.data[9] << 8);
    assert_int_equal(file.len, header + n * sizeof(double));
    double *x = malloc(n * sizeof *x);
    memcpy(x, file.data + header, n * sizeof *x);
    tx_str_free(&file);
    return x;
}

/* ---- the log ---- */

/* Between log_begin and log_end: all lines from TX_LOG_INFO up, with a newline in front of the first and after each,
 * and the warnings alone. They stay until the next log_begin. Not from the replaceable heap, which may be failing. */
static char logged[1 << 16], warned[1 << 12];

static inline void log_keep(void *user, tx_log_level level, const char *line)
{
    (void)user;
    size_t n = strlen(logged), m = strlen(warned);
    snprintf(logged + n, sizeof logged - n, "%s\n", line);
    if (level == TX_LOG_WARN) snprintf(warned + m, sizeof warned - m, "%s\n", line);
}

static inline void log_begin(void)
{
    strcpy(logged, "\n");
    warned[0] = 0;
    tx_log_set(log_keep, NULL, TX_LOG_INFO);
}

static inline void log_end(void)
{
    tx_log_set(NULL, NULL, TX_LOG_INFO);
}

/* ---- allocations that fail ---- */

static int64_t allocs_left;    /* before the one that fails */
static bool allocs_fail_after; /* and so do all after it */

static inline bool alloc_fails(void)
{
    int64_t left = allocs_left--;
    return left == 0 || (left < 0 && allocs_fail_after);
}

static inline void *failing_alloc(void *user, size_t bytes)
{
    (void)user;
    return alloc_fails() ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static inline void *failing_realloc(void *user, void *p, size_t bytes)
{
    (void)user;
    return alloc_fails() ? NULL : realloc(p, bytes);
}

static inline void failing_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static inline void allocations_fail(int64_t n, bool and_after)
{
    static const tx_allocator failing = { failing_alloc, failing_realloc, failing_free, NULL };
    allocs_left = n;
    allocs_fail_after = and_after;
    tx_allocator_set(&failing);
}

/* Once n more allocations have succeeded, one fails: until allocations_succeed. Memory is malloc's with and without,
 * so what was allocated before may be freed in between and the other way round. */
static inline void allocation_fails_at(int64_t n)
{
    allocations_fail(n, false);
}

/* The same, and every later one fails too. */
static inline void allocations_fail_from(int64_t n)
{
    allocations_fail(n, true);
}

static inline void allocations_succeed(void)
{
    tx_allocator_set(NULL);
}

#endif
