/* volume.h - what a rank moves in an iteration: counted by its groups, and by the formulas of the papers, which the
 * count has to be equal to, in calls and to the byte. Pure functions of sizes and layout: no model, no rank.
 *
 *  b s h is a micro-batch's activations, whole:
 *
 *      tensor ranks     a layer: 2 all-reduces forward, 2 backward                      Megatron-LM, arXiv:1909.08053
 * §3 with sequence    a layer: 2 all-gathers and 2 reduce-scatters forward, the same  arXiv:2205.05198 §4.2.2
 *        parallelism    backward, and 2 all-gathers of the inputs that backward needs
 *                       whole and forward kept in parts
 *      both             the same around embedding and head; of the loss 4 numbers a token and rank; forward once more
 *                       where it is computed again
 *      BERT's head      reads n rows alone, of tokens to predict: their gradient is an all-reduce of n h, also with
 *                       sequence parallelism, and of the loss there are 4 n numbers a rank
 *      experts          of each router the gradient of k weights a token, backward
 *      experts' ranks   a layer: 2 all-to-alls forward, 2 backward, of the rows of all ranks that divide its experts: k
 *                       rows of h a token that is not dropped                          GShard, arXiv:2006.16668 §3.2
 *      tensor ranks,    an all-gather of b s h, of the residual stream's numbers, for every group of layers that is
 *        inputs divided computed again, which --partition-activations divides the input of
 *      context ranks    a layer: two all-to-alls forward, two backward, of heads     DeepSpeed Ulysses,
 * arXiv:2309.14509 ring           a layer: the keys and values of s/c positions c-1 times forward, twice that backward
 *                                                                                       arXiv:2310.01889
 *        gathered       an all-gather of them forward; another one and a reduce-scatter backward
 *        experts        of each router an all-reduce of its experts' loads, 4 bytes each; or where tokens are dropped
 *                       an all-gather of all tokens' logits, 4 bytes each: forward
 *      pipeline         b s h (its 1/t with sequence parallelism) across each border of   arXiv:2104.04473 §2.2
 *                       virtual stages, and its gradient back
 *      data ranks       every parameter's gradient, 4 bytes or 2 each: an all-reduce, once; those of experts that are
 *                       divided over the ranks that have the same ones
 *      ZeRO 1, 2, 3     a reduce-scatter instead; 2 and 3 of every micro-batch               arXiv:1910.02054 §7
 *      ZeRO 1, 2        an all-gather of the updated parameters
 *      ZeRO 3           all-gathers of a layer's parameters before its forward and its backward; forward once more
 *                       gathers nothing
 *      ZeRO++           a gather's parameters are 8 bits, gradients 4 bits each, with 4 bytes for 512 of them; gathers
 * of an iteration but the first are of near ranks, and gradients go to n near ranks first, 4 bits each, and 1/n of them
 * to far ones, in all-to-alls                                                      arXiv:2306.10209
 *      MiCS             all of that among near ranks, and what they keep of the gradients' sums is summed over far
 *                       ones, once                                                       arXiv:2205.00119
 *      Muon             with ZeRO an all-gather and a reduce-scatter of 4 bytes a parameter of buckets with matrices;
 * of a matrix that tensor ranks split an all-gather of 4 bytes each, or an all-reduce of k k products each iteration
 *      1-bit Adam       after --onebit-freeze-step no gradient's sum, but of a parameter one bit to its server, in an
 *                       all-to-all, and one from it, in an all-gather; 8 bytes of a tensor      arXiv:2102.02888
 *        with workers   of n near ranks the gradient's sum among them, an n-th of those bits between far ones, and two
 *                       all-gathers of them among near ones
 *      0/1 Adam         the same, in some updates the sum, and in some nothing                  arXiv:2202.06009
 *      1-bit LAMB       as 1-bit Adam, with one size for most tensors; and norms, of a tensor that is split with 8
 *                       bytes more                                                           arXiv:2104.06069
 *      ends             the gradient of the word embeddings that both have, as it is kept; with ZeRO of a rank's part
 *      Adafactor        16 bytes of each row and column of a matrix: over the tensor ranks that divide the other side,
 *                       and with ZeRO over those that divide the state                       arXiv:1804.04235
 *      a teacher        of its own layers, embedding and borders what those have forward, and of its loss 5 numbers a
 *                       token and rank
 *      norms            two sums (base/exact.h) of each tensor, where the optimizer needs its norms: over the tensor
 *                       ranks that split it, and with ZeRO over those that divide its state  arXiv:1904.00962
 */
#ifndef TX_PARALLEL_VOLUME_H
#define TX_PARALLEL_VOLUME_H

#include "base/str.h"
#include "parallel/grid.h"

/* What was counted: calls, and bytes of whole tensors. */
typedef struct tx_volume {
    tx_comm_volume of[TX_N_STEP_GROUPS][TX_N_COMM_OPS];
} tx_volume;

/* What the groups of a grid have counted so far; and that less what they had counted before. */
void tx_volume_read(tx_volume *v, const tx_grid *g);
void tx_volume_subtract(tx_volume *v, const tx_volume *before);

typedef struct tx_volume_buckets {
    int64_t n, numel; /* all of them: elements */
    int64_t words[2]; /* i32 of a rank's parts as blocks of 8 and of 4 bits (backend/ops.h) */
} tx_volume_buckets;

/* What ZeRO-3 gathers before a micro-batch uses it. */
typedef enum tx_gathered {
    TX_GATHERED_LAYER, /* and the last norm */
    TX_GATHERED_WORDS,
    TX_GATHERED_EMBEDDING, /* positions, and a norm of the embedding */
    TX_GATHERED_OUTPUT,    /* where it is not the words' */
    TX_N_GATHERED
} tx_gathered;

/* What ranks that have the same parameters sum and gather. */
typedef struct tx_volume_shared {
    tx_volume_buckets all; /* runs that gradients are summed in */

    tx_volume_buckets matrices; /* of these: whose updates need whole matrices */
    int64_t words, tensors;     /* of sums that are sent as signs: of one worker's parts, 32 signs each; and sizes */
    int64_t averages;           /* in which these are sent */

    /* ZeRO 3: what is gathered before use, [1]: and waits where it is from forward to backward; what is whole always */
    tx_volume_buckets gathered[TX_N_GATHERED][2], whole;
    int64_t measured,
        measured_split; /* tensors whose norms the update needs; of these, those that tensor ranks split */
    int64_t most_split; /* of these, where it needs their largest numbers, too */
    int64_t factors,
        split_factors; /* rows and columns with averages; of these, those that tensor ranks have parts of */
} tx_volume_shared;

/* By which ranks those are: all along the data axis, or those with the same experts where these are divided. */
enum { TX_SHARED_DATA, TX_SHARED_EXPERTS, TX_N_SHARED };

/* A teacher, whose forward runs beside (train/teacher.h). Rows that travel to its experts are not counted. */
typedef struct tx_volume_teacher {
    int64_t h;                    /* 0: there is none */
    int64_t n_layers;             /* of the stage */
    int64_t value, stream, words; /* bytes of an activation; of numbers of its stream, and where words are looked up */
    bool whole_norms;             /* as the student's, and: */
    int64_t heads_sent, keys_sent;
    tx_comm_volume loads, logits;
} tx_volume_teacher;

/* What the formulas are about, on one rank. */
typedef struct tx_volume_sizes {
    int t, p, c;        /* tensor ranks, pipeline stages, ranks that divide positions */
    int r;              /* ranks that have the same parameters: the latter times data ranks */
    int heads;          /* of c, those that exchange heads before these are in rings of keys and values; else 0 */
    int64_t heads_sent; /* where these exchange heads: elements of q, k, v and o of a position that they send, each's
                           own, too */
    int64_t keys_sent;  /* where keys and values travel: elements of a position's */
    bool keys_gathered; /* to all at once, not around a ring; */
    bool keys_kept;     /* and those are kept for backward: layers are in chunks, which they compute again */
    int near, far;      /* data ranks of a row, and rows; 1: there are no rows */
    bool mics;          /* the ranks of a row divide all among them */
    int e, r_experts;   /* ranks that divide experts, and that have the same ones; 1 where they are not divided */
    int stage;
    bool sequence;
    int64_t s, b, h;
    int64_t n_micro;            /* micro-batches of an iteration, of one data rank */
    int n_chunks;               /* of the stage */
    int64_t n_layers, n_again;  /* of the stage; computed again for backward, which one may be twice */
    int64_t n_positions_chunks; /* in which a layer computes its positions */
    int64_t n_gates, n_choices; /* of the stage's layers with experts: products that weigh rows, and weights of a token
                                 * in all of them */
    int64_t n_routed[2];        /* layers whose rows travel to experts, and of these, computed again */
    int64_t rows[2];            /* of all e ranks in all of them */
    tx_comm_volume loads[2], logits[2]; /* of a micro-batch, where ranks divide positions: sums of how many tokens chose
                                           each expert; logits of all tokens, where some are dropped; [1]: of layers
                                           that are computed again */
    bool drops;                         /* it may be fewer rows */
    int64_t n_gathered;     /* groups of those that are computed again whose input the tensor ranks have in parts */
    int64_t value, stream;  /* bytes of an activation; of a number of the residual stream */
    int64_t grad, sum;      /* of a gradient that is kept; of one that is summed over data ranks */
    int64_t norm;           /* parameters of a norm: 2 h, or h; */
    int64_t layer_norms;    /* norms of a layer */
    int64_t embedding_norm; /* of the embedding's, and of the last one; 0: there is none */
    int64_t last_norm;
    bool frozen;        /* of all that is trained there are only adapters: */
    int64_t adapters;   /* parameters of a layer's whose gradients tensor ranks have parts of; 0: there are none */
    int64_t head_norms; /* of a layer's norms of queries and keys; 0: there are none */
    bool whole_norms;   /* there are such of all heads at once, and so of all tensor ranks */
    bool positions;     /* are added after the embedding's norm */
    bool tied;
    int64_t head_rows, head_chunks; /* of a micro-batch: that logits are made of, in so many pieces */
    bool head_selects; /* these are some of b s, and the head is whole on every tensor rank but for the words */

    int zero;                      /* stage */
    bool reduce_every_micro_batch; /* gradients are summed over data ranks after each micro-batch */
    bool scatters;                 /* ZeRO: a rank gets the sums of its part only */
    bool gathers;                  /* ZeRO: all parts at once, and not one rank's after the other */
    bool quantized_weights, quantized_gradients;
    bool signs;   /* gradients were not summed, but what was made of them, as signs; */
    bool alone;   /* or ranks moved alone */
    bool scales;  /* norms are added up twice: before that, those of momentums */
    bool skips;   /* there was no update, and what is moved after one was not */
    int64_t ends; /* elements of the word embedding's gradient that are summed over the ends */
    tx_volume_teacher teacher;
    tx_volume_shared shared[TX_N_SHARED];
    tx_comm_volume matrices[TX_N_COMM_OPS]; /* what tensor ranks move of the matrices that this rank makes orthogonal */
    bool bounded; /* ZeRO 3: more would wait than --zero-max-live-parameters: [1] is in [0], and that is the most it
                     takes */
} tx_volume_sizes;

/* A term of a formula. */
typedef struct tx_volume_term {
    int group;
    tx_comm_op op;
    const char *what; /* "2 b s h a layer, forward" */
    tx_comm_volume volume;
} tx_volume_term;

enum { TX_VOLUME_MAX_TERMS = 80 };

/* The terms that are not zero, those of a group and op one after the other; returns their number. */
int tx_volume_terms(const tx_volume_sizes *z, tx_volume_term term[TX_VOLUME_MAX_TERMS]);

/* Their sums. */
void tx_volume_expect(tx_volume *v, const tx_volume_sizes *z);

int tx_volume_group_size(const tx_volume_sizes *z, int group);

/* Bytes that the rank sends for that in all, by the algorithms that send least. */
double tx_volume_sent(const tx_volume *v, const tx_volume_sizes *z);

/* Whether what was counted is equal to that; where sizes are bounded, the gathered parameters are no more. */
bool tx_volume_agrees(const tx_volume *counted, const tx_volume_sizes *z);

/* Appends lines: each group and op with what was counted, the terms under it, and whether both are equal. TX_ERR_NOMEM
 */
tx_status tx_volume_table(tx_str *out, const tx_volume *counted, const tx_volume_sizes *z);

#endif
