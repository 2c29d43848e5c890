/* offload.h - optimizer state, and with ZeRO-3 parameters, that are somewhere else until they are needed. ZeRO-Offload,
 * arXiv:2101.06840; ZeRO-Infinity, arXiv:2104.07857.
 *
 *      what is kept   | bucket 0           | bucket 1      | ...
 *      chunks         | 0     | 1     | 2  | 3     | 4     | ...    at most --zero-sub-group-size elements each
 *      places             0       1     2      3       0            --offload-optimizer-buffer-count of them
 *
 *  The update goes over the chunks: while one is computed those ahead of it are read and those behind it written. What
 * is offloaded is updated in the host's memory: gradients are where the sums put them, new values go back to where
 * layers look. Numbers in the host's memory are used where they lie; those on a disk pass through a place. */
#ifndef TX_ZERO_OFFLOAD_H
#define TX_ZERO_OFFLOAD_H

#include "optim/optim.h"
#include "zero/tier.h"

struct tx_zero;
struct tx__bounce;

/* Arrays of what is kept. TX_ARRAY_VALUE is what layers compute with; in fp32 there is no other master. */
enum { TX_ARRAY_VALUE, TX_ARRAY_MASTER, TX_ARRAY_STATE, TX_N_ARRAYS = TX_ARRAY_STATE + TX_OPTIM_MAX_STATE };

typedef struct tx_chunk {
    int64_t at, n;  /* of a kept buffer */
    int first, end; /* ranges */
} tx_chunk;

/* Memory that chunks on a disk pass through, one after the other. */
typedef struct tx_disk_buffer {
    int chunk;     /* -1: none */
    unsigned have; /* arrays that are there: a bit each */
    bool changed;
    void *buf[TX_N_ARRAYS]; /* owned; NULL: not on a disk */
    tx_tier_request request[TX_N_ARRAYS];
} tx_disk_buffer;

typedef struct tx_offload {
    tx_tier *optimizer, *params, *params_near; /* NULL: not offloaded; the last: of params what stays in memory */
    int array[TX_N_ARRAYS];                    /* its number in its tier; -1: not offloaded */
    int64_t near; /* elements of params_near, the first ones of what is kept (--offload-param-max-in-cpu) */
    tx_chunk *chunk;
    int n_chunks;
    int *of_range;
    tx_disk_buffer *buffer;
    int n_buffers;
    int current;                     /* the chunk that ranges point into, or -1 */
    struct tx__bounce *bounce;       /* bounce.c's, where layers compute on a device */
    size_t host, nvme, buffer_bytes; /* bytes: of a plan, or taken */
} tx_offload;

/* Whether anything is; the optimizer; an array. */
bool tx__offloads(const struct tx_zero *z);
bool tx__offloads_optimizer(const struct tx_zero *z);
bool tx__is_offloaded(const struct tx_zero *z, int array);

/* Elements that a chunk ends at, behind its bucket's begin; 0: anywhere. */
int64_t tx__offload_chunk(const struct tx_zero *z);

/* Behind the layout: what it will take. Behind the dry run: takes it; z's ranges are there. TX_ERR_NOMEM, TX_ERR_IO. */
void tx__offload_plan(struct tx_zero *z);
tx_status tx__offload_open(struct tx_zero *z);
void tx__offload_close(struct tx_zero *z);

/* A tx_fetch_fn; the user is the tx_zero. What goes with it, tx_zero_flush and tx_zero_move, is in zero.h. */
tx_status tx__offload_fetch(void *z, int range, unsigned what, bool changes);

/* tx_zero_move of an offloaded array. */
tx_status tx__offload_move(struct tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store);

/* bounce.c: where layers compute on a device, numbers pass through pinned memory on their way between it and the host's
 * update, of ranges some of whose arrays are offloaded. They are copied beside other work: gradients of the ranges to
 * come, and values of those that are done. */
tx_status tx__bounce_open(struct tx_zero *z);
void tx__bounce_close(struct tx_zero *z);
tx_status tx__bounce_step_some(struct tx_zero *z, const tx_optim_step *s, int first, int end);

/* Bytes to the device and from it. */
void tx__bounce_moved(const struct tx_zero *z, uint64_t *up, uint64_t *down);

/* Offloaded values of a bucket on their way to a turn's memory, number `turn`, or with -1 to that of what stays: the
 * place that they are read into, and from there to the device, which the compute stream then waits for. */
tx_status tx__bounce_place(const struct tx_zero *z, int buffer, void **out);
tx_status tx__bounce_up(const struct tx_zero *z, int buffer, void *to, size_t bytes);

/* Offloaded parameters of a bucket, from the disk or the host's memory to @to [part]. */
tx_status tx__offload_values_start(struct tx_zero *z, int bucket, void *to, tx_tier_request *r);

#endif
