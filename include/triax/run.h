/* run.h - whole jobs, as the sub-commands do them: each takes a parsed config and speaks through the log sink. */
#ifndef TRIAX_RUN_H
#define TRIAX_RUN_H

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Trains as `triax pretrain-gpt`: tokenizer, data, model, resume, loop, evaluation, checkpoints.
 * cfg is completed from the checkpoint that --load names. */
TX_API tx_status tx_pretrain(tx_config *cfg);

/* Loss and perplexity of a checkpoint on a dataset, as `triax evaluate`. */
TX_API tx_status tx_evaluate(tx_config *cfg);

/* What this machine has and what triax will use, and a self-test of a few seconds, as `triax doctor`.
 * A failed check is reported in the log and as the status. */
TX_API tx_status tx_doctor(const tx_config *cfg);

#ifdef __cplusplus
}
#endif
#endif
