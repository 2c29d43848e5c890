/* inspect_samples.h - what inspect-samples' job shares with the two kinds of samples it shows. */
#ifndef TX_API_INSPECT_SAMPLES_H
#define TX_API_INSPECT_SAMPLES_H

#include "api/report.h"
#include "config/config.h"
#include "data/sample_documents.h"

typedef struct tx__sample_view {
    const tx_config *cfg;
    const tx_blend *blend; /* one group of the split's samples */
    const char *group;     /* its name, or NULL */
    tx_split split;
    int64_t wanted;    /* samples that the run reads of it */
    tx_tokenizer *tok; /* NULL: ids only */
    tx__report *report;
    /* room for one sample: GPT's */
    int32_t *tokens; /* [s+1] */
    tx_sample_pieces pieces;
    /* BERT's */
    tx_bert_sample bert;
} tx__sample_view;

/* Appends sample i as one JSON object. */
tx_status tx__put_gpt_sample(tx__sample_view *v, tx_str *out, int64_t i);
tx_status tx__put_bert_sample(tx__sample_view *v, tx_str *out, int64_t i);

/* read[d] += tokens of document first + d that the run's samples hold: of a GPT as inputs; a sample's last token is the
 * first of the next and counts there. Of a BERT before they are cut down. Of one dataset. */
tx_status tx__count_gpt_tokens(tx__sample_view *v, double *read, int64_t first);
void tx__count_bert_tokens(tx__sample_view *v, double *read, int64_t first);

/* Appends the beginning of sample i's object: {"sample":i,"group":...,"dataset":..., */
tx_status tx__put_sample_begin(const tx__sample_view *v, tx_str *out, int64_t i, int dataset);

/* Appends "name":[x[0],...]. */
tx_status tx__put_ids(tx_str *out, const char *name, const int32_t *x, int64_t n);

#endif
