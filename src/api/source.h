/* source.h - where a model's weights come from: the checkpoint that --load names, in whichever format it is. */
#ifndef TX_API_SOURCE_H
#define TX_API_SOURCE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/huggingface.h"
#include "config/config.h"
#include "model/model.h"

typedef struct tx_source {
    tx_ckpt_kind kind; /* TX_CKPT_NONE: fresh weights */
    const char *dir;   /* borrowed from the config */
    tx_comm *group;    /* the ranks that load it, borrowed */
    tx_checkpoint *native;
    tx_huggingface *hf;
    int64_t vocab_size; /* what the checkpoint's model has; 0: nothing known */
} tx_source;

/* Recognises what `dir` holds and opens it; TX_ERR_NOTFOUND when there is no checkpoint. Collective over `group`, which
 * together has the whole model and outlives src: all succeed or all fail. */
tx_status tx_source_open(tx_source *src, const char *dir, tx_comm *group);

/* For a run: --load as the options mean it. No --load is TX_CKPT_NONE; so is a --load that holds no checkpoint and is
 * the same folder as --save, which is how published scripts start a run that restarts itself. The log says which
 * happened. */
tx_status tx_source_open_for_run(tx_source *src, const tx_config *cfg, tx_comm *group);

/* Fills left-out shape options from the checkpoint; given ones that differ are an error that lists them. With `resume`
 * options of the trajectory that differ are warned about. The config is complete afterwards. */
tx_status tx_source_options(tx_source *src, tx_config *cfg, bool resume);

/* The checkpoint's weights into the flat buffer of a model with its shape: this rank's part of them. Padding rows
 * become zero. Collective over the group. */
tx_status tx_source_weights(const tx_source *src, const tx_model *m, float *value);

void tx_source_close(tx_source *src); /* safe on a zeroed source */

#endif
