/* pp_schedule.h - what a pipeline stage does in an iteration, as a list of instructions. Pure functions: no rank, no
 * message, no model.
 *
 *      p = 4 stages, m = 6 micro-batches, 1F1B       F forward, B backward, .. waits; time to the right
 *      stage 0   F0 F1 F2 F3 .. .. .. B0 F4 B1 F5 B2 .. B3 .. B4 .. B5
 *      stage 1      F0 F1 F2 .. .. B0 F3 B1 F4 B2 F5 B3 .. B4 .. B5
 *      stage 2         F0 F1 .. B0 F2 B1 F3 B2 F4 B3 F5 B4 .. B5
 *      stage 3            F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5
 *
 *  A stage holds n_chunks model chunks; chunk c of stage i is virtual stage c p + i, so with more than one chunk a
 *  micro-batch goes around the ranks n_chunks times ("interleaved"; then m is a multiple of p).
 *  GPipe: arXiv:1811.06965; 1F1B: PipeDream-Flush, arXiv:2006.09503; interleaved: Megatron-LM, arXiv:2104.04473 §2.2,
 *  megatron/core/pipeline_parallel/schedules.py. */
#ifndef TX_PARALLEL_PP_SCHEDULE_H
#define TX_PARALLEL_PP_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef enum tx_pp_kind {
    TX_PP_1F1B,   /* interleaved when n_chunks > 1 */
    TX_PP_GPIPE,  /* all forwards, then all backwards; n_chunks is 1 */
    TX_PP_FORWARD /* no backward: evaluation */
} tx_pp_kind;

typedef struct tx_pp_shape {
    tx_pp_kind kind;
    int p, m, n_chunks; /* stages, micro-batches, chunks of a stage */
} tx_pp_shape;

typedef enum tx_pp_op {
    TX_PP_RECV_FWD, /* the input of a chunk, from the virtual stage before; waits */
    TX_PP_FWD,
    TX_PP_SEND_FWD, /* its output, to the virtual stage after it; does not wait for the receiver */
    TX_PP_RECV_BWD, /* the gradient of its output; waits */
    TX_PP_BWD,
    TX_PP_SEND_BWD /* the gradient of its input; does not wait */
} tx_pp_op;

extern const char *const tx_pp_op_names[TX_PP_SEND_BWD + 1]; /* "receive the input" */

typedef struct tx_pp_instr {
    tx_pp_op op;
    int micro, chunk;
    int slot; /* where the activations of (micro, chunk) lie: 0 .. tx_pp_slots - 1, free again after its BWD (after its
                 FWD when there is no backward) */
    int peer; /* stage that a SEND goes to or a RECV comes from */
    bool last_of_chunk; /* BWD: no later one adds to the gradients of this chunk */
} tx_pp_instr;

typedef struct tx_pp_list {
    tx_pp_instr *instr; /* owned */
    int n, cap;
    int n_slots; /* activations that are held at the same time, at most */
} tx_pp_list;

/* TX_ERR_ARG: p is 1 or m no multiple of p with n_chunks > 1; GPipe with chunks; none of something. */
tx_status tx_pp_check_shape(const tx_pp_shape *shape);

/* The first virtual stage receives and the last one sends nothing forward, and so on. In each chunk micro-batches come
 * in order, forward and backward, and so do messages: one tag for each direction and chunk is enough, a receiver takes
 * them as they were sent. TX_ERR_ARG as tx_pp_check_shape; TX_ERR_NOMEM. */
tx_status tx_pp_schedule(tx_pp_list *out, const tx_pp_shape *shape, int stage);
void tx_pp_list_free(tx_pp_list *l); /* a zeroed one is fine */

/* Runs all stages' lists together: an instruction starts when the one before it in its stage has ended and, for a RECV,
 * when the message is there. FWD takes fwd time units, BWD bwd, messages none. TX_ERR_STATE: they wait for each other,
 * or a message is sent that nobody takes, or taken in a slot that is in use, or anything else that this header says is
 * not so: what, and where.
 * @makespan time of the whole; NULL allowed   @picture one line a stage as above, appended, with F3.1 for chunk 1 where
 * there are several, and B3--- for what takes more than one unit; NULL allowed */
tx_status tx_pp_simulate(const tx_pp_shape *shape, int fwd, int bwd, int *makespan, tx_str *picture);

/* The same of the caller's own lists, one a stage. */
tx_status tx_pp_simulate_lists(const tx_pp_shape *shape, const tx_pp_list *lists, int fwd, int bwd, int *makespan,
                               tx_str *picture);

/* The part of the time in which a stage has nothing to do: (p - 1) / (n_chunks m) of the ideal time (arXiv:2104.04473
 * §2.2). */
double tx_pp_bubble(const tx_pp_shape *shape);

/* ---- which layers a chunk has ---- */

typedef struct tx_pp_chunk {
    int64_t first, end; /* layers [first, end), from 0 */
    bool pre, post;     /* also what comes before the first layer, what comes after the last one */
} tx_pp_chunk;

/* A model's layers, divided over the p n_chunks virtual stages of a pipeline. */
typedef struct tx_pp_division {
    int64_t n_layers; /* p n_chunks at least */
    int p, n_chunks;
    double pre_cost, post_cost; /* of what comes before the first layer and after the last one; a layer costs 1 */
} tx_pp_division;

/* The layers of chunk `chunk` of stage `stage`: the same number for each virtual stage; where that is not possible,
 * contiguous runs of layers such that the costliest virtual stage costs least, and of those divisions the one with the
 * most layers in the first stages. */
tx_pp_chunk tx_pp_layers(const tx_pp_division *d, int stage, int chunk);

#endif
