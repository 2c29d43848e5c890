/* tokenizer_of.h - the tokenizer of a job: the one that the flags name, or the model's own, and whether it belongs to
 * the model. */
#ifndef TX_API_TOKENIZER_OF_H
#define TX_API_TOKENIZER_OF_H

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "convert/source.h"
#include "triax/token.h"

/* The tokenizer that the flags name. Where they name no file, the one that the checkpoint was saved with; where it was
 * saved with none, what lies beside it in its folder: vocab.json and merges.txt, vocab.txt or tokenizer.json, as
 * --tokenizer-type says; a tokenizer.json also where the type's own files are missing, as in a Hugging Face folder.
 *  It has to be the model's: as large, and where the model comes with one, of the same hash; --force-vocabulary lets a
 * smaller and another one be.
 * @src NULL, or not open (no type): only what the flags say
 * Errors: TX_ERR_ARG when there is none, TX_ERR_SHAPE when it is another, those of the files. */
tx_status tx__tokenizer_of(const tx_config *cfg, const tx_source *src, tx_tokenizer **out);

/* The same of --load before it is opened, without the comparison: for looking at data. */
tx_status tx__tokenizer_at_load(const tx_config *cfg, tx_tokenizer **out);

/* Tokens that a text can have: WordPiece's [BOS] and [EOS], which are added where a vocab.txt has none, are the last
 * ones, and a model made elsewhere has no rows for them. */
int32_t tx__text_tokens(const tx_tokenizer *tok);

/* What a checkpoint keeps of the tokenizer that tx__tokenizer_of(cfg, src) has opened, with its files. tok NULL: what
 * src has of one. */
tx_status tx__tokenizer_record(const tx_config *cfg, const tx_source *src, const tx_tokenizer *tok,
                               tx_ckpt_tokenizer *out);

/* Publishes dir/name with the content of `from`; one that is the same is left alone. */
tx_status tx__copy_file(const char *from, const char *dir, const char *name);

/* The folder with the tokenizer's files of a source that has none of its own: that of the step, if they lie there, or
 * the one that was named. Borrowed. */
const char *tx__source_tokenizer_dir(const tx_source *src);

#endif
