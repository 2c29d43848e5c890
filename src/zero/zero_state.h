/* zero_state.h - what a tx_zero consists of, and what the files of the room share. The calls are in zero.h and
 * offload.h. */
#ifndef TX_ZERO_ZERO_STATE_H
#define TX_ZERO_ZERO_STATE_H

#include "optim/optim.h"
#include "optim/orthogonal.h"
#include "parallel/grid.h"
#include "zero/flat.h"
#include "zero/pool.h"
#include "zero/tier.h"

/* The arrays of what a rank keeps. TX_ARRAY_VALUE is what layers compute with; in fp32 there is no other master. */
enum { TX_ARRAY_VALUE, TX_ARRAY_MASTER, TX_ARRAY_STATE, TX_N_ARRAYS = TX_ARRAY_STATE + TX_OPTIM_MAX_STATE };

/* ---- what is offloaded (offload.h) ---- */

typedef struct tx_chunk {
    int64_t at, n;  /* of a kept buffer */
    int first, end; /* ranges */
} tx_chunk;

/* Memory that one chunk of what is on a disk after the other is read into. */
typedef struct tx_disk_buffer {
    int chunk;     /* -1: none */
    unsigned have; /* arrays that are there: a bit each; and those that are to go back */
    unsigned changed;
    void *buf[TX_N_ARRAYS]; /* owned; NULL: not on a disk */
    tx_tier_request request[TX_N_ARRAYS];
} tx_disk_buffer;

typedef struct tx_offload {
    tx_tier *optimizer, *params, *params_near; /* NULL: not offloaded; the last: of params what stays in memory */
    tx_tier *packed;                           /* of the optimizer a buffer that has not a number for each element */
    int array[TX_N_ARRAYS];                    /* its number in its tier; -1: not offloaded */
    int64_t near[TX_N_ARRAYS]; /* so many elements, the first ones of what is kept, are not in that tier, but of params
                                * in params_near, and of the optimizer where they are without offload */
    tx_chunk *chunk;
    int n_chunks;
    int *of_range;
    tx_disk_buffer *buffer;
    int n_buffers;
    int current;                     /* the chunk that ranges point into, or -1 */
    struct tx__bounce *bounce;       /* bounce.c's, where layers compute on a device */
    size_t host, nvme, buffer_bytes; /* bytes: of a plan, or taken */
    size_t staged_bytes; /* of a device: offloaded values of a range are updated there, whose state is not offloaded */
} tx_offload;

/* ---- the state of a step ---- */

/* The state of a bucket. */
typedef struct tx_bucket_now {
    int value;   /* stage 3: the pool buffer that it is gathered in, or -1 */
    int words;   /* the pool buffer of its blocks while these are gathered, or -1 */
    bool second; /* the second copy has its values */
    int users;
    bool reading, gathering; /* this rank's part is being read from where it is offloaded; all parts are being sent */
    int grad;                /* the pool buffer that its gradients are collected in, or -1 */
    int sums;                /* the pool buffer of another type that they are summed in, or -1 */
    int left;                /* units whose gradients are not complete */
    bool summing, summed;    /* summed: what is kept has a micro-batch's sum */
    tx_request gather, sum;
    tx_tier_request read;
} tx_bucket_now;

/* The state of a unit of parameters. */
typedef struct tx_unit_now {
    bool in_backward; /* this micro-batch contributes to its gradients */
    bool added;       /* an earlier one has, in this iteration: what is kept is added to */
    int work;         /* the pool buffer that it writes them to, or -1: they are written where they are collected */
} tx_unit_now;

/* The tensors of a rank in the order of their norms (zero_norms.c): those of a reduce group side by side, first the
 * ones that tensor ranks split. */
typedef struct tx_zero_norms {
    int *of_row; /* owned; a row's number; NULL: the optimizer measures nothing */
    struct {
        int first, whole, end; /* [first, whole) are split */
    } group[TX_N_GROUPS];
} tx_zero_norms;

/* Of a buffer of the optimizer's state (state_table.h). */
typedef struct tx_state_table {
    bool even;         /* a number for each element that is kept, at the same place */
    int64_t numel;     /* of this rank's buffer */
    int64_t *at;       /* owned; [rows of the model's table] where element 0 of a row would be, or TX_NOWHERE */
    int64_t *packed;   /* owned; [blocks of what is kept + 1] blocks before it that have numbers; NULL: see below */
    tx_params rows;    /* owned; of the model's table those that it has numbers of, as checkpoints name them; and of */
    tx_fragments kept; /* these, owned, the fragments that this rank keeps */
    int64_t
        n_each; /* numbers that every data-parallel rank has: averages of rows and columns, `rows` of one dimension */
    int64_t n_divided[2]; /* numbers before they are divided among ranks: of all, and of experts that ranks divide */
} tx_state_table;

/* Of averages of rows and columns (factors.h). */
typedef struct tx_factors {
    bool on;
    int64_t n;           /* rows and columns of this rank's matrices */
    int64_t *at;         /* owned; [rows of the table, 2] where those of a matrix begin in the next two */
    double *limit, *sum; /* owned; [n] */
    struct {
        int64_t first, whole, end; /* [first, whole): tensor ranks have parts of these */
    } group[2];
} tx_factors;

/* Of updates that need whole matrices (matrices.h). */
typedef struct tx_matrices {
    bool on;
    int64_t numel;    /* elements of the largest bucket with a matrix */
    int64_t moved;    /* of the largest matrix that is copied to be in one piece; 0: none is */
    float *direction; /* owned; [numel] */
    float *room[2];   /* owned; [moved] */
    tx_newton_schulz work;
} tx_matrices;

/* Tensors that are averaged with one size (compressed_together.c), side by side. */
typedef struct tx_compressed_bundle {
    int first, end;       /* of the order of ranges */
    int64_t n, part;      /* elements, and those that a server has */
    int64_t word, served; /* where it begins in a row of signs, and in the server's errors */
} tx_compressed_bundle;

/* Of sums that are sent as signs (compressed.h). */
typedef struct tx_compressed {
    bool on, goes;       /* the step is taken */
    tx_optim_signs step; /* what it is */
    int64_t served,
        served_before; /* elements of all parts that this rank is the server of; of buckets before the next */
    struct {
        int64_t words, tensors;
    } most;               /* of a bucket */
    float *worker;        /* owned; [kept] errors */
    float *server;        /* owned; [served] */
    int32_t *sent, *got;  /* owned; [ranks, words] signs */
    double *size, *sizes; /* owned; [tensors + 2], [ranks, tensors] */
    double *blocks;       /* owned; sums of squares, and those: */
    int64_t *squares;     /* owned */
    int64_t *rows;        /* owned; [ranks] */
    bool together;        /* there are bundles; else the next ones are not there */
    tx_compressed_bundle bundle[3];
    int n_bundles;
    int *order, *bundle_of; /* owned; [ranges]; of a range */
    int64_t *begin;         /* owned; [ranges] where in its bundle */
    float *scale;           /* owned; the host's copy of a buffer of state */
    float *average;         /* owned; [kept] what is averaged, and its average */
    float *parts;           /* owned; of all ranks, while a checkpoint is saved; NULL before the first one */
} tx_compressed;

/* Of what is sent as integers, and copies nearby (quantized.h). */
typedef struct tx_quantized {
    bool weights, gradients, loco;
    void *second;        /* owned; of values */
    tx_pool words;       /* blocks of buckets that are being gathered */
    int32_t *sent, *got; /* owned; blocks of one bucket's gradients */
    float *sum;          /* owned; of the ranks of a row */
    int64_t *rows;       /* owned; [ranks] */
} tx_quantized;

/* Of what integers leave out of gradients (loco.h). */
typedef struct tx_loco {
    void *error[2];          /* owned; bf16, of each hop */
    double scale, *scale_of; /* what gradients are multiplied by; what a bucket's errors were, owned */
    double rescale;          /* of the bucket that is being summed */
    tx_fragments far;        /* owned; what the second hop's are of */
    char name[2][40];        /* in checkpoints */
} tx_loco;

typedef struct tx_zero {
    tx_unit_hooks hooks; /* for a model's batches */
    tx_ctx *c;           /* borrowed, as the next three */
    tx_params *ps;
    const tx_config *cfg;
    const tx_grid *grid;
    tx_dtype dtype;               /* of values */
    tx_dtype grad_type, sum_type; /* of gradients: as they are kept, and as they are summed over a bucket's group */
    int stage;
    bool train;
    bool mics;        /* near ranks divide all among them, as other near ones do */
    int counted_over; /* tx_group_kind: what is counted is so once among these ranks */
    int n_state;      /* buffers of the optimizer, and where they have what: */
    tx_state_table table[TX_OPTIM_MAX_STATE];
    bool reduce_every_micro_batch; /* gradients are summed over the ranks after each micro-batch */
    bool overlap;                  /* sums are made while backward goes on */
    bool spreads_late;             /* new values of buckets that all ranks have are gathered while forward goes on */
    tx_flat flat;
    tx_bucket_now *now; /* [flat.n_buckets] */
    tx_unit_now *unit;  /* [units] */
    int *reduce_queue;  /* [flat.n_buckets] buckets that are being summed, the oldest first */
    int n_queued;
    int64_t persistent_numel; /* elements of all persistent buckets */
    int64_t live;             /* elements that are gathered now */
    tx_pool values, grads, sums, work;
    /* flat buffers; of which of them is what, see zero.h; NULL: offloaded */
    void *value, *persistent, *persistent_base; /* persistent is aligned for a disk */
    void *grad;
    float *master, *state[TX_OPTIM_MAX_STATE];
    tx_offload offload;
    tx_matrices matrices;
    tx_factors factors;
    tx_compressed compressed;
    tx_quantized quantized;
    tx_loco loco;
    /* what is kept, bucket by bucket in the order of memory, cut where offload.h cuts: */
    tx_fragment *fragment;
    tx_optim_range *range;   /* the fragment's numbers; without training masters or values only */
    int n_ranges, n_trained; /* the first ones are those of what is trained */
    int *first_range;        /* [flat.n_buckets + 1] of each bucket */
    tx_optim optim;
    tx_optim_step step; /* the last one */
    tx_zero_norms norms;
    struct {
        const tx_param *param; /* NULL: in no gradient, or there was no watch */
        int64_t element;
    } hit; /* which gradient of this iteration the first hit of the context's watch is in */
} tx_zero;

/* ---- shared by the files of the room ---- */

/* tx_group_kind: the ranks that divide among them what a reduce group's parameters have: those of the group, or with
 * MiCS the near ones of them. */
int tx__sharers(const tx_zero *z, int reduce_group);

/* The ranks that a bucket's gradients are summed over in backward, and those that its parts are divided over: the same,
 * or with stage 0 this rank alone. */
tx_comm *tx__bucket_group(const tx_zero *z, int bucket);
tx_comm *tx__bucket_owners(const tx_zero *z, int bucket);

/* A pool buffer more, in a dry run: for a bucket and others of its kind, and for a unit in z->work. */
tx_status tx__zero_add_buffer(const tx_zero *z, tx_pool *t, int bucket, int *out);
tx_status tx__zero_add_work(tx_zero *z, int unit, int *out);
int tx__unit_kind(const tx_zero *z, int unit); /* of its buffer in z->work */

/* Elements that a parameter takes there. */
static inline int64_t tx__row_room(const tx_param *p)
{
    return p->frozen ? 0 : (p->numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
}

/* quantized.c: whether a bucket's gradients are sent as blocks. */
bool tx__quantizes_sum(const tx_zero *z, int bucket);

/* The hooks: gather.c and sums.c. */
tx_status tx__zero_gather(void *z, int unit, int next);
tx_status tx__zero_release(void *z, int unit, bool again);
tx_status tx__zero_pre_backward(void *z, int unit);
tx_status tx__zero_post_backward(void *z, int unit, bool last);

void tx__zero_drop_all(tx_zero *z);                     /* gather.c: values change */
tx_status tx__zero_gather_wait(tx_zero *z, int bucket); /* until it is there */

/* zero_norms.c: the order, which range_of reads; and what goes before the update of an optimizer that measures, a
 * collective of the ranks that share tensors. TX_ERR_NOMEM. */
tx_status tx__zero_norms_open(tx_zero *z);
void tx__zero_norms_close(tx_zero *z);
tx_status tx__zero_measure(tx_zero *z, const tx_optim_step *s);
tx_status tx__zero_add_norms(tx_zero *z, tx_tensor sums); /* over the ranks that share tensors */

/* Points the values, or the gradients, of the bucket's rows into `data`, where the bucket begins; NULL: nowhere. The
 * gradients only where layers write them there, in fp32. */
void tx__zero_bind_values(tx_zero *z, int bucket, void *data);
void tx__zero_bind_grads(tx_zero *z, int bucket, void *data);

/* The gradients of bucket k that this rank keeps. */
tx_tensor tx__zero_kept_grads(const tx_zero *z, int k);

/* Stage 3: the kept values of a bucket, in memory (not where they are offloaded), and copied to @y from where they are.
 */
tx_tensor tx__zero_value_part(const tx_zero *z, int bucket);
tx_status tx__zero_read_part(tx_zero *z, int bucket, tx_tensor y);

/* After the masters have changed: gathers the values of bucket k that all ranks have, from the ranks that keep their
 * parts. It is waited for where a unit uses them, or by tx_zero_settle. */
tx_status tx__zero_spread_start(tx_zero *z, int k);
tx_status tx__zero_spread_dry(tx_zero *z); /* where an iteration begins */

/* Points a range to numbers of an array. */
void tx__zero_point(const tx_zero *z, tx_optim_range *r, int array, void *x);

/* The i-th bucket of a unit, from 0; -1: there are no more. And of those that are trained. */
int tx__zero_bucket_of(const tx_zero *z, int unit, int i);
int tx__zero_trained_of(const tx_zero *z, int unit, int i);

/* Whether some of what a rank has is not trained and has values of 16 bits: then there is no other master of these. */
bool tx__zero_has_low_masters(const tx_zero *z);

#endif
