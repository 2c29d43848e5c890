/* meant_folder.h - the checkpoint that a path means which is not there, or holds something else. */
#ifndef TX_CONVERT_MEANT_FOLDER_H
#define TX_CONVERT_MEANT_FOLDER_H

#include "checkpoint/checkpoint.h"

/* `path`, or where there is no such folder the same iteration under the other name: X/iter_0008000 for
 * X/global_step8000 and the other way round, which the log says. */
tx_status tx__meant_step(char *buf, size_t cap, const char *path);

/* "; there are iter_0000002, iter_0000004" that lie where a step's folder is missing, or "". */
void tx__steps_beside(char *buf, size_t cap, const char *path);

/* A folder in `path` that holds a checkpoint, where `path` holds none itself: runs side by side. false: there is none,
 * or not one alone. */
bool tx__meant_run(char *buf, size_t cap, const char *path);

#endif
