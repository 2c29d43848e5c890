/* tokenizer_config.c - flags to tokenizer. */
#include "data/tokenizer_config.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

static tx_status missing(const char *flag, const char *type, const char *what)
{
    return TX_FAIL(TX_ERR_ARG, "%s is missing: --tokenizer-type %s needs %s", flag, type, what);
}

bool tx__tokenizer_is_given(const tx_config *cfg)
{
    bool numbers = cfg->vocab_size && cfg->tokenizer_type == TX_TOKENIZER_NULL;
    return cfg->given.tokenizer_type || numbers || cfg->vocab_file || cfg->merge_file || cfg->tokenizer_model;
}

tx_status tx__tokenizer_model_file(const tx_config *cfg, char *path, size_t cap)
{
    const char *given = cfg->tokenizer_model;
    if (!tx_path_exists(given))
        return TX_FAIL(
            TX_ERR_NOTFOUND,
            "--tokenizer-model %s: there is no such file or folder; give a local one, triax downloads nothing", given);
    if (tx_path_is_dir(given)) {
        TX_TRY(tx_path_join(path, cap, given, "tokenizer.json"));
        if (!tx_path_exists(path))
            return TX_FAIL(TX_ERR_NOTFOUND, "--tokenizer-model %s: the folder has no tokenizer.json", given);
    } else if ((size_t)snprintf(path, cap, "%s", given) >= cap) {
        return TX_FAIL(TX_ERR_ARG, "--tokenizer-model %.60s...: the path is too long", given);
    }
    return TX_OK;
}

tx_status tx__tokenizer_from_config(const tx_config *cfg, tx_tokenizer **out)
{
    char path[4096];
    enum tx_tokenizer_type kind = cfg->tokenizer_type ? cfg->tokenizer_type : TX_TOKENIZER_GPT2_BPE;
    const char *type = tx_tokenizer_type_word(kind);
    bool gpt2 = kind == TX_TOKENIZER_GPT2_BPE, null = kind == TX_TOKENIZER_NULL;
    bool lower = kind == TX_TOKENIZER_BERT_LOWER_CASE, bert = tx_tokenizer_is_wordpiece(kind);
    bool hf = kind == TX_TOKENIZER_HF || kind == TX_TOKENIZER_PRETRAINED_HF;
    if (!gpt2 && !bert && !null && !hf)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--tokenizer-type %s is not built yet; %s", type,
                       "use GPT2BPETokenizer, HFTokenizer, BertWordPieceLowerCase, BertWordPieceCase or NullTokenizer");
    if (!hf && cfg->tokenizer_model)
        return TX_FAIL(TX_ERR_ARG, "--tokenizer-model: %s does not read it, say --tokenizer-type HFTokenizer", type);
    if (gpt2 && !cfg->vocab_file) return missing("--vocab-file", type, "a vocab.json");
    if (gpt2 && !cfg->merge_file) return missing("--merge-file", type, "a merges.txt");
    if (bert && !cfg->vocab_file) return missing("--vocab-file", type, "a vocab.txt");
    if (hf && !cfg->tokenizer_model) return missing("--tokenizer-model", type, "a tokenizer.json or its folder");
    if (null && !cfg->vocab_size) return missing("--vocab-size", type, "the number of ids");
    if (hf) TX_TRY(tx__tokenizer_model_file(cfg, path, sizeof path));
    tx_info("> building %s tokenizer ...", type);
    if (bert) return tx_tokenizer_open_wordpiece(out, cfg->vocab_file, lower);
    if (hf) return tx_tokenizer_open_json(out, path);
    return gpt2 ? tx_tokenizer_open_gpt2(out, cfg->vocab_file, cfg->merge_file)
                : tx_tokenizer_open_null(out, (int32_t)cfg->vocab_size);
}
