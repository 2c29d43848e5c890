/* generate_files.h - the files that upstream's generate_samples_gpt.py writes. They are published when complete. */
#ifndef TX_API_GENERATE_FILES_H
#define TX_API_GENERATE_FILES_H

#include "api/sampling.h"

typedef enum tx_samples_file_kind {
    TX_SAMPLES_SINK = 0, /* no file */
    TX_SAMPLES_LINES,    /* --sample-input-file continued: "Context:" and "Megatron-LM:" */
    TX_SAMPLES_FREE      /* --genfile: texts without a prompt, JSON lines of text, length, finished */
} tx_samples_file_kind;

typedef struct tx_samples_file {
    tx_samples_file_kind kind;
    const tx_config *cfg;
} tx_samples_file;

tx_samples_file tx__samples_file_of(const tx_config *cfg);

/* Adds the prompts of the kind, and sets what it changes of the sampling. Lines whose context is longer than half of
 * the sequence are left out with a warning, as upstream does. Without a file: does nothing. */
tx_status tx__samples_file_prompts(const tx_samples_file *f, tx_prompts *p, tx_sampling *s, int64_t max_positions);

tx_status tx__samples_file_write(const tx_samples_file *f, const tx_sampling *s, tx_decoder *d, const tx_prompts *p);

#endif
