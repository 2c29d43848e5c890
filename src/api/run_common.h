/* run_common.h - what pretrain, evaluate and generate share: the tokenizer of a model and the memory line. */
#ifndef TX_API_RUN_COMMON_H
#define TX_API_RUN_COMMON_H

#include "config/config.h"
#include "convert/source.h"
#include "data/train_data.h"
#include "train/trainer.h"
#include "triax/token.h"

/* The tokenizer that the flags name; where they name no file, the one that lies beside the checkpoint in `dir` (NULL:
 * none): vocab.json and merges.txt, vocab.txt or tokenizer.json, as --tokenizer-type says; a tokenizer.json also where
 * the type's own files are missing, as in a Hugging Face folder. TX_ERR_ARG when there is neither. */
tx_status tx__tokenizer_for(const tx_config *cfg, const char *dir, tx_tokenizer **out);

/* Tokens that a text can have: WordPiece's [BOS] and [EOS], which are added where a vocab.txt has none, are the last
 * ones, and a model made elsewhere has no rows for them. */
int32_t tx__text_tokens(const tx_tokenizer *tok);

/* Copies the files of the tokenizer that tx__tokenizer_for(cfg, from) opens into `dir`, so that generate and evaluate
 * find them there. A file that is there with the same content is left alone. */
tx_status tx__tokenizer_keep(const tx_config *cfg, const char *from, const char *dir);

/* Publishes dir/name with the content of `from`; one that is the same is left alone. */
tx_status tx__copy_file(const char *from, const char *dir, const char *name);

/* The three splits as the run of `cfg` trains and evaluates on them. @vocab_size 0: ids are not checked.
 * @bert its tokenizer, or NULL for GPT */
tx_status tx__run_data_open(tx_train_data **out, const tx_config *cfg, int64_t vocab_size, const tx_tokenizer *bert);

/* The training samples go on where the checkpoint's left its datasets, and checkpoints tell from now on. */
tx_status tx__run_data_carry(tx_trainer *t, tx_train_data *data);

/* A model for scoring or sampling, a rank's part of it (grid NULL: all): weights from the source, sizes from its
 * options. *value is the flat buffer. Collective over the source's group. */
tx_status tx__model_load(tx_model **model, void **value, const tx_config *cfg, tx_source *src, const tx_grid *grid);

/* Moves the parameters from the host's memory to the device's, which *value then is to be given back to. */
tx_status tx__model_move(tx_model *m, void **value, tx_device *d);

/* The weights of a source that is a Hugging Face folder, into a trainer of their shape. */
tx_status tx__trainer_take_weights(tx_trainer *t, tx_source *src);

#endif
