/* inference.h - what generate, serve and evaluate share: a trained model on the ranks of this job, ready to go on with
 * tokens.
 *
 *      tx_inference_open(&f, cfg, use)                  all ranks: the checkpoint's shape, tokenizer, weights
 *      st = f.leads ? read what is to be done : TX_OK
 *      tx_inference_start(&f, st, n_slots, max_len)     all ranks: the decoder, as the leader's numbers say
 *      if (f.leads) st = work with f.decoder            the others are in tx_decoder_follow inside start
 *      tx_inference_close(&f, st)                       all ranks; lets the followers go                       */
#ifndef TX_API_INFERENCE_H
#define TX_API_INFERENCE_H

#include "api/ranks.h"
#include "api/run_common.h"
#include "api/tokenizer_of.h"
#include "infer/decoder.h"

typedef struct tx_inference {
    const tx_config *cfg; /* completed from the checkpoint */
    tx_ranks ranks;
    tx_source src;
    tx_tokenizer *tok;
    tx_model *model;
    void *value;       /* its parameters */
    tx_device *device; /* where they are; NULL: the host */
    tx_decoder *decoder;
    bool leads; /* this rank makes the decoder's calls */
} tx_inference;

/* What the model is for. */
typedef enum tx_inference_use {
    TX_USE_CONTINUES, /* it goes on with a text: a GPT */
    TX_USE_FILLS,     /* it fills in what is masked: a BERT; no decoder is started */
    TX_USE_ANY
} tx_inference_use;

/* Collective. The weights come from any format that --load names, rounded to --bf16's or --fp16's type. All TP x PP
 * ranks hold one model: more ranks are TX_ERR_ARG, as is another model. f is to be closed also when this fails. */
tx_status tx_inference_open(tx_inference *f, tx_config *cfg, tx_inference_use use);

/* Collective. `st` is what the ranks came to since open: one that failed is an error of all. n_slots and max_len are
 * the leader's. Comes back to followers when the leader has let them go: their work is done then. */
tx_status tx_inference_start(tx_inference *f, tx_status st, int64_t n_slots, int64_t max_len);

/* Collective: the weights to where something else than the decoder computes, and back to it before that is closed. */
tx_status tx_inference_move(tx_inference *f, tx_device *d);
void tx_inference_give(tx_inference *f);

/* Returns the job's status. */
tx_status tx_inference_close(tx_inference *f, tx_status st);

#endif
