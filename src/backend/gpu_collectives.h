/* gpu_collectives.h - sums and copies between several GPUs, by the vendor's library (NCCL, RCCL), as a module offers
 * them (gpu_module.h). Ranks of a group, each with a GPU of its own, open a team; their calls, made in the same
 * order, are queued in the communication stream of their devices, and run there once all ranks have reached them.
 *
 *  No call waits for other ranks. Opening, and a team's first calls, complete in the background; until `settled`
 * reports that they are done, nothing else may be called on the team. */
#ifndef TX_BACKEND_GPU_COLLECTIVES_H
#define TX_BACKEND_GPU_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/tensor.h"
#include "base/device.h"

enum { TX_GPU_ID_BYTES = 128 };
enum { TX_GPU_REDUCE_SUM, TX_GPU_REDUCE_MAX, TX_GPU_REDUCE_MIN };

typedef struct tx_gpu_team tx_gpu_team;

/* Of an all-to-all: x has send_rows[i] rows of `width` elements for rank i of n, y gets recv_rows[i] from it. */
typedef struct tx_gpu_rows {
    void *y;
    const void *x;
    const int64_t *send_rows, *recv_rows;
    int64_t width;
    int n;
} tx_gpu_rows;

typedef struct tx_gpu_collectives {
    /* "NCCL 2.28.9"; TX_ERR_NOTFOUND: why the library cannot be used.  @out [64] */
    tx_status (*library)(char *out, size_t cap);

    /* An id that the team's first rank makes and sends to the others.  @id [TX_GPU_ID_BYTES] */
    tx_status (*id)(unsigned char *id);
    tx_status (*open)(tx_gpu_team **out, tx_device *d, const unsigned char *id, int size, int rank);

    /* Whether the calls so far have been queued; or the error that the library has met since. */
    tx_status (*settled)(tx_gpu_team *t, bool *done);

    /* n elements: of x; of a part in a reduce_scatter and an all_gather, where y and x may be in place. */
    tx_status (*all_reduce)(tx_gpu_team *t, void *x, int64_t n, tx_dtype type, int reduce);
    tx_status (*reduce_scatter)(tx_gpu_team *t, void *y, const void *x, int64_t n, tx_dtype type);
    tx_status (*all_gather)(tx_gpu_team *t, void *y, const void *x, int64_t n, tx_dtype type);
    tx_status (*broadcast)(tx_gpu_team *t, void *x, int64_t n, tx_dtype type, int root);

    tx_status (*all_to_all)(tx_gpu_team *t, const tx_gpu_rows *rows, tx_dtype type);

    void (*close)(tx_gpu_team *t); /* after all its calls are done */
    void (*abort)(tx_gpu_team *t); /* instead of close: calls that wait for other ranks end without a result */
} tx_gpu_collectives;

#endif
