/* zip.h - zip archives of stored entries, as torch.save writes them. Shared inside the room.
 *
 *      | local header | data | descriptor | local header | data | ... | directory | zip64 end | its place | end |
 *                     ^ multiple of 64                                                                          ^
 * file's end
 *
 *  Reading believes nothing: the directory at the end and the headers before the data must say the same, entries lie
 * inside the file and apart from each other, and a name that could be a path out of a folder is refused, though no name
 * is ever used as one. */
#ifndef TX_TORCH_ZIP_H
#define TX_TORCH_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/hash_table.h"

#define TX__ZIP_ALIGN    64
#define TX__ZIP_MAX_NAME 4096 /* bytes */

typedef struct tx__zip_entry {
    const char *name; /* in the file, not ended */
    size_t n_name;
    const unsigned char *data;
    uint64_t size;        /* bytes */
    uint64_t header, end; /* first byte of its local header, first after its data and what belongs to that */
    uint32_t crc;         /* 0: none is stored, or it is empty */
} tx__zip_entry;

typedef struct tx__zip {
    tx__zip_entry *entry; /* in the order of the directory */
    size_t n;
    tx_hash_table by_name;
} tx__zip;

/* Whether a file may be meant as one. */
bool tx__zip_is(const unsigned char *data, size_t size);

/* Checks the whole archive, but no CRC. `data` stays the caller's. Errors name `path`: TX_ERR_FORMAT,
 * TX_ERR_UNSUPPORTED (compressed, encrypted, in parts), TX_ERR_NOMEM. */
tx_status tx__zip_open(tx__zip *z, const char *path, const unsigned char *data, size_t size);
void tx__zip_close(tx__zip *z);

/* The entry folder[n_folder]/name; NULL if there is none. */
const tx__zip_entry *tx__zip_find(const tx__zip *z, const char *folder, size_t n_folder, const char *name);

/* ---- writing: entry after entry into a tx_writer ---- */

typedef struct tx__zip_writer {
    tx_writer *file; /* borrowed */
    tx_str directory;
    uint64_t n;              /* entries */
    uint64_t header, at, to; /* of the entry that is open: its header, its data so far, their end */
    tx_str name;
    uint32_t crc;
    uint64_t all; /* a hash of what is in it */
} tx__zip_writer;

/* An entry of exactly `size` bytes; its data is put in any portions. */
tx_status tx__zip_begin(tx__zip_writer *z, const char *name, uint64_t size);
tx_status tx__zip_put(tx__zip_writer *z, const void *bytes, size_t n);
tx_status tx__zip_end(tx__zip_writer *z);

/* begin, put, end. */
tx_status tx__zip_add(tx__zip_writer *z, const char *name, const void *bytes, size_t n);

/* The directory and what follows it. The file can be committed then. */
tx_status tx__zip_finish(tx__zip_writer *z);
void tx__zip_writer_free(tx__zip_writer *z);

#endif
