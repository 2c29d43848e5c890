/* chat_templates.h - how conversations are written as text: --chat-template.
 *
 *  A row is a constant, its word, and the texts of the template:
 *
 *      text of a message  =  prefix, content, end, suffix          of its role
 *      an answer          =  content and end of the assistant's    what the loss is of
 *
 *  - .begin: before the first message
 *  - .trim: contents without the white space at their ends
 *  - .system_in_user: the system's text is part of the user's message that follows it, before its content
 *  - .default_system: the content of a system message that stands before conversations without one
 *  - .tells, .lacks: what Jinja's chat_template of a tokenizer_config.json holds, and what it must not hold, to be of
 *    this kind; none: only its name chooses it
 *
 *  "{eos}" in a text is the tokenizer's end-of-document token. To add a template: a row here. Sources: the templates
 * that the first models of each kind were published with, and Alpaca's prompt. */
#ifndef TX_KINDS_CHAT_TEMPLATES_H
#define TX_KINDS_CHAT_TEMPLATES_H

#include <stdbool.h>

#include "kinds/kind.h"

#define TX_CHAT_EOS "{eos}"

enum { TX_CHAT_TELLS = 4 };

/* A text that is NULL is "". */
typedef struct tx_chat_role {
    const char *prefix, *end, *suffix;
} tx_chat_role;

typedef struct tx_chat_texts {
    const char *begin, *default_system; /* default_system NULL: none */
    tx_chat_role system, user, assistant;
    bool trim, system_in_user;
    const char *tells[TX_CHAT_TELLS], *lacks[TX_CHAT_TELLS];
} tx_chat_texts;

/* clang-format off */
#define TX_CHAT_OPENS(role) .prefix = "<|im_start|>" role "\n", .end = "<|im_end|>", .suffix = "\n"
#define TX_CHAT_HEADS(role) .prefix = "<|start_header_id|>" role "<|end_header_id|>\n\n", .end = "<|eot_id|>"
#define TX_CHAT_BARS(role)  .prefix = "<|" role "|>\n", .end = TX_CHAT_EOS, .suffix = "\n"
#define TX_CHAT_QWEN        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

/*   X(constant, word, texts) */
#define TX_CHAT_TEMPLATES(X)                                                                                            \
    X(TX_CHAT_CHATML, "chatml",                                                                                         \
        .system = { TX_CHAT_OPENS("system") }, .user = { TX_CHAT_OPENS("user") },                                       \
        .assistant = { TX_CHAT_OPENS("assistant") },                                                                    \
        .tells = { "<|im_start|>" }, .lacks = { "You are", "<think>", "<|vision", "<|im_sep|>" })                       \
    X(TX_CHAT_QWEN2_5, "qwen2.5",                                                                                       \
        .default_system = TX_CHAT_QWEN,                                                                                 \
        .system = { TX_CHAT_OPENS("system") }, .user = { TX_CHAT_OPENS("user") },                                       \
        .assistant = { TX_CHAT_OPENS("assistant") },                                                                    \
        .tells = { "<|im_start|>", TX_CHAT_QWEN }, .lacks = { "<think>", "<|vision" })                                  \
    X(TX_CHAT_LLAMA2, "llama2",                                                                                         \
        .trim = true, .system_in_user = true,                                                                           \
        .system = { .prefix = "<<SYS>>\n", .suffix = "\n<</SYS>>\n\n" },                                                \
        .user = { .prefix = "<s>[INST] ", .suffix = " [/INST]" },                                                       \
        .assistant = { .prefix = " ", .end = " " TX_CHAT_EOS },                                                                 \
        .tells = { "[INST]", "<<SYS>>" })                                                                               \
    X(TX_CHAT_LLAMA3, "llama3",                                                                                         \
        .begin = "<|begin_of_text|>", .trim = true,                                                                     \
        .system = { TX_CHAT_HEADS("system") }, .user = { TX_CHAT_HEADS("user") },                                       \
        .assistant = { TX_CHAT_HEADS("assistant") },                                                                    \
        .tells = { "<|start_header_id|>", "<|eot_id|>" }, .lacks = { "date_string", "tools", "You are" })               \
    X(TX_CHAT_ZEPHYR, "zephyr",                                                                                         \
        .system = { TX_CHAT_BARS("system") }, .user = { TX_CHAT_BARS("user") },                                         \
        .assistant = { TX_CHAT_BARS("assistant") },                                                                     \
        .tells = { "<|user|>", "<|assistant|>", "eos_token" }, .lacks = { "<|end|>", "You are", "bos_token" })          \
    X(TX_CHAT_ALPACA, "alpaca",                                                                                         \
        .system = { .suffix = "\n\n" },                                                                                 \
        .user = { .prefix = "### Instruction:\n", .suffix = "\n\n" },                                                   \
        .assistant = { .prefix = "### Response:\n", .end = TX_CHAT_EOS, .suffix = "\n\n" })

/* As messages and help list them. */
#define TX_CHAT_TEMPLATES_HELP "chatml, qwen2.5, llama2, llama3, zephyr, alpaca"
/* clang-format on */

TX_KIND(chat_kind, TX_CHAT_TEMPLATES)

#endif
