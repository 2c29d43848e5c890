/* checkpoint.h - saving and loading a run. Tensors are named and placed in global coordinates, so what one layout wrote
 * another can read; the parameter tables of the ranks say which tensors there are.
 *
 *      DIR/latest                                  "iter_0000010\n", or another name that the user has chosen
 *      DIR/iter_0000010/manifest.json              state, config, tensors, checksums
 *      DIR/iter_0000010/shard_00000.safetensors    fp32: model.<name>, and the optimizer's, such as exp_avg.<name>;
 *                                                  one file for each rank that saves
 *      DIR/iter_0000010/vocab.json, ...            the tokenizer's files
 *
 *  What is saved and read is a list of parts: the model's weights and the optimizer's buffers. Of each part a rank
 * saves the same fragments of its shards: all of them, or with ZeRO those that it keeps. A checkpoint shows neither
 * fragments nor shards.
 *
 *      DIR/latest_checkpointed_iteration.txt       "10": for scripts that ask how far a run is
 *
 *  A checkpoint appears whole or not at all: it is written to DIR/.tmp-iter_0000010-<pid>, fsynced, renamed, and only
 *  then named by `latest`. Two runs that hold the same numbers write the same bytes. One run at a time saves into a
 * DIR. docs/formats/checkpoint.md has the format byte by byte. */
#ifndef TX_CHECKPOINT_CHECKPOINT_H
#define TX_CHECKPOINT_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "comm/comm.h"
#include "kinds/formats.h"
#include "nn/param.h"

/* What a checkpoint keeps of a tokenizer. */
enum { TX_CKPT_MAX_FILES = 2 };

typedef struct tx_ckpt_file {
    const char *name; /* one of tx_tokenizer_file_name */
    tx_str text;      /* owned */
} tx_ckpt_file;

typedef struct tx_ckpt_tokenizer {
    char type[40], hash[33]; /* --tokenizer-type; tx_tokenizer_hash. "": there is none */
    int64_t vocab_size;
    tx_ckpt_file file[TX_CKPT_MAX_FILES];
    int n_files;
} tx_ckpt_tokenizer;

void tx_ckpt_tokenizer_free(tx_ckpt_tokenizer *t); /* back to empty; a zeroed one is fine */

/* Publishes its files in `folder`, which is there. */
tx_status tx_ckpt_tokenizer_write(const tx_ckpt_tokenizer *t, const char *folder);

/* Where a run stands. All counts are >= 0. */
typedef struct tx_ckpt_state {
    int64_t iteration; /* steps done, skipped ones included */
    int64_t consumed_train_samples, consumed_valid_samples;
    int64_t consumed_train_tokens;
    int64_t schedule_samples;                        /* samples that the learning rate's schedule has counted */
    int64_t schedule_tokens, schedule_warmup_tokens; /* optim/schedule.h */
    int64_t optim_step;                              /* steps the optimizer has taken: Adam's t */
    int64_t skipped;                                 /* steps not taken because a gradient was not finite */
    int64_t vocab_size;                              /* of the tokenizer, without padding; 0: not known */
    uint64_t seed;
    const char
        *tag; /* saving: the folder's name if the user chose one (tx_checkpoint_check_tag); NULL: iter_<iteration> */
    const tx_ckpt_tokenizer *tokenizer; /* saving: goes along, and stays as it is until then; NULL: none does */
} tx_ckpt_state;

#define TX_PRODUCTS_FILE "gpu_products.txt" /* a run's, next to its checkpoints (train/products.h) */

#define TX_CKPT_MODEL "model" /* the part that is the model's weights */

/* Parts whose names begin so ("server_error", "worker_error_3" with a rank behind it) are no optimizer's state, but
 * what a rank has of its own, such as what compressed sums have left out: a run may go on without them. */
#define TX_CKPT_SERVER "server_"
#define TX_CKPT_WORKER "worker_"

enum {
    TX_CKPT_MAX_PARTS = 54 /* the weights, four of an optimizer, 3 of each of 16 ranks, and one (zero/compressed.h) */,
    TX_CKPT_WINDOW = 1 << 20
};

#define TX_CKPT_SPARE ((uint64_t)1 << 20) /* bytes of a disk that a save leaves free, for folders and records */

/* A window of a fragment: TX_CKPT_WINDOW elements, or what is left of the fragment, from fragment->first or a multiple
 * of TX_CKPT_WINDOW after it on. */
typedef struct tx_ckpt_window {
    int part; /* its place in the list of parts */
    const tx_fragment *fragment;
    int64_t first, n; /* elements [first, first + n) of the shard */
    float *buf;       /* [n] */
} tx_ckpt_window;

/* Numbers that are not in memory: copies a window's from where they are into its buffer, or with `store` from there
 * back. Windows come in ascending order. When saving, they come twice for a shard of two pieces side by side, and those
 * that hold only padding do not come. */
typedef tx_status tx_ckpt_move(void *user, const tx_ckpt_window *w, bool store);

/* The weights or one of the optimizer's buffers; its tensors are called <name>.<parameter>. */
typedef struct tx_ckpt_part {
    const char *name; /* TX_CKPT_MODEL, "exp_avg" */
    float *flat;      /* NULL: `move` has the numbers */
    bool whole; /* flat has ps->numel elements, at the table's offsets; else kept->numel, at the fragments' `at` */
    tx_ckpt_move *move;
    void *user;            /* move's */
    const tx_params *rows; /* the tensors that it has, and the fragments of them; NULL: those of the whole list */
    const tx_fragments *kept;
} tx_ckpt_part;

/* What a folder holds: of each format the number that enum tx_checkpoint_format has. */
typedef enum tx_ckpt_kind {
    TX_CKPT_UNKNOWN = -1,
    TX_CKPT_NONE = 0,
#define TX_CKPT_KIND(constant, word, kind, ...) kind = constant,
    TX_FORMATS(TX_CKPT_KIND)
} tx_ckpt_kind;

/* ---- saving ---- */

/* What to save. */
typedef struct tx_ckpt_save_args {
    const char *dir;
    const tx_ckpt_state *state;
    const json_t *config; /* any object: saved as it is, so it must not hold times, paths or host names */
    const tx_params *ps;
    const tx_fragments *kept; /* NULL: every row whole */
    const tx_ckpt_part *part;
    int n_parts;
    tx_comm *group;
} tx_ckpt_save_args;

/* Writes DIR/iter_<iteration> and points DIR/latest to it; DIR is made if need be. Of each part the fragments in `kept`
 * are saved, which do not overlap; rows that pad the vocabulary are not. An existing iter_<iteration> is
 * replaced; until the new one is complete the old one stays as it is. Temporaries that a dead process left in DIR are
 * removed first. On failure DIR holds what it held before.
 *  Collective over `group`: ranks that keep the model together, everything once. Without fragments these are one of
 * each kind (tensor x pipeline, not data); with them the data-parallel ranks belong to it too. Each writes a shard, of
 * its counted parameters, rank 0 all else, and an error on one is an error on all (tx_comm_agree). State and config are
 * rank 0's; parts have the same names on all. DIR is a folder that all of them see.
 *  Errors: TX_ERR_ARG, TX_ERR_IO (names the file and the reason; too little space is found before writing),
 * TX_ERR_COMM, TX_ERR_FORMAT (ranks keep something twice or not at all), those of `move`. */
tx_status tx_checkpoint_save(const tx_ckpt_save_args *a);

/* The same in three steps, so that the second can overlap with other work:
 *
 *      begin    collective      too little space is found; the temporary folder
 *      write    of each rank    its shard, fsynced: what takes the time. No collective call, and in any thread
 *      finish   collective      the manifest of all shards, the names; after the write of every rank
 *
 *  begin returns a handle on success, which finish or abandon frees. dir, state, config and the list of parts are
 * copied; ps, kept, group and the numbers must not change until then. finish reports how write went. abandon is not
 * collective: for a rank whose job ends. Within a process a DIR has one such handle of a rank at a time. */
typedef struct tx_ckpt_save tx_ckpt_save;
tx_status tx_checkpoint_save_begin(tx_ckpt_save **out, const tx_ckpt_save_args *a);
void tx_checkpoint_save_write(tx_ckpt_save *s);
tx_status tx_checkpoint_save_finish(tx_ckpt_save *s);
void tx_checkpoint_save_abandon(tx_ckpt_save *s);

/* Copies what is saved of the parts into `to`, so that copy[0 .. n_parts), parts as the others and of the same `kept`,
 * can be saved while these change. Numbers that are not in memory are fetched.   @to [tx_checkpoint_copy_numel]
 * Errors: those of `move`. */
tx_status tx_checkpoint_copy(tx_ckpt_part *copy, float *to, const tx_params *ps, const tx_fragments *kept,
                             const tx_ckpt_part *part, int n_parts);
int64_t tx_checkpoint_copy_numel(const tx_params *ps, const tx_fragments *kept, const tx_ckpt_part *part, int n_parts);

/* Removes what saves of processes that have ended left in DIR unfinished, as every save does before it begins, and has
 * Megatron's tracker say what `latest` says; one rank's. */
tx_status tx_checkpoint_clean_up(const char *dir);

/* Gives TMP, a finished folder inside DIR, the name NAME there, durably. What had the name before lies in TMP
 * afterwards, or is set aside, and is the caller's to remove or tx_checkpoint_clean_up's. */
tx_status tx_checkpoint_swap_in(const char *dir, const char *tmp, const char *name);

/* The checkpoints of a run lie in DIR as iter_NNNNNNN or, of DeepSpeed's kind, as global_stepN. Those that follow take
 * which kind it is: native, Megatron's or DeepSpeed's; folders of that name that hold another are left alone. */

/* After a save of `iteration` into DIR: removes the checkpoints before it but the keep - 1 newest, the one that
 * `latest` names, and `spare` (a path, or NULL). Later iterations are another run's and stay. A crash leaves
 * whole checkpoints and temporaries. Not collective: one rank's. TX_ERR_IO: the rest of them is still there. */
tx_status tx_checkpoint_prune(const char *dir, tx_ckpt_kind kind, int64_t iteration, int64_t keep, const char *spare);

/* The same for another run's, which the one that has saved `iteration` replaces: removes all other iterations but
 * `spare`. */
tx_status tx_checkpoint_remove_others(const char *dir, tx_ckpt_kind kind, int64_t iteration, const char *spare);

/* The highest iteration in DIR that is there, whatever `latest` says; -1: there is none. */
tx_status tx_checkpoint_newest(const char *dir, tx_ckpt_kind kind, int64_t *iteration);

/* Space, before there is anything to save: the elements that this rank saves of a table's rows, and of all parts; how
 * many checkpoints `n_saves` saves add at most at any time to those in the folder, of which --keep-last (0: keeps all)
 * may remove `there`; how many that is: those before `iteration` without `spare`; and the bytes that are free for DIR,
 * which exists.
 */
int64_t tx_checkpoint_numel(const tx_params *ps, const tx_fragments *kept);
int64_t tx_checkpoint_parts_numel(const tx_params *ps, const tx_fragments *kept, const tx_ckpt_part *part, int n_parts);
int64_t tx_checkpoint_more(int64_t n_saves, int64_t keep_last, int64_t there);
tx_status tx_checkpoint_count(const char *dir, tx_ckpt_kind kind, int64_t iteration, const char *spare, int64_t *n);
tx_status tx_checkpoint_free_space(const char *dir, uint64_t *bytes);

/* "DIR/iter_0000010", "DIR/global_step10" or DIR/<tag>, where that saves; TX_ERR_ARG when it does not fit. */
tx_status tx_checkpoint_path_of(char *buf, size_t cap, const char *dir, tx_ckpt_kind kind, int64_t iteration,
                                const char *tag);

/* TX_ERR_ARG unless it can be a checkpoint's name: letters, digits, '_', '-', '.' and '=', and nothing that a run's own
 * or another program's checkpoint is recognised by. */
tx_status tx_checkpoint_check_tag(const char *tag);

/* ---- recognising ---- */

/* What a folder holds, from its file names alone; `detail` (cap bytes) gets a sentence for the log.
 * TX_CKPT_NONE: the folder is missing, empty, or holds nothing but unfinished temporaries and a
 * run's records (metrics.jsonl, replay files).  TX_CKPT_UNKNOWN: it holds other files, but no checkpoint.
 * TX_ERR_FORMAT: a checkpoint that is broken (`latest` names nothing). TX_ERR_IO. */
tx_status tx_checkpoint_probe(const char *dir, tx_ckpt_kind *out, char *detail, size_t cap);

/* Whether DIR has an iter_ folder with a manifest, whatever `latest` says and other files are. */
bool tx_checkpoint_is_any_in(const char *dir);

/* ---- loading ---- */

typedef struct tx_checkpoint tx_checkpoint;

/* Opens the checkpoint that DIR/latest names, or DIR itself when it holds a manifest.json. Without `latest` the newest
 * iter_ folder is taken, with a warning. The manifest and every byte of every shard are verified against their
 * checksums. Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT (names file and block).
 *  Collective over `group`, any ranks that load the same checkpoint: rank 0 says which folder it is and each verifies a
 * part of the bytes; all succeed or all fail. The checkpoint keeps the group, which outlives it. */
tx_status tx_checkpoint_open(tx_checkpoint **out, const char *dir, tx_comm *group);

/* The same, but when that one is damaged, or `latest` names none, takes the newest other iter_ folder of DIR that is
 * whole, with a warning for each that is not. The error is the first one's when none is. */
tx_status tx_checkpoint_open_newest_good(tx_checkpoint **out, const char *dir, tx_comm *group);

/* The same of one that this job itself has just written: nothing is compared, and each rank may open it alone. */
tx_status tx_checkpoint_open_just_written(tx_checkpoint **out, const char *dir);

/* Of DIR, whose checkpoint cannot be opened: the folder that tx_checkpoint_open_newest_good would turn to, as far as
 * can be told without comparing its bytes. false: none. For a hint; the last error is lost. */
bool tx_checkpoint_other(char *path, size_t cap, const char *dir);

/* ---- inspecting ---- */

/* The manifest alone: quick, and no shard need be there. For one rank; nothing can be read from it. */
tx_status tx_checkpoint_open_manifest(tx_checkpoint **out, const char *dir);

/* Compares every byte of all shards with the checksums, and all their tensors with the manifest. What is wrong is
 * reported line by line, and does not end the comparison: each bad block with its bytes and the tensors that lie there.
 * No more of a shard is in memory at a time than some blocks. TX_ERR_FORMAT: how many are bad, and the first shard that
 * is; errors of tell. */
typedef tx_status tx_ckpt_tell(void *user, const char *line);
tx_status tx_checkpoint_verify(const tx_checkpoint *c, tx_ckpt_tell *tell, void *user);

/* The same without reading them: whether each file is there, as long as the manifest says. */
tx_status tx_checkpoint_verify_sizes(const tx_checkpoint *c, tx_ckpt_tell *tell, void *user);

/* ---- reading ---- */

void tx_checkpoint_close(tx_checkpoint *c); /* NULL allowed. Not collective */

const char *tx_checkpoint_path(const tx_checkpoint *c); /* the iter_ folder */
const tx_ckpt_state *tx_checkpoint_state(const tx_checkpoint *c);
const json_t *tx_checkpoint_config(const tx_checkpoint *c);   /* borrowed */
const json_t *tx_checkpoint_manifest(const tx_checkpoint *c); /* all of it, for inspection; borrowed */

/* The tokenizer that was saved along; empty where there is none. With `with_files` each of them is compared with its
 * checksum, lies at tx_checkpoint_path/name, and out has its bytes. *out is freed with tx_ckpt_tokenizer_free.
 * Errors: TX_ERR_FORMAT (damaged: names the file), TX_ERR_IO, TX_ERR_NOTFOUND, TX_ERR_NOMEM. Not collective. */
tx_status tx_checkpoint_tokenizer(const tx_checkpoint *c, bool with_files, tx_ckpt_tokenizer *out);

/* Fills the fragments in `kept` (NULL: every row whole) of the parts with what was saved and padding rows with zero.
 * The list has the weights alone, or all of an optimizer's state. Only the bytes that the fragments need are touched.
 * Collective over the group that c was opened with: together its ranks' tables have the whole model, some of it perhaps
 * several times. That and the checkpoint must hold the same tensors in the same shapes: a rank lists all differences of
 * its own tensors, and those that no rank has, in one TX_ERR_SHAPE; ranks without any fail with TX_ERR_COMM and the
 * first such list. TX_ERR_NOTFOUND: there is no optimizer state, or another optimizer's, of which the list may have a
 * part. Nothing is written on failure, on any rank, but when it is a `move` that fails. */
tx_status tx_checkpoint_read(const tx_checkpoint *c, const tx_params *ps, const tx_fragments *kept,
                             const tx_ckpt_part *part, int n_parts);

/* Whether it has a part of that name, such as "exp_avg". */
bool tx_checkpoint_has(const tx_checkpoint *c, const char *part);

/* The tensor that a part has for parameter p, as one rank has all of it. false: it has none. */
bool tx_checkpoint_tensor(const tx_checkpoint *c, const char *part, const tx_param *p, tx_param *tensor);

/* A parameter of a part, all of it, whichever shard p is; padding rows are zeroed. Not collective. TX_ERR_SHAPE: it is
 * not there, or in another shape.   @whole [p->whole] */
tx_status tx_checkpoint_read_whole(const tx_checkpoint *c, const char *part, const tx_param *p, float *whole);

#endif
