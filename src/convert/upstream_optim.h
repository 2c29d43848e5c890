/* upstream_optim.h - the optimizer's state in files that number parameters through, as torch does: first those that
 * decay, then those that do not, each in the order in which the model has them. Masters are in the same groups.
 *
 *      {'state': {0: {'step', 'exp_avg', 'exp_avg_sq'}, 1: ...}, 'param_groups': [{'params': [0, 1, ...]}, ...]}
 *      [[master, ...], [master, ...]]                  or, where a group's parameters are one tensor,    [flat, flat]
 *
 *  Experts are behind all others, in groups of their own that are marked 'moe', some for each sort; or, where none is
 * marked, among them.
 *
 * Shared by the readers of Megatron's and DeepSpeed's folders. */
#ifndef TX_CONVERT_UPSTREAM_OPTIM_H
#define TX_CONVERT_UPSTREAM_OPTIM_H

#include "convert/shards.h"
#include "optim/optim.h"

/* A parameter of a rank's model, in the order of the file. */
typedef struct tx__row {
    char name[TX_PARAM_NAME_MAX]; /* ours */
    const tx_pt_tensor *tensor;
    bool copy;   /* the tied embedding's at the pipeline's other end: counted, not read */
    bool expert; /* an expert's */
    bool whole;  /* the same on all tensor ranks, which have it as rank 0's */
    int chunk;
} tx__row;

typedef struct tx__rows {
    tx__row *row; /* owned */
    size_t n, cap;
} tx__rows;

tx_status tx__rows_add(tx__rows *r, const tx__row *row);

/* Whose state a file has, and how its buffers are called there. All zero: nobody's. */
typedef struct tx__torch_state {
    enum tx_optimizer_kind kind;
    int n;
    const char *name[TX_OPTIM_MAX_STATE];
} tx__torch_state;

/* By its buffers and, if there are groups, their members: {'state': {...}, 'param_groups': [...]}. Optimizers that
 * have both are told apart by which has most of them. */
tx__torch_state tx__torch_state_of(const tx_py *torch_state);

/* As the optimizer's own class has them. */
tx__torch_state tx__torch_state_like(enum tx_optimizer_kind kind);

/* The file of a rank's optimizer, and the parameters that it has the state of. */
typedef struct tx__optim_file {
    const tx_pt *file;
    const tx__rows *rows;
    int tp_rank;
    const tx__torch_state *has;
} tx__optim_file;

/* Fills src->part with what such files hold: the weights and the buffers of `kind`; 0: of none. */
void tx__upstream_parts(tx_source *src, enum tx_optimizer_kind kind);

/* Adds masters (NULL: there are none) and moments. *step is raised to Adam's t. TX_ERR_FORMAT: they do not fit the
 * rows.
 */
tx_status tx__optim_add(tx__shards *s, const tx__optim_file *f, const tx_py *torch_state, const tx_py *masters,
                        int64_t *step);

/* Megatron's distributed optimizer: {chunk: {dtype: {'param', 'exp_avg', 'exp_avg_sq'}}}, each a flat buffer in which
 * the last parameter comes first. */
tx_status tx__optim_add_reversed(tx__shards *s, const tx__optim_file *f);

#endif
