/* file.h - reading whole or mapped files, and replacing files so that a crash leaves the old or the new one, never
 * half.
 *
 *  Publishing:  write to "<path>.tmp-<pid>"  ->  fsync  ->  rename over <path>  ->  fsync the directory.
 *  Every message names the path and the system's reason. */
#ifndef TX_BASE_FILE_H
#define TX_BASE_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* A system call that returns int, repeated if a signal interrupts it: on network and user-space file systems that can
 * happen to any call. */
#define TX_RETRY(call)                           \
    __extension__({                              \
        __typeof__(call) result_;                \
        do result_ = (call);                     \
        while (result_ == -1 && errno == EINTR); \
        result_;                                 \
    })

/* ---- reading ---- */

/* Reads the whole file into an empty *out. Refuses directories and files larger than max_bytes. */
tx_status tx_file_read(const char *path, size_t max_bytes, tx_str *out);

/* A file mapped read-only. data is NULL for an empty file. */
typedef struct tx_map {
    const unsigned char *data;
    size_t size; /* bytes */
} tx_map;
tx_status tx_map_open(tx_map *out, const char *path);
void tx_map_close(tx_map *m);

/* Announces that bytes [offset, offset + n) are needed soon; all of them are requested from the disk at once. */
void tx_map_ask(const tx_map *m, size_t offset, size_t n);

/* Announces that bytes [offset, offset + n) are not needed again soon, so that those in memory need not count as this
 * process's. They can still be read. */
void tx_map_forget(const tx_map *m, size_t offset, size_t n);

bool tx_path_exists(const char *path);
bool tx_path_is_dir(const char *path);

/* Whether two paths are the same folder; a folder that does not exist is compared by its name. */
bool tx_path_is_same(const char *a, const char *b);

/* "a/b" from "a" and "b" into buf; TX_ERR_ARG when it does not fit. */
tx_status tx_path_join(char *buf, size_t cap, const char *dir, const char *name);

/* ---- writing ---- */

typedef struct tx_writer {
    int fd;
    char *path, *tmp; /* owned */
    unsigned char *buf;
    size_t n_buf;
    uint64_t written;           /* bytes handed in so far */
    uint64_t started, in_cache; /* of the file: bytes whose write-back has started, and bytes after them still in the
                                 * page cache */
} tx_writer;

/* Creates the temporary file beside `path`, which must not be a directory. Close it with commit (publishes it) or
 * abort (removes it); both deinit. */
tx_status tx_writer_open(tx_writer *w, const char *path);
tx_status tx_writer_put(tx_writer *w, const void *bytes, size_t n);
/* Flushes, syncs and closes: all that can fail for lack of space. Optional, before commit: seal all files that belong
 * together before the first is published. Afterwards abort still removes the file, and nothing can be put. */
tx_status tx_writer_seal(tx_writer *w);
/* Seals and renames the file, and syncs the directory. On failure the temporary file is removed and `path` is
 * unchanged. */
tx_status tx_writer_commit(tx_writer *w);
void tx_writer_abort(tx_writer *w); /* safe on a zeroed or finished writer */

/* Does all of it at once: publishes `n` bytes as `path`. */
tx_status tx_file_publish(const char *path, const void *bytes, size_t n);

/* mkdir -p. */
tx_status tx_make_dirs(const char *path);
tx_status tx_dir_sync(const char *path);

/* Removes a file, or a directory with everything in it; links inside are removed, not followed. A missing path is fine.
 */
tx_status tx_remove_tree(const char *path);

/* Names in a directory except . and .., sorted bytewise; freed with tx_names_free. */
typedef struct tx_names {
    char **name;
    size_t n;
} tx_names;
tx_status tx_dir_list(const char *path, tx_names *out);
void tx_names_free(tx_names *names);

#endif
