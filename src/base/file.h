/* file.h - reading files whole or mapped, and publishing files so that a crash leaves the old or the new, never half.
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

/* A system call of the int kind, made again when a signal interrupts it: network and user-space file systems let that
 * happen to any of them. */
#define TX_RETRY(call)                           \
    __extension__({                              \
        __typeof__(call) result_;                \
        do result_ = (call);                     \
        while (result_ == -1 && errno == EINTR); \
        result_;                                 \
    })

/* ---- reading ---- */

/* The whole file, appended to an empty *out. Refuses directories and files larger than max_bytes. */
tx_status tx_file_read(const char *path, size_t max_bytes, tx_str *out);

/* A file mapped read-only. data is NULL for an empty file. */
typedef struct tx_map {
    const unsigned char *data;
    size_t size; /* bytes */
} tx_map;
tx_status tx_map_open(tx_map *out, const char *path);
void tx_map_close(tx_map *m);

/* Bytes [offset, offset + n) are needed soon: the disk is asked for all of them at once. */
void tx_map_ask(const tx_map *m, size_t offset, size_t n);

/* Bytes [offset, offset + n) are not needed again soon: what of them is in memory need not count as this process's.
 * They can still be read. */
void tx_map_forget(const tx_map *m, size_t offset, size_t n);

bool tx_path_exists(const char *path);
bool tx_path_is_dir(const char *path);

/* Whether two paths name one folder; a folder that does not exist is compared by its name. */
bool tx_path_is_same(const char *a, const char *b);

/* "a/b" from "a" and "b" into buf; TX_ERR_ARG when it does not fit. */
tx_status tx_path_join(char *buf, size_t cap, const char *dir, const char *name);

/* ---- writing ---- */

typedef struct tx_writer {
    int fd;
    char *path, *tmp; /* owned */
    unsigned char *buf;
    size_t n_buf;
    uint64_t written;           /* bytes put so far */
    uint64_t started, in_cache; /* of the file: handed to the disk; after them, still in the cache */
} tx_writer;

/* Starts the temporary file beside `path`, which may be no directory. Close with commit (publishes) or abort (removes);
 * both deinit. */
tx_status tx_writer_open(tx_writer *w, const char *path);
tx_status tx_writer_put(tx_writer *w, const void *bytes, size_t n);
/* Flush, fsync and close: what can fail for want of space. Optional, before commit: files that belong together are all
 * sealed before the first is published. Abort afterwards still removes; nothing may be put. */
tx_status tx_writer_seal(tx_writer *w);
/* Seal, rename, fsync directory. On failure the temporary is removed and `path` is as it was. */
tx_status tx_writer_commit(tx_writer *w);
void tx_writer_abort(tx_writer *w); /* safe on a zeroed or finished writer */

/* Both in one: publishes `n` bytes as `path`. */
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
