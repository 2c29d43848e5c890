/* bert_sample.h - a tx_bert_sample in a test's own memory, [6 * s]. */
#ifndef TESTS_BERT_SAMPLE_H
#define TESTS_BERT_SAMPLE_H

#include "data/bert_dataset.h"

static inline tx_bert_sample sample_in(int32_t *memory, int64_t s)
{
    return (
        tx_bert_sample){ .tokens = memory, .types = memory + s, .labels = memory + 2 * s, .scratch = memory + 3 * s };
}

#endif
