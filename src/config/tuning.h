/* tuning.h - the section "autotuning" of DeepSpeed's JSON: the settings of triax deepspeed --autotuning. Their table is
 * in deepspeed_keys.def (TUNING). */
#ifndef TX_CONFIG_TUNING_H
#define TX_CONFIG_TUNING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_tuning {
#define TX_TUNING_TEXT          const char *
#define TX_TUNING_WORD          const char *
#define TX_TUNING_COUNT         int64_t
#define TX_TUNING_SWITCH        bool
#define TUNING(name, type, ...) TX_TUNING_##type name;
#include "config/deepspeed_keys.def"
    bool grid;      /* tuner_type is gridsearch */
    bool latency;   /* metric is latency: iterations are compared, not samples */
    bool any_batch; /* train_batch_size is "auto": the global batch is free */
    json_t *file;   /* has the texts; owned */
} tx_tuning;

/* The settings of a file that --deepspeed_config has been parsed with; NULL: none, all are left out. TX_ERR_ARG: they
 * contradict each other. */
tx_status tx_tuning_read(tx_tuning *out, const char *path);
void tx_tuning_free(tx_tuning *t); /* a zeroed one is fine */

/* Sets the one called `name`, which is there. False: it may not have this value, and `takes` is what it takes. */
bool tx__tuning_set(tx_tuning *t, const char *name, const json_t *value, char takes[160]);

#endif
