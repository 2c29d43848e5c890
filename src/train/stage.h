/* stage.h - what a rank does with the micro-batches of an iteration: the instructions of its pipeline stage
 * (parallel/pp_schedule.h), each pair of micro-batch and chunk in a slot of its own. Without a pipeline there is one
 * stage and one slot, and the instructions are forward, backward, forward, backward, ...
 *
 *  A slot is a batch's buffers and an activation stack, and a stack of what lies in the host's memory. The context's
 *  stacks are those of the slot in use:
 *
 *      slot 0   | x | saved by forward ............... |       x: what came from the stage before
 *      slot 1   | x | saved by forward ............... |
 *
 *  Where layers' inputs move (nn/kept_input.h) x does not stay: one place is enough for that of all slots.
 *  What goes to other stages is copied first, so that a slot is free when its backward is done: with one message under
 *  way in each direction no schedule waits for itself, and there are two.
 *
 *  Opened in a dry run, in which it counts what its stacks will need; then takes that. */
#ifndef TX_TRAIN_STAGE_H
#define TX_TRAIN_STAGE_H

#include "model/model.h"

typedef struct tx_slot {
    tx_batch batch;      /* owns what tx_batch_buffers lists, where the context computes */
    tx_arena acts, host; /* while the context has another slot's */
} tx_slot;

/* A batch's numbers in the host's memory, on their way to and from a device's: filled, copied there in front of the
 * forward, and behind it the losses copied back. What is to be done with those waits until they are needed, or until
 * the place is: so the host is ahead by some micro-batches. Without a device the slot's batch is all there is. */
enum { TX_N_STAGED = 4 };
typedef struct tx_staged {
    tx_batch batch;  /* owns its buffers */
    tx_event *there; /* the losses are */
    bool has_losses;
    int64_t micro;
} tx_staged;

/* Messages to other stages in one direction, in turn. */
enum { TX_N_OUTGOING = 2 };
typedef struct tx_outgoing {
    tx_tensor copy[TX_N_OUTGOING]; /* [s, b, h] */
    tx_request sent[TX_N_OUTGOING];
    int next;
} tx_outgoing;

/* What the trainer adds. `micro` counts this rank's micro-batches of the iteration. */
typedef struct tx_stage_hooks {
    tx_status (*fill)(void *user, int64_t micro,
                      tx_batch *batch); /* before forward: tokens, labels, dropout key; the host's */
    tx_status (*loss)(void *user, int64_t micro, const tx_batch *batch); /* of the last chunk, in order, by the time of
                                                                          * tx_stage_settle */
    /* behind the last chunk's forward, where y still is; host: the batch as it was filled, in the host's memory */
    tx_status (*behind)(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host);
    void *user;                 /* NULL hooks: a dry run */
    const tx_unit_hooks *units; /* or NULL */
} tx_stage_hooks;

typedef struct tx_stage {
    tx_ctx *c; /* borrowed, as the next three */
    tx_model *m;
    const tx_config *cfg;
    const tx_grid *grid;
    int64_t s, b;
    tx_slot *slot;
    int n_slots, current;
    tx_staged staged[TX_N_STAGED]; /* in turn */
    int next_staged;
    tx_outgoing out[2];      /* forward, backward */
    tx_tensor incoming;      /* what came from the stage before, of all slots, where it does not stay */
    tx_arena messages;       /* the copies, and incoming */
    tx_tensor front, behind; /* shapes of what goes between this stage and its neighbours */
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

/* An iteration's forwards and backwards, or with `train` false forwards only. Collective over the pipeline and, in the
 * model, over the tensor group. */
tx_status tx_stage_run(tx_stage *st, int64_t n_micro, bool train, const tx_stage_hooks *h);

/* One step of it, where there is no pipeline. */
tx_status tx_stage_forward(tx_stage *st, int64_t micro, bool last, bool train, const tx_stage_hooks *h);
tx_status tx_stage_backward(tx_stage *st, bool last);

/* Behind either, before the next with other hooks: all losses have been told. It waits for what computes them. */
tx_status tx_stage_settle(tx_stage *st, const tx_stage_hooks *h);

/* Bytes of all stacks: taken, and the most that was used; without those in the host's memory, and these. */
size_t tx_stage_stacks(const tx_stage *st, size_t *peak);
size_t tx_stage_host_stacks(const tx_stage *st, size_t *peak);

#endif
