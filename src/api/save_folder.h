/* save_folder.h - whether a run may save to --save. */
#ifndef TX_API_SAVE_FOLDER_H
#define TX_API_SAVE_FOLDER_H

#include "api/engine_internal.h"

/* Before the first step: TX_ERR_ARG where the folder holds a run that this one would damage: a model of another shape
 * or vocabulary, iterations after this run's, or a checkpoint of another program, which the next start would take for
 * the run's. A run that resumes from a checkpoint in the folder, by --load, is the same run. With --overwrite-run the
 * other one's checkpoints are removed when this run's first is complete. Collective. */
tx_status tx__save_folder_check(tx_engine *e);

#endif
