/* sample_metrics.h - what is measured of training samples: --analyzing-metric.
 *
 *  A row is X(constant, word, of, summed). `of`: 1 of samples of any model, 0 of those of a BERT alone, since a GPT's
 * are all of one length. `summed`: one vector over all samples; else a value of each. Source: Megatron-DeepSpeed,
 * examples_deepspeed/data_efficiency/analyze_data.py. */
#ifndef TX_KINDS_SAMPLE_METRICS_H
#define TX_KINDS_SAMPLE_METRICS_H

#include "kinds/kind.h"

#define TX_SAMPLE_METRICS(X)                          \
    X(TX_METRIC_VOCAB_FREQ, "total_vocab_freq", 1, 1) \
    X(TX_METRIC_VOCAB_RARITY, "vocab_rarity", 1, 0)   \
    X(TX_METRIC_SEQLEN, "seqlen", 0, 0)               \
    X(TX_METRIC_SEQLEN_RARITY, "seqlen_vocab_rarity", 0, 0)

TX_KIND(sample_metric, TX_SAMPLE_METRICS)

#define TX_SAMPLE_METRICS_OF(constant, word, of, summed)     [constant] = (of),
#define TX_SAMPLE_METRICS_SUMMED(constant, word, of, summed) [constant] = (summed),

static inline int tx_sample_metric_is_of_any(enum tx_sample_metric kind)
{
    static const int of[] = { TX_SAMPLE_METRICS(TX_SAMPLE_METRICS_OF) };
    return of[kind];
}

static inline int tx_sample_metric_is_summed(enum tx_sample_metric kind)
{
    static const int summed[] = { TX_SAMPLE_METRICS(TX_SAMPLE_METRICS_SUMMED) };
    return summed[kind];
}

#endif
