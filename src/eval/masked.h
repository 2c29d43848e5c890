/* masked.h - runs a model with masked tokens, a BERT, on samples: the probabilities of the masked tokens, the tokens
 * that it finds likeliest there, and whether it finds the two segments to be in order.
 *
 *      tx_masked_create(&m, model, cfg, grid, &opts)
 *      for each lot of at most m->room samples:
 *          sample k into tx_masked_row(m, k)          the same ones on all ranks of the model
 *          tx_masked_run(m, n)                        collective over the model group
 *          m->score, m->top, m->word, m->pair         the same on all ranks of the model
 *
 *  Every position with a label is one of the m->n_labels tokens, in the order of samples and then positions. A lot is
 * as many micro-batches as keep the pipeline's stages busy. A dry run counts the memory, which is taken once. There is
 * no dropout. */
#ifndef TX_EVAL_MASKED_H
#define TX_EVAL_MASKED_H

#include "data/bert_dataset.h"
#include "eval/score.h"
#include "train/stage.h"

typedef struct tx_masked_opts {
    int64_t s, b;        /* positions of a sample, at most the model's; samples of a micro-batch */
    int64_t n_top;       /* number of likeliest tokens that are wanted */
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
    /* Results of the last run. */
    int64_t n_labels;
    tx_token_score *score; /* [n_labels] of the label */
    tx_guess *top;         /* [n_labels][n_top], likeliest first; of equally likely ones the lower id */
    double *word;          /* [n_labels][n_words] */
    double *pair;  /* [n_samples] log-probability of the sample's is_random by the binary head; NULL: there is none */
    float *logits; /* of a lot, where a device computes them; else NULL */
    double *part, *parts; /* what the tensor ranks exchange of some rows: this rank's, all ranks' */
} tx_masked;

/* For the ranks of `grid` that have the model's layers; cfg is complete, grid outlives m. TX_ERR_ARG: opts.s is more
 * than the model's positions. TX_ERR_NOMEM. */
tx_status tx_masked_create(tx_masked **out, tx_model *model, const tx_config *cfg, const tx_grid *grid,
                           const tx_masked_opts *opts);
void tx_masked_destroy(tx_masked *m); /* NULL allowed */

tx_bert_ids tx_masked_row(const tx_masked *m, int64_t k);

/* Sends *n and the first *n rows from the first rank of the model to the others. Collective over the model group. */
tx_status tx_masked_share(tx_masked *m, int64_t *n);

/* Runs the first n samples of the rows. The tokens of sample k are m->first[k] .. m->first[k + 1]. TX_ERR_FORMAT: an id
 * that the model does not have. */
tx_status tx_masked_run(tx_masked *m, int64_t n);

#endif
