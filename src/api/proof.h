/* proof.h - that a conversion has changed nothing: the same tokens through the source and through what was written, or
 * the same samples where the model is a BERT. */
#ifndef TX_API_PROOF_H
#define TX_API_PROOF_H

#include "convert/sink.h"

/* Reads the model of both, rounded to c->dtype, runs the same tokens through them in fp32, and logs the largest
 * difference of logits and how many of the likeliest tokens agree. TX_ERR_NUMERIC when they differ by more than 1e-4,
 * or moments and masters at all. One of the models is in memory at a time. @out is opened as `type` */
tx_status tx__prove(tx_source *src, const char *out, const tx_source_type *type, const tx_config *cfg,
                    const tx_conversion *c);

#endif
