/* generate.h - sampling text from a checkpoint. */
#ifndef TRIAX_GENERATE_H
#define TRIAX_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One finished sample. Text is valid UTF-8: bytes that are not are shown as U+FFFD. All borrowed for the call. */
typedef struct tx_sample {
    int64_t prompt_index, sample_index; /* from 0 */
    const char *prompt;
    const char *text; /* the continuation, without the prompt */
    const int32_t *ids;
    size_t n_ids; /* of the continuation; the end-of-document token is not among them */
    int finished; /* ended by itself with the end-of-document token */
} tx_sample;

/* Continues every prompt of `cfg` (command "generate") --num-samples times; `each` is called per sample, in order. */
TX_API tx_status tx_generate(tx_config *cfg, void (*each)(void *user, const tx_sample *sample), void *user);

#ifdef __cplusplus
}
#endif
#endif
