/* pt.h - files of torch.save: a pickle and the storages of its tensors, in a zip archive or one after the other as
 * before PyTorch 1.6.
 *
 *      name/data.pkl            the pickle; tensors refer to storages by a key
 *      name/byteorder           "little"
 *      name/data/0, 1, ...      storages, each entry's data on a multiple of 64, stored without compression
 *      name/version             "3\n"
 *
 *  A .pt file is a program for Python's unpickler. Here it is data: the opcodes that build values are followed, those
 * that call something make a value that says what would have been called (py.h), and only for the names in a list;
 * any other is refused. Nothing is allocated by a size that the file only claims, no name inside an archive is ever a
 * path, and values do not nest deeper than TX_PT_MAX_DEPTH. */
#ifndef TX_TORCH_PT_H
#define TX_TORCH_PT_H

#include <stdint.h>

#include "base/status.h"
#include "torch/py.h"

#define TX_PT_MAX_DEPTH  128
#define TX_PT_MAX_PICKLE ((size_t)1 << 28) /* bytes of data.pkl */
#define TX_PT_MAX_VALUES ((size_t)1 << 24) /* of one file */
#define TX_PT_MAX_REPEAT (1 << 20)         /* elements of a tensor that has more than its storage: strides of 0 */

/* ---- reading ---- */

typedef struct tx_pt tx_pt;

/* Maps and checks a file; both containers. Errors name the file and the place: TX_ERR_NOTFOUND, TX_ERR_IO,
 * TX_ERR_FORMAT (damaged, or built to harm), TX_ERR_UNSUPPORTED (a name outside the list, big-endian, a compressed
 * entry), TX_ERR_NOMEM.
 *
 * Of an archive the entries are compared with their CRC-32: the pickle here, a storage before the first of its numbers
 * is given, once, by all threads. So a file that was damaged is an error, or its damage is in a part that is not read.
 * A file is one thread's at a time. */
tx_status tx_pt_open(tx_pt **out, const char *path);
/* The same without comparing. */
tx_status tx_pt_open_unchecked(tx_pt **out, const char *path);
/* The archive in bytes [at, at + size) of a file, as torch.distributed.checkpoint puts several into one. */
tx_status tx_pt_open_part(tx_pt **out, const char *path, uint64_t at, uint64_t size, bool checked);
/* A pickle by itself, which has no tensors. */
tx_status tx_pt_open_pickle(tx_pt **out, const char *path);
void tx_pt_close(tx_pt *f); /* NULL allowed */

const char *tx_pt_path(const tx_pt *f);
const tx_py *tx_pt_root(const tx_pt *f);

/* Elements [first, first + n) of a tensor in row-major order, whatever its strides, as float32; F64 that is too large
 * for float32 is TX_ERR_NUMERIC, other dtypes than floats TX_ERR_FORMAT. */
tx_status tx_pt_read_f32(const tx_pt *f, const tx_pt_tensor *t, int64_t first, int64_t n, float *dst);

int64_t tx_pt_numel(const tx_pt_tensor *t);

/* Gives the memory that reading took back to the system: the file's pages are read again when they are needed. */
void tx_pt_forget(const tx_pt *f);

/* Compares what a tensor lies in, as reading it does: for callers that look at storage->data themselves. */
tx_status tx_pt_check(const tx_pt *f, const tx_pt_tensor *t);

/* Compares every CRC-32 that is stored; TX_ERR_FORMAT names the entry. *bytes, or NULL: those that were compared are
 * added to it. */
tx_status tx_pt_verify(const tx_pt *f, uint64_t *bytes);

/* What cannot be compared, as the end of a sentence about the file ("has no checksums ..."); NULL: nothing. The older
 * container has none, and torch has a setting to store none. */
const char *tx_pt_unchecked(const tx_pt *f);

/* ---- writing ---- */

/* Elements [first, first + n) of a storage as float32 (its dtype a float's) or int64 (else) into buf. Asked for once
 * each, in ascending order, storage after storage, at most TX_PT_CHUNK at a time. */
enum { TX_PT_CHUNK = 1 << 18 };
typedef tx_status tx_pt_fetch(void *user, const tx_pt_storage *s, int64_t first, int64_t n, void *buf);

/* Publishes a file that torch.load reads (zip container, protocol 2; with weights_only=True as far as the values allow
 * that). Numbers are rounded to the storage's dtype; TX_ERR_NUMERIC when a finite one would become infinite, or an
 * integer does not fit. Storages that were read from a file are copied from there, unconverted; fetch and user may be
 * NULL if there are no others. TX_ERR_ARG: values nest too deep, a global's name is none. @root NULL: TX_ERR_NOMEM. */
tx_status tx_pt_write(const char *path, const tx_py *root, tx_pt_fetch *fetch, void *user);

#endif
