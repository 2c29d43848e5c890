/* engine_internal.h - the engine's inside, for the other files of this room. */
#ifndef TX_API_ENGINE_INTERNAL_H
#define TX_API_ENGINE_INTERNAL_H

#include "api/engine_data.h"
#include "api/engine_monitor.h"
#include "api/ranks.h"
#include "convert/source.h"
#include "train/trainer.h"
#include "triax/engine.h"

/* Handles into an engine. */
struct tx_optimizer {
    tx_trainer *t;
};
struct tx_lr_scheduler {
    tx_trainer *t;
};

struct tx_engine {
    tx_trainer *trainer;
    tx_config *cfg; /* borrowed */
    tx_client client;
    tx_ranks ranks;          /* the engine's own; zeroed where somebody else has them */
    tx_engine_data *data;    /* the client's training data, or NULL */
    tx_tokenizer *tokenizer; /* args.with_tokenizer's, or NULL */
    tx_ckpt_tokenizer kept;  /* what checkpoints keep: of that one, or of the one that --load's was trained with */
    tx_optimizer optimizer;
    tx_lr_scheduler scheduler;
    tx__engine_monitor monitor;
    int64_t micro_steps;
    bool failed; /* a collective call: the ranks may not be in step */
};

/* As tx_engine_create, from a source that is open already, whose model has `vocab_size` tokens, or `least`. eod -1: the
 * vocabulary has none. Collective over the grid (NULL: one rank alone), which is borrowed. */
tx_status tx__engine_create(tx_engine **out, tx_config *cfg, tx_source *src, int64_t vocab_size, int64_t least,
                            int32_t eod, const tx_grid *grid);

/* What a collective call has come to: of a failed one the engine remembers that ranks may not be in step. */
tx_status tx__engine_ended(tx_engine *e, tx_status st);

/* Puts a source's weights, and in a native checkpoint all state, into an engine of the same shape. */
tx_status tx__engine_restore(tx_engine *e, tx_source *src);

#endif
