/* hf_source.c - a Hugging Face folder as a source: model/hf_format.h has the names and the order of rows. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/huggingface.h"
#include "convert/hf_change.h"
#include "model/hf_format.h"
#include "nn/lora.h"

static const tx_huggingface *hf_of(const tx_source *src)
{
    return src->impl;
}

static tx_status open_folder(tx_source *src)
{
    tx_huggingface *hf;
    TX_TRY(tx_memdup0(&src->path, src->folder, strlen(src->folder), "a path"));
    TX_TRY((src->unverified ? tx_huggingface_open_unchecked : tx_huggingface_open)(&hf, src->path));
    src->impl = hf;
    src->part[src->n_parts++] = TX_CKPT_MODEL;
    return TX_OK;
}

static void close_folder(tx_source *src)
{
    tx_huggingface_close(src->impl);
}

static bool has_tensor(const void *hf, const char *name)
{
    return tx_huggingface_find(hf, name);
}

/* Its own family, which the model may share with others. */
static tx_status format_in(const tx_source *src, const tx_hf_format **out)
{
    const json_t *config = tx_huggingface_config(hf_of(src));
    return tx_hf_format_find(out, json_string_value(json_object_get(config, "model_type")), has_tensor, hf_of(src));
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    const json_t *config = tx_huggingface_config(hf_of(src));
    const tx_hf_format *format;
    (void)all;
    tx_status st = format_in(src, &format);
    if (!st) st = tx_hf_options(format, out, config);
    if (st) return tx_fail_prefix(st, "%s", src->path);
    src->vocab_size = json_integer_value(json_object_get(*out, "vocab_size"));
    json_object_del(*out, "vocab_size");
    return TX_OK;
}

/* Files of the bare model leave out the prefix that the class with a head adds. */
static const tx_st_tensor *find_name(const tx_huggingface *hf, const tx_hf_format *format, const char *name)
{
    size_t n = strlen(format->prefix);
    const tx_st_tensor *t = tx_huggingface_find(hf, name);
    if (!t && !strncmp(name, format->prefix, n)) t = tx_huggingface_find(hf, name + n);
    return t;
}

/* By this name, or the one that it had. */
static const tx_st_tensor *find_tensor(const tx_huggingface *hf, const tx_hf_format *format, const char *name)
{
    char then[TX_PARAM_NAME_MAX];
    const tx_st_tensor *t = find_name(hf, format, name);
    for (const tx_hf_old *o = format->old; o && o->now && !t; o++) {
        size_t n = strlen(name), end = strlen(o->now);
        if (n < end || strcmp(name + n - end, o->now)) continue;
        snprintf(then, sizeof then, "%.*s%s", (int)(n - end), name, o->then);
        t = find_name(hf, format, then);
    }
    return t;
}

/* @whole [whole]: all of the parameter; @theirs as large */
static tx_status read_part(const tx_source *src, const tx_hf_format *format, const tx_model *m, const tx_hf_part *part,
                           float *theirs, float *whole)
{
    char found[128];
    const tx_st_tensor *t = find_tensor(hf_of(src), format, part->name);
    bool fits =
        t->n_dims == part->n_dims && t->dim[0] == part->dim[0] && (part->n_dims < 2 || t->dim[1] == part->dim[1]);
    if (!fits)
        return TX_FAIL(TX_ERR_SHAPE, "%s: \"%s\" is %s, this model has %lld x %lld", src->path, part->name,
                       tx_st_describe(t, found, sizeof found), (long long)part->dim[0], (long long)part->dim[1]);
    TX_TRY(tx_huggingface_check(hf_of(src), t));
    TX_TRY(tx_st_read_f32(t, theirs, false));
    tx_st_forget(t);
    tx_hf_copy(m, part, theirs, whole, false);
    return TX_OK;
}

/* Why no parameter comes from it; NULL: it should not be there. */
static const char *why_extra(const tx_hf_format *format, const char *name)
{
    size_t n = strlen(name);
    for (const tx_hf_extra *extra = format->extra; extra->end; extra++) {
        size_t k = strlen(extra->end);
        if (n >= k && !strcmp(name + n - k, extra->end)) return extra->why;
    }
    return NULL;
}

/* Sets known[i] for every tensor i there that this rank has a part of; one that is missing is an error. */
static tx_status find_tensors(const tx_source *src, const tx_hf_format *format, const tx_model *m, unsigned char *known)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    for (int i = 0; i < m->params.n; i++) {
        int layer, n = tx_hf_parts(format, m, &m->params.param[i], part);
        if (!n && tx_lora_target_of(m->params.param[i].name, &layer) < 0)
            return TX_FAIL(TX_ERR_SHAPE, "%s: a %s has no tensor for this model's %s", src->path, format->model_type,
                           m->params.param[i].name);
        for (int k = n; k-- > 0;) {
            const tx_st_tensor *t = find_tensor(hf_of(src), format, part[k].name);
            bool head = part[k].row->theirs[0] == '/' && format->partial;
            if (!t)
                return TX_FAIL(TX_ERR_FORMAT, "%s: there is no tensor \"%s\"%s%s", src->path, part[k].name,
                               head ? "; " : "", head ? format->partial : "");
            known[tx_huggingface_index(hf_of(src), t)] = 1;
        }
    }
    return TX_OK;
}

/* Every tensor of the model is there, and no other: each rank looks for its own, and what is left over belongs to none
 * of them. */
static tx_status check(tx_source *src, const tx_model *m)
{
    const tx_hf_format *format;
    TX_TRY(tx_comm_agree(src->group, format_in(src, &format)));
    size_t n = tx_huggingface_count(hf_of(src)), first = n, ranks = (size_t)tx_comm_size(src->group);
    unsigned char *known = NULL; /* this rank's, then all ranks' */
    TX_TRY(tx_comm_spread(src->group, &first, sizeof first, 0));
    tx_status st = tx_alloc(&known, n + 1, 1 + ranks, "a list of tensors");
    if (!st && n != first)
        st = TX_FAIL(TX_ERR_IO,
                     "%s: holds %zu tensors for rank %d and %zu for rank %d; load from a folder that all hosts share",
                     src->path, n, tx_comm_world_rank(src->group, tx_comm_rank(src->group)), first,
                     tx_comm_world_rank(src->group, 0));
    if (!st) st = find_tensors(src, format, m, known);
    TX_GOTO(tx_comm_agree(src->group, st));
    TX_GOTO(tx_comm_gather(src->group, known + n, known, n));
    for (size_t i = 0; i < n * ranks; i++) known[i % n] |= known[n + i];
    for (size_t i = 0; i < n; i++) {
        const char *name = tx_huggingface_at(hf_of(src), i)->name;
        if (known[i] || why_extra(format, name)) continue;
        st = TX_FAIL(TX_ERR_FORMAT, "%s: holds tensors that a %s of %lld layers does not have, such as \"%s\"",
                     src->path, format->model_type, (long long)m->n_layers, name);
        break;
    }
out:
    tx_free(known);
    return st;
}

static int64_t most_numel(const tx_hf_part *part, int n_parts, int64_t n)
{
    for (int k = 0; k < n_parts; k++) {
        int64_t theirs = part[k].n_dims == 2 ? part[k].dim[0] * part[k].dim[1] : part[k].dim[0];
        if (theirs > n) n = theirs;
    }
    return n;
}

/* Room for n elements, which stays: memory that comes and goes with each tensor costs its pages again and again. */
static tx_status get_theirs(tx_source *src, size_t n)
{
    if (n <= src->n_theirs) return TX_OK;
    tx_free(src->theirs);
    src->theirs = NULL;
    src->n_theirs = 0;
    TX_TRY(tx_alloc(&src->theirs, n, sizeof *src->theirs, "a tensor"));
    src->n_theirs = n;
    return TX_OK;
}

/* One tensor of ours is up to three there; they are read one after the other into a second buffer. */
static tx_status read(tx_source *src, const tx_model *m, int part_number, const tx_param *p, float *whole)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    const tx_hf_format *format;
    int64_t n = tx_param_whole_numel(p);
    (void)part_number; /* there are only weights */
    TX_TRY(format_in(src, &format));
    int n_parts = tx_hf_parts(format, m, p, part);
    TX_ASSERT(n_parts); /* there are no adapters here */
    TX_TRY(get_theirs(src, (size_t)most_numel(part, n_parts, n)));
    memset(whole, 0, (size_t)n * sizeof *whole); /* rows that the file may lack */
    tx_status st = TX_OK;
    for (int k = 0; k < n_parts && !st; k++) st = read_part(src, format, m, &part[k], src->theirs, whole);
    return st;
}

static unsigned change(const tx_source *src, const tx_model *m, const tx_param *p)
{
    const tx_hf_format *format;
    if (format_in(src, &format)) return TX_CHANGE_NONE; /* which opening it has refused */
    return tx_hf_change(format, m, p, false) | (p->whole_logical < p->whole[0] ? TX_CHANGE_PADDED : 0);
}

static tx_status dropped(const tx_source *src, const tx_model *m, tx_dropped_fn *tell, void *user)
{
    const tx_hf_format *format;
    size_t n = tx_huggingface_count(hf_of(src));
    unsigned char *taken;
    TX_TRY(format_in(src, &format));
    TX_TRY(tx_alloc(&taken, n + 1, 1, "a list of tensors"));
    tx_status st = find_tensors(src, format, m, taken);
    for (size_t i = 0; i < n && !st; i++) {
        const char *name = tx_huggingface_at(hf_of(src), i)->name;
        if (!taken[i]) st = tell(user, name, why_extra(format, name));
    }
    tx_free(taken);
    return st;
}

static size_t unchecked(const tx_source *src, const tx_pt **first)
{
    return tx_huggingface_unchecked(hf_of(src), first);
}

static tx_status verify(const tx_source *src, uint64_t *bytes, size_t *n_files)
{
    return tx_huggingface_verify(hf_of(src), bytes, n_files);
}

const tx_source_type tx_source_huggingface = {
    .format = TX_FORMAT_HUGGINGFACE,
    .title = "Hugging Face model",
    .open = open_folder,
    .close = close_folder,
    .options = options,
    .check = check,
    .read = read,
    .change = change,
    .dropped = dropped,
    .unchecked = unchecked,
    .verify = verify,
};
