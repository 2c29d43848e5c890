/* tensorboard.h - event files that TensorBoard reads, with Megatron's tags: what --tensorboard-dir asks for.
 *
 *  A file is a row of records  [u64 n] [u32 crc of the 8 bytes] [n bytes: Event] [u32 crc of them],  little-endian; the
 *  crc is CRC32C, masked. Event is a protocol buffer: tensorflow/core/util/event.proto, summary.proto. */
#ifndef TX_REPORT_TENSORBOARD_H
#define TX_REPORT_TENSORBOARD_H

#include "base/append.h"
#include "base/step_record.h"
#include "base/str.h"
#include "config/config.h"

typedef struct tx_tensorboard {
    tx_append file;
    const tx_config *cfg;         /* borrowed */
    double wall_time;             /* of the records at hand */
    tx_str records;               /* of one call, written at once */
    tx_str event, summary, value; /* of the record at hand; kept, so that later steps allocate nothing */
} tx_tensorboard;

/* Begins a new file "events.out.tfevents.<time>.<host>.<pid>.<n>" in --tensorboard-dir; the options go in as text at
 * `iteration`. */
tx_status tx_tensorboard_open(tx_tensorboard *tb, const tx_config *cfg, int64_t iteration);

/* Scalars of a step, an interval or an evaluation, as the options ask. */
tx_status tx_tensorboard_put(tx_tensorboard *tb, const tx_step_record *r);

/* Scalars of any tags at a step. */
tx_status tx_tensorboard_scalars(tx_tensorboard *tb, const tx_named_number *x, int n, int64_t step);

void tx_tensorboard_close(tx_tensorboard *tb); /* a zeroed one is fine */

/* ---- for tests ---- */

/* CRC32C (Castagnoli), and its form in records: rotated and shifted, so that a crc of crcs is no weak one. */
uint32_t tx__crc32c(const void *bytes, size_t n);
uint32_t tx__crc32c_masked(const void *bytes, size_t n);

#endif
