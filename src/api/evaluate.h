/* evaluate.h - `triax evaluate` with files as tasks, inside of api/. */
#ifndef TX_API_EVALUATE_H
#define TX_API_EVALUATE_H

#include "config/config.h"
#include "triax/run.h"

/* The files of --valid-data, each by itself, on the ranks of this job. */
tx_status tx__evaluate_tasks(tx_config *cfg, tx_line_fn *line, void *user);

#endif
