/* prompts.h - reads prompts: texts or token ids, from the options, files or standard input. */
#ifndef TX_API_PROMPTS_H
#define TX_API_PROMPTS_H

#include "config/config.h"
#include "triax/token.h"

typedef struct tx_prompt {
    char *text; /* to be shown: valid UTF-8, n_text bytes and a NUL; owned, as ids */
    size_t n_text;
    tx_ids ids; /* at least one, or none without a tokenizer */
} tx_prompt;

typedef struct tx_prompts {
    tx_prompt *item; /* [n] */
    int64_t n, cap;
} tx_prompts;

/* Whether the options name any; if not, prompts come from standard input or from the sink's ask(). */
bool tx__prompts_named(const tx_config *cfg);

/* Reads all that the options name, or else standard input, one prompt per line. "-" is standard input. An empty prompt
 * becomes the end-of-document token, so that the model starts a new text. The error names file and line.
 * @tok NULL: texts alone, as they are   @vocab_size of the model, which ids are checked against */
tx_status tx__prompts_read(tx_prompts *p, const tx_config *cfg, const tx_tokenizer *tok, int64_t vocab_size);

/* Reads the lines of a file, each with its line end. */
tx_status tx__prompts_read_lines(tx_prompts *p, const char *path, const tx_tokenizer *tok);

tx_status tx__prompts_add(tx_prompts *p, const tx_tokenizer *tok, const char *text, size_t n);
void tx__prompts_free(tx_prompts *p); /* back to empty */

#endif
