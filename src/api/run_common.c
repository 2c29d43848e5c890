/* run_common.c - shared steps of the jobs. */
#include "api/run_common.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "data/tokenizer_config.h"

#define VOCAB  "vocab.json"
#define MERGES "merges.txt"

static bool is_bpe(const tx_config *cfg)
{
    return cfg->tokenizer_type && !strcmp(cfg->tokenizer_type, "GPT2BPETokenizer");
}

tx_status tx__tokenizer_for(const tx_config *cfg, const char *dir, tx_tokenizer **out)
{
    char vocab[4096], merges[4096];
    if (!is_bpe(cfg) || cfg->vocab_file || cfg->merge_file || !dir) return tx__tokenizer_from_config(cfg, out);
    TX_TRY(tx_path_join(vocab, sizeof vocab, dir, VOCAB));
    TX_TRY(tx_path_join(merges, sizeof merges, dir, MERGES));
    if (!tx_path_exists(vocab) || !tx_path_exists(merges)) return tx__tokenizer_from_config(cfg, out);
    tx_debug(" using the tokenizer in %s", dir);
    return tx_tokenizer_open_gpt2(out, vocab, merges);
}

static tx_status copy_file(const char *from, const char *dir, const char *name)
{
    char path[4096];
    tx_map old = { 0 }, new = { 0 };
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(tx_map_open(&new, from));
    bool same = tx_path_exists(path) && !tx_map_open(&old, path) && old.size == new.size &&
                (!new.size || !memcmp(old.data, new.data, new.size));
    tx_status st = same ? TX_OK : tx_file_publish(path, new.data, new.size);
    tx_map_close(&old);
    tx_map_close(&new);
    return st;
}

tx_status tx__tokenizer_keep(const tx_config *cfg, const char *dir)
{
    if (!is_bpe(cfg) || !cfg->vocab_file || !cfg->merge_file || !tx_path_is_dir(dir)) return TX_OK;
    TX_TRY(copy_file(cfg->vocab_file, dir, VOCAB));
    return copy_file(cfg->merge_file, dir, MERGES);
}

tx_status tx__model_load(tx_model **model, float **value, const tx_config *cfg, const tx_source *src)
{
    tx_model *m = NULL;
    float *v = NULL;
    tx_status st;
    TX_GOTO(tx_model_type_find("gpt")->create(&m, cfg, src->vocab_size));
    TX_GOTO(tx_alloc(&v, (size_t)m->params.numel, sizeof *v, "the parameters"));
    tx_params_bind(&m->params, v, NULL);
    TX_GOTO(tx_source_weights(src, m, v));
    *model = m;
    *value = v;
    return TX_OK;
out:
    if (m) m->type->destroy(m);
    tx_free(v);
    return st;
}
