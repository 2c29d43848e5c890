/* file.c - reading and publishing files. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define WRITE_BUFFER ((size_t)1 << 20)
#define WRITEBACK    ((uint64_t)8 << 20) /* bytes that the system is asked to write at a time */

static tx_status sys_fail(const char *doing, const char *path)
{
    int e = errno;
    tx_status code = e == ENOENT ? TX_ERR_NOTFOUND : TX_ERR_IO;
    return TX_FAIL(code, "%s: cannot %s: %s", path, doing, strerror(e));
}

/* ---- reading ---- */

static tx_status open_regular(const char *path, int *fd, size_t *size)
{
    struct stat sb;
    int f = TX_RETRY(open(path, O_RDONLY | O_CLOEXEC));
    if (f < 0) return sys_fail("open", path);
    if (TX_RETRY(fstat(f, &sb))) {
        tx_status st = sys_fail("examine", path);
        close(f);
        return st;
    }
    if (S_ISDIR(sb.st_mode)) {
        close(f);
        return TX_FAIL(TX_ERR_IO, "%s: is a directory, a file is needed", path);
    }
    *fd = f;
    *size = S_ISREG(sb.st_mode) && sb.st_size > 0 ? (size_t)sb.st_size : 0;
    return TX_OK;
}

tx_status tx_file_read(const char *path, size_t max_bytes, tx_str *out)
{
    int fd;
    size_t size;
    TX_TRY(open_regular(path, &fd, &size));
    tx_status st = TX_OK;
    for (;;) { /* the size is only a hint: pipes have none and files grow */
        if (out->len > max_bytes || size > max_bytes) {
            st = TX_FAIL(TX_ERR_FORMAT, "%s: larger than the %zu bytes such a file may have", path, max_bytes);
            break;
        }
        TX_GOTO(tx_str_reserve(out, size > out->len ? size + 1 : out->len + 65536));
        ssize_t n = TX_RETRY(read(fd, out->data + out->len, out->cap - out->len));
        if (n < 0) {
            st = sys_fail("read", path);
            break;
        }
        if (n == 0) break;
        out->len += (size_t)n;
        out->data[out->len] = 0;
    }
out:
    close(fd);
    if (st) tx_str_free(out);
    return st;
}

tx_status tx_map_open(tx_map *out, const char *path)
{
    int fd;
    size_t size;
    TX_TRY(open_regular(path, &fd, &size));
    void *p = NULL;
    tx_status st = TX_OK;
    if (size) {
        p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) st = sys_fail("map", path);
    }
    close(fd);
    if (!st) *out = (tx_map){ p, size };
    return st;
}

void tx_map_close(tx_map *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (tx_map){ 0 };
}

void tx_map_ask(const tx_map *m, size_t offset, size_t n)
{
    if (!m->data || offset >= m->size) return;
    if (n > m->size - offset) n = m->size - offset;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)m->data + offset) / page * page;
    madvise((void *)begin, (uintptr_t)m->data + offset + n - begin, MADV_WILLNEED);
}

void tx_map_forget(const tx_map *m, size_t offset, size_t n)
{
    if (!m->data || offset >= m->size) return;
    if (n > m->size - offset) n = m->size - offset;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)m->data + offset, end = begin + n;
    begin = (begin + page - 1) / page * page; /* whole pages: the others may be another's, too */
    end = end / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

bool tx_path_exists(const char *path)
{
    struct stat sb;
    return TX_RETRY(stat(path, &sb)) == 0;
}

bool tx_path_is_dir(const char *path)
{
    struct stat sb;
    return TX_RETRY(stat(path, &sb)) == 0 && S_ISDIR(sb.st_mode);
}

bool tx_path_is_same(const char *a, const char *b)
{
    char *ra = realpath(a, NULL), *rb = realpath(b, NULL);
    size_t na = strlen(a), nb = strlen(b);
    while (na > 1 && a[na - 1] == '/') na--;
    while (nb > 1 && b[nb - 1] == '/') nb--;
    bool same = ra && rb ? !strcmp(ra, rb) : !ra && !rb && na == nb && !memcmp(a, b, na);
    free(ra);
    free(rb);
    return same;
}

tx_status tx_path_join(char *buf, size_t cap, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    const char *slash = n && dir[n - 1] == '/' ? "" : "/";
    int len = snprintf(buf, cap, "%s%s%s", dir, slash, name);
    if (len < 0 || (size_t)len >= cap) return TX_FAIL(TX_ERR_ARG, "%s/%s: path is too long", dir, name);
    return TX_OK;
}

/* ---- writing ---- */

tx_status tx_writer_open(tx_writer *w, const char *path)
{
    *w = (tx_writer){ .fd = -1 };
    tx_status st;
    tx_str tmp = { 0 };
    if (tx_path_is_dir(path)) return TX_FAIL(TX_ERR_IO, "%s: cannot write: is a directory", path);
    TX_GOTO(tx_memdup0(&w->path, path, strlen(path), "a path"));
    TX_GOTO(tx_str_printf(&tmp, "%s.tmp-%ld", path, (long)getpid()));
    TX_GOTO(tx_memdup0(&w->tmp, tmp.data, tmp.len, "a path"));
    TX_GOTO(tx_alloc(&w->buf, WRITE_BUFFER, 1, "a write buffer"));
    w->fd = TX_RETRY(open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (w->fd < 0) st = sys_fail("create", w->tmp);
out:
    tx_str_free(&tmp);
    if (st) tx_writer_abort(w);
    return st;
}

/* The disk begins while more is still being made, and fsync finds little left to do. That it cannot is no failure. */
static void start_writeback(tx_writer *w, uint64_t n)
{
    w->in_cache += n;
    if (w->in_cache < WRITEBACK) return;
    sync_file_range(w->fd, (off_t)w->started, (off_t)w->in_cache, SYNC_FILE_RANGE_WRITE);
    w->started += w->in_cache;
    w->in_cache = 0;
}

static tx_status write_all(tx_writer *w, const unsigned char *p, size_t n)
{
    while (n) {
        ssize_t k = TX_RETRY(write(w->fd, p, n));
        if (k < 0) return sys_fail("write", w->path);
        p += k;
        n -= (size_t)k;
        start_writeback(w, (uint64_t)k);
    }
    return TX_OK;
}

static tx_status flush_buffer(tx_writer *w)
{
    size_t n = w->n_buf;
    w->n_buf = 0;
    return write_all(w, w->buf, n);
}

tx_status tx_writer_put(tx_writer *w, const void *bytes, size_t n)
{
    w->written += n;
    if (n >= WRITE_BUFFER) {
        TX_TRY(flush_buffer(w));
        return write_all(w, bytes, n);
    }
    if (w->n_buf + n > WRITE_BUFFER) TX_TRY(flush_buffer(w));
    if (n) memcpy(w->buf + w->n_buf, bytes, n);
    w->n_buf += n;
    return TX_OK;
}

static void writer_free(tx_writer *w)
{
    tx_free(w->buf);
    tx_free(w->path);
    tx_free(w->tmp);
    *w = (tx_writer){ .fd = -1 };
}

tx_status tx_dir_sync(const char *path)
{
    int fd = TX_RETRY(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0) return sys_fail("open", path);
    tx_status st = TX_OK;
    if (TX_RETRY(fsync(fd)) && errno != EINVAL && errno != EROFS) st = sys_fail("fsync", path);
    close(fd);
    return st;
}

static tx_status sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return tx_dir_sync(".");
    if (slash == path) return tx_dir_sync("/");
    char *dir;
    TX_TRY(tx_memdup0(&dir, path, (size_t)(slash - path), "a path"));
    tx_status st = tx_dir_sync(dir);
    tx_free(dir);
    return st;
}

tx_status tx_writer_seal(tx_writer *w)
{
    if (w->fd < 0) return TX_OK;
    TX_TRY(flush_buffer(w));
    if (TX_RETRY(fsync(w->fd))) return sys_fail("fsync", w->path);
    int fd = w->fd;
    w->fd = -1;
    /* an interrupted close has closed, and what was written is on the disk already */
    return close(fd) && errno != EINTR ? sys_fail("close", w->path) : TX_OK;
}

tx_status tx_writer_commit(tx_writer *w)
{
    tx_status st;
    TX_GOTO(tx_writer_seal(w));
    if (TX_RETRY(rename(w->tmp, w->path))) {
        st = sys_fail("rename a temporary to", w->path);
        goto out;
    }
    st = sync_parent(w->path);
    writer_free(w);
    return st;
out:
    tx_writer_abort(w);
    return st;
}

void tx_writer_abort(tx_writer *w)
{
    if (w->fd > 0) close(w->fd); /* 0 is a zeroed writer: triax never opens standard input for writing */
    if (w->tmp) TX_RETRY(unlink(w->tmp));
    writer_free(w);
}

tx_status tx_file_publish(const char *path, const void *bytes, size_t n)
{
    tx_writer w;
    TX_TRY(tx_writer_open(&w, path));
    tx_status st = tx_writer_put(&w, bytes, n);
    if (st) {
        tx_writer_abort(&w);
        return st;
    }
    return tx_writer_commit(&w);
}

tx_status tx_make_dirs(const char *path)
{
    if (!*path) return TX_FAIL(TX_ERR_ARG, "cannot create a directory with an empty name");
    char *p;
    TX_TRY(tx_memdup0(&p, path, strlen(path), "a path"));
    tx_status st = TX_OK;
    for (char *s = p + 1;; s++) {
        if (*s && *s != '/') continue;
        char keep = *s;
        *s = 0;
        if (TX_RETRY(mkdir(p, 0777)) && !(errno == EEXIST && tx_path_is_dir(p))) {
            st = errno == EEXIST ? TX_FAIL(TX_ERR_IO, "%s: is a file, where a folder is to be", p)
                                 : sys_fail("create directory", p);
            break;
        }
        *s = keep;
        if (!keep) break;
    }
    tx_free(p);
    return st;
}

tx_status tx_remove_tree(const char *path)
{
    struct stat sb;
    if (TX_RETRY(lstat(path, &sb))) return errno == ENOENT ? TX_OK : sys_fail("examine", path);
    if (!S_ISDIR(sb.st_mode)) return TX_RETRY(unlink(path)) && errno != ENOENT ? sys_fail("remove", path) : TX_OK;
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(path, &names));
    tx_status st = TX_OK;
    tx_str child = { 0 };
    for (size_t i = 0; i < names.n; i++) {
        child.len = 0;
        TX_GOTO(tx_str_printf(&child, "%s/%s", path, names.name[i]));
        TX_GOTO(tx_remove_tree(child.data));
    }
    if (TX_RETRY(rmdir(path)) && errno != ENOENT) st = sys_fail("remove", path);
out:
    tx_str_free(&child);
    tx_names_free(&names);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The next entry; NULL at the end and on an error, which `*st` then is. */
static struct dirent *next_entry(DIR *d, const char *path, tx_status *st)
{
    struct dirent *e;
    do {
        errno = 0;
        e = readdir(d);
    } while (!e && errno == EINTR);
    if (!e && errno) *st = sys_fail("list", path);
    return e;
}

tx_status tx_dir_list(const char *path, tx_names *out)
{
    DIR *d;
    do d = opendir(path);
    while (!d && errno == EINTR);
    if (!d) return sys_fail("list", path);
    tx_names names = { 0 };
    tx_status st = TX_OK;
    for (struct dirent *e; (e = next_entry(d, path, &st));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        TX_GOTO(tx_realloc(&names.name, names.n + 1, sizeof *names.name, "a directory listing"));
        TX_GOTO(tx_memdup0(&names.name[names.n], e->d_name, strlen(e->d_name), "a directory listing"));
        names.n++;
    }
    if (st) goto out;
    if (names.n) qsort(names.name, names.n, sizeof *names.name, by_name);
    *out = names;
    names = (tx_names){ 0 };
out:
    tx_names_free(&names);
    closedir(d);
    return st;
}

void tx_names_free(tx_names *names)
{
    for (size_t i = 0; i < names->n; i++) tx_free(names->name[i]);
    tx_free(names->name);
    *names = (tx_names){ 0 };
}
