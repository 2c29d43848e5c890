/* peft_source.c - an adapter of PEFT's and the model that it is beside, as one source: the adapters are read from the
 * adapter's folder, and all else from the base's, which --lora-base or the adapter itself names. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "checkpoint/peft_folder.h"
#include "convert/source.h"
#include "model/peft_format.h"

typedef struct peft {
    tx_source base;
    json_t *config;
    tx_safetensors *file;
} peft;

/* The base's folder: what the user says, or what the adapter does, as it stands or beside the adapter. */
static tx_status find_base(const tx_source *src, const json_t *config, char *dir, size_t cap)
{
    const char *named = json_string_value(json_object_get(config, "base_model_name_or_path"));
    if (src->base || (named && tx_path_exists(named))) {
        snprintf(dir, cap, "%s", src->base ? src->base : named);
        return TX_OK;
    }
    return TX_FAIL(TX_ERR_NOTFOUND,
                   "%s: is an adapter; give the folder of the model that it is beside with --lora-base (%.100s, its "
                   "base_model_name_or_path, is no folder here)",
                   src->path, named && *named ? named : "null");
}

static void close_folder(tx_source *src)
{
    peft *p = src->impl;
    if (!p) return;
    tx_source_close(&p->base);
    json_decref(p->config);
    tx_safetensors_close(p->file);
    tx_free(p);
    src->impl = NULL;
}

static tx_status open_folder(tx_source *src)
{
    char dir[4096];
    peft *p;
    TX_TRY(tx_memdup0(&src->path, src->folder, strlen(src->folder), "a path"));
    TX_TRY(tx_alloc(&p, 1, sizeof *p, "an adapter"));
    src->impl = p;
    src->part[src->n_parts++] = TX_CKPT_MODEL;
    src->has_adapters = true;
    tx_status st = tx_peft_open(&p->config, &p->file, src->path);
    if (!st) st = find_base(src, p->config, dir, sizeof dir);
    TX_TRY(tx_comm_agree(src->group, st));
    TX_TRY((src->unverified ? tx_source_open_unverified : tx_source_open)(&p->base, dir, NULL, src->group));
    if (p->base.has_adapters || p->base.type == &tx_source_peft)
        return TX_FAIL(TX_ERR_ARG, "%s: is an adapter itself, not the model that %s is beside", dir, src->path);
    return TX_OK;
}

/* The targets of the tensors that there are, as --lora-targets has them. */
static tx_status read_targets(const tx_source *src, const peft *p, json_t *words)
{
    unsigned seen = 0;
    for (size_t i = 0; i < tx_safetensors_count(p->file); i++) {
        const char *name = tx_safetensors_at(p->file, i)->name, *word;
        int target = tx_peft_target_of(name, &word);
        if (target < 0)
            return TX_FAIL(
                TX_ERR_UNSUPPORTED,
                "%s: \"%.120s\" is no A or B beside a matrix of a GPT-2's or Llama's layer, and no other adapter is "
                "built",
                src->path, name);
        if (!(seen & TX_LORA_BIT(target)) && json_array_append_new(words, json_string(word)))
            return TX_FAIL(TX_ERR_NOMEM, "not enough memory for an adapter's options");
        seen |= TX_LORA_BIT(target);
    }
    return seen ? TX_OK : TX_FAIL(TX_ERR_FORMAT, "%s: holds no tensors", src->path);
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    peft *p = src->impl;
    json_t *base = NULL, *words = json_array(), *lora = NULL;
    const json_t *rank = json_object_get(p->config, "r"), *alpha = json_object_get(p->config, "lora_alpha");
    tx_status st = read_targets(src, p, words);
    if (!st && (!json_is_integer(rank) || json_integer_value(rank) < 1 || !json_is_number(alpha)))
        st = TX_FAIL(TX_ERR_FORMAT, "%s: " TX_PEFT_CONFIG ": r and lora_alpha must be numbers", src->path);
    if (!st) st = p->base.type->options(&p->base, all, &base);
    if (!st)
        lora = json_pack("{sI sf sO sf}", "lora_rank", json_integer_value(rank), "lora_alpha", json_number_value(alpha),
                         "lora_targets", words, "lora_dropout",
                         json_number_value(json_object_get(p->config, "lora_dropout")));
    *out = st ? NULL : json_copy(base);
    if (!st && (!lora || !*out || json_object_update(*out, lora)))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for an adapter's options");
    src->vocab_size = p->base.vocab_size;
    src->state.vocab_size = p->base.state.vocab_size;
    if (st) json_decref(*out);
    json_decref(lora);
    json_decref(base);
    json_decref(words);
    return st;
}

static tx_status find_tensor(const tx_source *src, const tx_model *m, const tx_param *q, tx_hf_part *part,
                             const tx_st_tensor **out)
{
    const peft *p = src->impl;
    const tx_hf_format *format;
    char found[128];
    TX_TRY(tx_hf_format_of(&format, m));
    if (tx_peft_part(format, m, q, part))
        return TX_FAIL(TX_ERR_SHAPE, "%s: the adapter is of another model than %s: a %s has no such matrices",
                       src->path, p->base.path, format->model_type);
    const tx_st_tensor *t = *out = tx_safetensors_find(p->file, part->name);
    if (!t)
        return TX_FAIL(TX_ERR_SHAPE,
                       "%s: there is no tensor \"%s\": the adapter is of another model, or of other matrices",
                       src->path, part->name);
    if (t->n_dims == 2 && t->dim[0] == part->dim[0] && t->dim[1] == part->dim[1]) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE,
                   "%s: \"%s\" is %s, beside this model it has %lld x %lld: the adapter is of another model", src->path,
                   part->name, tx_st_describe(t, found, sizeof found), (long long)part->dim[0],
                   (long long)part->dim[1]);
}

/* Every adapter of the model is there; and each tensor there is of a layer that the model has. */
static tx_status check(tx_source *src, const tx_model *m)
{
    const peft *p = src->impl;
    const tx_st_tensor *t;
    tx_hf_part part;
    tx_status st = TX_OK;
    int64_t each = 0;
    for (int i = 0, layer; i < m->params.n && !st; i++) {
        if (tx_lora_target_of(m->params.param[i].name, &layer) < 0) continue;
        each += layer == (int)m->chunk[0].first;
        st = find_tensor(src, m, &m->params.param[i], &part, &t);
    }
    if (!st && each && tx_safetensors_count(p->file) != (size_t)(each * m->n_layers))
        st = TX_FAIL(TX_ERR_SHAPE,
                     "%s: holds %zu tensors, beside this model it would be %lld: the adapter is of another model",
                     src->path, tx_safetensors_count(p->file), (long long)(each * m->n_layers));
    TX_TRY(tx_comm_agree(src->group, st));
    return p->base.type->check ? p->base.type->check((tx_source *)&p->base, m) : TX_OK;
}

static tx_status read(tx_source *src, const tx_model *m, int number, const tx_param *q, float *whole)
{
    peft *p = src->impl;
    tx_hf_part part;
    const tx_st_tensor *t;
    float *theirs;
    int layer;
    if (tx_lora_target_of(q->name, &layer) < 0) return p->base.type->read(&p->base, m, number, q, whole);
    TX_TRY(find_tensor(src, m, q, &part, &t));
    TX_TRY(tx_alloc(&theirs, (size_t)tx_param_whole_numel(q), sizeof *theirs, "a tensor"));
    tx_status st = tx_st_read_f32(t, theirs, false);
    if (!st) tx_hf_copy(m, &part, theirs, whole, false);
    tx_free(theirs);
    return st;
}

static unsigned change(const tx_source *src, const tx_model *m, const tx_param *q)
{
    const peft *p = src->impl;
    int layer;
    if (tx_lora_target_of(q->name, &layer) >= 0 || !p->base.type->change) return TX_CHANGE_NONE;
    return p->base.type->change(&p->base, m, q);
}

const tx_source_type tx_source_peft = {
    .format = TX_FORMAT_PEFT,
    .title = "adapter",
    .open = open_folder,
    .close = close_folder,
    .options = options,
    .check = check,
    .read = read,
    .change = change,
};
