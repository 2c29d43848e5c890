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
    tx_engine_data *data;    /* the user's training data, or NULL */
    tx_tokenizer *tokenizer; /* args.with_tokenizer's, or NULL */
    tx_ckpt_tokenizer kept;  /* what checkpoints keep: of that one, or of the one that --load's was trained with */
    tx_optimizer optimizer;
    tx_lr_scheduler scheduler;
    tx__engine_monitor monitor;
    int64_t micro_steps;
    bool failed; /* a collective call: the ranks may not be in step */
};

/* The tokens of a model: how many, how many at least, and the end of a document. */
typedef struct tx__engine_vocabulary {
    int64_t size, least;
    int32_t eod; /* -1: none */
} tx__engine_vocabulary;

/* As tx_engine_create, from a source that is open already. Collective over the grid (NULL: one rank alone), which is
 * borrowed. */
tx_status tx__engine_create(tx_engine **out, tx_config *cfg, tx_source *src, const tx__engine_vocabulary *v,
                            const tx_grid *grid);

/* Returns st, the result of a collective call. After a failure the engine remembers that ranks may not be in step. */
tx_status tx__engine_ended(tx_engine *e, tx_status st);

/* Puts a source's weights, and in a native checkpoint all state, into an engine of the same shape. */
tx_status tx__engine_restore(tx_engine *e, tx_source *src);

#endif
