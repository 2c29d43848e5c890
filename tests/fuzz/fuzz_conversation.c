/* fuzz_conversation.c - a chat template's name, or the JSON of one, and after it a line of a conversation. What is
 * taken has ids of the vocabulary, and some that the loss is of. */
#include "data/conversation.h"
#include "fuzz.h"

static const tx_tokenizer *tokenizer(void)
{
    static tx_tokenizer *t;
    if (!t) FUZZ_CHECK(!tx_tokenizer_open_json(&t, fuzz_data("finetune/tokenizer.json")));
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - data) : 0, n_targets = 0;
    char name[16] = "";
    if (!end) return 0;
    if (n < sizeof name) memcpy(name, data, n);
    bool kind = tx_chat_kind_of(name) != 0;
    const char *file = fuzz_file("template.json", data, n);
    tx_config cfg = { .chat_template = kind ? name : (char *)file };
    tx_str text = { 0 }; /* which ends with a NUL, as a corpus's lines do */
    FUZZ_CHECK(!tx_str_append(&text, end + 1, size - n - 1));
    const tx_record line = { text.data, text.len, "line", 1, true, false };
    tx_conversations c;
    tx_ids ids = { 0 };
    FUZZ_CHECK(!tx_conversations_open(&c, &cfg, tokenizer()));
    if (fuzz_ok(tx_conversation_encode(&c, &line, &ids))) {
        for (size_t i = 0; i < ids.n; i++) {
            FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] / 2 < tx_tokenizer_vocab_size(tokenizer()));
            n_targets += ids.id[i] & 1;
        }
        FUZZ_CHECK(n_targets);
    }
    tx_str_free(&text);
    tx_ids_free(&ids);
    tx_conversations_close(&c);
    return 0;
}
