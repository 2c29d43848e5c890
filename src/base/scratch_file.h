/* scratch_file.h - a file of one process for numbers that do not fit into memory: allocated at its full
 * size, and gone when the process ends, however it ends.
 *
 *  The file is unlinked as soon as it is open. So kill -9 leaves nothing, and no other process can open it by name; but
 *  ls and du do not show it while it is in use: df does, and `lsof +L1` shows which process has it. */
#ifndef TX_BASE_SCRATCH_FILE_H
#define TX_BASE_SCRATCH_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The alignment that O_DIRECT requires of addresses, offsets and sizes on any disk. */
#define TX_DISK_BLOCK 4096

typedef struct tx_scratch_file {
    int fd;
    bool direct; /* O_DIRECT: the kernel keeps no copy in memory */
} tx_scratch_file;

/* Makes dir/name, `bytes` > 0 large and all zeros, and takes its space on the disk. The folder is made where only it is
 * missing, not its parents. The name must differ among the ranks and runs that use one folder.
 * TX_ERR_IO: no such folder, not a folder, not to be written, a file of that name, not enough space (the sentence has
 * what is needed and what is free; checked before anything is written), a larger file than `ulimit -f` or the file
 * system allows; a folder in memory (tmpfs) unless in_memory. Where the file system cannot reserve space, there was as
 * much as needed when it was opened, and a write may still fail. */
tx_status tx_scratch_open(tx_scratch_file *out, const char *dir, const char *name, uint64_t bytes, bool in_memory);

void tx_scratch_close(tx_scratch_file *f);

#endif
