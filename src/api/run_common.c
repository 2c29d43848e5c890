/* run_common.c - shared steps of the jobs. */
#include "api/run_common.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "data/tokenizer_config.h"

#define HF_FILE   "tokenizer.json"
#define HF_CONFIG "tokenizer_config.json"

/* A file of a tokenizer: its name beside a checkpoint, and the option that says where it is. */
typedef struct tokenizer_file {
    const char *name;
    char **option;
    char path[4096];
} tokenizer_file;

/* Number of files that the type has. */
static int files_of(tx_config *c, tokenizer_file f[2])
{
    enum { GPT2, NONE, LOWER, CASE, PIECE, GPT_PIECE, HF, FROM_HF };
    int type = NONE;
    if (c->tokenizer_type)
        type = tx_word_index(c->tokenizer_type,
                             "GPT2BPETokenizer|NullTokenizer|BertWordPieceLowerCase|BertWordPieceCase|"
                             "SentencePieceTokenizer|GPTSentencePieceTokenizer|HFTokenizer|PretrainedFromHF");
    f[0].name = "vocab.json", f[0].option = &c->vocab_file;
    f[1].name = "merges.txt", f[1].option = &c->merge_file;
    if (type == GPT2) return 2;
    f[0].name = "vocab.txt";
    if (type == LOWER || type == CASE) return 1;
    f[0].name = HF_FILE, f[0].option = &c->tokenizer_model;
    return type == HF || type == FROM_HF; /* the others have none, or are not built */
}

/* Names the files in `dir` in *c, if all are there and c names none. */
static tx_status find_files(tx_config *c, const char *dir, tokenizer_file f[2], int *n)
{
    *n = files_of(c, f);
    if (c->vocab_file || c->merge_file || c->tokenizer_model || !dir) return TX_OK;
    for (int i = 0; i < *n; i++) {
        TX_TRY(tx_path_join(f[i].path, sizeof f[i].path, dir, f[i].name));
        if (!tx_path_exists(f[i].path)) return TX_OK;
    }
    for (int i = 0; i < *n; i++) *f[i].option = f[i].path;
    if (*n) tx_debug(" using the tokenizer in %s", dir);
    return TX_OK;
}

/* A BERT's is WordPiece where no flag says another; of a Hugging Face folder with case, if that says so. */
static tx_status take_bert_type(tx_config *c, const char *dir)
{
    char path[4096];
    if (c->given.tokenizer_type || !tx_model_type_of(c)->reads_sentences) return TX_OK;
    if (!c->tokenizer_type || strncmp(c->tokenizer_type, "Bert", 4)) c->tokenizer_type = "BertWordPieceLowerCase";
    if (!dir) return TX_OK;
    TX_TRY(tx_path_join(path, sizeof path, dir, HF_CONFIG));
    json_t *config = json_load_file(path, 0, NULL);
    if (json_is_false(json_object_get(config, "do_lower_case"))) c->tokenizer_type = "BertWordPieceCase";
    json_decref(config);
    return TX_OK;
}

static tx_status find_tokenizer(tx_config *c, const char *dir, tokenizer_file f[2], int *n)
{
    TX_TRY(take_bert_type(c, dir));
    TX_TRY(find_files(c, dir, f, n));
    if (!*n || *f[0].option) return TX_OK;
    tx_config other = *c;
    other.tokenizer_type = "HFTokenizer";
    TX_TRY(find_files(&other, dir, f, n));
    if (other.tokenizer_model) {
        c->tokenizer_type = "HFTokenizer";
        c->tokenizer_model = other.tokenizer_model;
    }
    *n = files_of(c, f);
    return TX_OK;
}

tx_status tx__tokenizer_for(const tx_config *cfg, const char *dir, tx_tokenizer **out)
{
    tx_config c = *cfg; /* with the files found; owns nothing */
    tokenizer_file f[2];
    int n;
    TX_TRY(find_tokenizer(&c, dir, f, &n));
    if (dir && n && !c.vocab_file && !c.merge_file && !c.tokenizer_model)
        return TX_FAIL(TX_ERR_ARG,
                       "no tokenizer: %s has no %s, so name its files (--vocab-file and --merge-file, or "
                       "--tokenizer-type HFTokenizer --tokenizer-model)",
                       dir, n == 2 ? "vocab.json with merges.txt and no " HF_FILE : f[0].name);
    return tx__tokenizer_from_config(&c, out);
}

int32_t tx__text_tokens(const tx_tokenizer *tok)
{
    int32_t n = tx_tokenizer_vocab_size(tok);
    while (n && (tx_tokenizer_special(tok, "[EOS]") == n - 1 || tx_tokenizer_special(tok, "[BOS]") == n - 1)) n--;
    return n;
}

tx_status tx__copy_file(const char *from, const char *dir, const char *name)
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

tx_status tx__tokenizer_keep(const tx_config *cfg, const char *from, const char *dir)
{
    char path[4096], config[4096];
    tx_config c = *cfg;
    tokenizer_file f[2];
    int n;
    TX_TRY(find_tokenizer(&c, from, f, &n));
    if (!tx_path_is_dir(dir)) return TX_OK;
    for (int i = 0; i < n; i++) {
        const char *file = *f[i].option;
        if (!file) return TX_OK;
        if (!strcmp(f[i].name, HF_FILE)) {
            TX_TRY(tx__tokenizer_model_file(&c, path, sizeof path));
            const char *slash = strrchr(path, '/');
            snprintf(config, sizeof config, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
            size_t end = strlen(config);
            snprintf(config + end, sizeof config - end, "/" HF_CONFIG);
            if (tx_path_exists(config)) TX_TRY(tx__copy_file(config, dir, HF_CONFIG));
            file = path;
        }
        TX_TRY(tx__copy_file(file, dir, f[i].name));
    }
    return TX_OK;
}

tx_status tx__model_load(tx_model **model, void **value, const tx_config *cfg, tx_source *src, const tx_grid *grid)
{
    tx_model *m = NULL;
    float *v = NULL;
    tx_status st;
    TX_GOTO(tx_model_type_of(cfg)->create(&m, cfg, src->vocab_size, grid));
    TX_GOTO(tx_alloc(&v, (size_t)m->params.numel, sizeof *v, "the parameters"));
    TX_GOTO(tx_source_weights(src, m, v));
    if (m->dtype != TX_F32) {
        void *half;
        TX_GOTO(tx_alloc(&half, (size_t)m->params.numel, tx_dtype_size(m->dtype), "the parameters"));
        tx_params_round(half, m->dtype, v, m->params.numel);
        tx_free(v);
        v = half;
    }
    tx_params_bind(&m->params, v, m->dtype, NULL);
    *model = m;
    *value = v;
    return TX_OK;
out:
    if (m) m->type->destroy(m);
    tx_free(v);
    return st;
}

tx_status tx__model_move(tx_model *m, void **value, tx_device *d)
{
    size_t bytes = (size_t)m->params.numel * tx_dtype_size(m->dtype);
    void *there;
    if (!d) return TX_OK;
    TX_TRY(tx_device_take(d, &there, bytes, false, "the parameters"));
    tx_status st = tx_device_write(d, there, *value, bytes);
    if (st) {
        tx_device_give(d, there);
        return st;
    }
    tx_free(*value);
    *value = there;
    tx_params_bind(&m->params, there, m->dtype, NULL);
    return TX_OK;
}

typedef struct filling {
    tx_source *src;
    const tx_model *m;
} filling;

/* A tx_weights_fn. */
static tx_status fill(void *user, const tx_params *ps, float *weights)
{
    const filling *f = user;
    (void)ps;
    return tx_source_weights(f->src, f->m, weights);
}

tx_status tx__trainer_take_weights(tx_trainer *t, tx_source *src)
{
    filling f = { src, t->model };
    return tx_trainer_fill(t, fill, &f);
}
