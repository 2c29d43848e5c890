/* masked.h - what a model that sees samples from both sides (a BERT) makes of them: how likely it finds the tokens that
 * were masked, which ones it would take, and whether the segments stand in their order.
 *
 *      tx_masked_create(&m, model, cfg, grid, &opts)
 *      for each lot of at most m->room samples:
 *          sample k into tx_masked_row(m, k)          the same ones on all ranks of the model
 *          tx_masked_run(m, n)                        collective over the model group
 *          m->score, m->top, m->word, m->pair         the same on all ranks of the model
 *
 *  Sample by sample and in the order of positions, every position with a label is one of the m->n_labels tokens. A lot
 * is the micro-batches that keep the pipeline's stages busy. The room is found dry and taken once; without dropout. */
#ifndef TX_EVAL_MASKED_H
#define TX_EVAL_MASKED_H

#include "data/bert_dataset.h"
#include "eval/score.h"
#include "train/stage.h"

typedef struct tx_masked_opts {
    int64_t s, b;        /* positions of a sample, at most the model's; samples of a micro-batch */
    int64_t n_top;       /* how many of the likeliest tokens are wanted */
    const int32_t *word; /* [n_words] further tokens whose log-probabilities are wanted; borrowed by create */
    int64_t n_words;
} tx_masked_opts;

typedef struct tx_guess {
    double logprob; /* nats */
    int32_t id;     /* -1: the vocabulary has no more */
} tx_guess;

typedef struct tx_masked {
    tx_ctx ctx;
    tx_model *model; /* borrowed */
    tx_config cfg;   /* of the stage; owns nothing */
    const tx_grid *grid;
    tx_stage stage;
    tx_masked_opts opts; /* word is m's own then */
    int32_t *token;      /* opts.word */
    int64_t n_micro;     /* of a lot */
    int64_t room;        /* samples of a lot */
    int32_t *rows;       /* [room][tx_bert_row_len(s)] */
    int64_t n_samples;   /* of the lot that runs */
    int64_t *first;      /* [room + 1]: the number of each sample's first token */
    /* What the last run has found. */
    int64_t n_labels;
    tx_token_score *score; /* [n_labels] of the label */
    tx_guess *top;         /* [n_labels][n_top], likeliest first; of equally likely ones the lower id */
    double *word;          /* [n_labels][n_words] */
    double *pair;  /* [n_samples] log-probability of the sample's is_random by the binary head; NULL: there is none */
    float *logits; /* of a lot, where a device computes them; else NULL */
    double *part, *parts; /* what the tensor ranks tell each other of some rows: mine, everybody's */
} tx_masked;

/* For the ranks of `grid` that have the model's layers; cfg is complete, grid outlives m. TX_ERR_ARG: opts.s is more
 * than the model's positions. TX_ERR_NOMEM. */
tx_status tx_masked_create(tx_masked **out, tx_model *model, const tx_config *cfg, const tx_grid *grid,
                           const tx_masked_opts *opts);
void tx_masked_destroy(tx_masked *m); /* NULL allowed */

tx_bert_ids tx_masked_row(const tx_masked *m, int64_t k);

/* From the first rank of the model: *n and so many rows to the others. Collective over the model group; 0: no rows. */
tx_status tx_masked_share(tx_masked *m, int64_t *n);

/* The first n samples of the rows. Their tokens are those of m->first[k] .. m->first[k + 1]. TX_ERR_FORMAT: an id that
 * is none of the model's. */
tx_status tx_masked_run(tx_masked *m, int64_t n);

#endif
