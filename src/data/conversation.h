/* conversation.h - conversations of JSON lines as token ids, with what of them the loss is of.
 *
 *      {"prompt": "...", "completion": "..."}                      the completion, and the token that ends it
 *      {"messages": [{"role": "user", "content": "..."}, ...]}     the assistant's messages with what ends them
 *      {"prompt": [message, ...], "completion": [message, ...]}    all after what an answer begins with
 *
 *  Ids and masks are those of TRL's SFTTrainer: completion_mask of the first and the last form, assistant_masks of the
 *  second. To the first the tokenizer adds what it adds before every text, to messages nothing. A token is of an answer
 *  if a byte of it is. */
#ifndef TX_DATA_CONVERSATION_H
#define TX_DATA_CONVERSATION_H

#include "data/chat_template.h"
#include "data/corpus.h"
#include "triax/token.h"

/* What makes ids of lines, with memory that they share. */
typedef struct tx_conversations {
    const tx_config *cfg;
    const tx_tokenizer *tok;
    tx_chat_template chat; /* opened by the first line that needs it */
    bool has_chat;
    tx_marked_text text;
    tx_ids ids, prompt;
    tx_bytes bytes;
} tx_conversations;

/* Of a zeroed struct; close frees it. TX_ERR_ARG: the tokenizer has no end-of-document token. */
tx_status tx_conversations_open(tx_conversations *c, const tx_config *cfg, const tx_tokenizer *tok);
void tx_conversations_close(tx_conversations *c); /* a zeroed one is fine */

/* Appends the ids of a line to out: 2 x id, + 1 where the loss is of it.
 * Errors: TX_ERR_FORMAT, naming file and line, for a line that is no conversation; those of the chat template. */
tx_status tx_conversation_encode(tx_conversations *c, const tx_record *line, tx_ids *out);

#endif
