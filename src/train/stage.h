/* stage.h - runs the micro-batches of an iteration through this rank's pipeline stage, by the instructions of the
 * schedule (parallel/pp_schedule.h). Each pair of micro-batch and chunk has its own slot. Without a pipeline there is
 * one stage and one slot, and the instructions are forward, backward, forward, backward, ...
 *
 * A slot has the buffers of a batch, an activation stack, and a stack in host memory. The context uses the stacks of
 * the current slot:
 *
 *      slot 0   | saved by forward ............... |
 *      slot 1   | saved by forward ............... |
 *      top      | while an instruction is carried out: layers computed again, what backward needs besides |
 *
 * With ZB-H1 a slot is free after its backward, too: what the weights' part needs lies in a store of its own until then
 * (nn/wgrad_store.h). Slots and stores are used in turn, as micro-batches go and come in their order.
 *
 * All slots share the top (tx_ctx_begin_top), unless a slot that has its own is smaller, which is so if there is one.
 * What is sent to other stages is copied first, so that a slot is free once its backward is done. Two messages may be
 * in flight in each direction; one would already suffice to avoid deadlock in every schedule.
 *
 * Receives are posted before they are waited for, so that messages come while layers compute (tx_pp_post; whoever moves
 * them is tx_comm_poll, between layers). Inputs of slots have memory of their own, one more than there are slots: that
 * of the next forward comes while all slots are in use. If layer inputs are partitioned or offloaded (nn/kept_input.h),
 * an input is not kept after its forward, and there are two. The gradient of an output comes into its slot.
 *
 * Opened in a dry run, which counts what the stacks will need; tx_stage_take then allocates that. */
#ifndef TX_TRAIN_STAGE_H
#define TX_TRAIN_STAGE_H

#include "model/model.h"
#include "train/teacher.h"

typedef struct tx_slot {
    tx_batch batch;      /* owns what tx_batch_buffers lists, on the context's device */
    tx_arena acts, host; /* while the context uses another slot's */
    tx_request gradient; /* of the output: it is being received */
} tx_slot;

/* The output of the stage before. */
typedef struct tx_incoming {
    tx_tensor x; /* [s, b, h] */
    tx_request received;
} tx_incoming;

/* With a device: a batch in host memory. It is filled there and copied to the device before the forward; the losses
 * are copied back afterwards. They are passed to the feed when the buffer is needed again, or in tx_stage_end, so the
 * host runs ahead by a few micro-batches. Without a device there is only the slot's batch. */
enum { TX_N_HOST_BATCHES = 4 };
typedef struct tx_host_batch {
    tx_batch batch;  /* owns its buffers */
    tx_event *there; /* the losses have arrived */
    bool has_losses;
    int64_t micro;
} tx_host_batch;

/* Messages to other stages in one direction; the entries are used in turn. */
enum { TX_N_OUTGOING = TX_PP_AHEAD, TX_N_TAUGHT = TX_PP_AHEAD + 1 };
typedef struct tx_outgoing {
    tx_tensor copy[TX_N_OUTGOING]; /* [s, b, h] */
    tx_request sent[TX_N_OUTGOING];
    int next;
} tx_outgoing;

/* What the stage reads during an iteration, and what it returns. `micro` counts this rank's micro-batches of the
 * iteration. A function that is NULL is not called; in a dry run `fill` and `losses` are NULL. */
typedef struct tx_feed {
    /* Called before the forward of a chunk: writes tokens, labels and the dropout key into a batch in host memory. */
    tx_status (*fill)(void *user, int64_t micro, tx_batch *batch);
    /* Called when the losses of a micro-batch have arrived, in the order of the micro-batches, for all of them before
     * tx_stage_end returns. */
    tx_status (*losses)(void *user, int64_t micro, const tx_batch *batch);
    /* Called after the forward of the last chunk, while y is still in memory.   @host the batch as it was filled */
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
    int64_t kept; /* tokens of a sample that layers with --random-ltd compute; s or more: all */
    tx_slot *slot;
    int n_slots, current;
    tx_wgrad_store *store; /* of backwards whose weights' part is to come */
    int n_stores;
    tx_top top;                            /* the context's, where slots share it */
    tx_host_batch host[TX_N_HOST_BATCHES]; /* in turn */
    int next_host;
    tx_outgoing out[2];     /* forward, backward */
    tx_outgoing taught_out; /* forward, of the teacher's stream */
    tx_incoming *input;     /* [n_inputs] */
    int n_inputs;
    tx_incoming taught_in[TX_N_TAUGHT]; /* in turn: what is received, and what the forward under way reads */
    int next_posted, next_taught;       /* of these */
    bool train;
    tx_teacher teacher; /* with --kd or --mos, of training: its forward runs beside each of the student's */
    tx_arena messages;  /* the copies, inputs, the model's expert_sums and expert_bias */
    tx_tensor from_previous, to_next; /* shapes */
    struct {
        tx_pp_list list;
        int64_t n_micro; /* for which it was made; 0: there is none */
        int n_stores;
        bool told; /* it was logged */
    } plan[2];     /* evaluation, training */
    /* for benchmarks: called before and after each instruction, or NULL */
    void (*about)(void *user, const tx_pp_instr *in, bool begins);
    void *about_user;
    double seconds[3]; /* fill, forward, backward with its weights' part: of the last run */
} tx_stage;

/* Opens the stage of ctx's rank; ctx must be in its dry run. Makes slots for iterations of at most n_micro
 * micro-batches; without `train` for evaluation only. TX_ERR_NOMEM. */
tx_status tx_stage_open(tx_stage *st, tx_ctx *c, tx_model *m, const tx_config *cfg, int64_t n_micro, bool train);

/* From now on samples have s positions, at most --seq-length, for which buffers are made; with fewer positions a part
 * of them is used. Of these layers with --random-ltd compute `kept` in training. Between iterations, or between a
 * micro-batch's backward and the next forward. */
void tx_stage_set_length(tx_stage *st, int64_t s, int64_t kept);

/* Ends the dry run: allocates the context's memory, all stacks and the batches' buffers. */
tx_status tx_stage_take(tx_stage *st);
void tx_stage_close(tx_stage *st); /* a zeroed one is fine */

/* Begins an iteration or an evaluation with the feed of all its micro-batches, borrowed until tx_stage_end. After a
 * failure the next one may begin without that call. */
void tx_stage_begin(tx_stage *st, const tx_feed *feed);

/* Runs all forwards and backwards, or without `train` only the forwards. Collective over the pipeline and, within the
 * model, over the tensor-parallel group. */
tx_status tx_stage_run(tx_stage *st, int64_t n_micro, bool train);

/* Runs one instruction, if there is no pipeline. */
tx_status tx_stage_forward(tx_stage *st, int64_t micro, bool last, bool train);
tx_status tx_stage_backward(tx_stage *st, bool last);

/* Waits for all losses and passes them to the feed, which is then released. */
tx_status tx_stage_end(tx_stage *st);

/* Bytes of all stacks on the device, or in memory without a device: returns those allocated; *peak is the most that
 * was used. tx_stage_host_stacks: those of the additional stacks in host memory. */
size_t tx_stage_stacks(const tx_stage *st, size_t *peak);
size_t tx_stage_host_stacks(const tx_stage *st, size_t *peak);

#endif
