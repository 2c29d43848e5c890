/* manifest.h - manifest.json of a native checkpoint: what is saved, where it lies and what its bytes hash to.
 * Shared inside the checkpoint room; docs/formats/checkpoint.md has the format. */
#ifndef TX_CHECKPOINT_MANIFEST_H
#define TX_CHECKPOINT_MANIFEST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

#define TX__MANIFEST_FILE   "manifest.json"
#define TX__MANIFEST_FORMAT "triax checkpoint 1"
#define TX__MANIFEST_MAX    ((size_t)1 << 30) /* bytes */
#define TX__BLOCK_BYTES     (1 << 20)         /* bytes of a shard per checksum */
#define TX__MAX_PIECES      (1 << 20)         /* of one tensor */

/* A tensor's name is the part's, such as TX_CKPT_MODEL, a dot, and the parameter's. In a key the start of its
 * box may follow. */
#define TX__NAME_CAP (TX_PARAM_NAME_MAX + 24)
#define TX__KEY_CAP  (TX__NAME_CAP + 40)

/* ---- checksums of a file that is being written ---- */

typedef struct tx__blocks tx__blocks;

tx_status tx__blocks_create(tx__blocks **out);
void tx__blocks_update(void *blocks, const void *bytes, size_t n); /* a tx_st_tap */
void tx__blocks_destroy(tx__blocks *b);                            /* NULL allowed */

/* ---- writing ---- */

/* A manifest under construction: a JSON object without its hash. json_decref. NULL: out of memory. */
json_t *tx__manifest_begin(const tx_ckpt_state *state, const json_t *config);

/* Adds a shard file (all its bytes have been through the blocks). */
tx_status tx__manifest_add_shard(json_t *m, const char *file, tx__blocks *b);

/* Adds piece p of tensor s, whose other pieces may come from elsewhere: p->shard and s->piece are not looked at. */
tx_status tx__manifest_add_piece(json_t *m, const tx__saved *s, const tx__saved_piece *p, const char *file);

/* Puts the tokenizer (NULL: none, whatever is there) into the manifest's config. */
tx_status tx__manifest_set_tokenizer(json_t *m, const tx_ckpt_tokenizer *t);

/* One rank's part of a manifest, to be added to: an object that has only shards and tensors. NULL: out of
 * memory. */
json_t *tx__manifest_part(void);

/* Puts a rank's part, a JSON text, into the manifest. The pieces of a tensor are in the order of these calls. */
tx_status tx__manifest_merge(json_t *m, const char *text, size_t n);

/* The manifest's text with its hash, appended to an empty *out. */
tx_status tx__manifest_text(const json_t *m, tx_str *out);

/* ---- reading ---- */

typedef struct tx__shard_file {
    const char *file; /* a plain name inside the folder */
    uint64_t bytes;
    const json_t *block; /* array of 16 hex digits */
} tx__shard_file;

typedef struct tx__manifest {
    json_t *root; /* owns all texts */
    tx_ckpt_state state;
    const json_t *config;
    tx__shard_file *shard; /* sorted by file name */
    size_t n_shards;
    tx__saved *saved; /* sorted by name */
    size_t n_saved;
} tx__manifest;

/* Reads a manifest and checks its hash and every field: pieces lie inside their tensors, do not overlap and cover them.
 */
tx_status tx__manifest_read(tx__manifest *m, const char *path);
void tx__manifest_deinit(tx__manifest *m);

const tx__saved *tx__manifest_find(const tx__manifest *m, const char *name); /* NULL if there is none */

/* Blocks of a shard. */
int64_t tx__shard_blocks(const tx__shard_file *s);

/* Bytes [first, end) of the file that block i has, and whether they match; those must be in the map. */
void tx__block_bytes(const tx__shard_file *s, int64_t i, uint64_t *first, uint64_t *end);
bool tx__block_is_good(const tx__shard_file *s, const tx_map *map, int64_t i);

/* Whether the file that a piece lies in holds it as the manifest says. */
bool tx__piece_is_in(const tx_safetensors *f, const tx__saved *s, const tx__saved_piece *p);

/* Of an open checkpoint. */
const tx__manifest *tx__checkpoint_fields(const tx_checkpoint *c);

/* The tokenizer's files: whether each is there and as long as the manifest says, and with `read` its checksum. What is
 * wrong is reported, and counted. */
tx_status tx__tokenizer_verify(const tx_checkpoint *c, bool read, tx_ckpt_tell *tell, void *user, size_t *n_bad);

/* Compares blocks [first, end) of a shard with their checksums, on all threads, and the file's length. The error names
 * the file and the block. */
tx_status tx__shard_verify(const tx__shard_file *s, const char *path, const tx_map *map, int64_t first, int64_t end);

#endif
