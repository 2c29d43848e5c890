/* tokenizer_config.h - the tokenizer that --tokenizer-type, --vocab-file, --merge-file, --tokenizer-model and
 * --vocab-size ask for. */
#ifndef TX_DATA_TOKENIZER_CONFIG_H
#define TX_DATA_TOKENIZER_CONFIG_H

#include "config/config.h"
#include "triax/token.h"

/* Whether any flag asks for one: for jobs that can do without. */
bool tx__tokenizer_is_given(const tx_config *cfg);

/* Logs Megatron's "> building ... tokenizer ...". Errors: TX_ERR_ARG names a flag that is missing; TX_ERR_UNSUPPORTED
 * for types that are not built; those of the tokenizer's own files. */
tx_status tx__tokenizer_from_config(const tx_config *cfg, tx_tokenizer **out);

/* The file that --tokenizer-model names: itself, or the one in that folder whose name the type has (a tokenizer.json).
 * TX_ERR_NOTFOUND if there is none.   @cfg its type reads such a file */
tx_status tx__tokenizer_model_file(const tx_config *cfg, char *path, size_t cap);

#endif
