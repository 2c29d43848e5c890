/* token_test.h - what the tokenizer tests share: data paths, JSON lines, files written for one test. */
#ifndef TX_TESTS_TOKEN_TEST_H
#define TX_TESTS_TOKEN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "triax/token.h"

#define assert_ok(call)                                       \
    do {                                                      \
        if (call) fail_msg("%s: %s", #call, tx_last_error()); \
    } while (0)

/* Fails with `code` and a sentence that holds `part`, on one line. */
#define assert_refused(call, code, part)                                                                 \
    do {                                                                                                 \
        assert_int_equal((call), (code));                                                                \
        if (!strstr(tx_last_error(), (part))) fail_msg("\"%s\" is not in: %s", (part), tx_last_error()); \
        assert_null(strchr(tx_last_error(), '\n'));                                                      \
    } while (0)

/* Path of a file under tests/data; valid until the fourth next call. */
static inline const char *data_path(const char *name)
{
    static char path[4][1024];
    static int k;
    const char *dir = getenv("TX_DATA");
    if (!dir) fail_msg("TX_DATA must name the folder tests/data");
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

static inline tx_tokenizer *open_gpt2(void)
{
    tx_tokenizer *t = NULL;
    assert_ok(tx_tokenizer_open_gpt2(&t, data_path("token/gpt2-vocab.json"), data_path("token/gpt2-merges.txt")));
    return t;
}

static inline tx_tokenizer *open_tiny(void)
{
    tx_tokenizer *t = NULL;
    assert_ok(tx_tokenizer_open_gpt2(&t, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    return t;
}

/* Calls f for every line of a JSON lines file and returns their number. */
static inline int for_each_line(const char *path, void (*f)(json_t *line, void *user), void *user)
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

/* A file's path in a folder of this test program's own; valid until the fourth next call. "" is the folder, which the
 * test program removes at its end. */
static inline const char *temp_path(const char *name)
{
    static char dir[64], path[4][128];
    static int k;
    if (!dir[0]) {
        strcpy(dir, "/tmp/triax-token-XXXXXX");
        if (!mkdtemp(dir)) fail_msg("cannot make a folder in /tmp");
    }
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

static inline const char *write_temp(const char *name, const void *bytes, size_t n)
{
    const char *path = temp_path(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) fail_msg("cannot write %s", path);
    return path;
}

/* ---- an allocator that gives up after allocs_left calls ---- */

static int allocs_left __attribute__((unused));

static inline void *scarce_alloc(void *user, size_t bytes)
{
    (void)user;
    return allocs_left-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static inline void *scarce_realloc(void *user, void *p, size_t bytes)
{
    (void)user;
    return allocs_left-- > 0 ? realloc(p, bytes) : NULL;
}

static inline void plain_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static const tx_allocator scarce __attribute__((unused)) = { scarce_alloc, scarce_realloc, plain_free, NULL };

#endif
