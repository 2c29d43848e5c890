/* zero.h - which part of parameters, gradients and optimizer state a data-parallel rank keeps, and when the rest comes
 * and goes. ZeRO, arXiv:1910.02054; stages as DeepSpeed counts them:
 *
 *      stage     0         1          2          3
 *      value     whole     whole      whole      kept          what layers compute with
 *      gradient  whole     whole      kept       kept          fp32
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

/* Memory that one bucket after the other is in. */
typedef struct tx_turn {
    int kind, bucket; /* -1: free */
    int64_t numel;
    void *data; /* shared; owned */
} tx_turn;

typedef struct tx_turns {
    tx_turn *turn; /* owned */
    int n;
    size_t size; /* of an element */
} tx_turns;

/* What is going on with a bucket. */
typedef struct tx_bucket_now {
    int value; /* stage 3: the turn that it is gathered in, or -1 */
    int users;
    bool gathering;
    int grad;             /* the turn that its gradients are written to, or -1 */
    int left;             /* units whose gradients are not complete */
    bool summing, summed; /* summed: what is kept has a micro-batch's sum */
    tx_request gather, sum;
} tx_bucket_now;

typedef struct tx_zero {
    tx_unit_hooks hooks; /* for a model's batches */
    tx_ctx *c;           /* borrowed, as the next four */
    tx_params *ps;
    const tx_config *cfg;
    const tx_grid *grid;
    tx_comm *data; /* the ranks that parts are divided over */
    tx_dtype dtype;
    int stage;
    bool train;
    bool passing; /* gradients of one micro-batch at a time */
    bool overlap; /* sums go on while backward does */
    tx_flat flat;
    tx_bucket_now *now; /* [flat.n_buckets] */
    bool *touched;      /* [units] */
    int *line;          /* [flat.n_buckets] buckets that are being summed, the oldest first */
    int n_line;
    int64_t stay_numel; /* elements of all buckets that stay */
    int64_t live;       /* elements that are gathered now */
    tx_turns values, grads;
    /* flat buffers; of which of them is what, see above */
    void *value, *stay;
    float *master, *grad, *state[TX_OPTIM_MAX_STATE];
    tx_optim optim;
} tx_zero;

/* Bytes, by what they are for. */
typedef struct tx_zero_memory {
    size_t params, persistent, gathered; /* kept values; what stays gathered; what is gathered in turns */
    size_t grads, buckets;               /* kept gradients; those that are on their way */
    size_t optimizer;                    /* master weights and state */
} tx_zero_memory;
tx_zero_memory tx_zero_memory_of(const tx_zero *z);

/* Lays out the table of ctx's rank, whose parameters are of dtype t, and points weights to addresses that a dry run
 * computes with. Without `train` there is no optimizer and nothing is divided. TX_ERR_NOMEM. */
tx_status tx_zero_open(tx_zero *z, tx_ctx *c, tx_params *ps, const tx_config *cfg, tx_dtype t, bool train);

/* Behind the dry run: takes all memory. TX_ERR_NOMEM. */
tx_status tx_zero_take(tx_zero *z);
void tx_zero_close(tx_zero *z); /* a zeroed one is fine */

/* ---- an iteration: begin; forwards and backwards, which call the hooks; finish; step ---- */

tx_status tx_zero_begin(tx_zero *z);
tx_status tx_zero_finish(tx_zero *z); /* all sums are there */
tx_status tx_zero_step(tx_zero *z, double lr, double weight_decay, double grad_scale);

/* ---- the numbers ---- */

/* Initial values of what is kept. Behind it, as behind any other change of the masters: tx_zero_publish. */
void tx_zero_init(tx_zero *z, uint64_t seed, tx_init_method method);

/* Values from the kept masters, everywhere. Collective over the data-parallel ranks. */
tx_status tx_zero_publish(tx_zero *z);

/* Of stretch i of flat.kept: master, gradient, and the value as layers compute with it. */
float *tx_zero_master(const tx_zero *z, int i);
float *tx_zero_grad(const tx_zero *z, int i);
tx_tensor tx_zero_value(const tx_zero *z, int i);

/* How many of its elements are real; the first ones. */
int64_t tx_zero_n_real(const tx_zero *z, int i);

/* Which of the flat buffers hold all of the table, and not what is kept alone. */
bool tx_zero_whole_values(const tx_zero *z);
bool tx_zero_whole_masters(const tx_zero *z);

/* The master weights of stretch i out of those of all the table.   @whole [ps->numel]. Where only values are kept, as
 * without training, these. */
void tx_zero_set(tx_zero *z, int i, const float *whole);

/* ---- inside the room ---- */

tx_status tx__turns_take(tx_turns *t, const char *what);
void tx__turns_close(tx_turns *t);
size_t tx__turns_bytes(const tx_turns *t);
int tx__turns_find(const tx_turns *t, int kind);                              /* a free one, or -1 */
tx_status tx__turns_add(tx_turns *t, const tx_zero *z, int bucket, int *out); /* in a dry run */

/* Hooks: gather.c and sums.c. */
tx_status tx__zero_use(void *z, int unit, int next);
tx_status tx__zero_leave(void *z, int unit, bool again);
tx_status tx__zero_touch(void *z, int unit);
tx_status tx__zero_done(void *z, int unit, bool last);

void tx__zero_drop_all(tx_zero *z); /* gather.c: values change */

/* Points the values, or the gradients, of the bucket's rows into `data`, where the bucket begins; NULL: nowhere. */
void tx__zero_bind_values(tx_zero *z, int bucket, void *data);
void tx__zero_bind_grads(tx_zero *z, int bucket, float *data);

/* Kept gradients of a bucket: where they begin, and how many. */
float *tx__zero_kept_grad(const tx_zero *z, const tx_bucket *b);
int64_t tx__zero_kept_numel(const tx_zero *z, const tx_bucket *b);

/* Stage 3: the kept values of a bucket. */
tx_tensor tx__zero_value_part(const tx_zero *z, int bucket);

/* The i-th bucket of a unit, from 0; -1: there are no more. */
int tx__zero_bucket_of(const tx_zero *z, int unit, int i);

#endif
