/* scratch_file.c - a file that has no name. */
#include "base/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"

static tx_status cannot(const char *path, const char *doing)
{
    return TX_FAIL(TX_ERR_IO, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* One that is there need not have a parent that may be written. */
static tx_status folder(const char *dir)
{
    struct stat s;
    if (!stat(dir, &s)) return S_ISDIR(s.st_mode) ? TX_OK : TX_FAIL(TX_ERR_IO, "%s: is not a folder", dir);
    if (errno != ENOENT) return cannot(dir, "examine the folder");
    if (!mkdir(dir, 0777) || errno == EEXIST) return TX_OK;
    if (errno == ENOENT) return TX_FAIL(TX_ERR_IO, "%s: the folder above it does not exist: create it", dir);
    return cannot(dir, "create the folder");
}

static tx_status on_a_disk(const char *dir)
{
    struct statfs s;
    if (statfs(dir, &s)) return cannot(dir, "examine the file system");
    if (s.f_type != TMPFS_MAGIC && s.f_type != RAMFS_MAGIC && s.f_type != HUGETLBFS_MAGIC) return TX_OK;
    return TX_FAIL(TX_ERR_IO, "%s: is in memory, not on a disk: name a folder on a disk", dir);
}

static tx_status no_room(const char *dir, uint64_t bytes, double free_bytes)
{
    char needed[24], there[24];
    return TX_FAIL(TX_ERR_IO, "%s: the disk is too full: %s are needed, %s are free", dir,
                   tx_bytes_text(needed, (double)bytes), tx_bytes_text(there, free_bytes));
}

/* Asked before anything is taken: a file system may fill itself up before it finds out. */
static tx_status has_room(const char *dir, uint64_t bytes)
{
    struct statvfs s;
    struct rlimit most;
    char needed[24], allowed[24];
    if (statvfs(dir, &s)) return cannot(dir, "examine the file system");
    double there = (double)s.f_bavail * (double)s.f_frsize;
    if ((double)bytes > there) return no_room(dir, bytes, there);
    if (getrlimit(RLIMIT_FSIZE, &most) || bytes <= most.rlim_cur) return TX_OK;
    return TX_FAIL(TX_ERR_IO, "%s: a file of %s is needed, and this process may write one of %s (ulimit -f)", dir,
                   tx_bytes_text(needed, (double)bytes), tx_bytes_text(allowed, (double)most.rlim_cur));
}

static tx_status take_room(int fd, const char *dir, uint64_t bytes)
{
    while (fallocate(fd, 0, 0, (off_t)bytes)) {
        if (errno == EINTR) continue;
        if (errno == EOPNOTSUPP && !ftruncate(fd, (off_t)bytes)) return TX_OK;
        struct statvfs s;
        if (errno == ENOSPC && !fstatvfs(fd, &s)) return no_room(dir, bytes, (double)s.f_bavail * (double)s.f_frsize);
        char needed[24];
        return TX_FAIL(TX_ERR_IO, "%s: cannot create a file of %s: %s", dir, tx_bytes_text(needed, (double)bytes),
                       strerror(errno));
    }
    return TX_OK;
}

/* Some file systems take the flag and then no request. */
static tx_status try_direct(tx_scratch_file *f, const char *dir)
{
    int flags = fcntl(f->fd, F_GETFL);
    void *block;
    if (fcntl(f->fd, F_SETFL, flags | O_DIRECT)) return TX_OK;
    if (posix_memalign(&block, TX_DISK_BLOCK, TX_DISK_BLOCK)) return TX_FAIL(TX_ERR_NOMEM, "not enough memory");
    f->direct = pread(f->fd, block, TX_DISK_BLOCK, 0) >= 0;
    free(block);
    return f->direct || !fcntl(f->fd, F_SETFL, flags) ? TX_OK : cannot(dir, "turn O_DIRECT off");
}

tx_status tx_scratch_open(tx_scratch_file *out, const char *dir, const char *name, uint64_t bytes, bool in_memory)
{
    char path[PATH_MAX];
    tx_scratch_file f = { .fd = -1 };
    tx_status st;
    TX_ASSERT(bytes > 0);
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(folder(dir));
    if (!in_memory) TX_TRY(on_a_disk(dir));
    TX_TRY(has_room(dir, bytes));
    f.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f.fd < 0) return cannot(path, "create");
    if (unlink(path)) TX_GOTO(cannot(path, "remove"));
    TX_GOTO(take_room(f.fd, dir, bytes));
    TX_GOTO(try_direct(&f, dir));
    *out = f;
    return TX_OK;
out:
    tx_scratch_close(&f);
    return st;
}

void tx_scratch_close(tx_scratch_file *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}
