/* evaluate.h - the parts of `triax evaluate`: files as tasks, and datasets of sentences. Shared inside api/. */
#ifndef TX_API_EVALUATE_H
#define TX_API_EVALUATE_H

#include "api/inference.h"
#include "data/train_data.h"
#include "triax/jobs.h"

/* Evaluates the files of --valid-data, each by itself, on the ranks of this job. */
tx_status tx__evaluate_tasks(tx_config *cfg, tx_line_fn *line, void *user);

/* Opens the part of --data-path that --eval-split names. Collective.   @tok the model's; NULL unless
 * tx_samples_need_tokenizer */
tx_status tx__evaluation_data_open(tx_train_data **data, const tx_blend **part, tx_config *cfg, const tx_grid *grid,
                                   int64_t vocab_size, const tx_tokenizer *tok);

/* evaluate_bert.c: evaluates a BERT on that part, on all ranks. cfg is completed from the source. */
tx_status tx__evaluate_sentences(tx_config *cfg, tx_source *src, const tx_grid *grid, tx_line_fn *line, void *user);

#endif
