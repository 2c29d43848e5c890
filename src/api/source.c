/* source.c - opens what --load names and reads weights from it, in either format. */
#include "api/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "model/hf_format.h"

/* ---- opening ---- */

/* kind is rank 0's, and so is st, which says whether it could be found out. */
static tx_status open_kind(tx_source *src, const char *dir, tx_ckpt_kind kind, tx_status st, tx_comm *group)
{
    TX_TRY(tx_comm_agree(group, st));
    TX_TRY(tx_comm_spread(group, &kind, sizeof kind, 0));
    *src = (tx_source){ .kind = kind, .dir = dir, .group = group };
    if (kind == TX_CKPT_NONE) return TX_OK;
    if (kind == TX_CKPT_HUGGINGFACE) {
        tx_info(" loading weights from the Hugging Face folder %s", dir);
        return tx_comm_agree(group, tx_huggingface_open(&src->hf, dir));
    }
    TX_TRY(tx_checkpoint_open(&src->native, dir, group));
    tx_info(" loading checkpoint from %s", tx_checkpoint_path(src->native));
    src->vocab_size = tx_checkpoint_state(src->native)->vocab_size;
    return TX_OK;
}

static tx_status find_kind(tx_ckpt_kind *kind, const char *dir)
{
    char detail[512];
    TX_TRY(tx_checkpoint_probe(dir, kind, detail, sizeof detail));
    if (*kind != TX_CKPT_NONE && *kind != TX_CKPT_UNKNOWN) return TX_OK;
    return TX_FAIL(TX_ERR_NOTFOUND, "--load %s: %s", dir, detail);
}

tx_status tx_source_open(tx_source *src, const char *dir, tx_comm *group)
{
    tx_ckpt_kind kind = TX_CKPT_NONE;
    tx_status st = tx_comm_rank(group) ? TX_OK : find_kind(&kind, dir);
    return open_kind(src, dir, kind, st, group);
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

static tx_status find_kind_for_run(tx_ckpt_kind *kind, const tx_config *cfg)
{
    char detail[512];
    TX_TRY(tx_checkpoint_probe(cfg->load, kind, detail, sizeof detail));
    if (*kind == TX_CKPT_NATIVE || *kind == TX_CKPT_HUGGINGFACE) return TX_OK;
    if (cfg->exit_on_missing_checkpoint)
        return TX_FAIL(TX_ERR_NOTFOUND, "--load %s: %s, and --exit-on-missing-checkpoint is given", cfg->load, detail);
    if (*kind == TX_CKPT_UNKNOWN || !cfg->save || !same_folder(cfg->load, cfg->save))
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "--load %s: %s; name a checkpoint, or leave --load out to start from fresh weights "
                       "(a --load that equals --save may be missing or empty at the first start)",
                       cfg->load, detail);
    tx_info(" starting from fresh weights: --load is the same folder as --save and %s", detail);
    return TX_OK;
}

tx_status tx_source_open_for_run(tx_source *src, const tx_config *cfg, tx_comm *group)
{
    tx_ckpt_kind kind = TX_CKPT_NONE;
    *src = (tx_source){ .kind = kind };
    if (!cfg->load) return TX_OK;
    tx_status st = tx_comm_rank(group) ? TX_OK : find_kind_for_run(&kind, cfg);
    return open_kind(src, cfg->load, kind, st, group);
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

/* @whole [whole]: all of the parameter; @theirs as large */
static tx_status read_part(const tx_source *src, const tx_hf_format *format, const tx_model *m, const tx_hf_part *part,
                           float *theirs, float *whole)
{
    char found[128];
    const tx_st_tensor *t = find_tensor(src->hf, format, part->name);
    bool fits =
        t->n_dims == part->n_dims && t->dim[0] == part->dim[0] && (part->n_dims < 2 || t->dim[1] == part->dim[1]);
    if (!fits)
        return TX_FAIL(TX_ERR_SHAPE, "%s: \"%s\" is %s, this model has %lld x %lld", src->dir, part->name,
                       tx_st_describe(t, found, sizeof found), (long long)part->dim[0], (long long)part->dim[1]);
    TX_TRY(tx_st_read_f32(t, theirs, false));
    tx_hf_copy(m, part, theirs, whole, false);
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

static size_t index_of(const tx_huggingface *hf, const tx_st_tensor *t)
{
    size_t i = 0;
    while (tx_huggingface_at(hf, i) != t) i++;
    return i;
}

/* Sets known[i] for every tensor i there that this rank has a part of; one that is missing is an error. */
static tx_status find_tensors(const tx_source *src, const tx_hf_format *format, const tx_model *m, unsigned char *known)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    for (int i = 0; i < m->params.n; i++)
        for (int k = tx_hf_parts(format, m, &m->params.param[i], part); k-- > 0;) {
            const tx_st_tensor *t = find_tensor(src->hf, format, part[k].name);
            if (!t) return TX_FAIL(TX_ERR_FORMAT, "%s: there is no tensor \"%s\"", src->dir, part[k].name);
            known[index_of(src->hf, t)] = 1;
        }
    return TX_OK;
}

/* Every tensor of the model is there, and no other: each rank looks for its own, and what is left over belongs to none
 * of them. */
static tx_status check_tensors(const tx_source *src, const tx_hf_format *format, const tx_model *m)
{
    size_t n = tx_huggingface_count(src->hf), first = n, ranks = (size_t)tx_comm_size(src->group);
    unsigned char *known = NULL; /* this rank's, then all ranks' */
    TX_TRY(tx_comm_spread(src->group, &first, sizeof first, 0));
    tx_status st = tx_alloc(&known, n + 1, 1 + ranks, "a list of tensors");
    if (!st && n != first)
        st = TX_FAIL(TX_ERR_IO,
                     "%s: holds %zu tensors for rank %d and %zu for rank %d; load from a folder that all hosts share",
                     src->dir, n, tx_comm_world_rank(src->group, tx_comm_rank(src->group)), first,
                     tx_comm_world_rank(src->group, 0));
    if (!st) st = find_tensors(src, format, m, known);
    TX_GOTO(tx_comm_agree(src->group, st));
    TX_GOTO(tx_comm_gather(src->group, known + n, known, n));
    for (size_t i = 0; i < n * ranks; i++) known[i % n] |= known[n + i];
    for (size_t i = 0; i < n; i++) {
        const char *name = tx_huggingface_at(src->hf, i)->name;
        if (known[i] || is_extra(format, name)) continue;
        st = TX_FAIL(TX_ERR_FORMAT, "%s: holds tensors that a %s of %lld layers does not have, such as \"%s\"",
                     src->dir, format->model_type, (long long)m->n_layers, name);
        break;
    }
out:
    tx_free(known);
    return st;
}

static int64_t whole_elements(const tx_param *p)
{
    return p->whole[0] * (p->n_dims == 2 ? p->whole[1] : 1);
}

/* buf [2][elements of the largest whole parameter] */
static tx_status read_weights(const tx_source *src, const tx_hf_format *format, const tx_model *m, float *buf,
                              int64_t largest, float *value)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    float *whole = buf, *theirs = buf + largest;
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *p = &m->params.param[i];
        memset(whole, 0, (size_t)whole_elements(p) * sizeof *whole); /* rows that the file may lack */
        for (int n = tx_hf_parts(format, m, p, part), k = 0; k < n; k++)
            TX_TRY(read_part(src, format, m, &part[k], theirs, whole));
        tx_param_cut(p, value + p->offset, whole);
    }
    return TX_OK;
}

static tx_status hf_weights(const tx_source *src, const tx_model *m, float *value)
{
    const tx_hf_format *format;
    int64_t largest = 0;
    TX_TRY(tx_hf_format_of(&format, m));
    TX_TRY(check_tensors(src, format, m));
    for (int i = 0; i < m->params.n; i++) {
        int64_t n = whole_elements(&m->params.param[i]);
        if (n > largest) largest = n;
    }
    float *buf = NULL;
    tx_status st = tx_alloc(&buf, (size_t)largest, 2 * sizeof *buf, "two tensors");
    if (!st) st = read_weights(src, format, m, buf, largest, value);
    tx_free(buf);
    return tx_comm_agree(src->group, st);
}

tx_status tx_source_weights(const tx_source *src, const tx_model *m, float *value)
{
    if (src->kind == TX_CKPT_HUGGINGFACE) return hf_weights(src, m, value);
    TX_ASSERT(src->kind == TX_CKPT_NATIVE);
    const tx_ckpt_part weights = { .name = TX_CKPT_MODEL, .flat = value, .whole = true };
    return tx_checkpoint_read(src->native, &m->params, NULL, &weights, 1);
}
