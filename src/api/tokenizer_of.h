/* tokenizer_of.h - finds and opens the tokenizer of a job: the one that the flags name, or the model's own; and checks
 * that it belongs to the model. */
#ifndef TX_API_TOKENIZER_OF_H
#define TX_API_TOKENIZER_OF_H

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "convert/source.h"
#include "triax/token.h"

/* Opens the tokenizer that the flags name. If they name no file: the one that the checkpoint was saved with; if it was
 * saved without one: the files beside it in its folder, vocab.json and merges.txt, vocab.txt or tokenizer.json, as
 * --tokenizer-type says; a tokenizer.json also if the type's own files are missing, as in a Hugging Face folder.
 *  It has to be the model's: of the same size, and if the model comes with one, of the same hash. --force-vocabulary
 * allows one that is smaller or different.
 * @src NULL, or not open (no type): only what the flags say
 * Errors: TX_ERR_ARG when there is none, TX_ERR_SHAPE when it is another, those of the files. */
tx_status tx__tokenizer_of(const tx_config *cfg, const tx_source *src, tx_tokenizer **out);

/* The same for --load before it is opened, without the comparison: for commands that show data. */
tx_status tx__tokenizer_at_load(const tx_config *cfg, tx_tokenizer **out);

/* Number of tokens that can occur in a text: all but WordPiece's [BOS] and [EOS] at the end. They are added to a
 * vocab.txt that has none, and a model from elsewhere has no rows for them. */
int32_t tx__text_tokens(const tx_tokenizer *tok);

/* What a checkpoint keeps of the tokenizer that tx__tokenizer_of(cfg, src) has opened, with its files. tok NULL: what
 * src keeps of one. */
tx_status tx__tokenizer_record(const tx_config *cfg, const tx_source *src, const tx_tokenizer *tok,
                               tx_ckpt_tokenizer *out);

/* Publishes dir/name with the content of `from`, unless it has that content already. */
tx_status tx__copy_file(const char *from, const char *dir, const char *name);

/* The folder with the tokenizer's files of a source that keeps none itself: the step's folder if they are there, else
 * the folder that was named. Borrowed. */
const char *tx__source_tokenizer_dir(const tx_source *src);

#endif
