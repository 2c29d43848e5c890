/* show_layout.h - the parts of a job plan that several ranks bring along: what each of them holds and sends. */
#ifndef TX_API_SHOW_LAYOUT_H
#define TX_API_SHOW_LAYOUT_H

#include <jansson.h>

#include "api/report.h"
#include "train/plan.h"

/* A plan for each pipeline stage (tx_plan_stage), and the one that takes most memory. */
typedef struct tx_stage_plans {
    tx_run_plan *stage; /* [n] */
    int n, most;
} tx_stage_plans;

/* @gpu  memory of the GPU that the plan is for, where that is not this machine's; 0: it is */
tx_status tx_stage_plans_make(tx_stage_plans *out, const tx_config *cfg, int64_t vocab_size, size_t gpu);
void tx_stage_plans_free(tx_stage_plans *p); /* a zeroed one is fine */

/* How many ranks there are, and what those of each stage take; which of them the table of memory is about, that
 * follows. Nothing for one rank. */
tx_status tx__show_ranks(tx__report *r, const tx_config *cfg, const tx_stage_plans *p);

/* What ZeRO divides; with a pipeline also what DeepSpeed, which refuses stages 2 and 3 there, would not send. Nothing
 * where nothing is divided. */
tx_status tx__show_zero(tx__report *r, const tx_volume_sizes *z);

/* What that rank sends and receives in an iteration, by group; nothing for one rank. */
tx_status tx__show_messages(tx__report *r, const tx_config *cfg, const tx_run_plan *p);

/* Both as JSON: {"layout": ..., "stages": [...]}. NULL: no memory. */
json_t *tx__layout_to_json(const tx_config *cfg, const tx_stage_plans *p);

/* {"parameters": ..., "total": ...} in bytes. */
json_t *tx__memory_to_json(const tx_memory *m);

#endif
