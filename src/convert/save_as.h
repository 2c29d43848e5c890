/* save_as.h - a run's checkpoint in the format of --save-format, from what its ranks keep.
 *
 *                  --save-format native            megatron, deepspeed
 *      begin       tx_checkpoint_save_begin        the same, into DIR/.tmp-iter_exchange-<pid>
 *      write       this rank's shard               the same
 *      finish      iter_0000010, latest            the shards are whole there: *more
 *      write                                       this rank's files, into DIR/.tmp-iter_global_step10-<pid>
 *      finish                                      global_step10, latest, latest_checkpointed_iteration.txt
 *
 *  Upstream's files divide the numbers differently from the ranks: a file of weights has what ZeRO has divided, and
 * DeepSpeed's partitions of an optimizer's state begin elsewhere. So the ranks exchange their numbers through the disk,
 * since a write that overlaps with training must not communicate. Each rank writes alone, in any thread, with one
 * parameter at a time in memory. A folder appears whole or not at all, like a native one, and replaces one of the same
 * name. */
#ifndef TX_CONVERT_SAVE_AS_H
#define TX_CONVERT_SAVE_AS_H

#include "checkpoint/checkpoint.h"
#include "convert/sink.h"
#include "parallel/grid.h"

/* What --save-format names. */
tx_ckpt_kind tx_save_kind(const tx_config *cfg);

typedef struct tx_save_args {
    const tx_config *cfg; /* complete; it, the grid, ps, kept and the numbers must not change until the end */
    const tx_grid *grid;
    const char *dir;
    const tx_ckpt_state *state; /* this and the next two as tx_checkpoint_save_begin has them */
    const json_t *config;
    const tx_params *ps;
    const tx_fragments *kept;
    const tx_ckpt_part *part;
    int n_parts;
    tx_comm *group; /* that saves together; NULL: other ranks keep all that this one does */
} tx_save_args;

typedef struct tx_save tx_save;

/* Collective over the grid's world. *out NULL with TX_OK: this rank has nothing to write, and nothing to finish.
 * Errors: tx_checkpoint_save's; TX_ERR_UNSUPPORTED and TX_ERR_SHAPE of runs that the format has no place for. */
tx_status tx_save_begin(tx_save **out, const tx_save_args *a);

/* finish reports how it went. */
void tx_save_write(tx_save *s);

/* Collective over those that have begun it, after the write of every rank. Frees s unless *more: then there is
 * another write, and another finish. */
tx_status tx_save_finish(tx_save *s, bool *more);

void tx_save_abandon(tx_save *s); /* not collective: for a rank whose job ends; NULL allowed */

/* Bytes that a save of the weights' `numel` elements and of `all` of all parts leaves on the disk; and how many more
 * it takes while it runs. */
int64_t tx_save_bytes(const tx_config *cfg, int64_t numel, int64_t all);
int64_t tx_save_bytes_passing(const tx_config *cfg, int64_t all);

#endif
