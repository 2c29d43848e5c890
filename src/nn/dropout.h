/* dropout.h - which dropout site draws which random stream. A mask depends on (seed, iteration, global sample, layer,
 * site, element) and on nothing else, so any layout and any restart sees the same mask. */
#ifndef TX_NN_DROPOUT_H
#define TX_NN_DROPOUT_H

#include "backend/ops.h"

typedef enum tx_dropout_site {
    TX_DROP_EMBEDDING,
    TX_DROP_ATTENTION,
    TX_DROP_ATTENTION_OUT,
    TX_DROP_MLP_OUT,
    TX_RANDOM_ROUTER, /* which choices are dropped, and noise (tx_router) */
    TX_RANDOM_TOKENS, /* which tokens a layer computes (--random-ltd) */
    TX_RANDOM_LAYER,  /* whether a micro-batch passes the layer by (--progressive-layer-drop) */
    TX_DROP_LORA      /* and those after it: of what adapters read (nn/lora.h) */
} tx_dropout_site;

/* What all dropout sites of one micro-batch share. */
typedef struct tx_dropout_key {
    uint64_t seed;
    uint32_t iteration;     /* 1, 2, ...; 0 is taken by the initial weights */
    uint64_t sample;        /* global number of the micro-batch's first sample */
    int64_t s_global;       /* sequence length */
    tx_position_runs at;    /* positions of the rows of activations between layers, */
    tx_position_runs whole; /* and of those inside them, where this rank's tensor-parallel peers have theirs, too */
    int64_t b;              /* samples of the micro-batch */
    double layer_drop;      /* 1 - theta of --progressive-layer-drop; 0: no layer is dropped */
    bool on;                /* off in evaluation and generation */
} tx_dropout_key;

/* The mask of one site with probability p; layer counts from 1, 0 is the embedding. */
tx_dropout tx_dropout_at(const tx_dropout_key *key, double p, int layer, tx_dropout_site site);

#endif
