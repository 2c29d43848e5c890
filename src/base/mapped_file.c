/* mapped_file.c - a scratch file as memory. */
#include "base/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

tx_status tx_mapped_file_open(tx_mapped_file *out, const char *dir, size_t bytes)
{
    tx_mapped_file f = { .file = { .fd = -1 } };
    char name[64];
    const char *in_memory = getenv("TX_AIO_IN_MEMORY");
    *out = (tx_mapped_file){ .base = NULL };
    if (!bytes) return TX_OK;
    f.bytes = (bytes + TX_DISK_BLOCK - 1) / TX_DISK_BLOCK * TX_DISK_BLOCK;
    /* a rank is a thread in tests; the stack's address tells files of one process apart until they have no name */
    snprintf(name, sizeof name, "triax-mapped-%ld-%zx", (long)getpid(), (size_t)(uintptr_t)&f);
    TX_TRY(tx_scratch_open(&f.file, dir, name, f.bytes, in_memory && !strcmp(in_memory, "1")));
    void *p = mmap(NULL, f.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f.file.fd, 0);
    if (p == MAP_FAILED) {
        tx_status st = TX_FAIL(TX_ERR_NOMEM, "%s: cannot map a file of %zu bytes: %s", dir, f.bytes, strerror(errno));
        tx_scratch_close(&f.file);
        return st;
    }
    f.base = p;
    *out = f;
    return TX_OK;
}

void tx_mapped_file_settle(const tx_mapped_file *f, const void *p, size_t n)
{
    if (!f->base) return;
    size_t from = (size_t)((const unsigned char *)p - f->base), end = (from + n) / TX_DISK_BLOCK * TX_DISK_BLOCK;
    from = (from + TX_DISK_BLOCK - 1) / TX_DISK_BLOCK * TX_DISK_BLOCK;
    if (from >= end) return;
    /* first: from then on the pages are the file's alone, with what was written to them */
    if (madvise(f->base + from, end - from, MADV_DONTNEED)) return;
    (void)sync_file_range(f->file.fd, (off_t)from, (off_t)(end - from), SYNC_FILE_RANGE_WRITE);
}

void tx_mapped_file_expect(const tx_mapped_file *f, const void *p, size_t n)
{
    if (!f->base) return;
    size_t from = (size_t)((const unsigned char *)p - f->base) / TX_DISK_BLOCK * TX_DISK_BLOCK,
           end = (size_t)((const unsigned char *)p - f->base) + n;
    if (from < end) (void)madvise(f->base + from, end - from, MADV_WILLNEED);
}

void tx_mapped_file_close(tx_mapped_file *f)
{
    if (f->base) {
        munmap(f->base, f->bytes);
        tx_scratch_close(&f->file);
    }
    *f = (tx_mapped_file){ .base = NULL };
}
