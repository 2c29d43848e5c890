/* corpus_config.c - flags to corpus. */
#include "data/corpus_config.h"

#include <string.h>

tx_json_keys tx__json_keys_from_config(const tx_config *cfg)
{
    static const char *const text[] = { "text" };
    if (!cfg->json_keys.n) return (tx_json_keys){ text, 1 };
    return (tx_json_keys){ (const char *const *)cfg->json_keys.item, cfg->json_keys.n };
}

static tx_text_split split_named(const char *text_split)
{
    return (tx_text_split)tx_word_index(text_split, "file|blank-line|line");
}

tx_status tx__corpus_from_config(const tx_config *cfg, tx_corpus **out)
{
    static const char *const standard_input[] = { "-" };
    tx_corpus_opts o = { .inputs = standard_input, .n_inputs = 1, .text_split = TX_TEXT_LINE };
    if (cfg->input.n) {
        o.inputs = (const char *const *)cfg->input.item;
        o.n_inputs = cfg->input.n;
        o.text_split = split_named(cfg->text_split ? cfg->text_split : "file");
    }
    /* Megatron's BERT tokenizers know no word with one; its others fail */
    o.pass_surrogates = cfg->tokenizer_type && !strncmp(cfg->tokenizer_type, "BertWordPiece", 13);
    return tx_corpus_open(out, &o);
}
