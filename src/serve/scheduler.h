/* scheduler.h - the order of work: generations are submitted by any thread, and run by the one that owns the decoder.
 *
 *      submit ->  waiting generations  --one text of each in turn-->  the batch  ->  over
 *                 (bounded)                                          (--max-batch)
 *
 *  Waiting generations take turns, a text each, so that one that asks for a hundred does not delay the others. Beam
 * search needs the decoder for itself: when its turn comes, no text joins the batch until those in it are finished.
 * Shared inside this room. */
#ifndef TX_SERVE_SCHEDULER_H
#define TX_SERVE_SCHEDULER_H

#include "serve/counters.h"
#include "serve/generation.h"

typedef struct tx__scheduler tx__scheduler;

/* @decoder the leader's. @max_queue generations that may wait. Borrows all. */
tx_status tx__scheduler_create(tx__scheduler **out, tx_decoder *decoder, int64_t max_queue, tx__counters *counters);
void tx__scheduler_destroy(tx__scheduler *s); /* NULL allowed */

/* Any thread. TX_ERR_STATE: as many as may wait do, or it is closed. It holds the generation on success. */
tx_status tx__scheduler_submit(tx__scheduler *s, tx__generation *g);

/* Any thread: the client has gone. The generation ends before its next token. */
void tx__scheduler_cancel(tx__scheduler *s, tx__generation *g);

/* Any thread: no more are accepted, and run ends when the present ones are finished; after `seconds` they are
 * cancelled. */
void tx__scheduler_close(tx__scheduler *s, double seconds);

/* Called by the batching thread, the only one that may call the decoder; returns after close. If the model fails, all
 * generations end, no more are accepted, and the error is returned. */
tx_status tx__scheduler_run(tx__scheduler *s);

#endif
