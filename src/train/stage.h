/* stage.h - what a rank does with the micro-batches of an iteration: the instructions of its pipeline stage
 * (parallel/pp_schedule.h). Each pair of micro-batch and chunk has a slot of its own. Without a pipeline there is one
 * stage and one slot, and the instructions are forward, backward, forward, backward, ...
 *
 *  A slot has the buffers of a batch, an activation stack, and a stack in the host's memory. The context's stacks are
 *  those of the slot in use:
 *
 *      slot 0   | x | saved by forward ............... |       x: what came from the previous stage
 *      slot 1   | x | saved by forward ............... |
 *
 *  Where the inputs of layers are moved (nn/kept_input.h), x is not kept: one buffer is enough for all slots.
 *  What is sent to other stages is copied first, so that a slot is free when its backward is done. Two messages may be
 *  under way in each direction; with one no schedule would deadlock.
 *
 *  Opened in a dry run, which counts what the stacks will need; tx_stage_take then allocates that. */
#ifndef TX_TRAIN_STAGE_H
#define TX_TRAIN_STAGE_H

#include "model/model.h"

typedef struct tx_slot {
    tx_batch batch;      /* owns what tx_batch_buffers lists, where the context computes */
    tx_arena acts, host; /* while the context has another slot's */
} tx_slot;

/* With a device: a batch in the host's memory. It is filled there and copied to the device before the forward; the
 * losses are copied back after it. They are given to the feed when the buffer is needed again, or at tx_stage_end, so
 * the host runs ahead by some micro-batches. Without a device the slot's batch is all there is. */
enum { TX_N_HOST_BATCHES = 4 };
typedef struct tx_host_batch {
    tx_batch batch;  /* owns its buffers */
    tx_event *there; /* the losses have arrived */
    bool has_losses;
    int64_t micro;
} tx_host_batch;

/* Messages to other stages in one direction, in turn. */
enum { TX_N_OUTGOING = 2 };
typedef struct tx_outgoing {
    tx_tensor copy[TX_N_OUTGOING]; /* [s, b, h] */
    tx_request sent[TX_N_OUTGOING];
    int next;
} tx_outgoing;

/* What the stage is fed with during an iteration, and what it gives back. `micro` counts this rank's micro-batches of
 * the iteration. A function that is NULL is not called; in a dry run `fill` and `losses` are NULL. */
typedef struct tx_feed {
    /* Before the forward of a chunk: tokens, labels and the dropout key into a batch in the host's memory. */
    tx_status (*fill)(void *user, int64_t micro, tx_batch *batch);
    /* The losses of a micro-batch have arrived. In the order of micro-batches, all by the end of tx_stage_end. */
    tx_status (*losses)(void *user, int64_t micro, const tx_batch *batch);
    /* After the forward of the last chunk, while y is still there.   @host the batch as it was filled */
    tx_status (*look)(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host);
    void *user;
    const tx_unit_hooks *units; /* or NULL */
} tx_feed;

typedef struct tx_stage {
    tx_ctx *c; /* borrowed, as the next four */
    tx_model *m;
    const tx_config *cfg;
    const tx_grid *grid;
    const tx_feed *feed; /* from tx_stage_begin to tx_stage_end, else NULL */
    int64_t s, b;
    tx_slot *slot;
    int n_slots, current;
    tx_host_batch host[TX_N_HOST_BATCHES]; /* in turn */
    int next_host;
    tx_outgoing out[2];               /* forward, backward */
    tx_tensor incoming;               /* what came from the previous stage, of all slots, where it is not kept */
    tx_arena messages;                /* the copies, and incoming */
    tx_tensor from_previous, to_next; /* shapes */
    struct {
        tx_pp_list list;
        int64_t n_micro; /* that it is for; 0: none is made */
        bool told;       /* in the log */
    } plan[2];           /* evaluation, training */
    double seconds[3];   /* fill, forward, backward: of the last run */
} tx_stage;

/* The stage of ctx's rank; ctx is in its dry run. Slots for iterations of at most n_micro micro-batches; without
 * `train` for evaluation only. TX_ERR_NOMEM. */
tx_status tx_stage_open(tx_stage *st, tx_ctx *c, tx_model *m, const tx_config *cfg, int64_t n_micro, bool train);

/* Ends the dry run: takes the context's memory, all stacks and the batches' buffers. */
tx_status tx_stage_take(tx_stage *st);
void tx_stage_close(tx_stage *st); /* a zeroed one is fine */

/* An iteration or an evaluation begins: the feed of all its micro-batches, borrowed until tx_stage_end. After a failure
 * the next one may begin without that. */
void tx_stage_begin(tx_stage *st, const tx_feed *feed);

/* All forwards and backwards, or with `train` false forwards only. Collective over the pipeline and, in the model, over
 * the tensor group. */
tx_status tx_stage_run(tx_stage *st, int64_t n_micro, bool train);

/* One step of it, where there is no pipeline. */
tx_status tx_stage_forward(tx_stage *st, int64_t micro, bool last, bool train);
tx_status tx_stage_backward(tx_stage *st, bool last);

/* Waits for all losses and gives them to the feed, which is then released. */
tx_status tx_stage_end(tx_stage *st);

/* Bytes of all stacks on the device or, without one, in memory: allocated, and the most that was used. The second: of
 * those that are in the host's memory besides. */
size_t tx_stage_stacks(const tx_stage *st, size_t *peak);
size_t tx_stage_host_stacks(const tx_stage *st, size_t *peak);

#endif
