/* fim.h - fill-in-the-middle: documents of a GPT's sample are cut in three, and the middle comes last.
 *
 *      text     a b c d e f g h
 *      PSM      <fim_prefix> a b <fim_suffix> f g h <fim_middle> c d e
 *      SPM      <fim_prefix> <fim_suffix> f g h <fim_middle> a b c d e
 *
 *  Source: Megatron-LM megatron/training/datasets/fim_dataset.py; arXiv:2207.14255 (SPM is its variant 2). Rates and
 *  cuts are distributed as there. The numbers are others: upstream draws one after the other from a generator, so that
 *  they depend on who has read what before; here they are a function of the seed, the split and the sample's number. */
#ifndef TX_DATA_FIM_H
#define TX_DATA_FIM_H

#include "config/config.h"
#include "triax/token.h"

typedef struct tx_fim {
    const tx_tokenizer *tok;
    uint64_t seed;
    double rate, spm_rate, fragment_rate;
    char *no_prefix;                          /* text with which a fragment stays as it is; NULL: none */
    int32_t prefix, middle, suffix, pad, eod; /* ids */
    int32_t split;                            /* id that ends a fragment; -1: a document is one fragment */
    int32_t n_before, n_after;                /* ids that encode adds at the ends of every text */
} tx_fim;

/* What --fim-data asks for. Borrows tok until tx_fim_deinit, nothing of cfg.
 * Errors: TX_ERR_ARG: a token is not in the vocabulary. */
tx_status tx_fim_init(tx_fim *out, const tx_config *cfg, const tx_tokenizer *tok);
void tx_fim_deinit(tx_fim *f);

/* Permutes the n ids of sample `number` of split `stream` in place. What no longer fits is cut off, what is missing is
 * padded. Safe from any number of threads. Errors: TX_ERR_NOMEM; those of tx_tokenizer_decode. */
tx_status tx_fim_apply(const tx_fim *f, uint32_t stream, int64_t number, int32_t *ids, int64_t n);

#endif
