/* scheduler.h - who comes when: generations from any thread to the one that owns the decoder.
 *
 *      submit ->  waiting generations  --one text of each in turn-->  the batch  ->  over
 *                 (bounded)                                          (--max-batch)
 *
 *  Waiting generations take turns, a text each, so that one that asks for a hundred does not hold up the others. Beam
 * search needs the decoder for itself: when its turn comes nobody joins until those that run are done. Shared inside
 * this room. */
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

/* Any thread: nobody wants it any more. It ends before its next token. */
void tx__scheduler_cancel(tx__scheduler *s, tx__generation *g);

/* Any thread: no more are taken, and run ends when those that are there have, or are cancelled after `seconds`. */
void tx__scheduler_close(tx__scheduler *s, double seconds);

/* The batching thread, which is the one that may call the decoder: until close. A failure of the model is the server's:
 * all generations end, and nothing more is taken. */
tx_status tx__scheduler_run(tx__scheduler *s);

#endif
