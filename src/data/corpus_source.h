/* corpus_source.h - the bytes of a file or of standard input, decompressed if their first bytes say so. */
#ifndef TX_DATA_CORPUS_SOURCE_H
#define TX_DATA_CORPUS_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_text_source tx_text_source;

/* Opens a path, or "-" for standard input. gzip, xz and zstd are known by content, whatever the name. `name` is used in
 * messages and must outlive the source. Errors: TX_ERR_NOTFOUND, TX_ERR_IO. */
tx_status tx__text_source_open(tx_text_source **out, const char *path, const char *name);

/* The next bytes, valid until the next call; *n == 0 at the end. Returns what is there without waiting for more.
 * Errors: TX_ERR_IO, also when a signal ends the wait (base/signals.h); TX_ERR_FORMAT for compressed data that is
 * damaged or cut off. */
tx_status tx__text_source_read(tx_text_source *s, const char **data, size_t *n);

/* Bytes taken from the file so far, before decompression. */
int64_t tx__text_source_taken(const tx_text_source *s);

void tx__text_source_close(tx_text_source *s); /* NULL allowed */

#endif
