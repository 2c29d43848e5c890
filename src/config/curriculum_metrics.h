/* curriculum_metrics.h - how difficulties grow, and by which metrics of samples batches are drawn:
 * --curriculum-metrics.
 *
 *      {"vocab_rarity": {"index_to_sample_path": "...", "index_to_metric_path": "...", "difficulty_type": "value",
 *                        "clustering_type": "schedule_based", "min_difficulty": 100, "max_difficulty": 900,
 *                        "schedule_type": "fixed_linear",
 *                        "schedule_config": {"total_curriculum_step": 1000, "difficulty_step": 10}}, ...}
 *
 *  Source: DeepSpeed, runtime/data_pipeline/constants.py, data_sampling/data_sampler.py. */
#ifndef TX_CONFIG_CURRICULUM_METRICS_H
#define TX_CONFIG_CURRICULUM_METRICS_H

#include "config/config.h"

/* A schedule of kinds/curricula.h with its parameters; those of other kinds are 0. */
typedef struct tx_curriculum {
    enum tx_curriculum_kind kind;
    int64_t min, max;
    int64_t total_step, step; /* iterations, and of what difficulties are multiples */
    double root_degree;
    int64_t *difficulty, *max_step; /* [n + 1], [n] */
    int n;
} tx_curriculum;

/* The difficulty of an iteration, from 1. */
int64_t tx_curriculum_at(const tx_curriculum *c, int64_t iteration);

typedef struct tx_curriculum_metric {
    char *name;
    bool percentile; /* difficulties are percentiles of the samples; else values of the metric */
    bool clusters;   /* samples are drawn by it; false: single_cluster */
    char *index_to_sample, *index_to_metric; /* paths without .bin and .idx; NULL where they are not needed */
    tx_curriculum schedule;
} tx_curriculum_metric;

typedef struct tx_curriculum_metrics {
    tx_curriculum_metric *metric; /* [n], in the order of the text, which decides about cluster files' names only */
    int n;
} tx_curriculum_metrics;

/* Reads the metrics of an option's text (NULL: none), or of a value of DeepSpeed's JSON. Errors: TX_ERR_ARG, one line
 * that names the metric and the member; TX_ERR_NOMEM. */
tx_status tx_curriculum_metrics_parse(tx_curriculum_metrics *out, const char *text);
tx_status tx_curriculum_metrics_read(tx_curriculum_metrics *out, const json_t *value);
void tx_curriculum_metrics_free(tx_curriculum_metrics *m); /* a zeroed one is fine */

#endif
