/* inference.h - what generate, serve and evaluate share: a trained model on the ranks of this job, ready to continue
 * texts.
 *
 *      tx_inference_open(&f, cfg, use)                  all ranks: the checkpoint's shape, tokenizer, weights
 *      st = f.leads ? read the prompts or files : TX_OK
 *      tx_inference_start(&f, st, n_slots, max_len)     all ranks: the decoder, of the size that the leader passes
 *      if (f.leads) st = work with f.decoder            the others are in tx_decoder_follow inside start
 *      tx_inference_close(&f, st)                       all ranks; dismisses the followers                     */
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
    bool leads; /* this rank calls the decoder */
} tx_inference;

/* What the model is for. */
typedef enum tx_inference_use {
    TX_USE_CONTINUES, /* it continues texts: a GPT */
    TX_USE_FILLS,     /* it fills in what is masked: a BERT; no decoder is started */
    TX_USE_ANY
} tx_inference_use;

/* Collective. The weights come from any format that --load names, rounded to --bf16's or --fp16's type. All TP x PP
 * ranks hold one model: more ranks are TX_ERR_ARG, as is another model. f has to be closed also when this fails. */
tx_status tx_inference_open(tx_inference *f, tx_config *cfg, tx_inference_use use);

/* Collective. `st` is this rank's status since open: if one rank has failed, all fail. n_slots and max_len are taken
 * from the leader. On followers it returns after the leader has dismissed them: their work is done then. */
tx_status tx_inference_start(tx_inference *f, tx_status st, int64_t n_slots, int64_t max_len);

/* Collective: moves the weights to where something other than the decoder computes, and before that is closed, back. */
tx_status tx_inference_move(tx_inference *f, tx_device *d);
void tx_inference_give(tx_inference *f);

/* Ends the job and returns its status. */
tx_status tx_inference_close(tx_inference *f, tx_status st);

#endif
