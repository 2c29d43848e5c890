/* tokenizer_of.c - finds the files of a tokenizer, and checks whether it is the model's. */
#include "api/tokenizer_of.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "data/tokenizer_config.h"
#include "model/model.h"
#include "token/tokenizer_kinds.h"

enum {
    PATH_CAP = 4096,
    PADDING = 1024,    /* rows that a model of unknown vocabulary may have beside its tokens, */
    PADDING_SHARE = 8, /* or this part of all of them: 50257 padded for 64 tensor ranks are 57344 */
    FILE_MAX = 1 << 28
};

/* ---- files ---- */

/* A file of a tokenizer: its name in a folder, and the option that says where it is. */
typedef struct tokenizer_file {
    const char *name;
    char **option;
    char path[PATH_CAP];
} tokenizer_file;

enum { MAX_FILES = 3 };

/* Number of files that the type has. */
static int files_of(tx_config *c, tokenizer_file f[MAX_FILES])
{
    const tx_tokenizer_traits reads = tx_tokenizer_traits_of(c->tokenizer_type);
    int n = 0;
    if (reads.vocab_file) f[n].name = reads.vocab_file, f[n++].option = &c->vocab_file;
    if (reads.merge_file) f[n].name = reads.merge_file, f[n++].option = &c->merge_file;
    if (reads.model_file) f[n].name = reads.model_file, f[n++].option = &c->tokenizer_model;
    return n;
}

static bool names_files(const tx_config *c)
{
    return c->vocab_file || c->merge_file || c->tokenizer_model;
}

/* Names the files in `dir` in *c, if all are there and c names none. */
static tx_status find_files(tx_config *c, const char *dir, tokenizer_file f[MAX_FILES], int *n)
{
    *n = files_of(c, f);
    if (names_files(c) || !dir) return TX_OK;
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
    char path[PATH_CAP];
    if (c->given.tokenizer_type || !tx_model_type_of(c)->samples->masked) return TX_OK;
    if (!tx_tokenizer_is_wordpiece(c->tokenizer_type)) c->tokenizer_type = TX_TOKENIZER_BERT_LOWER_CASE;
    if (!dir) return TX_OK;
    TX_TRY(tx_path_join(path, sizeof path, dir, tx_tokenizer_traits_of(TX_TOKENIZER_HF).beside));
    json_t *config = json_load_file(path, 0, NULL);
    if (json_is_false(json_object_get(config, "do_lower_case"))) c->tokenizer_type = TX_TOKENIZER_BERT_CASE;
    json_decref(config);
    return TX_OK;
}

/* Where the files may lie, and what the checkpoint there keeps of its own. */
typedef struct place {
    const char *dir, *checkpoint; /* checkpoint: the folder of one that keeps a tokenizer, or NULL */
    tx_ckpt_tokenizer own;        /* of a native checkpoint; owned */
} place;

/* A checkpoint whose tokens are numbers has no file of them. */
static bool take_numbers(tx_config *c, const place *p)
{
    if (!p->checkpoint || names_files(c) || c->given.tokenizer_type ||
        !tx_tokenizer_traits_of(tx_tokenizer_type_of(p->own.type)).numbers)
        return false;
    c->tokenizer_type = tx_tokenizer_type_of(p->own.type);
    if (!c->vocab_size) c->vocab_size = p->own.vocab_size - 1; /* it adds one */
    return true;
}

static tx_status find_tokenizer(tx_config *c, place *p, tokenizer_file f[MAX_FILES], int *n)
{
    if (take_numbers(c, p)) return find_files(c, NULL, f, n);
    if (p->checkpoint && p->own.n_files && !names_files(c)) {
        if (!c->given.tokenizer_type) c->tokenizer_type = tx_tokenizer_type_of(p->own.type);
        if (!c->tokenizer_type)
            return TX_FAIL(TX_ERR_UNSUPPORTED,
                           "%s: its tokenizer is a %s, which is not built; use " TX_TOKENIZERS_BUILT, p->checkpoint,
                           p->own.type);
        TX_TRY(find_files(c, p->checkpoint, f, n));
        if (names_files(c)) return TX_OK;
    }
    TX_TRY(take_bert_type(c, p->dir));
    TX_TRY(find_files(c, p->dir, f, n));
    if (!*n || *f[0].option) return TX_OK;
    static const enum tx_tokenizer_type others[] = { TX_TOKENIZER_HF, TX_TOKENIZER_LLAMA2 };
    for (int i = 0; i < 2 && !c->tokenizer_model; i++) {
        tx_config other = *c;
        other.tokenizer_type = others[i];
        TX_TRY(find_files(&other, p->dir, f, n));
        if (!other.tokenizer_model) continue;
        c->tokenizer_type = others[i];
        c->tokenizer_model = other.tokenizer_model;
    }
    *n = files_of(c, f);
    return TX_OK;
}

/* Files of the checkpoint are compared with its checksums before they are used. */
static tx_status place_of_checkpoint(place *p, const tx_config *cfg, const tx_checkpoint *c)
{
    TX_TRY(tx_checkpoint_tokenizer(c, !names_files(cfg), &p->own));
    if (*p->own.hash) p->checkpoint = tx_checkpoint_path(c);
    return TX_OK;
}

const char *tx__source_tokenizer_dir(const tx_source *src)
{
    char path[PATH_CAP];
    const char *name;
    for (int i = 0; src->path && !src->native && (name = tx_tokenizer_file_name(i)); i++)
        if (!tx_path_join(path, sizeof path, src->path, name) && tx_path_exists(path)) return src->path;
    return src->dir;
}

static tx_status place_of(place *p, const tx_config *cfg, const tx_source *src)
{
    *p = (place){ .dir = src ? tx__source_tokenizer_dir(src) : NULL };
    return src && src->native ? place_of_checkpoint(p, cfg, src->native) : TX_OK;
}

/* ---- is it the model's? ---- */

/* The vocabulary of the model of another program's folder, as its own files have it; "": it has none, or none that can
 * be read. */
static void hash_of_folder(const tx_config *cfg, const place *p, char hex[33])
{
    tx_config c = *cfg;
    place own = { .dir = p->dir };
    tokenizer_file f[MAX_FILES];
    tx_tokenizer *tok;
    int n;
    *hex = 0;
    c.vocab_file = c.merge_file = c.tokenizer_model = NULL;
    if (find_tokenizer(&c, &own, f, &n) || !n || !*f[0].option || tx__tokenizer_from_config(&c, &tok)) return;
    if (tx_tokenizer_hash(tok, hex)) *hex = 0;
    tx_tokenizer_close(tok);
}

static tx_status check_size(const tx_config *cfg, const tx_source *src, const tx_tokenizer *tok)
{
    long long known = src->type->resumes ? src->state.vocab_size : 0, rows = src->vocab_size;
    long long size = tx_tokenizer_vocab_size(tok), text = tx__text_tokens(tok);
    long long room = rows / PADDING_SHARE > PADDING ? rows / PADDING_SHARE : PADDING;
    if (rows && text > rows)
        return TX_FAIL(TX_ERR_SHAPE,
                       "--load %s: the model has %lld tokens, fewer than the tokenizer's %lld: name the "
                       "tokenizer it was trained with",
                       src->dir, rows, size);
    bool fits = known ? size == known || text == known : size + room >= rows;
    if (fits || cfg->force_vocabulary) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE,
                   "--load %s: the model has %lld tokens, the tokenizer %lld: name the tokenizer it was trained with "
                   "(--force-vocabulary takes this one)",
                   src->dir, rows, size);
}

static tx_status check_model(const tx_config *cfg, const tx_source *src, const place *p, const tx_tokenizer *tok)
{
    char hex[33], own[33];
    if (!src || !src->type) return TX_OK;
    TX_TRY(check_size(cfg, src, tok));
    if (!names_files(cfg) || cfg->force_vocabulary) return TX_OK;
    memcpy(own, p->own.hash, sizeof own);
    if (!src->native) hash_of_folder(cfg, p, own);
    TX_TRY(tx_tokenizer_hash(tok, hex));
    if (!*own || !strcmp(own, hex)) return TX_OK;
    return TX_FAIL(
        TX_ERR_SHAPE,
        "--load %s: the model was trained with another tokenizer than this one: leave %s out to take its own "
        "from %s (--force-vocabulary takes this one)",
        src->dir,
        cfg->tokenizer_model ? "--tokenizer-model"
        : cfg->merge_file    ? "--vocab-file and --merge-file"
                             : "--vocab-file",
        p->checkpoint ? p->checkpoint : src->dir);
}

/* ---- opening ---- */

static tx_status open_at(const tx_config *cfg, place *p, tx_tokenizer **out)
{
    tx_config c = *cfg; /* with the files found; owns nothing */
    tokenizer_file f[MAX_FILES];
    int n;
    TX_TRY(find_tokenizer(&c, p, f, &n));
    const char *hf = tx_tokenizer_traits_of(TX_TOKENIZER_HF).model_file;
    if (p->dir && n && !names_files(&c))
        return TX_FAIL(TX_ERR_ARG,
                       "no tokenizer: %s has no %s%s%s%s%s, so name its files (--vocab-file and --merge-file, or "
                       "--tokenizer-type HFTokenizer --tokenizer-model)",
                       p->dir, f[0].name, n > 1 ? " with " : "", n > 1 ? f[1].name : "", n > 1 ? " and no " : "",
                       n > 1 ? hf : "");
    return tx__tokenizer_from_config(&c, out);
}

tx_status tx__tokenizer_of(const tx_config *cfg, const tx_source *src, tx_tokenizer **out)
{
    place p;
    tx_tokenizer *tok = NULL;
    tx_status st = place_of(&p, cfg, src);
    if (!st) st = open_at(cfg, &p, &tok);
    if (!st) st = check_model(cfg, src, &p, tok);
    tx_ckpt_tokenizer_free(&p.own);
    if (st)
        tx_tokenizer_close(tok);
    else
        *out = tok;
    return st;
}

tx_status tx__tokenizer_at_load(const tx_config *cfg, tx_tokenizer **out)
{
    place p = { .dir = cfg->load };
    char folder[PATH_CAP], detail[512];
    tx_ckpt_kind kind = TX_CKPT_NONE;
    tx_checkpoint *c = NULL;
    if (cfg->load && cfg->load_tag)
        TX_TRY(tx_path_join(folder, sizeof folder, cfg->load, cfg->load_tag));
    else
        snprintf(folder, sizeof folder, "%s", cfg->load ? cfg->load : "");
    bool native = *folder && !tx_checkpoint_probe(folder, &kind, detail, sizeof detail) && kind == TX_CKPT_NATIVE;
    tx_status st = native ? tx_checkpoint_open_manifest(&c, folder) : TX_OK;
    if (!st && c) st = place_of_checkpoint(&p, cfg, c);
    if (!st) st = open_at(cfg, &p, out);
    tx_ckpt_tokenizer_free(&p.own);
    tx_checkpoint_close(c);
    return st;
}

int32_t tx__text_tokens(const tx_tokenizer *tok)
{
    int32_t n = tx_tokenizer_vocab_size(tok);
    while (n && (tx_tokenizer_special(tok, "[EOS]") == n - 1 || tx_tokenizer_special(tok, "[BOS]") == n - 1)) n--;
    return n;
}

/* ---- keeping ---- */

static tx_status add_file(tx_ckpt_tokenizer *t, const char *name, const char *path)
{
    TX_ASSERT(t->n_files < TX_CKPT_MAX_FILES);
    tx_ckpt_file *f = &t->file[t->n_files++];
    f->name = name;
    return tx_file_read(path, FILE_MAX, &f->text);
}

static tx_status add_files(tx_ckpt_tokenizer *t, const tx_config *c, const tokenizer_file *f, int n)
{
    const char *beside = tx_tokenizer_traits_of(c->tokenizer_type).beside;
    char path[PATH_CAP], dir[PATH_CAP];
    for (int i = 0; i < n; i++) {
        if (f[i].option != &c->tokenizer_model) {
            TX_TRY(add_file(t, f[i].name, *f[i].option));
            continue;
        }
        TX_TRY(tx__tokenizer_model_file(c, path, sizeof path));
        TX_TRY(add_file(t, f[i].name, path));
        if (!beside) continue;
        const char *slash = strrchr(path, '/');
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
        TX_TRY(tx_path_join(path, sizeof path, dir, beside));
        if (tx_path_exists(path)) TX_TRY(add_file(t, beside, path));
    }
    return TX_OK;
}

static tx_status record(const tx_config *cfg, place *p, const tx_tokenizer *tok, tx_ckpt_tokenizer *out)
{
    tx_config c = *cfg;
    tokenizer_file f[MAX_FILES];
    int n;
    TX_TRY(find_tokenizer(&c, p, f, &n));
    snprintf(out->type, sizeof out->type, "%s",
             tx_tokenizer_type_word(c.tokenizer_type ? c.tokenizer_type : TX_TOKENIZER_GPT2_BPE));
    out->vocab_size = tx_tokenizer_vocab_size(tok);
    TX_TRY(tx_tokenizer_hash(tok, out->hash));
    return add_files(out, &c, f, n);
}

tx_status tx__tokenizer_record(const tx_config *cfg, const tx_source *src, const tx_tokenizer *tok,
                               tx_ckpt_tokenizer *out)
{
    place p;
    *out = (tx_ckpt_tokenizer){ .n_files = 0 };
    if (!tok) return src && src->native ? tx_checkpoint_tokenizer(src->native, true, out) : TX_OK;
    tx_status st = place_of(&p, cfg, src);
    if (!st) st = record(cfg, &p, tok, out);
    tx_ckpt_tokenizer_free(&p.own);
    if (st) tx_ckpt_tokenizer_free(out);
    return st;
}

tx_status tx__copy_file(const char *from, const char *dir, const char *name)
{
    char path[PATH_CAP];
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
