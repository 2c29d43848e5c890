/* place.h - which folder of DIR is the checkpoint. Shared inside the checkpoint room. */
#ifndef TX_CHECKPOINT_PLACE_H
#define TX_CHECKPOINT_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "checkpoint/checkpoint.h"

#define TX__LATEST     "latest"
#define TX__TMP_PREFIX ".tmp-iter_" /* followed by the iteration, '-' and the writer's process id */
#define TX__OLD_PREFIX ".old-"      /* a checkpoint set aside while its successor takes its name */
#define TX__PATH_CAP   4096
#define TX__ITER_CAP   32
#define TX__NOTE_CAP   512

#define TX__TRACKER "latest_checkpointed_iteration.txt" /* Megatron's: the number, for scripts */

/* "iter_0000010" and back; only the spelling that iter_name gives is taken. */
void tx__iter_name(char buf[TX__ITER_CAP], int64_t iteration);
bool tx__iter_parse(const char *name, int64_t *iteration);

/* The same of any kind that a run saves: DeepSpeed's are "global_step10". */
void tx__step_name(char buf[TX__ITER_CAP], tx_ckpt_kind kind, int64_t iteration);
bool tx__step_parse(tx_ckpt_kind kind, const char *name, int64_t *iteration);

/* Whether dir/name holds a checkpoint of that kind, by a file that each has; `path` gets dir/name. */
bool tx__is_step(tx_ckpt_kind kind, const char *dir, const char *name, char path[TX__PATH_CAP]);

/* The file TRACKER of a native DIR. */
tx_status tx__tracker_write(const char *dir, int64_t iteration);

/* One that tx_checkpoint_check_tag lets through. */
bool tx__is_tag(const char *name);

/* Whether dir/name/manifest.json exists; `path` gets dir/name. */
bool tx__has_manifest(const char *dir, const char *name, char path[TX__PATH_CAP]);

typedef struct tx__found_checkpoint {
    char path[TX__PATH_CAP]; /* "" when there is no native checkpoint */
    int64_t iteration;       /* by the folder's name; -1 when DIR itself is the checkpoint, or it has a tag */
    char note[TX__NOTE_CAP]; /* what the user should hear about the choice, or "" */
} tx__found_checkpoint;

/* Finds the native checkpoint of DIR, an existing folder. Errors: `latest` that names nothing, or another program's. */
tx_status tx__checkpoint_find(const char *dir, tx__found_checkpoint *out);

#endif
