/* zero.h - which part of parameters, gradients and optimizer state a data-parallel rank keeps, and when the rest comes
 * and goes. ZeRO, arXiv:1910.02054; stages as DeepSpeed counts them:
 *
 *      stage     0         1          2          3
 *      value     whole     whole      whole      kept          what layers compute with
 *      gradient  whole     whole      kept       kept          --grad-dtype: fp32, or the value's type
 *      master    whole     kept       kept       kept          fp32; the value itself where that is fp32
 *      state     whole     kept       kept       kept          the optimizer's
 *
 *      stage 0, 1   all micro-batches add to whole gradients; the last one's backward sums buckets over the ranks as
 * they are complete: all-reduce, or reduce-scatter stage 2, 3   a micro-batch's gradients are written to memory that
 * buckets take turns in, summed over the ranks (reduce-scatter) and added to what is kept. Stages 0 and 1 do the same
 * with
 *                   --reduce-every-micro-batch, stage 0 with all-reduces: then all stages come to the same bits
 *      stage 1, 2   an updated bucket's values are gathered from the ranks that keep its parts
 *      stage 3      a unit's values are gathered before they are used, the next unit's while this one's are used, and
 *                   dropped behind it; what is small stays (flat.h) and is gathered behind the update
 *
 *  Layers write gradients in fp32 whatever they are kept in. Where that is bf16 or fp16 they write those of a unit of
 * parameters to memory that units take turns in, and behind a unit's backward these are rounded to where they are kept,
 * or in later micro-batches added to it:
 *
 *      backward of a unit      --> work, fp32 --round, add--> gradients, --grad-dtype
 *      a bucket is complete        gradients --(cast)--> sums over the data ranks, --grad-reduce-dtype --> gradients
 *
 *  A sum between ranks is made in fp32 and rounded once (comm/comm.h). Where --grad-reduce-dtype is another type than
 * --grad-dtype buckets take turns in memory of that type to be summed.
 *
 *  With one micro-batch per iteration every stage has the bits of stage 0: sums are made in the order of the ranks,
 *  however they are cut (comm/comm.h), and the norm has no order (base/exact.h).
 *
 *  Before the sums over data-parallel ranks come those over tensor-parallel ranks, of TX_PARTS parameters with sequence
 *  parallelism; behind them those over the ends of the pipeline, of a tied matrix. The weights of the loss have the
 *  division by the number of data-parallel ranks in them, so sums are averages.
 *
 *  Opened in a dry run, which finds how much memory takes turns; then takes that. */
#ifndef TX_ZERO_ZERO_H
#define TX_ZERO_ZERO_H

#include "optim/optim.h"
#include "parallel/grid.h"
#include "zero/flat.h"
#include "zero/offload.h"

/* Memory that one bucket after the other is in. */
typedef struct tx_pool_buffer {
    int kind, bucket; /* -1: free */
    int64_t numel;
    void *data; /* aligned for a disk */
    void *base; /* shared; owned */
} tx_pool_buffer;

typedef struct tx_pool {
    tx_pool_buffer *buffer; /* owned */
    int n;
    size_t size; /* of an element */
} tx_pool;

/* What is going on with a bucket. */
typedef struct tx_bucket_now {
    int value; /* stage 3: the turn that it is gathered in, or -1 */
    int users;
    bool reading, gathering; /* this rank's part comes from where it is offloaded; all parts come */
    int grad;                /* the turn that its gradients are collected in, or -1 */
    int sums;                /* the turn of another type that they are summed in, or -1 */
    int left;                /* units whose gradients are not complete */
    bool summing, summed;    /* summed: what is kept has a micro-batch's sum */
    tx_request gather, sum;
    tx_tier_request read;
} tx_bucket_now;

/* What is going on with a unit of parameters. */
typedef struct tx_unit_now {
    bool in_backward; /* this micro-batch contributes to its gradients */
    bool added;       /* an earlier one has, in this iteration: what is kept is added to */
    int work;         /* the turn that it writes them to, or -1: they are written where they are collected */
} tx_unit_now;

typedef struct tx_zero {
    tx_unit_hooks hooks; /* for a model's batches */
    tx_ctx *c;           /* borrowed, as the next four */
    tx_params *ps;
    const tx_config *cfg;
    const tx_grid *grid;
    tx_comm *data;                /* the ranks that parts are divided over */
    tx_dtype dtype;               /* of values */
    tx_dtype grad_type, sum_type; /* of gradients: kept, and while they are summed over the data ranks */
    int stage;
    bool train;
    int n_state;                   /* buffers of the optimizer */
    bool reduce_every_micro_batch; /* gradients of one micro-batch at a time */
    bool overlap;                  /* sums go on while backward does */
    tx_flat flat;
    tx_bucket_now *now; /* [flat.n_buckets] */
    tx_unit_now *unit;  /* [units] */
    int *reduce_queue;  /* [flat.n_buckets] buckets that are being summed, the oldest first */
    int n_queued;
    int64_t persistent_numel; /* elements of all buckets that stay */
    int64_t live;             /* elements that are gathered now */
    tx_pool values, grads, sums, work;
    /* flat buffers; of which of them is what, see above; NULL: offloaded */
    void *value, *persistent, *persistent_base; /* stay is aligned for a disk */
    void *grad;
    float *master, *state[TX_OPTIM_MAX_STATE];
    tx_offload offload;
    /* what is kept, bucket by bucket in the order of memory, cut where offload.h cuts: */
    tx_fragment *fragment;
    tx_optim_range *range; /* the piece's numbers; without training masters or values only */
    int n_ranges;
    int *first_range; /* [flat.n_buckets + 1] of each bucket */
    tx_optim optim;
    struct {
        const tx_param *param; /* NULL: in no gradient, or there was no watch */
        int64_t element;
    } hit; /* which gradient of this iteration the first hit of the context's watch is in */
} tx_zero;

/* Bytes, by what they are for. */
typedef struct tx_zero_memory {
    size_t params, persistent, gathered; /* kept values; what stays gathered; what is gathered in turns */
    size_t grads, buckets;               /* kept gradients; those that are on their way */
    size_t optimizer;                    /* master weights and state */
    size_t host, nvme;                   /* what is offloaded, to memory and to a disk */
    size_t disk_buffers;                 /* memory that it passes through */
} tx_zero_memory;
tx_zero_memory tx_zero_memory_of(const tx_zero *z);

/* Lays out the table of ctx's rank, whose parameters are of dtype t, and points weights to addresses that a dry run
 * computes with. Without `train` there is no optimizer and nothing is divided. TX_ERR_NOMEM;
 * TX_ERR_ARG, TX_ERR_UNSUPPORTED: an optimizer that cannot be.
 * @client an optimizer in place of the options', or NULL */
tx_status tx_zero_open(tx_zero *z, tx_ctx *c, tx_params *ps, const tx_config *cfg, tx_dtype t, bool train,
                       const tx_client_optimizer *client);

/* Behind the dry run: takes all memory. TX_ERR_NOMEM. */
tx_status tx_zero_take(tx_zero *z);
void tx_zero_close(tx_zero *z); /* a zeroed one is fine */

/* ---- an iteration: begin; forwards and backwards, which call the hooks; finish; step ---- */

tx_status tx_zero_begin(tx_zero *z);
tx_status tx_zero_finish(tx_zero *z); /* all sums are there */
/* Behind tx_optim_clip: the update, where the norm is finite. It does not wait for a device. */
tx_status tx_zero_step(tx_zero *z, double lr, double weight_decay);
/* What came of it, as tx_optim_clipped says; it counts if it was taken. */
tx_status tx_zero_stepped(tx_zero *z, double *norm, const char **bad);

/* ---- the numbers ---- */

/* Brings the numbers of range i, where they are offloaded, and those behind it under way: to be called in the order of
 * ranges. Behind the last one that was changed: tx_zero_flush. `what` as in optim.h. TX_ERR_IO. */
tx_status tx_zero_fetch(tx_zero *z, int i, unsigned what, bool changes);
tx_status tx_zero_flush(tx_zero *z);

/* Bytes moved since it was opened, of what is offloaded: from where it is kept to where it is used and back, and, where
 * layers compute on a device, to that and from it. What the host updates where it lies is not moved. */
typedef struct tx_zero_moved {
    uint64_t fetched, stored, up, down;
} tx_zero_moved;
tx_zero_moved tx_zero_moved_so_far(const tx_zero *z);

/* Initial values of what is kept. */
tx_status tx_zero_init(tx_zero *z, uint64_t seed, tx_init_method method);

/* The weights out of a flat buffer of all the table's.   @whole [ps->numel] */
tx_status tx_zero_set_weights(tx_zero *z, const float *whole);

/* Behind a change of the masters: values from them, everywhere. Collective over the data-parallel ranks. The two above
 * end with it. */
tx_status tx_zero_publish(tx_zero *z);

/* Elements [first, first + n) of an array (offload.h) of what is kept that the host does not see, for checkpoints: it
 * is offloaded, or in a device's memory. Behind stores: tx_zero_publish.   @x [n] */
tx_status tx_zero_move(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store);

/* A whole buffer, z->master or z->grad, of type t, as the host sees it in fp32: *x, which is *owned (tx_free) where it
 * is a copy. */
tx_status tx_zero_see_whole(const tx_zero *z, void *whole, tx_dtype t, float **x, float **owned);

/* The numbers of range i as the host sees them: *x points to them, or to a copy in room.   @room [numel] */
tx_status tx_zero_see_master(tx_zero *z, int i, const float **x, float *room);

/* Whether the host sees an array where it lies. */
bool tx_zero_in_host(const tx_zero *z, int array);

/* Which of the flat buffers hold all of the table, and not what is kept alone. */
bool tx_zero_whole_values(const tx_zero *z);
bool tx_zero_whole_masters(const tx_zero *z);

/* ---- inside the room ---- */

tx_status tx__pool_take(tx_pool *t, tx_device *d, const char *what);
void tx__pool_close(tx_pool *t, tx_device *d);
size_t tx__pool_bytes(const tx_pool *t);
int tx__pool_find(const tx_pool *t, int kind);                              /* a free one, or -1 */
tx_status tx__pool_add(tx_pool *t, const tx_zero *z, int bucket, int *out); /* in a dry run */
tx_status tx__pool_add_unit(tx_pool *t, const tx_zero *z, int unit, int *out);
int tx__unit_kind(const tx_zero *z, int unit); /* of its turn in z->work */

/* Elements that a parameter takes there. */
static inline int64_t tx__row_room(const tx_param *p)
{
    return (p->numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
}

/* Hooks: gather.c and sums.c. */
tx_status tx__zero_gather(void *z, int unit, int next);
tx_status tx__zero_release(void *z, int unit, bool again);
tx_status tx__zero_pre_backward(void *z, int unit);
tx_status tx__zero_post_backward(void *z, int unit, bool last);

void tx__zero_drop_all(tx_zero *z); /* gather.c: values change */

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

/* Points a range to numbers of an array (offload.h). */
void tx__zero_point(const tx_zero *z, tx_optim_range *r, int array, void *x);

/* The i-th bucket of a unit, from 0; -1: there are no more. */
int tx__zero_bucket_of(const tx_zero *z, int unit, int i);

#endif
