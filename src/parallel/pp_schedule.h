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
 *
 *  ZB-H1 divides a backward in two: B, the gradient of the input, which the stage before waits for, and W, those of the
 *  weights, which nobody waits for. Stage i is i micro-batches late with W, so it has work when there are no forwards
 *  left, and every stage holds as many activations as the first one does in 1F1B:
 *
 *      stage 0   F0 F1 F2 F3 .. .. .. B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5
 *      stage 1      F0 F1 F2 .. .. B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 B4 W3 B5 W4 W5
 *      stage 2         F0 F1 .. B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 B5 W3 W4 W5
 *      stage 3            F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5
 *
 *  GPipe: arXiv:1811.06965; 1F1B: PipeDream-Flush, arXiv:2006.09503; interleaved: Megatron-LM, arXiv:2104.04473 §2.2,
 *  megatron/core/pipeline_parallel/schedules.py; ZB-H1: arXiv:2401.10241 §2.3. Megatron-DeepSpeed's ZB-H1
 *  (megatron/core/pipeline_parallel/deepspeed_zbh1_schedule.py) does the first i W of stage i last of all, where here
 *  they go in the order of micro-batches, as sums of gradients do in 1F1B. */
#ifndef TX_PARALLEL_PP_SCHEDULE_H
#define TX_PARALLEL_PP_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "config/config.h"

typedef enum tx_pp_kind {
    TX_PP_1F1B,   /* interleaved when n_chunks > 1 */
    TX_PP_GPIPE,  /* all forwards, then all backwards; n_chunks is 1 */
    TX_PP_ZBH1,   /* 1F1B with a divided backward; n_chunks is 1 */
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
    TX_PP_BWD,      /* with ZB-H1 the gradient of the input alone */
    TX_PP_SEND_BWD, /* the gradient of its input; does not wait */
    TX_PP_WGT,      /* ZB-H1: the gradients of the weights */
    TX_PP_POST_FWD, /* begins to receive what a RECV_FWD will wait for; does not wait (tx_pp_post) */
    TX_PP_POST_BWD, /* likewise of a RECV_BWD */
    TX_N_PP_OPS
} tx_pp_op;

extern const char *const tx_pp_op_names[TX_N_PP_OPS]; /* "receive the input" */

typedef struct tx_pp_instr {
    tx_pp_op op;
    int micro, chunk;
    int slot;  /* where the activations of (micro, chunk) lie: 0 .. n_slots - 1, free again after its BWD (after its WGT
                  with ZB-H1, after its FWD when there is no backward) */
    int peer;  /* stage that a SEND goes to or a RECV comes from */
    int input; /* POST_FWD and its RECV_FWD: where the input lies, 0 .. n_inputs - 1 */
    bool last_of_chunk; /* BWD, with ZB-H1 WGT: no later one adds to the gradients of this chunk */
} tx_pp_instr;

typedef struct tx_pp_list {
    tx_pp_instr *instr; /* owned */
    int n, cap;
    int n_slots;       /* activations that are held at the same time, at most */
    int n_inputs;      /* likewise inputs that have been received or are being received: of a list with POST */
    int n_posts;       /* 0: a RECV receives by itself */
    bool keeps_inputs; /* tx_pp_post's */
} tx_pp_list;

/* The schedule of training that the options name. */
tx_pp_kind tx_pp_training_kind(const tx_config *cfg);

/* TX_ERR_ARG: p is 1 or m no multiple of p with n_chunks > 1; GPipe or ZB-H1 with chunks; none of something. */
tx_status tx_pp_check_shape(const tx_pp_shape *shape);

/* The first virtual stage receives and the last one sends nothing forward, and so on. In each chunk micro-batches come
 * in order, forward and backward, and so do messages: one tag for each direction and chunk is enough, a receiver takes
 * them as they were sent. TX_ERR_ARG as tx_pp_check_shape; TX_ERR_NOMEM. */
tx_status tx_pp_schedule(tx_pp_list *out, const tx_pp_shape *shape, int stage);
void tx_pp_list_free(tx_pp_list *l); /* a zeroed one is fine */

/* Messages of a direction that a stage has begun to receive and not taken yet, at most: a sender has no more of them on
 * their way (tx_outgoing). */
enum { TX_PP_AHEAD = 2 };

/* Puts a POST before each RECV, as early as there is memory for the message: one input more than the list holds without
 * that; a gradient once the output that it belongs to has been sent, since it lies in that slot. Posts of a direction
 * are in the order of their RECV.
 * @keeps_inputs an input is needed until its BWD; else until its FWD. TX_ERR_NOMEM */
tx_status tx_pp_post(tx_pp_list *list, bool keeps_inputs);

/* Units of time that a micro-batch takes in a virtual stage. */
typedef struct tx_pp_units {
    int fwd, bwd;
    int wgt;      /* WGT, with ZB-H1 */
    int outgoing; /* messages in one direction that a stage has sent and nobody taken, at most: another SEND waits; 0:
                     any number. One is taken when it has come and its receive has been posted */
    int message;  /* of a message in either direction, as in tx_pp_times */
    bool meets;   /* likewise */
} tx_pp_units;

/* Runs all stages' lists together: an instruction starts when the one before it in its stage has ended and, for a RECV,
 * when the message is there. FWD, BWD and WGT take `units`, and messages. TX_ERR_STATE: they wait for each other, or a
 * message is sent that nobody takes, or taken in a slot that is in use, or anything else that this header says is not
 * so: what, and where.
 * @makespan time of the whole; NULL allowed   @picture one line a stage as above, appended, with F3.1 for chunk 1 where
 * there are several, and B3--- for what takes more than one unit; NULL allowed */
tx_status tx_pp_simulate(const tx_pp_shape *shape, tx_pp_units units, int *makespan, tx_str *picture);

/* The same of the caller's own lists, one a stage. */
tx_status tx_pp_simulate_lists(const tx_pp_shape *shape, const tx_pp_list *lists, tx_pp_units units, int *makespan,
                               tx_str *picture);

/* The time in which a stage has nothing to do, by the ideal time: (p - 1) / (n_chunks m) (arXiv:2104.04473 §2.2). With
 * ZB-H1 and a w no longer than f and b a stage waits (p - 1) (f + b - w) (arXiv:2401.10241 §2.3); of fewer
 * micro-batches than stages only m - 1 W fill gaps: (p - 1) (f + b) - (m - 1) w. */
double tx_pp_bubble(const tx_pp_shape *shape, tx_pp_units units);

/* ---- which layers a chunk has ---- */

typedef struct tx_pp_chunk {
    int64_t first, end; /* layers [first, end), from 0 */
    bool pre, post;     /* also what comes before the first layer, what comes after the last one */
} tx_pp_chunk;

/* A model's layers, divided over the p n_chunks virtual stages of a pipeline. */
typedef struct tx_pp_division {
    int64_t n_layers; /* p n_chunks at least, p - 1 with pre_alone */
    int p, n_chunks;
    double pre_cost, post_cost; /* of what comes before the first layer and after the last one; a layer costs 1 */
    bool
        pre_alone; /* the first stage has what comes before the first layer and no layer: n_chunks is 1, p at least 2 */
} tx_pp_division;

/* The layers of chunk `chunk` of stage `stage`: the same number for each virtual stage; where that is not possible,
 * contiguous runs of layers such that the costliest virtual stage costs least, and of those divisions the one with the
 * most layers in the first stages. */
tx_pp_chunk tx_pp_layers(const tx_pp_division *d, int stage, int chunk);

#endif
