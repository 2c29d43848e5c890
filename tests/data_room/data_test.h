/* data_test.h - what the tests of this room share: stored data, a scratch folder, damaged copies, the log. */
#ifndef DATA_TEST_H
#define DATA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"

#define assert_ok(call)                                       \
    do {                                                      \
        tx_status ok_status_ = (call);                        \
        if (ok_status_) print_error("%s\n", tx_last_error()); \
        assert_int_equal(ok_status_, TX_OK);                  \
    } while (0)

/* The call fails with the code, and its one line contains the text. */
#define assert_fails(call, code, text)                                            \
    do {                                                                          \
        assert_int_equal(call, code);                                             \
        if (!strstr(tx_last_error(), text)) print_error("%s\n", tx_last_error()); \
        assert_non_null(strstr(tx_last_error(), text));                           \
        assert_null(strchr(tx_last_error(), '\n'));                               \
    } while (0)

/* Paths live in rotating buffers: good for the next 255 paths. */
static inline const char *in_dir(const char *dir, const char *name)
{
    static char buf[256][1024];
    static int next;
    char *b = buf[next++ % 256];
    snprintf(b, sizeof buf[0], "%s/%s", dir, name);
    return b;
}

static inline const char *data(const char *name)
{
    const char *dir = getenv("TX_DATA");
    return in_dir(dir ? dir : "tests/data", name);
}

static char scratch_dir[512];

static inline const char *scratch(const char *name)
{
    return in_dir(scratch_dir, name);
}

static inline int scratch_begin(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/triax-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

static inline int scratch_end(void **state)
{
    (void)state;
    return tx_remove_tree(scratch_dir) ? -1 : 0;
}

static inline tx_str read_all(const char *path)
{
    tx_str s = { 0 };
    assert_ok(tx_file_read(path, 1u << 30, &s));
    return s;
}

static inline const char *write_all(const char *name, const void *bytes, size_t n)
{
    const char *path = scratch(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *write_text(const char *name, const char *text)
{
    return write_all(name, text, strlen(text));
}

static inline void assert_same_file(const char *a, const char *b)
{
    tx_str x = read_all(a), y = read_all(b);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    tx_str_free(&x);
    tx_str_free(&y);
}

/* ---- the log, as one text ---- */

static tx_str logged;

static inline void log_to_text(void *user, tx_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (!tx_str_puts(&logged, line)) (void)tx_str_puts(&logged, "\n");
}

static inline void log_begin(void)
{
    tx_str_free(&logged);
    (void)tx_str_puts(&logged, "\n");
    tx_log_set(log_to_text, NULL, TX_LOG_INFO);
}

static inline void log_end(void)
{
    tx_log_set(NULL, NULL, TX_LOG_INFO);
    tx_str_free(&logged);
}

#define assert_logged(line)                                             \
    do {                                                                \
        if (!strstr(logged.data, line)) print_error("%s", logged.data); \
        assert_non_null(strstr(logged.data, line));                     \
    } while (0)

#endif
