/* upstream_write.h - shared by the writers of Megatron's, DeepSpeed's and universal folders: the parameters that a rank
 * of a layout has and their names there, the groups of its optimizer, the values that every file has, tensors that are
 * fetched while a file is written, and folders that appear whole or not at all.
 *
 *      layout             rank (tensor 1, stage 1 of 2 x 2)             groups of its optimizer
 *      word embeddings    [copy of the tied embedding's shard 1]        matrices: 0, 3, 5, 7, ...   decay
 *      layers 0, 1, ...   shard 1 of layers 2, 3                        the rest: 1, 2, 4, 6, ...
 *      final norm         final norm
 *
 *  Collective: nothing here; one process writes all ranks' files. */
#ifndef TX_CONVERT_UPSTREAM_WRITE_H
#define TX_CONVERT_UPSTREAM_WRITE_H

#include "convert/sink.h"
#include "convert/upstream.h"
#include "optim/optim.h"
#include "torch/pt.h"

enum { TX__PATH_CAP = 4096 };

/* ---- ranks ---- */

typedef struct tx__place {
    int tp, pp, dp;
} tx__place;

typedef struct tx__rank_row {
    int row;        /* of the conversion's model */
    int64_t expert; /* the layer's number of it; -1: it is no expert's */
    tx_param shard; /* of this tensor rank */
    bool copy;      /* the tied embedding's, on the last stage */
    char name[2 * TX_PARAM_NAME_MAX];
} tx__rank_row;

/* Parameters that an optimizer updates alike; of DeepSpeed's flat ones that lie one after the other. */
typedef struct tx__group {
    bool decay, expert;
    int n_parts, part; /* data ranks that divide it with ZeRO, and which of them this one is */
    int first, n;      /* of tx__rank.order */
    int64_t numel;
} tx__group;

typedef struct tx__rank {
    int tp, pp, dp, mp; /* mp = pp * n_tp + tp */
    int ep;             /* its part of a layer's experts, of tx__n_ep; in `name` they are numbered from its first on */
    bool pipeline;      /* names are a PipelineModule's */
    tx__rank_row *row;
    int n;
    int *order; /* of row[]: group after group */
    tx__group *group;
    int n_groups;
} tx__rank;

/* tx_conversion_check, and whether the optimizer has the trait of those whose state the format holds: else
 * TX_ERR_UNSUPPORTED. */
tx_status tx__check_layout(const tx_conversion *c, unsigned trait);

/* The optimizer whose state is written. */
const tx_optim_type *tx__optim_of(const tx_conversion *c);

/* For DeepSpeed's formats, where several stages mean its pipeline engine: whether that has the model. */
tx_status tx__check_engine(const tx_conversion *c);

/* TX_ERR_UNSUPPORTED of a model with experts, which DeepSpeed's own format alone has. */
tx_status tx__check_dense(const tx_conversion *c);

/* How many ranks share a layer's experts. */
int tx__n_ep(const tx_conversion *c);

/* Lists the rank's parameters in the order of its module, and groups them: by decay, experts behind the others, cut at
 * DeepSpeed's size of a group; or with `divided` (ZeRO-3) all in one, cut where a data rank's share exceeds DeepSpeed's
 * sub_group_size. Copies come first in a pipeline's module, last in Megatron's. */
tx_status tx__rank_open(tx__rank *r, const tx_conversion *c, tx__place at, bool pipeline, bool divided);
void tx__rank_close(tx__rank *r);

bool tx__is_tied(const tx_conversion *c);

/* Number in c->src->part of the k-th buffer of the optimizer whose state these files hold; -1: it is not there. */
int tx__state_part(const tx_conversion *c, int k);

/* tx_sink_type.change of what tensor ranks split. */
unsigned tx__change(const tx_conversion *c, const tx_param *p);

/* ---- a file ---- */

/* Elements [first, first + n) of a shard of a part; row -1: n times `value`. */
typedef struct tx__shard_range {
    int part, row;
    const tx_param *shard; /* borrowed until the file is written */
    int64_t first, n;
    float value;
} tx__shard_range;

typedef struct tx__file {
    tx_conversion *c;
    tx_py_arena *a;
    json_t *options;         /* the conversion's, the source's own above them */
    struct tx__store *store; /* owned */
    bool short_of_memory;    /* a value could not be made: the file is not written */
    tx_status failed;        /* or not be read */
} tx__file;

tx_status tx__file_begin(tx__file *f, tx_conversion *c);
/* Writes DIR/NAME and frees f, on failure too. */
tx_status tx__file_end(tx__file *f, const char *dir, const char *name, const tx_py *root);

/* A tensor of one or two dims whose elements are those of the spans, one after the other; NULL: no memory. */
tx_py *tx__file_tensor(tx__file *f, tx_pt_dtype dtype, int n_dims, const int64_t *dim, const tx__shard_range *span,
                       int n);
tx_py *tx__file_number(tx__file *f, float value); /* torch.tensor(value) */
tx_py *tx__file_shard(tx__file *f, tx_pt_dtype dtype, int part, const tx__rank_row *r);
tx_py *tx__file_ones(tx__file *f, float value); /* torch.tensor([value]) */
tx_pt_dtype tx__weight_dtype(const tx_conversion *c);

/* ---- values ---- */

/* What args say of rotary positions (upstream_rope.c). */
void tx__rope_to_args(tx__file *f, tx_py *args);

/* tx_py_set and the like; they note in the file that memory was short, and return the dict or list. */
tx_py *tx__set(tx__file *f, tx_py *dict, const char *key, const tx_py *v);
tx_py *tx__set_at(tx__file *f, tx_py *dict, int64_t key, const tx_py *v);
tx_py *tx__append(tx__file *f, tx_py *list_or_tuple, const tx_py *v);
tx_py *tx__object(tx__file *f, const char *module, const char *name, const tx_py *args, const tx_py *state);

double tx__option(const tx__file *f, const char *name); /* a number; 0 where it is unset */

tx_py *tx__torch_size(tx__file *f, const tx_param *p);

/* argparse.Namespace of the options and of what the layout and the run are. */
tx_py *tx__args(tx__file *f);

/* OptimizerParamScheduler's state; NULL where the source has no run. */
const tx_py *tx__scheduler(tx__file *f);

/* universal_checkpoint_info; patterns: of DeepSpeed. */
tx_py *tx__universal_info(tx__file *f, bool pipeline, bool patterns);

/* Megatron's nested dict of weights. @empty: each is of no elements. @head: the embedding is there a second time. */
tx_py *tx__module(tx__file *f, const tx__rank *r, bool empty, bool head);

/* A group of torch's optimizer, with the parameters [first, first + n).   @like its decay, and whether of experts */
tx_py *tx__param_group(tx__file *f, const tx__group *like, int64_t first, int64_t n);

/* state_dict() of torch's AdamW over the rank's parameters as they are. */
tx_py *tx__torch_optimizer(tx__file *f, const tx__rank *r);

/* {'step', 'exp_avg', 'exp_avg_sq'} of so many elements, for the optimizer whose state these files hold.
 * @state [its n_state]; NULL: left out */
tx_py *tx__optim_state(tx__file *f, const tx_py *const *state, int64_t numel);
bool tx__has_buffer(const tx__file *f, int k); /* whether files have its k-th */

/* fp16's loss scale in the saved run, else as a run begins; growth: iterations since it changed. */
typedef struct tx__loss_scale {
    bool dynamic;
    double scale;
    int64_t growth, hysteresis;
} tx__loss_scale;
tx__loss_scale tx__loss_scale_of(const tx__file *f);

/* ---- a folder ---- */

enum { TX__MAX_TRACKERS = 2 };

typedef struct tx__folder {
    char parent[TX__PATH_CAP], tmp[TX__PATH_CAP], path[TX__PATH_CAP];
    bool begun, made_parent, published;
    const char *tracker[TX__MAX_TRACKERS]; /* written; borrowed */
    int n_trackers;
} tx__folder;

/* Makes OUT and in it a temporary for NAME, which must not be there yet (TX_ERR_STATE). */
tx_status tx__folder_begin(tx__folder *d, const char *out, const char *name);

/* Gives the temporary its name, durably; then OUT/<tracker>, a file of one line without its end, may name it. */
tx_status tx__folder_publish(tx__folder *d);
tx_status tx__folder_track(tx__folder *d, const char *tracker, const char *text);

/* After a failure (st) removes all that was written. */
void tx__folder_end(tx__folder *d, tx_status st);

#endif
