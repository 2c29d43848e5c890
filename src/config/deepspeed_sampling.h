/* deepspeed_sampling.h - data_efficiency.data_sampling of DeepSpeed's JSON as options, for src/config/ only. */
#ifndef TX_CONFIG_DEEPSPEED_SAMPLING_H
#define TX_CONFIG_DEEPSPEED_SAMPLING_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* Where options and notes for the log go. */
typedef struct tx__ds_sampling_to {
    tx_status (*put)(void *user, const char *flag, const char *const *text, int n); /* "true" of a switch */
    tx_status (*note)(void *user, const char *text);
    void *user;
} tx__ds_sampling_to;

/* @value the section   @enabled data_efficiency.enabled
 * Errors: TX_ERR_ARG, "curriculum_learning...: what is wrong"; those of the functions. */
tx_status tx__ds_sampling_read(const json_t *value, bool enabled, const tx__ds_sampling_to *to);

#endif
