/* layout_choice.h - a layout as the choices that it consists of: how ranks divide a run, how much of it they compute at
 * a time, and what they keep. The model, the global batch, the precision and all else are the run's own. */
#ifndef TX_PREDICT_LAYOUT_CHOICE_H
#define TX_PREDICT_LAYOUT_CHOICE_H

#include "base/str.h"
#include "config/config.h"

/* What backward computes again. */
typedef enum tx_again {
    TX_AGAIN_NOTHING,
    TX_AGAIN_SELECTIVE, /* --recompute-activations */
    TX_AGAIN_FULL,      /* every layer from its input */
    TX_N_AGAIN
} tx_again;

typedef struct tx_layout_choice {
    int64_t ranks, tp, pp;
    int64_t cp;           /* ranks that divide the positions of a sample; 0 or 1: none */
    enum tx_cp_comm how;  /* with them: p2p or a2a */
    int64_t chunk_layers; /* --num-layers-per-virtual-pipeline-stage; 0: not interleaved */
    int64_t micro_batch;
    bool sequence; /* --sequence-parallel */
    tx_again again;
    int zero;
    bool offload; /* the optimizer's state to the host's memory */
} tx_layout_choice;

int64_t tx_choice_context(const tx_layout_choice *c); /* at least 1 */
int64_t tx_choice_data_parallel(const tx_layout_choice *c);
int64_t tx_choice_sharers(const tx_layout_choice *c); /* ranks with the same parameters: of both axes */

/* A shallow copy of a run's options, which borrows their texts, with all flags of the layout left out. */
tx_config tx_without_layout(const tx_config *cfg);

/* The flags of the layout, as one would type them after the run's own. */
tx_status tx_choice_flags(tx_str *out, const tx_layout_choice *c);

/* "TP 8 with SP, CP 2 (p2p), PP 16 in chunks of 2 layers, DP 8, ZeRO 1, micro-batch 2, selective recomputation"
 */
tx_status tx_choice_words(tx_str *out, const tx_layout_choice *c);

/* The options of a run in that layout; the caller frees them. *out NULL: the rules across options refuse it.
 * @base tx_without_layout */
tx_status tx_choice_config(tx_config **out, const tx_config *base, const tx_layout_choice *c);

typedef struct tx_choice_list {
    tx_layout_choice *choice; /* owned */
    int64_t n, cap;
} tx_choice_list;

/* All choices for so many ranks that sizes alone do not exclude: what has to be a divisor is one. Micro-batches go up
 * to TX_MOST_MICRO_BATCH. Ranks divide positions, around a ring or by heads, where each has at least TX_LEAST_POSITIONS
 * of them; with fewer samples than ranks, at least TX_FEWER_POSITIONS.
 * @most_tp tensor-parallel ranks at most   @offload those that offload, in place of those that do not */
enum { TX_MOST_MICRO_BATCH = 32, TX_LEAST_POSITIONS = 2048, TX_FEWER_POSITIONS = 512 };
tx_status tx_choice_list_make(tx_choice_list *out, const tx_config *base, int64_t ranks, int64_t most_tp, bool offload);
void tx_choice_list_free(tx_choice_list *l); /* a zeroed one is fine */

#endif
