/* metrics_file.h - a run as JSON lines, written while it is running (docs/formats/metrics.md); history.h reads it. */
#ifndef TX_REPORT_METRICS_FILE_H
#define TX_REPORT_METRICS_FILE_H

#include <jansson.h>

#include "base/append.h"
#include "base/step_record.h"
#include "base/str.h"

#define TX_METRICS_FILE "metrics.jsonl" /* in a run's folder */

/* The numbers of a line of kind "step" of every model: name, and where a record `r` has it. */
#define TX_STEP_NUMBERS(X)                                                            \
    X(iteration, r->iteration)                                                        \
    X(consumed_samples, r->consumed_samples)                                          \
    X(consumed_tokens, r->consumed_tokens)                                            \
    X(elapsed_ms, r->elapsed_ms)                                                      \
    X(learning_rate, r->lr)                                                           \
    X(decoupled_learning_rate, r->decoupled_lr < 0 ? NAN : r->decoupled_lr)           \
    X(weight_decay, r->weight_decay)                                                  \
    X(global_batch_size, r->global_batch_size)                                        \
    X(loss, r->loss)                                                                  \
    X(loss_scale, r->loss_scale)                                                      \
    X(grad_norm, r->grad_norm)                                                        \
    X(params_norm, r->params_norm < 0 ? NAN : r->params_norm)                         \
    X(num_zeros, r->num_zeros < 0 ? NAN : r->num_zeros)                               \
    X(max_attention_logit, r->max_attention_logit < 0 ? NAN : r->max_attention_logit) \
    X(skipped, r->skipped)                                                            \
    X(nan, r->nan)                                                                    \
    X(samples_per_second, r->samples_per_second)                                      \
    X(tokens_per_second, r->tokens_per_second)                                        \
    X(tflops, r->tflops)                                                              \
    X(hardware_tflops, r->hardware_tflops)                                            \
    X(peak_share, r->peak_share)                                                      \
    X(memory_bytes, r->memory_bytes)                                                  \
    X(peak_resident_bytes, r->peak_resident_bytes)

/* And of a model with experts, where it stands behind the losses that not every model has. */
#define TX_EXPERT_NUMBERS(X)                    \
    X(load_balancing_loss, r->experts.aux_loss) \
    X(z_loss, r->experts.z_loss)                \
    X(dropped_share, r->experts.dropped)        \
    X(load_imbalance, r->experts.imbalance)

typedef struct tx_metrics_file {
    tx_append file;
    tx_str line;
} tx_metrics_file;

/* Creates the file or appends to it, and writes the line of kind "run": what the object `run` holds, which begins with
 * "kind". TX_ERR_FORMAT for a file that is there and is none of these. */
tx_status tx_metrics_file_open(tx_metrics_file *f, const char *path, const json_t *run);

/* A line for an interval or an evaluation; other records have none. */
tx_status tx_metrics_file_put(tx_metrics_file *f, const tx_step_record *r);

void tx_metrics_file_close(tx_metrics_file *f); /* a zeroed one is fine */

#endif
