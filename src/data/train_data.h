/* train_data.h - the training, validation and test samples that the options ask for: one dataset or a blend, divided by
 * --split or named split by split. */
#ifndef TX_DATA_TRAIN_DATA_H
#define TX_DATA_TRAIN_DATA_H

#include "config/config.h"
#include "data/blend_phase.h"
#include "triax/data.h"

typedef struct tx_train_data tx_train_data;

/* Opens what the options name (data_groups.h).
 * @n_samples [TX_N_SPLITS] wanted of each; 0: none, and a blend, having no end of its own, is not built.
 * @vocab_size the model's: ids are checked against it. @eod ends the documents of --mock-data; -1: there is none.
 * @tok the model's tokenizer, kept; NULL unless tx_samples_need_tokenizer (samples.h). Logs Megatron's lines.
 * Errors: those of tx_data_groups_open, tx_gpt_data_open, tx_bert_data_open, tx_blend_build; TX_ERR_ARG when a dataset
 * of a blend has nothing for a split that is wanted. */
tx_status tx_train_data_open(tx_train_data **out, const tx_config *cfg, const int64_t *n_samples, int64_t vocab_size,
                             int32_t eod, const tx_tokenizer *tok);
void tx_train_data_close(tx_train_data *data); /* NULL allowed */

/* Warns of evaluations that will not take place: a split without a document though --split gives it a share, or that
 * nothing is given for though --eval-iters is. */
void tx_train_data_warn_of_empty(const tx_train_data *data, const tx_config *cfg);

/* tx_blend_phase of the training samples in keyed order; *out NULL in the others, which know no phases. Warns when the
 * checkpoint's order was of the other kind. */
tx_status tx_train_data_phase(tx_train_data *data, const json_t *saved, int64_t consumed, json_t **out);

/* How many groups of samples a split has: one, or for validation and test as many as --valid-weighted-split-paths or
 * --test-weighted-split-paths name; 0: the split has no sample. */
int tx_train_data_groups(const tx_train_data *data, tx_split split);

/* Group g of a split and (unless NULL) its name, NULL when it has none. Borrowed. */
const tx_blend *tx_train_data_group(const tx_train_data *data, tx_split split, int g, const char **name);

/* The first group, NULL when the split has no sample. */
/* The split of --eval-split; "all" is made the first one. */
tx_split tx_split_asked(enum tx_eval_split asked);

const tx_blend *tx_train_data_split(const tx_train_data *data, tx_split split);

#endif
