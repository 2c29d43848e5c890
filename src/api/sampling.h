/* sampling.h - the work of `generate` between prompts and a sink: how many at once, and in order. */
#ifndef TX_API_SAMPLING_H
#define TX_API_SAMPLING_H

#include "api/inference.h"
#include "api/prompts.h"
#include "infer/batcher.h"
#include "infer/line_rules.h"
#include "infer/text_stream.h"
#include "triax/generate.h"

/* What all samples have in common. */
typedef struct tx_sampling {
    const tx_config *cfg;
    const tx_tokenizer *tok;
    tx_sampler sampler;
    tx_line_rules lines;
    int32_t eod;      /* -1: none ends a sample */
    int32_t *stop_id; /* owned */
    int64_t n_stop_ids;
    int64_t n_samples;     /* of each prompt */
    int64_t max_new;       /* of each sample */
    int64_t max_len;       /* of prompt and sample */
    uint64_t first_sample; /* the number that the seed's first one has */
    bool wants_beam;
} tx_sampling;

/* From the options. @vocab_size the model's, which ids are checked against */
tx_status tx__sampling_init(tx_sampling *s, const tx_config *cfg, const tx_tokenizer *tok, int64_t vocab_size);
void tx__sampling_deinit(tx_sampling *s); /* safe on a zeroed one */

/* Slots that n prompts' samples are made in. */
int64_t tx__sampling_slots(const tx_sampling *s, int64_t n_prompts);

/* Makes all samples of all prompts, and hands them to the sink in order. */
tx_status tx__samples_run(const tx_sampling *s, tx_decoder *d, const tx_prompts *p, const tx_generate_sink *sink);

#endif
