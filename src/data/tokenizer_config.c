/* tokenizer_config.c - flags to tokenizer. */
#include "data/tokenizer_config.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "token/tokenizer_kinds.h"

/* A flag that `type` reads, and whose value is `given`, is there.   @file the name of such a file; NULL: not read */
static tx_status check_given(const char *type, const char *flag, const char *given, const char *file, const char *or_so)
{
    if (!file || given) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s is missing: --tokenizer-type %s needs a %s%s", flag, type, file, or_so);
}

bool tx__tokenizer_is_given(const tx_config *cfg)
{
    bool numbers = cfg->vocab_size && tx_tokenizer_traits_of(cfg->tokenizer_type).numbers;
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
        const char *name = tx_tokenizer_traits_of(cfg->tokenizer_type).model_file;
        TX_TRY(tx_path_join(path, cap, given, name));
        if (!tx_path_exists(path))
            return TX_FAIL(TX_ERR_NOTFOUND, "--tokenizer-model %s: the folder has no %s", given, name);
    } else if ((size_t)snprintf(path, cap, "%s", given) >= cap) {
        return TX_FAIL(TX_ERR_ARG, "--tokenizer-model %.60s...: the path is too long", given);
    }
    return TX_OK;
}

tx_status tx__tokenizer_from_config(const tx_config *cfg, tx_tokenizer **out)
{
    char path[4096];
    enum tx_tokenizer_type type = cfg->tokenizer_type ? cfg->tokenizer_type : TX_TOKENIZER_GPT2_BPE;
    const char *word = tx_tokenizer_type_word(type);
    const tx_tokenizer_traits reads = tx_tokenizer_traits_of(type);
    tx_tokenizer_files files = { .vocab_file = cfg->vocab_file,
                                 .merge_file = cfg->merge_file,
                                 .model_file = path,
                                 .n_ids = (int32_t)cfg->vocab_size,
                                 .n_extra_ids = (int32_t)cfg->vocab_extra_ids };
    files.tiktoken.pattern = cfg->tiktoken_pattern;
    files.tiktoken.n_special = (int32_t)cfg->tiktoken_num_special_tokens;
    files.tiktoken.special = cfg->tiktoken_special_tokens.item;
    files.tiktoken.n_names = (size_t)cfg->tiktoken_special_tokens.n;
    if (!tx_tokenizer_is_built(type)) return tx_tokenizer_open_type(out, type, &files);
    if (!reads.model_file && cfg->tokenizer_model)
        return TX_FAIL(TX_ERR_ARG,
                       "--tokenizer-model: %s does not read it, say --tokenizer-type HFTokenizer, or Llama2Tokenizer "
                       "for a SentencePiece model",
                       word);
    TX_TRY(check_given(word, "--vocab-file", cfg->vocab_file, reads.vocab_file, ""));
    TX_TRY(check_given(word, "--merge-file", cfg->merge_file, reads.merge_file, ""));
    TX_TRY(check_given(word, "--tokenizer-model", cfg->tokenizer_model, reads.model_file, " or its folder"));
    if (reads.numbers && !cfg->vocab_size)
        return TX_FAIL(TX_ERR_ARG, "--vocab-size is missing: --tokenizer-type %s needs the number of ids", word);
    if (reads.model_file) TX_TRY(tx__tokenizer_model_file(cfg, path, sizeof path));
    tx_info("> building %s tokenizer ...", word);
    return tx_tokenizer_open_type(out, type, &files);
}
