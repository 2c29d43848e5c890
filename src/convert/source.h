/* source.h - reads a checkpoint in any of the formats that triax knows. Whatever the format, a source has the
 * parameters of triax's table, each of them whole, in triax's order of rows, as float32.
 *
 *      format        folder                                              what is in it
 *      native        latest + iter_NNNNNNN/manifest.json                 weights, Adam's moments, the run's state
 *      huggingface   config.json + safetensors, pytorch_model.bin        weights
 *      megatron      iter_NNNNNNN/mp_rank_TT[_PPP]/model_optim_rng.pt    as native
 *      deepspeed     global_stepN/mp_rank_*, layer_*, *zero_pp_rank_*    as native
 *      universal     .../zero/PARAMETER/fp32.pt, exp_avg.pt, ...         as native
 *
 *  A format is a row of kinds/formats.h, which names its tx_source_type; hardly anything asks which one it is. Each
 * rank of a run reads what it needs by itself. */
#ifndef TX_CONVERT_SOURCE_H
#define TX_CONVERT_SOURCE_H

#include <jansson.h>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "model/model.h"
#include "torch/pt.h"

/* What a conversion does to a tensor; for its report. */
typedef enum tx_tensor_change {
    TX_CHANGE_NONE = 0,
    TX_CHANGE_TRANSPOSED = 1,
    TX_CHANGE_REORDERED = 2, /* rows: of queries, keys and values */
    TX_CHANGE_PADDED = 4,    /* rows of the vocabulary: they are zero */
    TX_CHANGE_CUT = 8,       /* rows of the vocabulary: padding is left out */
    TX_CHANGE_SPLIT = 16,    /* one there, several here, or pieces of ranks */
    TX_CHANGE_MERGED = 32,
    TX_CHANGE_SUMMED = 64 /* positions, and what the only kind of segment adds */
} tx_tensor_change;

/* Reports a tensor of the source that no parameter comes from. */
typedef tx_status tx_dropped_fn(void *user, const char *name, const char *reason);

struct tx_source;
typedef struct tx_source_type {
    enum tx_checkpoint_format format; /* of kinds/formats.h; the same number as tx_checkpoint_probe's */
    const char *title;                /* "Hugging Face model" */
    bool resumes;                     /* it has a run's state, not weights alone */
    /* Opens src->folder: fills path, impl, state, part, vocab_size, run. close takes what a failed one left. */
    tx_status (*open)(struct tx_source *src);
    void (*close)(struct tx_source *src);
    /* Options of tx_config_from_json. `all` has every option that a checkpoint keeps, with its default. */
    tx_status (*options)(struct tx_source *src, const json_t *all, json_t **out);
    /* Once for a model, before reads: every tensor of its table is there in its shape, and no unknown one.
     * Collective over src->group where `m` is a rank's. NULL: reading finds out. */
    tx_status (*check)(struct tx_source *src, const tx_model *m);
    /* A parameter, whole, of part src->part[part]; padding is zeroed. What it goes through is an or of
     * tx_tensor_change.   @whole [p->whole] */
    tx_status (*read)(struct tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole);
    unsigned (*change)(const struct tx_source *src, const tx_model *m, const tx_param *p); /* NULL: copied */
    void (*set_version)(struct tx_source *src, int version);                               /* or NULL */
    tx_status (*dropped)(const struct tx_source *src, const tx_model *m, tx_dropped_fn *tell, void *user); /* or NULL */
    /* Of types that may be made of .pt files: how many of them have no checksum of something, and the first of these;
     * and all that have one against it: how many bytes of how many files. */
    size_t (*unchecked)(const struct tx_source *src, const tx_pt **first);
    tx_status (*verify)(const struct tx_source *src, uint64_t *bytes, size_t *n_files);
} tx_source_type;

/* Of each row: tx_source_native, ... */
#define TX_SOURCE_DECLARE(constant, word, kind, what, sign, source, sink) extern const tx_source_type source;
TX_FORMATS(TX_SOURCE_DECLARE)

#define TX_CLIENT_MODEL "client_model" /* in a native checkpoint's config: the name of a user-defined model */

typedef struct tx_source {
    const tx_source_type *type; /* NULL: fresh weights */
    const char *dir;            /* as it was given; borrowed */
    char folder[4096];          /* of it what is opened: dir itself, or with --load-tag one inside */
    bool newest_good;           /* --load-latest-good */
    bool unverified;            /* --no-verify-load: checksums of .pt files are not compared */
    bool just_written;          /* by this job: no checksums are */
    const char *base;           /* --lora-base: the model that an adapter is beside; or NULL; borrowed */
    bool has_adapters;          /* it has adapters of the model */
    const tx_model *merges;     /* weights are read with what this model's adapters add (merge_adapters.h); or NULL */
    char *path;                 /* the folder itself; owned */
    tx_comm *group;             /* the ranks that load it, borrowed */
    void *impl;
    tx_checkpoint *native;
    int64_t vocab_size;  /* tokens that the checkpoint's model has; padding among them where state.vocab_size is 0 */
    tx_ckpt_state state; /* of a type that resumes */
    json_t *run; /* of a type that resumes: "opt_param_scheduler", "grad_scaler", as native checkpoints' configs have
                  * them, as far as they are known; borrowed of native's, else owned */
    const char *part[TX_CKPT_MAX_PARTS]; /* TX_CKPT_MODEL, and the optimizer's buffers that there are: "exp_avg" */
    int n_parts;
    enum tx_optimizer_kind optimizer; /* whose these are; 0: nobody's, or a user-defined one's */
    float *theirs; /* a type's: tensors as they are there, one after the other; its elements; owned */
    size_t n_theirs;
    int n_tp, n_pp; /* DeepSpeed: ranks that it was made by, and whether it is in the form of the pipeline engine */
    bool pipeline;
} tx_source;

/* Recognises what `dir` holds and opens it; TX_ERR_NOTFOUND when there is no checkpoint. type NULL: any. Collective
 * over `group`, which together has the whole model and outlives src: all succeed or all fail. */
tx_status tx_source_open(tx_source *src, const char *dir, const tx_source_type *type, tx_comm *group);
/* The same as --no-verify-load and --lora-base have it. */
tx_status tx_source_open_with(tx_source *src, const tx_config *cfg, const char *dir, const tx_source_type *type,
                              tx_comm *group);
/* The same with --no-verify-load. */
tx_status tx_source_open_unverified(tx_source *src, const char *dir, const tx_source_type *type, tx_comm *group);

/* The native one that this job itself has just written into `dir`: by this rank alone; checksums are not compared. */
tx_status tx_source_open_just_written(tx_source *src, const char *dir);

/* The same of --load, as --load-tag, --load-latest-good, --no-verify-load and --universal-checkpoint have it. */
tx_status tx_source_open_options(tx_source *src, const tx_config *cfg, tx_comm *group);

/* For a run: --load as the options mean it. No --load has no type; neither has a --load that holds no checkpoint and is
 * the same folder as --save, which is how published scripts start a run that restarts itself. The log says which
 * happened. */
tx_status tx_source_open_for_run(tx_source *src, const tx_config *cfg, tx_comm *group);

/* TX_ERR_UNSUPPORTED for a checkpoint of a user-defined model. */
tx_status tx_source_require_own_model(const tx_source *src);

/* Fills left-out shape options from the checkpoint; given ones that differ are an error that lists them. With `resume`
 * options of the trajectory that differ are warned about. The config is complete afterwards. */
tx_status tx_source_options(tx_source *src, tx_config *cfg, bool resume);

/* Of a run with a teacher: cfg->teacher from --load-teacher, where that is given.   @tokenizer hash of the student's,
 * or
 * "". Collective. TX_ERR_SHAPE: the teacher was trained with another. */
tx_status tx_source_teacher(tx_config *cfg, const char *tokenizer, tx_comm *group);

/* The type's check, if it has one (tx_source_type.check). */
tx_status tx_source_check(tx_source *src, const tx_model *m);

/* As tx_checkpoint_read: the fragments in `kept` (NULL: every row whole) of the parts, of a model with the source's
 * shape. Parts that are not in the source are TX_ERR_NOTFOUND. Needs memory for one more parameter. Collective over the
 * group. */
tx_status tx_source_read(tx_source *src, const tx_model *m, const tx_fragments *kept, const tx_ckpt_part *part,
                         int n_parts);

/* What part src->part[part] has of a parameter, as a tensor: of its shape, or of another. False: nothing. */
bool tx_source_tensor(const tx_source *src, int part, const tx_param *p, tx_param *tensor);

/* One parameter of part src->part[part], whole, from any format; not collective.   @whole [p->whole] */
tx_status tx_source_read_whole(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole);

/* The checkpoint's weights into the flat buffer of a model with its shape: this rank's part of them. Padding rows
 * become zero. Collective over the group. */
tx_status tx_source_weights(tx_source *src, const tx_model *m, float *value);

/* The order of rows of query_key_value is that of another checkpoint_version than the files say. TX_ERR_ARG: of this
 * format there is one order only. */
tx_status tx_source_set_version(tx_source *src, int version);

/* Compares all checksums that .pt files have: also of what no parameter comes from. *n_files 0: there are none such. */
tx_status tx_source_verify(const tx_source *src, uint64_t *bytes, size_t *n_files);

const tx_source_type *tx_source_type_of(enum tx_checkpoint_format format); /* NULL of 0 */

/* merge_adapters.c: what the adapters of src->merges beside parameter p add, added to it.   @whole [p->whole] */
tx_status tx__merge_adapters(tx_source *src, const tx_param *p, float *whole);

void tx_source_close(tx_source *src); /* safe on a zeroed source */

#endif
