/* masked_text.h - a text with [MASK] in it, as a user types it, to a BERT's ids.
 *
 *      And god said unto [MASK], go. [SEP] And he went.
 *      [CLS] and god said unto [MASK] , go . [SEP] and he went . [SEP]
 *        0    0   0   0    0     0    0 0  0   0    1   1  1   1   1                segments
 *
 *  The words in brackets are spelled as in the vocabulary. [CLS] at the beginning and [SEP] at the end may be left
 * out. */
#ifndef TX_API_MASKED_TEXT_H
#define TX_API_MASKED_TEXT_H

#include "data/bert_dataset.h"

typedef struct tx_masked_text {
    tx_ids ids;      /* [CLS] and [SEP] among them; owned */
    int64_t n_first; /* how many of them are in the first segment */
    int64_t n_masks;
} tx_masked_text;

/* TX_ERR_ARG: [CLS] elsewhere, or more than two segments, or an empty one. */
tx_status tx__masked_text_read(tx_masked_text *out, const tx_tokenizer *tok, const char *text, size_t n);
void tx__masked_text_free(tx_masked_text *t); /* back to empty */

/* Writes it as a row of s positions; masks have label 0. */
void tx__masked_text_put(const tx_masked_text *t, int32_t mask, tx_bert_ids row, int64_t s);

#endif
