/* zero.h - which part of parameters, gradients and optimizer state a data-parallel rank keeps, and when the rest is
 * gathered and dropped. ZeRO, arXiv:1910.02054; stages as DeepSpeed counts them:
 *
 *      stage     0         1          2          3
 *      value     whole     whole      whole      kept          what layers compute with
 *      gradient  whole     whole      kept       kept          --grad-dtype: fp32, or the value's type
 *      master    whole     kept       kept       kept          fp32; the value itself where that is fp32
 *      state     whole     kept       kept       kept          the optimizer's
 *
 *      stage 0, 1   all micro-batches add to whole gradients. In the backward of the last one, buckets are summed over
 *                   the ranks as soon as they are complete: all-reduce, or reduce-scatter
 *      stage 2, 3   a micro-batch's gradients are written to buffers of a pool, summed over the ranks (reduce-scatter)
 *                   and added to what is kept. With --reduce-every-micro-batch stages 0 and 1 do the same, stage 0
 *                   with all-reduces: then all stages come to the same bits
 *      stage 1, 2   the values of an updated bucket are gathered from the ranks that keep its parts, while the next
 *                   forward goes on: a unit waits for its own
 *      stage 3      a unit's values are gathered before they are used, the next unit's while this one's are used, and
 *                   dropped after that; small parameters are persistent (flat.h): they are gathered after the update
 *
 *  Layers write gradients in fp32, in whatever type they are kept. Where that type is bf16 or fp16, layers write the
 *  gradients of a unit to a buffer of a pool; after the unit's backward they are rounded to where they are kept, or in
 *  later micro-batches added to it:
 *
 *      backward of a unit      --> work, fp32 --round, add--> gradients, --grad-dtype
 *      a bucket is complete        gradients --(cast)--> sums over the data ranks, --grad-reduce-dtype --> gradients
 *
 *  A sum between ranks is made in fp32 and rounded once (comm/comm.h). Where --grad-reduce-dtype is another type than
 *  --grad-dtype, buckets are summed in buffers of that type.
 *
 *  With one micro-batch per iteration every stage has the bits of stage 0: sums are made in the order of the ranks,
 *  however they are cut (comm/comm.h), and the norm does not depend on any order (base/exact.h).
 *
 *  Before the sums over data-parallel ranks come those over tensor-parallel ranks, of TX_PARTS parameters with sequence
 *  parallelism; after them those over the ends of the pipeline, of a tied matrix. The weights of the loss contain the
 *  division by the number of data-parallel ranks, so sums are averages.
 *
 *  MiCS (--mics-shard-size), Zhang et al., arXiv:2205.00119: near ranks divide among them what above the data-parallel
 *  ranks do, and keep sums over near ranks. What they keep is summed over far ranks once, before the update; so their
 *  order is that of near ranks, then that of rows (parallel/grid.h).
 *
 *  It is opened in a dry run, which finds how many buffers the pools need; then it takes its memory.
 *
 *  Files: flat.c buckets and parts, pool.c buffers, gather.c values, sums.c gradients, zero_numbers.c access to the
 *  numbers, offload.c, bounce.c and tier.c what is offloaded, matrices.c updates of whole matrices, compressed.c
 *  sums that are sent as signs, quantized.c ZeRO++. */
#ifndef TX_ZERO_ZERO_H
#define TX_ZERO_ZERO_H

#include "zero/offload.h"
#include "zero/zero_state.h"

/* Bytes, by what they are for. */
typedef struct tx_zero_memory {
    size_t params, persistent, gathered; /* kept values; persistent ones; the pool that the others are gathered in, and
                                          * memory that offloaded ones are updated in */
    size_t grads, buckets;               /* kept gradients; the pools of those that are not summed yet */
    size_t optimizer;                    /* master weights and state */
    size_t matrices;                     /* what updates of whole matrices, and of their rows and columns, work in */
    size_t compressed;                   /* what sums that are sent as signs leave out, and work in */
    size_t quantized;                    /* second copies, and what is sent as integers of a few bits */
    size_t host, nvme;                   /* what is offloaded, to memory and to a disk */
    size_t disk_buffers;                 /* memory that it is read into */
} tx_zero_memory;
tx_zero_memory tx_zero_memory_of(const tx_zero *z);

typedef struct tx_zero_args {
    const tx_config *cfg;
    tx_dtype dtype;                       /* of the parameters */
    bool train;                           /* false: there is no optimizer and nothing is divided */
    const tx_client_optimizer *optimizer; /* in place of the options'; or NULL */
} tx_zero_args;

/* Lays out the table of ctx's rank, and points weights to addresses that a dry run computes with. TX_ERR_NOMEM;
 * TX_ERR_ARG, TX_ERR_UNSUPPORTED: an optimizer that cannot be. */
tx_status tx_zero_open(tx_zero *z, tx_ctx *c, tx_params *ps, const tx_zero_args *args);

/* After the dry run: takes all memory. TX_ERR_NOMEM. */
tx_status tx_zero_take(tx_zero *z);
void tx_zero_close(tx_zero *z); /* a zeroed one is fine */

/* ---- an iteration: begin; forwards and backwards, which call the hooks; finish; step ---- */

tx_status tx_zero_begin(tx_zero *z);
tx_status tx_zero_finish(tx_zero *z); /* all sums are there */
/* After tx_optim_clip: the update, where the norm is finite. It does not wait for a device. */
tx_status tx_zero_step(tx_zero *z, double lr, double weight_decay);
/* Waits for the values that the update left under way (stages 1 and 2: each unit's are waited for where it uses them).
 * Before anything else looks at values or changes masters. Collective. */
tx_status tx_zero_settle(tx_zero *z);
/* The result of the update, as tx_optim_clipped reports it; it counts if it was taken. */
tx_status tx_zero_stepped(tx_zero *z, double *norm, const char **bad);

/* ---- the numbers (zero_numbers.c; fetch and flush: offload.h) ---- */

/* Initial values of what is kept. */
tx_status tx_zero_init(tx_zero *z, uint64_t seed, tx_init_method method);

/* Sets the weights from a flat buffer of all the table's.   @whole [ps->numel] */
tx_status tx_zero_set_weights(tx_zero *z, const float *whole);

/* After a change of the masters: values from them, everywhere. Collective over the data-parallel ranks. The two above
 * end with it. */
tx_status tx_zero_publish(tx_zero *z);

/* Elements [first, first + n) of an array (TX_ARRAY_...), counted in its own buffer, that the host does not see, for
 * checkpoints: it is offloaded, or in a device's memory. After stores: tx_zero_publish.   @x [n] */
tx_status tx_zero_move(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store);

/* A whole buffer, z->master or z->grad, of type t, as the host sees it in fp32: *x, which is *owned (tx_free) where it
 * is a copy. */
tx_status tx_zero_see_whole(const tx_zero *z, void *whole, tx_dtype t, float **x, float **owned);

/* The numbers of range i as the host sees them: *x points to them, or to a copy in room.   @room [numel] */
tx_status tx_zero_see_master(tx_zero *z, int i, const float **x, float *room);

/* Whether this rank is the first of all that have a parameter. */
bool tx_zero_first(const tx_zero *z, const tx_param *p);

/* Whether the host sees an array of range i in place. */
bool tx_zero_in_host(const tx_zero *z, int array, int i);

/* All masters side by side, in a device's memory where there is one; NULL: some are offloaded. */
float *tx_zero_masters(const tx_zero *z);

/* The masters of what this rank keeps of a row of the table, out of x or into it. After stores: tx_zero_step, where all
 * gradients of the row are 0, or tx_zero_publish.   @x [numel of the row] */
tx_status tx_zero_store_row(tx_zero *z, int row, const float *x);
tx_status tx_zero_load_row(tx_zero *z, int row, float *x);

/* From now on an update is followed by the multiplication of each `block` elements of a row's shard by the number that
 * `scale`, the caller's, has for it then.   @scale [numel of the shard / block] */
void tx_zero_scale_row(tx_zero *z, int row, int64_t block, const double *scale);

/* Which of the flat buffers hold all of the table, and not only what is kept. */
bool tx_zero_whole_values(const tx_zero *z);
bool tx_zero_whole_masters(const tx_zero *z);

#endif
