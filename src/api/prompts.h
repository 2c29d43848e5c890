/* prompts.h - what is to be continued: texts or token ids, from the options, files or standard input. */
#ifndef TX_API_PROMPTS_H
#define TX_API_PROMPTS_H

#include "config/config.h"
#include "triax/token.h"

typedef struct tx_prompt {
    char *text; /* for people: valid UTF-8, n_text bytes and a NUL; owned, as ids */
    size_t n_text;
    tx_ids ids; /* at least one, or none without a tokenizer */
} tx_prompt;

typedef struct tx_prompts {
    tx_prompt *item; /* [n] */
    int64_t n, cap;
} tx_prompts;

/* Whether the options name any; if not, it is for standard input or somebody who asks. */
bool tx__prompts_named(const tx_config *cfg);

/* All that the options name, else standard input, a prompt a line. "-" is standard input. An empty prompt becomes the
 * end-of-document token: the model starts a text of its own. The error names file and line.
 * @tok NULL: texts alone, as they are   @vocab_size of the model, which ids are checked against */
tx_status tx__prompts_read(tx_prompts *p, const tx_config *cfg, const tx_tokenizer *tok, int64_t vocab_size);

/* The lines of a file, each with its end. */
tx_status tx__prompts_read_lines(tx_prompts *p, const char *path, const tx_tokenizer *tok);

tx_status tx__prompts_add(tx_prompts *p, const tx_tokenizer *tok, const char *text, size_t n);
void tx__prompts_free(tx_prompts *p); /* back to empty */

#endif
