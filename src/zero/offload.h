/* offload.h - optimizer state, and with ZeRO-3 parameters, that are in the host's memory or on a disk until they are
 * needed. ZeRO-Offload, arXiv:2101.06840; ZeRO-Infinity, arXiv:2104.07857.
 *
 *      what is kept   | bucket 0           | bucket 1      | ...
 *      chunks         | 0     | 1     | 2  | 3     | 4     | ...    at most --zero-sub-group-size elements each
 *      buffers            0       1     2      3       0            --offload-optimizer-buffer-count of them
 *
 *  The update goes over the chunks: while one is computed, the chunks after it are read and those before it written.
 * What is offloaded is updated in the host's memory: gradients are where the sums put them, and new values are written
 * to where layers read them. Numbers in the host's memory are used where they are; those on a disk are read into a
 * buffer.
 *
 *      what is kept   | state in the optimizer's own buffers  | state that is offloaded |
 *                     0            updated where layers compute                          updated on the host
 *                                                             ^ near: the second part is --offload-optimizer-ratio
 *
 *  DeepSpeed's Twin-Flow. A chunk ends there, and an update is of each element alone or goes by norms without rounding:
 * so no ratio changes a bit of what one kind of processor computes. */
#ifndef TX_ZERO_OFFLOAD_H
#define TX_ZERO_OFFLOAD_H

#include "zero/zero_state.h"

/* ---- for others ---- */

/* Fetches the numbers of range i, where they are offloaded, and starts to fetch those of the next ranges: to be called
 * in the order of ranges. After the last one that was changed: tx_zero_flush. `what` as in optim.h. TX_ERR_IO. */
tx_status tx_zero_fetch(tx_zero *z, int i, unsigned what, unsigned changes);
tx_status tx_zero_flush(tx_zero *z);

/* Bytes of what is offloaded that were moved since it was opened: from where it is kept to where it is used and back,
 * and, where layers compute on a device, to the device and from it. What the host updates in place is not moved. */
typedef struct tx_zero_moved {
    uint64_t fetched, stored, up, down;
} tx_zero_moved;
tx_zero_moved tx_zero_moved_so_far(const tx_zero *z);

/* ---- inside the room ---- */

/* Whether anything is offloaded; the optimizer, or some of it; an array, or some of it; and its element `at` of what is
 * kept. */
bool tx__offloads(const tx_zero *z);
bool tx__offloads_optimizer(const tx_zero *z);
bool tx__is_offloaded(const tx_zero *z, int array);
bool tx__is_offloaded_at(const tx_zero *z, int array, int64_t at);

/* Elements of an array that are where they are without offload: the first ones of what is kept. */
int64_t tx__not_offloaded(const tx_zero *z, int array);

/* Where an array has element `at` of what is kept, an array that is offloaded: there, or where state_table.h says. */
int64_t tx__offload_place(const tx_zero *z, int array, int64_t at);

/* Whether the update of range i is the host's, while layers compute on a device. */
bool tx__host_updates(const tx_zero *z, int i);

/* Chunks have at most so many elements; 0: nothing is cut. And where the chunk ends that element `at` of bucket k is
 * in: at a multiple of that from the begin of the bucket, or where the offloaded state begins. */
int64_t tx__offload_chunk(const tx_zero *z);
int64_t tx__offload_chunk_end(const tx_zero *z, int k, int64_t at);

/* After the layout: what it will take. After the dry run: takes it; z's ranges are there. TX_ERR_NOMEM, TX_ERR_IO. */
void tx__offload_plan(tx_zero *z);
tx_status tx__offload_open(tx_zero *z);
void tx__offload_close(tx_zero *z);

/* A tx_fetch_fn: tx_zero_fetch; the user is the tx_zero. */
tx_status tx__offload_fetch(void *z, int range, unsigned what, unsigned changes);

/* tx_zero_move of an offloaded array. */
tx_status tx__offload_move(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store);

/* Starts to read the offloaded parameters of a bucket, from the disk or the host's memory, to @to [part]. */
tx_status tx__offload_values_start(tx_zero *z, int bucket, void *to, tx_tier_request *r);

/* bounce.c: where layers compute on a device, numbers pass through pinned memory between it and the host's update, of
 * ranges some of whose arrays are offloaded. They are copied while other work goes on: gradients of the ranges to come,
 * and values of those that are done. */
tx_status tx__bounce_open(tx_zero *z);
void tx__bounce_close(tx_zero *z);
tx_status tx__bounce_step_some(tx_zero *z, const tx_optim_step *s, int first, int end);
tx_status tx__bounce_measure_some(tx_zero *z, const tx_optim_step *s, int first, int end);
tx_status tx__bounce_direct_some(tx_zero *z, const tx_optim_step *s, int first, int end);

/* Bytes to the device and from it. */
void tx__bounce_moved(const tx_zero *z, uint64_t *up, uint64_t *down);

/* Offloaded values of a bucket that go to pool buffer number `buffer` of z->values, or with -1 to a persistent bucket:
 * the pinned place that they are read into; and the copy from there to the device, which the compute stream then waits
 * for. */
tx_status tx__bounce_place(const tx_zero *z, int buffer, void **out);
tx_status tx__bounce_up(const tx_zero *z, int buffer, void *to, size_t bytes);

#endif
