/* fuzz.h - what the fuzz targets share: hostile bytes as a file that lives in memory, and the promises that hold for
 * every parser: a failure comes with one printable line, and what was taken can be used.
 *
 *  A target is fuzz_<name>.c with LLVMFuzzerTestOneInput and a folder corpus/<name>; run.sh builds and runs them all.
 */
#ifndef TX_TESTS_FUZZ_H
#define TX_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/status.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold. Says what did not, and stops where the fuzzer keeps the input. */
#define FUZZ_CHECK(cond) \
    ((cond) ? (void)0    \
            : (fprintf(stderr, "%s:%d: %s\nlast error: %s\n", __FILE__, __LINE__, #cond, tx_last_error()), abort()))

/* A sentence for the user: not empty, no control characters; its lines, if there may be several, not empty. */
static inline void fuzz_check_sentence(const char *text, bool several_lines)
{
    FUZZ_CHECK(*text);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        FUZZ_CHECK((*p >= 0x20 && *p != 0x7F) || (several_lines && *p == '\n' && p[1] != '\n'));
}

/* Whether a call succeeded; if not, its error is one line. */
static inline bool fuzz_ok(tx_status st)
{
    if (st) fuzz_check_sentence(tx_last_error(), false);
    return st == TX_OK;
}

static inline void fuzz_check_utf8(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += tx__utf8_next((const unsigned char *)text + i, n - i, &c);
        FUZZ_CHECK(c != TX__NO_CHAR);
    }
}

/* ---- files in memory: a scratch folder of links to memfds, made once, so that no input touches a disk ---- */

enum { FUZZ_FILES = 4 };

static struct fuzz_file {
    const char *name; /* a literal */
    int fd;
    char path[96];
} fuzz_files[FUZZ_FILES];
static char fuzz_dir[64];

static inline void fuzz_remove_dir(void)
{
    (void)tx_remove_tree(fuzz_dir);
}

/* Path of the file `name`, which from now on holds these bytes. */
static inline const char *fuzz_file(const char *name, const void *bytes, size_t n)
{
    struct fuzz_file *f = fuzz_files;
    if (!*fuzz_dir) {
        strcpy(fuzz_dir, "/tmp/triax-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(fuzz_dir));
        atexit(fuzz_remove_dir);
    }
    while (f->name && strcmp(f->name, name) != 0) f++;
    if (!f->name) {
        char target[32];
        FUZZ_CHECK((f->fd = memfd_create(name, MFD_CLOEXEC)) >= 0);
        snprintf(target, sizeof target, "/proc/self/fd/%d", f->fd);
        snprintf(f->path, sizeof f->path, "%s/%s", fuzz_dir, name);
        FUZZ_CHECK(!symlink(target, f->path));
        f->name = name;
    }
    FUZZ_CHECK(!ftruncate(f->fd, 0));
    for (size_t at = 0; at < n;) {
        ssize_t k = pwrite(f->fd, (const char *)bytes + at, n - at, (off_t)at);
        FUZZ_CHECK(k > 0);
        at += (size_t)k;
    }
    return f->path;
}

/* A file under tests/data; good until the second next call. */
static inline const char *fuzz_data(const char *name)
{
    static char path[2][512];
    static int next;
    const char *root = getenv("TX_DATA");
    next = !next;
    snprintf(path[next], sizeof path[next], "%s/%s", root ? root : "tests/data", name);
    return path[next];
}

/* ---- the log: lines are made, checked and dropped ---- */

static inline void fuzz_log_line(void *user, tx_log_level level, const char *line)
{
    (void)user, (void)level;
    fuzz_check_sentence(line, false);
}

static inline void fuzz_log_on(void)
{
    tx_log_set(fuzz_log_line, NULL, TX_LOG_DEBUG);
}

#endif
