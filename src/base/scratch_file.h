/* scratch_file.h - a temporary file for numbers that do not fit in memory. It has its full size from the start, and
 * disappears with its process.
 *
 * The name is removed as soon as the file is open. Even kill -9 therefore leaves nothing, and nobody else can open the
 * file. ls and du do not show it while it is in use; df does, and `lsof +L1` shows whose it is. */
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

/* Creates dir/name with `bytes` > 0 zero bytes, and reserves its disk space. Creates the folder, but not its parents.
 * The name must be unique among the ranks and runs that use the folder.
 * TX_ERR_IO: the folder's parent is missing, it is not a folder or not writable, a file of that name exists, there is
 * too little space (what is needed and what is free; checked before anything is allocated), the file is larger than
 * `ulimit -f` or the file system allows, or the folder is in memory (tmpfs) without in_memory. If the file system
 * cannot reserve space, there was enough when the file was opened, but a write may still fail. */
tx_status tx_scratch_open(tx_scratch_file *out, const char *dir, const char *name, uint64_t bytes, bool in_memory);

void tx_scratch_close(tx_scratch_file *f);

#endif
