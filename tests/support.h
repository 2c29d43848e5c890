/* support.h - what several tests share: where the data lies, JSON and .npy files, failing with triax's own words. */
#ifndef TX_TESTS_SUPPORT_H
#define TX_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/status.h"

/* A call that must succeed; its error text is shown when it does not. */
#define OK(call)                                                    \
    do {                                                            \
        tx_status ok_status_ = (call);                              \
        if (ok_status_) fail_msg("%s: %s", #call, tx_last_error()); \
    } while (0)

/* A call that must fail with this status and a message that contains the text. */
#define FAILS(status, text, call)                                                                                   \
    do {                                                                                                            \
        tx_status fails_status_ = (call);                                                                           \
        if (fails_status_ != (status)) fail_msg("%s: status %d, not %d", #call, (int)fails_status_, (int)(status)); \
        if (!strstr(tx_last_error(), (text))) fail_msg("\"%s\" says nothing of \"%s\"", tx_last_error(), (text));   \
    } while (0)

/* "<test data>/<name>" in a buffer that the next-but-three call reuses. */
static inline const char *data_path(const char *name)
{
    static char buf[4][1024];
    static int turn;
    const char *root = getenv("TX_DATA");
    char *p = buf[turn++ % 4];
    snprintf(p, sizeof buf[0], "%s/%s", root ? root : "tests/data", name);
    return p;
}

/* A new empty directory under the current one; the test removes it with tx_remove_tree. */
static inline void temp_dir(char out[64])
{
    snprintf(out, 64, "tmp-test-XXXXXX");
    if (!mkdtemp(out)) fail_msg("cannot make a directory");
}

static inline json_t *load_json(const char *name)
{
    json_error_t e;
    json_t *j = json_load_file(data_path(name), 0, &e);
    if (!j) fail_msg("%s:%d: %s", name, e.line, e.text);
    return j;
}

/* The n fp64 numbers of a .npy file (freed with free). */
static inline double *load_npy_f64(const char *name, size_t n)
{
    tx_str file = { 0 };
    OK(tx_file_read(data_path(name), (size_t)1 << 30, &file));
    size_t header = 10 + (size_t)(unsigned char)file.data[8] + ((size_t)(unsigned char)file.data[9] << 8);
    assert_int_equal(file.len, header + n * sizeof(double));
    double *x = malloc(n * sizeof *x);
    memcpy(x, file.data + header, n * sizeof *x);
    tx_str_free(&file);
    return x;
}

#endif
