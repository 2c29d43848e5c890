/* optim.h - optimizers over flat buffers, with Megatron's two groups (matrices decay, biases and norms do not). What is
 * the same for all of them is here too: the norm of the gradient for clipping, and the number of its zeros.
 *
 *  An optimizer is a tx_optim_type: its buffers of state by name, and the update of one tensor. A file that defines one
 *  and a row of kinds/optimizers.h make a new one; --optimizer takes the row's word, and checkpoints the names of its
 *  buffers.
 *  The squares of the norm are summed in fp64 over fixed blocks of each tensor, and the blocks' sums without rounding
 * (base/exact.h). So the norm does not depend on threads, on buckets, on replicas, or on how ZeRO divides tensors. */
#ifndef TX_OPTIM_OPTIM_H
#define TX_OPTIM_OPTIM_H

#include "backend/ops.h"
#include "base/step_record.h"
#include "comm/comm.h"
#include "config/config.h"
#include "kinds/optimizers.h"
#include "triax/optimizer.h"

enum { TX_OPTIM_MAX_STATE = 6 };

/* A tensor, or the stretch of one that this rank updates: it begins on a multiple of TX_SUMSQ_BLOCK elements. All
 * memory is the caller's. */
typedef struct tx_optim_range {
    int64_t numel;
    int64_t n_real; /* the first ones; the rest pads the vocabulary */
    int64_t first;  /* its place in this rank's part of the tensor */
    bool decay;
    bool decoupled;                   /* it has the decoupled learning rate, if there is one */
    double lr_scale, decay_scale;     /* factors of the learning rate and of weight decay */
    int group;                        /* whose settings are for it */
    bool counted;                     /* in norms and counts: no other rank of the group has the same */
    int tensor;                       /* the tensor's number among those of this rank, [0, tx_optim_norms.n) */
    const char *name;                 /* for messages */
    float *value;                     /* master weights */
    tx_tensor grad;                   /* [numel], fp32, bf16 or fp16 */
    float *state[TX_OPTIM_MAX_STATE]; /* at first zero */
    tx_tensor low;                    /* [numel]: the weights as layers read them, if that is not value */
    int64_t n_whole;                  /* real elements of all of the tensor, on whichever ranks they are */
    int64_t columns;                  /* of a matrix whose rows and columns have averages (TX_OPTIMIZER_FACTORS), and */
    const double *row_scale, *column_scale; /* factors of its update: of this rank's rows, and columns; else 0 */
    int64_t block;                          /* after an update each `block` elements of the tensor are multiplied by */
    const double *block_scale;              /* a number; NULL: they are not; borrowed */
    float *direction; /* of a matrix that is updated whole, of an optimizer with `direction`, or of any tensor, of one
                       * with `together`; or NULL */
    /* where layers compute on a device: which arrays are in the host's memory all the same, as TX_FETCH_...; and
     * whether the host updates it */
    unsigned in_host;
    bool host_updates;
} tx_optim_range;

/* Numbers of a range may be somewhere else until they are asked for, in the order of ranges; those of `changes` go back
 * then. Pointers of the ranges are valid until the next call. */
enum { TX_FETCH_VALUE = 1, TX_FETCH_MASTER = 2, TX_FETCH_STATE = 4, TX_FETCH_ALL = 7 };
typedef tx_status tx_fetch_fn(void *user, int range, unsigned what, unsigned changes);

typedef struct tx_optim tx_optim;

/* What the user has set for a group in place of what the schedules and its factors give; negative: nothing. */
typedef struct tx_optim_setting {
    double lr; /* of the next update alone */
    double weight_decay;
} tx_optim_setting;

/* Sums of a group's learning rates since the data-parallel ranks had the same weights, of an optimizer that lets them
 * part: of rates that factors are for, those of ranges with the decoupled one in [1]; and of the user's. */
typedef struct tx_optim_rates {
    double lr[2], own;
} tx_optim_rates;

/* What an update depends on besides the tensor. */
typedef struct tx_optim_step {
    double lr, weight_decay;
    double decoupled_lr;             /* of decoupled ranges; negative: lr is theirs, too */
    double betas[2], momentum;       /* Adam's or Lion's; SGD's or Muon's */
    const tx_optim_setting *setting; /* by group; NULL: none */
    tx_tensor gate; /* adam's in ops.h: what gradients are multiplied with, and whether anything happens at all */
    int64_t t;      /* 1 for the first */
    struct tx_optim_norm *norm; /* of the range's tensor, where the optimizer measures; else NULL */
} tx_optim_step;

/* Norms of a whole tensor, of which a range may be a stretch (TX_OPTIMIZER_NORMS). */
typedef struct tx_optim_norm {
    tx_tensor sum[2]; /* [TX_EXACT_WORDS] each: squares of the weights and of the update, added to by `measure` */
    tx_tensor ratio;  /* [1] fp64, for `step` */
    tx_tensor most;   /* [1] fp64: the largest of what `measure` finds, of a type with finds_most */
    double *blocks;   /* room for two sums of each block of a slab */
} tx_optim_norm;

/* A member of torch's param_groups, and the options that it is of: one, a pair, or none: then it is 0. */
typedef struct tx_optim_member {
    const char *key, *option[2]; /* "betas", { "adam_beta1", "adam_beta2" } */
} tx_optim_member;

/* Of an optimizer whose sums may be sent as signs (TX_OPTIMIZER_COMPRESSED): what its next update is. */
typedef struct tx_optim_signs {
    bool own;      /* gradients are not summed: they are this rank's alone */
    bool averages; /* `direction` makes of them what all ranks average, in the buffer of state `averaged` */
    bool left_out; /* updates before it have left something out, which is kept */
    bool begins;   /* it is the first of these */
    bool forgets;  /* that begins at 0 again with it */
    bool apart;    /* before it the ranks do not have the same weights */
} tx_optim_signs;

enum { TX_OPTIM_LINE = 240 };

/* Of a buffer of state, what another program's checkpoints have; of TX_STATE_OF_TENSORS a number in each tensor's. */
typedef enum tx_optim_theirs {
    TX_THEIRS_SAME,
    TX_THEIRS_LATER,  /* a number that is there once it was found, and 0 here until then */
    TX_THEIRS_ZERO,   /* nothing that is read again: it begins at 0 */
    TX_THEIRS_WEIGHTS /* nothing: it begins as what the weights are */
} tx_optim_theirs;

/* What a tensor's state has besides. */
typedef struct tx_optim_mark {
    const char *key;
    int64_t value; /* 0: the tensor's elements */
} tx_optim_mark;

/* Its buffers of state. */
typedef struct tx_optim_keeps {
    int n;
    tx_optimizer_buffer state[TX_OPTIM_MAX_STATE];
} tx_optim_keeps;

typedef struct tx_optim_type {
    const tx_optim_keeps *keeps;                /* what its row says */
    const char *other_name[TX_OPTIM_MAX_STATE]; /* as another class of theirs calls it, or NULL */
    tx_optim_theirs theirs[TX_OPTIM_MAX_STATE];
    tx_optim_mark mark[3];         /* no key: the last one was before it */
    const tx_optim_member *member; /* of one that Megatron's or DeepSpeed's checkpoints hold; NULL at the end */
    bool counts;                   /* their state's step is a whole number, not a tensor */
    size_t betas[2], eps;          /* places of their options in a tx_config; 0: it has none */
    tx_status (*step)(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s);
    /* With TX_OPTIMIZER_NORMS, else NULL. Called of all ranges before `step` of any: changes state, and adds to
     * s->norm's sums; and between the two once: ratios of the sums of all tensors.   @ratio [n] fp64
     * @sums [n, 2, TX_EXACT_WORDS] i64 */
    tx_status (*measure)(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s);
    tx_status (*rate)(tx_ctx *c, const tx_optim *o, tx_tensor ratio, tx_tensor sums);
    /* Of one that needs whole matrices (TX_OPTIMIZER_MATRICES): what becomes of the gradient of a matrix's stretch, to
     * r->direction. Then somebody makes of all stretches what `step` reads there. */
    tx_status (*direction)(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s);
    /* Of one whose sums may be sent as signs (TX_OPTIMIZER_COMPRESSED), else NULL; and a line on what begins with the
     * next update, of an update before it was taken: "" where nothing does. */
    tx_optim_signs (*signs)(const tx_optim *o);
    void (*tell)(const tx_optim *o, char line[TX_OPTIM_LINE]);
    int averaged;
    bool together; /* all tensors have one size; `direction` writes to r->direction. Each is multiplied then, before any
                    * is measured, by the mean of its momentum's size over that of all, at the first such update: the */
    int scaling;   /* buffer of state that keeps this; and divided by it after the average */
    bool finds_most;
    int alone[2], n_alone; /* buffers of state that ranks which are apart have of their own; */
    /* and, of these and the others, the weights that such a rank has */
    tx_status (*place)(tx_ctx *c, const tx_optim_range *r);
} tx_optim_type;

extern const tx_optim_member tx__adam_member[]; /* adam.c; of all optimizers with Adam's options and no more */
extern const tx_optim_member tx__lamb_member[]; /* lamb.c */

/* Of each row: tx_optim_adam in adam.c, ...; and in optim.c the row's buffers, tx_optim_adam_keeps. */
#define TX_OPTIM_DECLARE(constant, word, type, ...) \
    extern const tx_optim_type type;                \
    extern const tx_optim_keeps type##_keeps;
TX_OPTIMIZERS(TX_OPTIM_DECLARE)

/* NULL of 0. */
const tx_optim_type *tx_optim_type_of(enum tx_optimizer_kind kind);

/* What betas and eps are by the options; 0 where it has none. */
void tx_optim_betas_of(const tx_optim_type *type, const tx_config *cfg, double betas[2]);
double tx_optim_eps_of(const tx_optim_type *type, const tx_config *cfg);

/* Of a kind's k-th buffer: whether it is a number of each tensor, and what other programs' files have of it. Of 0
 * nothing is special. */
bool tx_optim_is_number(enum tx_optimizer_kind kind, int k);
tx_optim_theirs tx_optim_theirs_of(enum tx_optimizer_kind kind, int k);

/* The types of all optimizers whose state a checkpoint can hold: the i-th, from 0 on; NULL after the last. */
const tx_optim_type *tx_optim_type_at(int i);

/* client_optim.c: a user-defined optimizer. Checks it (NULL is fine), TX_ERR_ARG; and makes a type of a good one, whose
 * buffers are in *keeps. */
tx_status tx_optim_check_client(const tx_client_optimizer *o);
tx_optim_type tx__optim_of_client(const tx_client_optimizer *o, tx_optim_keeps *keeps);

/* onebit_adam.c: the number of the last update before the freeze; never the first one, which only makes buffers. */
int64_t tx__onebit_last(const tx_optim *o);

/* lamb.c: moments, and squares of weights and directions. */
tx_status tx__lamb_measure(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s,
                           const tx_lamb_rule *rule);

/* adafactor.c: the part of averages of squares that update t keeps. */
double tx_adafactor_beta2(const tx_config *cfg, int64_t t);

/* What `momentum` of an optimizer begins as: --sgd-momentum, or --muon-momentum. */
double tx_optim_momentum(const tx_config *cfg);

/* Buffers of state that a run's optimizer has, and whether it needs norms of whole tensors. */
int tx_optim_n_state(const tx_config *cfg, const tx_client_optimizer *client);
bool tx_optim_has_norms(const tx_config *cfg, const tx_client_optimizer *client);

/* The sums and ratios of all tensors of a rank, where its ranges are, and of what the host updates in its memory. */
typedef struct tx_optim_norms {
    int n;
    int64_t *sums, *host_sums;  /* owned; [n, 2, TX_EXACT_WORDS] */
    int64_t *seen_sums;         /* owned; the host's, of sums */
    double *ratio, *host_ratio; /* owned; [n] */
    double *most;               /* owned; [n] */
} tx_optim_norms;

struct tx_optim {
    const tx_optim_type *type;
    tx_optim_type own; /* the user-defined one, and its buffers: */
    tx_optim_keeps own_keeps;
    const tx_client_optimizer *client; /* borrowed, or NULL */
    const tx_config *cfg;              /* borrowed: adam_beta1, sgd_momentum, ... */
    const tx_optim_range *range;       /* borrowed */
    int n_ranges;
    tx_fetch_fn *fetch; /* NULL: everything is there */
    void *fetch_user;
    tx_ctx *host;                    /* borrowed: what computes norms of arrays that are in the host's memory while the
                                      * others are in a device's; NULL: there are none */
    tx_device *device;               /* borrowed: where ranges and the next three are; NULL: the host */
    int64_t slab;                    /* elements that are summed at a time */
    double *block_sums;              /* owned; scratch of the sums over a slab */
    int64_t n_waiting;               /* of these: not in squares yet */
    int64_t *squares;                /* owned; [TX_EXACT_WORDS] */
    double *gate;                    /* owned; [3] as clip in ops.h has it */
    double *seen;                    /* owned; the host's: of block_sums, or of gate */
    tx_optim_norms norms;            /* of an optimizer that measures */
    tx_comm *ranks;                  /* borrowed: those whose ranges make the model together */
    struct tx__optim_sums *all;      /* owned; [ranks], theirs */
    int64_t t;                       /* updates so far */
    double betas[2], momentum;       /* of the updates to come; at first the options' */
    double decoupled_lr;             /* likewise; at first negative */
    const tx_optim_setting *setting; /* borrowed; by group of the ranges; NULL: none */
    tx_optim_rates *rates;           /* borrowed; likewise, [n_groups] */
    int n_groups;
};

/* What an optimizer works on; all of it is the caller's and outlives the optimizer. */
typedef struct tx_optim_args {
    const tx_config *cfg;
    const tx_client_optimizer *client; /* in place of the one that cfg->optimizer names; or NULL */
    tx_comm *ranks;                    /* norms and counts are collective over these */
    tx_device *device;                 /* where the ranges are; NULL: the host */
    const tx_optim_range *range;
    int n_ranges, n_tensors; /* tensors: that the ranges are of */
} tx_optim_args;

/* TX_ERR_NOMEM, TX_ERR_UNSUPPORTED. */
tx_status tx_optim_init(tx_optim *o, const tx_optim_args *a);

const char *tx_optim_name(const tx_optim *o); /* the word of --optimizer, or the user-defined optimizer's name */
void tx_optim_deinit(tx_optim *o);

/* Between the gradients and the update: the L2 norm of them all, and with it the gate of the steps that follow: clipped
 * to max_norm (0: not at all), and nothing is changed where it is not finite. A rank alone does not wait for its
 * device.
 */
tx_status tx_optim_clip(tx_ctx *c, tx_optim *o, double loss_scale, double max_norm);

/* The result of the clipping; asked for after the steps, so that they overlap with it. *norm is of the gradients
 * without the loss scale. If it is not finite, *bad names the first tensor whose gradient is not, of the first rank
 * that has one; else NULL. It is o's, until the next call. */
tx_status tx_optim_clipped(tx_ctx *c, tx_optim *o, double *norm, const char **bad);

/* L2 norm of the parameters' values, as layers read them. *bad likewise. */
tx_status tx_optim_value_norm(tx_ctx *c, tx_optim *o, double *norm, const char **bad);

/* How large Adam's averages and the parameters are. */
tx_status tx_optim_states_of(tx_ctx *c, tx_optim *o, tx_optim_states *out);

/* How many gradients are exactly zero; rows that pad the vocabulary do not count. */
tx_status tx_optim_count_zeros(tx_ctx *c, tx_optim *o, double *n);

/* Of the next update; of an optimizer that sends no signs nothing is so. */
tx_optim_signs tx_optim_signs_of(const tx_optim *o);

/* An update was taken: it counts. */
void tx_optim_stepped(tx_optim *o, const tx_optim_step *s);

/* The sum of a range's rates, with that of step s, which is the range's own (tx_optim_step_of). */
double tx_optim_passed(const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s);

/* What the next update does, which is number t + 1. */
tx_optim_step tx_optim_next(const tx_optim *o, double lr, double weight_decay);

/* The same for one range: its factors, and weight decay of the decaying group only. */
tx_optim_step tx_optim_step_of(const tx_optim_step *s, const tx_optim_range *r);

/* norms.c, where the type measures: before the update begin; some, until all ranges have been measured; sums; then the
 * caller adds these up over the ranks that share a tensor; end. Words of sums are whole numbers, so that it does not
 * show in which order they are added, or whether the host or a device has.   @sums [tensors, 2, TX_EXACT_WORDS] i64 */
tx_status tx_optim_measure_begin(tx_ctx *c, tx_optim *o);
tx_status tx_optim_measure_some(tx_ctx *c, const tx_optim *o, const tx_optim_step *s, int first, int end);
tx_status tx_optim_measure_sums(tx_ctx *c, tx_optim *o, tx_tensor *sums);
tx_status tx_optim_measure_end(tx_ctx *c, tx_optim *o);

/* Of all tensors, between the two: the caller makes them the largest ones of the ranks that share a tensor. Of a type
 * that finds none nothing.   @return [tensors] fp64 */
tx_tensor tx_optim_measure_most(const tx_optim *o);

/* What `step` of a type changes: not the state that `measure` has changed. */
unsigned tx_optim_step_changes(const tx_optim *o);

/* What it needs of a range: a matrix's state is already in its direction. */
unsigned tx_optim_step_needs(const tx_optim_range *r);

/* Of the range's tensor; of a type that does not measure, nothing. */
tx_optim_norm tx_optim_norm_of(const tx_optim *o, const tx_optim_range *r);

/* norms.c. */
tx_status tx__optim_norms_open(tx_optim *o, int n_tensors);
void tx__optim_norms_close(tx_optim *o);

/* What `step` of a type is followed by: the multiplication of a range that has one. */
tx_status tx_optim_rescale(tx_ctx *c, const tx_optim_range *r, const tx_optim_step *s);

/* Updates ranges [first, end); each as tx_optim_step_of says. */
tx_status tx_optim_step_some(tx_ctx *c, const tx_optim *o, const tx_optim_step *s, int first, int end);

#endif
