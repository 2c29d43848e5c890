/* huggingface.h - a Hugging Face model folder as named tensors. Knows no model: what the tensors mean, and whether a
 * name has a prefix, is the caller's business.
 *
 *      config.json    and    model.safetensors                             one file, or
 *                            model.safetensors.index.json                  {"weight_map": {tensor: file}} and
 *                            model-00001-of-0000N.safetensors, ...         the files it names
 *
 *  With both, the single file is taken, as Hugging Face's own loader does. Without either pytorch_model.bin or its
 * index (torch/pt.h), whose tensors look the same here. */
#ifndef TX_CHECKPOINT_HUGGINGFACE_H
#define TX_CHECKPOINT_HUGGINGFACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "checkpoint/safetensors.h"
#include "torch/pt.h"

#define TX_HF_CONFIG    "config.json"
#define TX_HF_WEIGHTS   "model.safetensors"
#define TX_HF_INDEX     "model.safetensors.index.json"
#define TX_HF_BIN       "pytorch_model.bin"
#define TX_HF_BIN_INDEX "pytorch_model.bin.index.json"

typedef struct tx_huggingface tx_huggingface;

/* Reads config.json and maps all weight files. Names in the index must be plain file names; a tensor in two files, or
 * not in the file that the index gives, is an error. Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT,
 * TX_ERR_UNSUPPORTED. */
tx_status tx_huggingface_open(tx_huggingface **out, const char *dir);
/* The same, and checksums of .bin files are not compared (torch/pt.h); safetensors have none. */
tx_status tx_huggingface_open_unchecked(tx_huggingface **out, const char *dir);
void tx_huggingface_close(tx_huggingface *hf); /* NULL allowed */

const json_t *tx_huggingface_config(const tx_huggingface *hf); /* borrowed */

/* All tensors, those that the index does not name included, so that a caller can see what it does not know. */
size_t tx_huggingface_count(const tx_huggingface *hf);
const tx_st_tensor *tx_huggingface_at(const tx_huggingface *hf, size_t i);           /* sorted by name */
const tx_st_tensor *tx_huggingface_find(const tx_huggingface *hf, const char *name); /* NULL if there is none */
size_t tx_huggingface_index(const tx_huggingface *hf, const tx_st_tensor *t);        /* tx_huggingface_at gives it */

/* A tensor of a .bin file against its checksum, once: before its numbers are read. */
tx_status tx_huggingface_check(const tx_huggingface *hf, const tx_st_tensor *t);

/* tx_source_type's unchecked and verify, of the .bin files. */
size_t tx_huggingface_unchecked(const tx_huggingface *hf, const tx_pt **first);
tx_status tx_huggingface_verify(const tx_huggingface *hf, uint64_t *bytes, size_t *n_files);

/* A tensor to be written: spec.dtype F16, BF16, F32 or F64, spec.dim as in the file; source is the caller's. */
typedef struct tx_hf_tensor {
    tx_st_spec spec;
    const void *source;
} tx_hf_tensor;

/* Puts a tensor's numbers, row-major as in the file, into x. Called once per tensor, so that only one of them needs to
 * be at hand in the file's layout. */
typedef tx_status tx_hf_fetch(void *user, const tx_hf_tensor *tensor, float *x);

/* The tensors to write. */
typedef struct tx_hf_tensors {
    tx_hf_tensor *tensor; /* sorted in place */
    size_t n;
    tx_hf_fetch *fetch;
    void *user; /* fetch's */
} tx_hf_tensors;

/* Publishes a safetensors file, tensors in the reference writer's order. */
tx_status tx_huggingface_write_tensors(const char *path, const tx_hf_tensors *t);

/* Writes config.json and model.safetensors; with shard_bytes > 0, where the tensors take more, files of at most so many
 * bytes of tensors (or one tensor) and their index. The folder is made if need be. config.json comes last and an old
 * one goes first, so a crash leaves nothing that looks like a model and is not. TX_ERR_ARG when the folder holds a
 * model in the other form, or in more files: what stays would contradict the new files. */
tx_status tx_huggingface_write(const char *dir, const json_t *config, const tx_hf_tensors *t, int64_t shard_bytes);

#endif
