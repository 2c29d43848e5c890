/* tokenizer_config.c - flags to tokenizer. */
#include "data/tokenizer_config.h"

#include <string.h>

#include "base/log.h"

static tx_status missing(const char *flag, const char *type, const char *what)
{
    return TX_FAIL(TX_ERR_ARG, "%s is missing: --tokenizer-type %s needs %s", flag, type, what);
}

bool tx__tokenizer_is_given(const tx_config *cfg)
{
    return cfg->given.tokenizer_type || cfg->vocab_file || cfg->merge_file;
}

tx_status tx__tokenizer_from_config(const tx_config *cfg, tx_tokenizer **out)
{
    const char *type = cfg->tokenizer_type ? cfg->tokenizer_type : "GPT2BPETokenizer";
    bool gpt2 = !strcmp(type, "GPT2BPETokenizer"), null = !strcmp(type, "NullTokenizer");
    bool lower = !strcmp(type, "BertWordPieceLowerCase"), bert = lower || !strcmp(type, "BertWordPieceCase");
    if (!gpt2 && !bert && !null)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--tokenizer-type %s is not built yet; %s", type,
                       "use GPT2BPETokenizer, BertWordPieceLowerCase, BertWordPieceCase or NullTokenizer");
    if (gpt2 && !cfg->vocab_file) return missing("--vocab-file", type, "a vocab.json");
    if (gpt2 && !cfg->merge_file) return missing("--merge-file", type, "a merges.txt");
    if (bert && !cfg->vocab_file) return missing("--vocab-file", type, "a vocab.txt");
    if (null && !cfg->vocab_size) return missing("--vocab-size", type, "the number of ids");
    tx_info("> building %s tokenizer ...", type);
    if (bert) return tx_tokenizer_open_wordpiece(out, cfg->vocab_file, lower);
    return gpt2 ? tx_tokenizer_open_gpt2(out, cfg->vocab_file, cfg->merge_file)
                : tx_tokenizer_open_null(out, (int32_t)cfg->vocab_size);
}
