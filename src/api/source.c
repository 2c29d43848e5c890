/* source.c - opens what --load names and reads weights from it, in either format. */
#include "api/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "model/hf_format.h"

/* ---- opening ---- */

static tx_status open_kind(tx_source *src, const char *dir, tx_ckpt_kind kind)
{
    *src = (tx_source){ .kind = kind, .dir = dir };
    if (kind == TX_CKPT_HUGGINGFACE) {
        tx_info(" loading weights from the Hugging Face folder %s", dir);
        return tx_huggingface_open(&src->hf, dir);
    }
    TX_TRY(tx_checkpoint_open(&src->native, dir));
    tx_info(" loading checkpoint from %s", tx_checkpoint_path(src->native));
    src->vocab_size = tx_checkpoint_state(src->native)->vocab_size;
    return TX_OK;
}

tx_status tx_source_open(tx_source *src, const char *dir)
{
    tx_ckpt_kind kind;
    char detail[512];
    TX_TRY(tx_checkpoint_probe(dir, &kind, detail, sizeof detail));
    if (kind == TX_CKPT_NONE || kind == TX_CKPT_UNKNOWN) return TX_FAIL(TX_ERR_NOTFOUND, "--load %s: %s", dir, detail);
    return open_kind(src, dir, kind);
}

/* Whether two paths name one folder; a folder that does not exist is compared by its name. */
static bool same_folder(const char *a, const char *b)
{
    char *ra = realpath(a, NULL), *rb = realpath(b, NULL);
    size_t na = strlen(a), nb = strlen(b);
    while (na > 1 && a[na - 1] == '/') na--;
    while (nb > 1 && b[nb - 1] == '/') nb--;
    bool same = ra && rb ? !strcmp(ra, rb) : !ra && !rb && na == nb && !memcmp(a, b, na);
    free(ra);
    free(rb);
    return same;
}

tx_status tx_source_open_for_run(tx_source *src, const tx_config *cfg)
{
    *src = (tx_source){ .kind = TX_CKPT_NONE };
    if (!cfg->load) return TX_OK;
    tx_ckpt_kind kind;
    char detail[512];
    TX_TRY(tx_checkpoint_probe(cfg->load, &kind, detail, sizeof detail));
    if (kind == TX_CKPT_NATIVE || kind == TX_CKPT_HUGGINGFACE) return open_kind(src, cfg->load, kind);
    if (cfg->exit_on_missing_checkpoint)
        return TX_FAIL(TX_ERR_NOTFOUND, "--load %s: %s, and --exit-on-missing-checkpoint is given", cfg->load, detail);
    if (kind == TX_CKPT_UNKNOWN || !cfg->save || !same_folder(cfg->load, cfg->save))
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "--load %s: %s; name a checkpoint, or leave --load out to start from fresh weights "
                       "(a --load that equals --save may be missing or empty at the first start)",
                       cfg->load, detail);
    tx_info(" starting from fresh weights: --load is the same folder as --save and %s", detail);
    return TX_OK;
}

void tx_source_close(tx_source *src)
{
    tx_checkpoint_close(src->native);
    tx_huggingface_close(src->hf);
    *src = (tx_source){ .kind = TX_CKPT_NONE };
}

/* ---- options ---- */

static tx_status hf_options(tx_source *src, json_t **out)
{
    const json_t *config = tx_huggingface_config(src->hf);
    const tx_hf_format *format;
    tx_status st = tx_hf_format_find(&format, json_string_value(json_object_get(config, "model_type")));
    if (!st) st = format->options(out, config);
    if (st) return tx_fail_prefix(st, "%s", src->dir);
    json_t *vocab = json_object_get(*out, "vocab_size");
    src->vocab_size = json_integer_value(vocab);
    json_object_del(*out, "vocab_size");
    return TX_OK;
}

tx_status tx_source_options(tx_source *src, tx_config *cfg, bool resume)
{
    if (src->kind == TX_CKPT_NONE) return TX_OK;
    unsigned which = TX_KEPT_SHAPE | TX_KEPT_HINT | (resume && !cfg->finetune ? TX_KEPT_RUN : 0);
    if (src->kind == TX_CKPT_NATIVE) {
        TX_TRY(tx_config_from_json(cfg, tx_checkpoint_config(src->native), which));
    } else {
        json_t *options;
        TX_TRY(hf_options(src, &options));
        tx_status st = tx_config_from_json(cfg, options, which);
        json_decref(options);
        TX_TRY(st);
    }
    return tx_config_complete(cfg);
}

/* ---- weights ---- */

/* Files of the bare model leave out the prefix that the class with a head adds. */
static const tx_st_tensor *find_tensor(const tx_huggingface *hf, const tx_hf_format *format, const char *name)
{
    size_t n = strlen(format->prefix);
    const tx_st_tensor *t = tx_huggingface_find(hf, name);
    if (!t && !strncmp(name, format->prefix, n)) t = tx_huggingface_find(hf, name + n);
    return t;
}

static tx_status read_part(const tx_source *src, const tx_hf_format *format, const tx_model *m, const tx_hf_part *part,
                           float *theirs, float *value)
{
    char found[128];
    const tx_st_tensor *t = find_tensor(src->hf, format, part->name);
    if (!t) return TX_FAIL(TX_ERR_FORMAT, "%s: there is no tensor \"%s\"", src->dir, part->name);
    bool fits =
        t->n_dims == part->n_dims && t->dim[0] == part->dim[0] && (part->n_dims < 2 || t->dim[1] == part->dim[1]);
    if (!fits)
        return TX_FAIL(TX_ERR_SHAPE, "%s: \"%s\" is %s, this model has %lld x %lld", src->dir, part->name,
                       tx_st_describe(t, found, sizeof found), (long long)part->dim[0], (long long)part->dim[1]);
    TX_TRY(tx_st_read_f32(t, theirs, false));
    tx_hf_copy(m, part, theirs, value + part->param->offset, false);
    return TX_OK;
}

static bool is_extra(const tx_hf_format *format, const char *name)
{
    size_t n = strlen(name);
    for (const char *const *end = format->extra; *end; end++) {
        size_t k = strlen(*end);
        if (n >= k && !strcmp(name + n - k, *end)) return true;
    }
    return false;
}

/* Each tensor of the model is found by name later: more than these are unknown. */
static tx_status refuse_unknown_tensors(const tx_source *src, const tx_hf_format *format, const tx_model *m)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    size_t left = 0;
    for (int i = 0; i < m->params.n; i++)
        for (int k = tx_hf_parts(format, m, &m->params.param[i], part); k-- > 0;)
            left += !is_extra(format, part[k].name);
    for (size_t i = 0; i < tx_huggingface_count(src->hf); i++) {
        const char *name = tx_huggingface_at(src->hf, i)->name;
        if (is_extra(format, name)) continue;
        if (left-- == 0)
            return TX_FAIL(TX_ERR_FORMAT, "%s: holds tensors that a %s of %lld layers does not have, such as \"%s\"",
                           src->dir, format->model_type, (long long)m->n_layers, name);
    }
    return TX_OK;
}

static tx_status hf_weights(const tx_source *src, const tx_model *m, float *value)
{
    const tx_hf_format *format;
    tx_hf_part part[TX_HF_MAX_PARTS];
    int64_t largest = 0;
    TX_TRY(tx_hf_format_of(&format, m));
    TX_TRY(refuse_unknown_tensors(src, format, m));
    for (int i = 0; i < m->params.n; i++)
        if (m->params.param[i].numel > largest) largest = m->params.param[i].numel;
    float *theirs;
    TX_TRY(tx_alloc(&theirs, (size_t)largest, sizeof *theirs, "a tensor"));
    memset(value, 0, (size_t)m->params.numel * sizeof *value);
    tx_status st = TX_OK;
    for (int i = 0; i < m->params.n && !st; i++) {
        int n = tx_hf_parts(format, m, &m->params.param[i], part);
        for (int k = 0; k < n && !st; k++) st = read_part(src, format, m, &part[k], theirs, value);
    }
    tx_free(theirs);
    return st;
}

tx_status tx_source_weights(const tx_source *src, const tx_model *m, float *value)
{
    if (src->kind == TX_CKPT_HUGGINGFACE) return hf_weights(src, m, value);
    TX_ASSERT(src->kind == TX_CKPT_NATIVE);
    return tx_checkpoint_read(src->native, &m->params, value, NULL, 0);
}
