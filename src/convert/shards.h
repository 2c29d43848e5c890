/* shards.h - the tensors that upstream's .pt files of many ranks hold, as places to read from: which file has which
 * elements of a rank's shard of a parameter. Shared by the readers of Megatron's and DeepSpeed's
 * folders.
 *
 *      encoder.layers.0.mlp.dense_h_to_4h.weight   part 0   tensor rank 1   [128, 64]
 *
 *          elements    0 ................. 5000 ............. 8192       of the shard, row-major
 *          segments    | zero_pp_rank_0 ... | zero_pp_rank_1 .. |        element `first` of tensors in files */
#ifndef TX_CONVERT_SHARDS_H
#define TX_CONVERT_SHARDS_H

#include "base/hash_table.h"
#include "convert/source.h"
#include "torch/pt.h"

typedef struct tx__segment {
    const tx_pt *file;
    const tx_pt_tensor *tensor; /* borrowed from file */
    int64_t first, n;           /* its elements */
} tx__segment;

typedef struct tx__shard_of {
    char name[TX_PARAM_NAME_MAX]; /* ours */
    int part, tp_rank;
    int n_dims; /* of the shard */
    int64_t dim[2];
    size_t segment; /* first of tx__shards.segment */
    int n_segments;
    bool is_number; /* of the tensor; it has no segments */
    double number;
} tx__shard_of;

typedef struct tx__shards {
    tx_pt **file; /* owned */
    size_t n_files, files_cap;
    tx__shard_of *shard; /* sorted by name, part and rank after tx__shards_sort */
    size_t n, cap;
    tx_hash_table by_name; /* of shard, until they are sorted */
    tx__segment *segment;
    size_t n_segments, segments_cap;
    bool unverified; /* files are opened without their checksums; set before the first */
    int n_tp;
    int qkv_version; /* checkpoint_version: order of rows of query_key_value; 0, 1 or 3 */
    bool split_positions;
    bool whole_experts; /* experts are not split over tensor ranks: they are there as rank 0's */
    int64_t n_layers;   /* encoder.layers.[0, n_layers) */
} tx__shards;

/* src->path where no file says which folder is meant: the newest of that kind in src->folder, with a warning, since a
 * crash or a copy has left the file out; else src->folder itself. */
tx_status tx__take_newest(tx_source *src, tx_ckpt_kind kind, const char *tracker);

/* src->path: the folder that the file `tracker` of src->folder names; where there is no such file, of DeepSpeed's kind
 * tx__take_newest, else the folder itself. TX_ERR_FORMAT: it names none; TX_ERR_NOTFOUND: it is not there. */
tx_status tx__follow_tracker(tx_source *src, const char *tracker);

/* src->path: the folder of the iteration that Megatron's tracker names; where there is none, tx__take_newest of the
 * kind.
 */
tx_status tx__follow_iteration(tx_source *src, tx_ckpt_kind kind);

/* Opens a file, which the list closes. */
tx_status tx__shards_open(tx__shards *s, const char *path, const tx_pt **out);
void tx__shards_deinit(tx__shards *s);

/* Which shard. */
typedef struct tx__shard_key {
    const char *name; /* ours */
    int part, tp_rank;
} tx__shard_key;

/* Adds a shard without segments, and to the last one a segment. A shard of that key that is there already wins over a
 * later one: tx__shards_add then sets *added to false, and nothing must be added to it. */
tx_status tx__shards_add(tx__shards *s, const tx__shard_key *key, int n_dims, const int64_t *dim, bool *added);
tx_status tx__shards_add_segment(tx__shards *s, const tx_pt *file, const tx_pt_tensor *t, int64_t first, int64_t n);

/* A tensor that is a shard: both in one. */
tx_status tx__shards_add_tensor(tx__shards *s, const tx__shard_key *key, const tx_pt *file, const tx_pt_tensor *t);

/* A number that a rank has of its shard. */
tx_status tx__shards_add_number(tx__shards *s, const tx__shard_key *key, double number);

/* Elements [at, at + n) of what several tensors hold one after the other, as segments of the last shard. */
typedef struct tx__segments {
    const tx__segment *run;
    size_t n;
} tx__segments;
tx_status tx__shards_add_flat(tx__shards *s, const tx__segments *flat, int64_t at, int64_t n);

/* After the last one was added; every segment's elements are as many as its shard's. */
tx_status tx__shards_sort(tx__shards *s, const char *path);

const tx__shard_of *tx__shards_find(const tx__shards *s, const char *name, int part, int tp_rank);

/* Whose parameters they are, as --model-type has it. */
const char *tx__shards_model(const tx__shards *s);

/* Members of a tx_source_type whose sources' impl begins with a tx__shards. */
tx_status tx__shards_check(tx_source *src, const tx_model *m);
tx_status tx__shards_read(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole);
unsigned tx__shards_change(const tx_source *src, const tx_model *m, const tx_param *p);
void tx__shards_set_version(tx_source *src, int version);
size_t tx__shards_unchecked(const tx_source *src, const tx_pt **first);
tx_status tx__shards_verify(const tx_source *src, uint64_t *bytes, size_t *n_files);

#endif
