/* corpus_config.c - flags to corpus. */
#include "data/corpus_config.h"

#include <string.h>

tx_json_keys tx__json_keys_from_config(const tx_config *cfg)
{
    static const char *const text[] = { "text" };
    if (!cfg->json_keys.n) return (tx_json_keys){ text, 1 };
    return (tx_json_keys){ (const char *const *)cfg->json_keys.item, cfg->json_keys.n };
}

static tx_text_split split_of(enum tx_text_split_choice choice)
{
    switch (choice) {
    case TX_TEXT_SPLIT_FILE:
        return TX_TEXT_FILE;
    case TX_TEXT_SPLIT_BLANK_LINE:
        return TX_TEXT_BLANK_LINE;
    case TX_TEXT_SPLIT_LINE:
        return TX_TEXT_LINE;
    }
    return TX_TEXT_FILE; /* unset */
}

tx_status tx__corpus_from_config(const tx_config *cfg, tx_corpus **out)
{
    static const char *const standard_input[] = { "-" };
    tx_corpus_opts o = { .inputs = standard_input, .n_inputs = 1, .text_split = TX_TEXT_LINE };
    if (cfg->input.n) {
        o.inputs = (const char *const *)cfg->input.item;
        o.n_inputs = cfg->input.n;
        o.text_split = split_of(cfg->text_split);
    }
    /* Megatron's BERT tokenizers know no word with one; its others fail */
    o.pass_surrogates = tx_tokenizer_is_wordpiece(cfg->tokenizer_type);
    return tx_corpus_open(out, &o);
}
