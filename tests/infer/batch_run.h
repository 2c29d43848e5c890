/* batch_run.h - steps of a batcher until all that it was given is finished. */
#ifndef TX_TESTS_INFER_BATCH_RUN_H
#define TX_TESTS_INFER_BATCH_RUN_H

#include "infer/batcher.h"

static inline tx_status run_batch(tx_batcher *b)
{
    while (tx_batcher_waiting(b) + tx_batcher_running(b)) TX_TRY(tx_batcher_step(b));
    return TX_OK;
}

#endif
