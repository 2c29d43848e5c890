/* append.c - a file that grows while a run goes on. */
#include "base/append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static tx_status sys_fail(const char *doing, const char *path)
{
    return TX_FAIL(TX_ERR_IO, "%s: cannot %s: %s", path, doing, strerror(errno));
}

tx_status tx_append_open(tx_append *a, const char *path, bool fresh)
{
    *a = (tx_append){ .fd = -1 };
    TX_TRY(tx_memdup0(&a->path, path, strlen(path), "a path"));
    a->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (fresh ? O_EXCL : 0), 0666);
    if (a->fd >= 0) return TX_OK;
    tx_status st = errno == EEXIST ? TX_FAIL(TX_ERR_STATE, "%s: is there already", path) : sys_fail("open", path);
    tx_append_close(a);
    return st;
}

/* Cuts off what a put has left that failed. A pipe has shown it to its reader, for good. */
static tx_status cut_torn(tx_append *a)
{
    struct stat sb;
    if (!a->n_torn) return TX_OK;
    if (fstat(a->fd, &sb)) return sys_fail("examine", a->path);
    if (S_ISREG(sb.st_mode) && sb.st_size >= (off_t)a->n_torn && ftruncate(a->fd, sb.st_size - (off_t)a->n_torn))
        return sys_fail("cut the end of", a->path);
    a->n_torn = 0;
    return TX_OK;
}

tx_status tx_append_put(tx_append *a, const void *bytes, size_t n)
{
    const char *p = bytes;
    TX_TRY(cut_torn(a));
    while (n) {
        ssize_t k = write(a->fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            tx_status st = sys_fail("write", a->path);
            a->n_torn = (size_t)(p - (const char *)bytes);
            return cut_torn(a) ? TX_ERR_IO : st;
        }
        p += k;
        n -= (size_t)k;
    }
    a->n_put += (uint64_t)(p - (const char *)bytes);
    return TX_OK;
}

tx_status tx_append_cut_half_line(tx_append *a)
{
    char part[4096];
    struct stat sb;
    if (fstat(a->fd, &sb)) return sys_fail("examine", a->path);
    if (!S_ISREG(sb.st_mode)) return TX_OK; /* a pipe, a terminal: nothing stays there */
    off_t end = sb.st_size;
    while (end > 0) {
        off_t from = end > (off_t)sizeof part ? end - (off_t)sizeof part : 0;
        ssize_t n = pread(a->fd, part, (size_t)(end - from), from);
        if (n != end - from) return sys_fail("read", a->path);
        const char *newline = memrchr(part, '\n', (size_t)n);
        end = newline ? from + (newline - part) + 1 : from;
        if (newline) break;
    }
    if (end < sb.st_size && ftruncate(a->fd, end)) return sys_fail("cut the last line of", a->path);
    return TX_OK;
}

void tx_append_close(tx_append *a)
{
    if (!a->path) return;
    if (a->fd >= 0) close(a->fd);
    tx_free(a->path);
    *a = (tx_append){ 0 };
}
