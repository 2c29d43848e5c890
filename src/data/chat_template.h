/* chat_template.h - messages of a conversation to text, with what of it is answers. There is no interpreter of Jinja: a
 * template is texts around the contents of each role (kinds/chat_templates.h).
 *
 *  A file of --chat-template is a JSON object with the names of that header; what is left out is empty:
 *
 *      { "begin": "", "trim": false, "system_in_user": false, "default_system": "...",
 *        "system":    { "prefix": "System: ", "end": "", "suffix": "\n" },
 *        "user":      { "prefix": "User: ", "suffix": "\n" },
 *        "assistant": { "prefix": "Bot: ", "end": "{eos}", "suffix": "\n" } }
 *
 *  A role without a member is one that conversations cannot have. */
#ifndef TX_DATA_CHAT_TEMPLATE_H
#define TX_DATA_CHAT_TEMPLATE_H

#include <jansson.h>

#include "base/str.h"
#include "config/config.h"

enum { TX_CHAT_SYSTEM, TX_CHAT_USER, TX_CHAT_ASSISTANT, TX_CHAT_ROLES };

typedef struct tx_chat_template {
    tx_chat_texts is;             /* its texts are those of a kind, or of `file` */
    bool has_role[TX_CHAT_ROLES]; /* by TX_CHAT_... */
    char name[300];               /* for messages */
    json_t *file;                 /* NULL: a kind */
} tx_chat_template;

/* What a byte of a text is. */
enum {
    TX_MARK_ANSWER = 1, /* part of an answer */
    TX_MARK_EOD = 2     /* no byte: the end-of-document token stands here */
};

typedef struct tx_marked_text {
    tx_str text, mark; /* of one length */
} tx_marked_text;

tx_status tx_marked_append(tx_marked_text *to, const char *text, size_t n, char mark);
void tx_marked_free(tx_marked_text *m); /* back to empty */

/* The template of --chat-template, or the kind of that in the tokenizer_config.json beside the tokenizer's files.
 * Errors: TX_ERR_ARG: there is none, or it is of no kind that is known; those of the file. */
tx_status tx_chat_template_open(tx_chat_template *out, const tx_config *cfg);
void tx_chat_template_close(tx_chat_template *t); /* a zeroed one is fine */

/* Appends the text of `messages`, an array of {"role": "user", "content": "..."}.
 * @n_prompt how many of them only ask: of the rest all is answer, but what stands before the first of them, which is
 * the assistant's; 0: all may have answers, which are the assistant's contents with what ends them TX_ERR_FORMAT: a
 * role or content that cannot be, no answer or an empty one; what is wrong, not where. */
tx_status tx_chat_render(const tx_chat_template *t, const json_t *messages, size_t n_prompt, tx_marked_text *out);

#endif
