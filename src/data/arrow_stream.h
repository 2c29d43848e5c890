/* arrow_stream.h - rows of an Arrow IPC file as JSON lines: what Hugging Face's datasets saves (save_to_disk), the
 * stream format, and the file format around it (.arrow, Feather version 2).
 *
 *      | FF FF FF FF | size | Message: Schema      |
 *      | FF FF FF FF | size | Message: RecordBatch | body: buffers of the columns |   ...   | FF FF FF FF | 0 |
 *
 *  Messages are flatbuffers, read by hand. The file is data of strangers: every offset is checked before it is
 * followed. A row becomes an object with a member for each column that JSON has a word for: strings, whole numbers,
 * floating point, booleans, lists and structs of these; columns of other types are left out. Compressed batches,
 * dictionaries and big-endian files are refused. Source: arrow.apache.org, "Arrow Columnar Format", version 1.5;
 * flatbuffers' internals page. */
#ifndef TX_DATA_ARROW_STREAM_H
#define TX_DATA_ARROW_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct tx_arrow tx_arrow;

/* Whether a file that begins so is meant as one. */
bool tx__arrow_is(const char *head, size_t n);

/* Maps a file and reads its schema. Errors: TX_ERR_IO; TX_ERR_FORMAT, TX_ERR_UNSUPPORTED name the file. */
tx_status tx__arrow_open(tx_arrow **out, const char *path);

/* Appends the next row as a line of JSON, without its end; *more = false after the last. Errors as open's. */
tx_status tx__arrow_next(tx_arrow *a, tx_str *line, bool *more);

/* The rest of a batch without its rows: *n of them; *more = false after the last batch. */
tx_status tx__arrow_skip(tx_arrow *a, int64_t *n, bool *more);

/* Appends "name": type of column i, of those that are in no other one; false: there are fewer, or memory is short. */
bool tx__arrow_column(const tx_arrow *a, int i, tx_str *out);

/* Bytes of the file up to the end of the batch that the last row was of. */
int64_t tx__arrow_taken(const tx_arrow *a);

void tx__arrow_close(tx_arrow *a); /* NULL allowed */

#endif
