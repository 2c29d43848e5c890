/* shards.c - finding and reading the pieces of a parameter in the files of many ranks. */
#include "convert/shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "convert/upstream.h"
#include "optim/optim.h"

/* ---- which folder ---- */

tx_status tx__take_newest(tx_source *src, tx_ckpt_kind kind, const char *tracker)
{
    char path[4096];
    int64_t iteration = -1;
    if (kind != TX_CKPT_UNIVERSAL) TX_TRY(tx_checkpoint_newest(src->folder, kind, &iteration));
    if (iteration < 0) return tx_memdup0(&src->path, src->folder, strlen(src->folder), "a path");
    TX_TRY(tx_checkpoint_path_of(path, sizeof path, src->folder, kind, iteration, NULL));
    if (tx_comm_rank(src->group) == 0)
        tx_warn("%s has no file `%s`; taking its newest checkpoint, iteration %" PRId64, src->folder, tracker,
                iteration);
    return tx_memdup0(&src->path, path, strlen(path), "a path");
}

tx_status tx__follow_tracker(tx_source *src, const char *tracker)
{
    char path[4096];
    tx_str text = { 0 };
    tx_status st;
    TX_TRY(tx_path_join(path, sizeof path, src->folder, tracker));
    if (!tx_path_exists(path)) return tx__take_newest(src, (tx_ckpt_kind)src->type->format, tracker);
    TX_TRY(tx_file_read(path, 256, &text));
    while (text.len && strchr(" \r\n", text.data[text.len - 1])) text.data[--text.len] = 0;
    if (!text.len || strchr(text.data, '/') || text.data[0] == '.' || strlen(text.data) != text.len) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: must hold the name of a folder beside it, such as global_step100", path);
        goto out;
    }
    TX_GOTO(tx_path_join(path, sizeof path, src->folder, text.data));
    if (tx_path_is_dir(path))
        st = tx_memdup0(&src->path, path, strlen(path), "a path");
    else
        st = TX_FAIL(TX_ERR_NOTFOUND, "%s/%s names %s, and there is no such folder", src->folder, tracker, text.data);
out:
    tx_str_free(&text);
    return st;
}

tx_status tx__follow_iteration(tx_source *src, tx_ckpt_kind kind)
{
    char path[4096], name[64];
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx_path_join(path, sizeof path, src->folder, "latest_checkpointed_iteration.txt"));
    if (!tx_path_exists(path)) {
        st = tx__take_newest(src, kind, "latest_checkpointed_iteration.txt");
        goto out;
    }
    TX_GOTO(tx_file_read(path, 64, &text));
    char *end = text.data;
    long long iteration = text.len ? strtoll(text.data, &end, 10) : -1;
    while (end && (*end == '\n' || *end == ' ')) end++;
    if (text.len >= 7 && !strncmp(text.data, "release", 7)) {
        snprintf(name, sizeof name, "release");
    } else if (iteration >= 0 && end && !*end) {
        snprintf(name, sizeof name, "iter_%07lld", iteration);
    } else {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: must hold an iteration's number, or the word release", path);
        goto out;
    }
    TX_GOTO(tx_path_join(path, sizeof path, src->folder, name));
    if (!tx_path_is_dir(path)) {
        st = TX_FAIL(TX_ERR_NOTFOUND, "%s: names %s, and there is no such folder", src->folder, name);
        goto out;
    }
    st = tx_memdup0(&src->path, path, strlen(path), "a path");
out:
    tx_str_free(&text);
    return st;
}

/* ---- the list ---- */

tx_status tx__shards_open(tx__shards *s, const char *path, const tx_pt **out)
{
    if (s->n_files == s->files_cap) {
        size_t cap = 2 * s->files_cap + 8;
        TX_TRY(tx_realloc(&s->file, cap, sizeof *s->file, "a list of files"));
        s->files_cap = cap;
    }
    TX_TRY((s->unverified ? tx_pt_open_unchecked : tx_pt_open)(&s->file[s->n_files], path));
    *out = s->file[s->n_files++];
    return TX_OK;
}

void tx__shards_deinit(tx__shards *s)
{
    for (size_t i = 0; i < s->n_files; i++) tx_pt_close(s->file[i]);
    tx_free(s->file);
    tx_free(s->shard);
    tx_hash_free(&s->by_name);
    tx_free(s->segment);
    *s = (tx__shards){ 0 };
}

static bool is_of(const tx__shard_of *e, const tx__shard_key *key)
{
    return e->part == key->part && e->tp_rank == key->tp_rank && !strcmp(e->name, key->name);
}

tx_status tx__shards_add(tx__shards *s, const tx__shard_key *key, int n_dims, const int64_t *dim, bool *added)
{
    *added = false;
    uint64_t hash = tx_hash(key->name, strlen(key->name), (uint64_t)key->part << 32 | (uint32_t)key->tp_rank);
    size_t at = 0, i;
    while (tx_hash_next(&s->by_name, hash, &at, &i))
        if (is_of(&s->shard[i], key)) return TX_OK;
    if (s->n == s->cap) {
        size_t cap = 2 * s->cap + 64;
        TX_TRY(tx_realloc(&s->shard, cap, sizeof *s->shard, "a list of tensors"));
        s->cap = cap;
    }
    TX_TRY(tx_hash_add(&s->by_name, hash, s->n));
    tx__shard_of *e = &s->shard[s->n++];
    *e = (tx__shard_of){
        .part = key->part, .tp_rank = key->tp_rank, .n_dims = n_dims, .dim = { 1, 1 }, .segment = s->n_segments
    };
    snprintf(e->name, sizeof e->name, "%s", key->name);
    for (int k = 0; k < n_dims && k < 2; k++) e->dim[k] = dim[k];
    *added = true;
    return TX_OK;
}

tx_status tx__shards_add_segment(tx__shards *s, const tx_pt *file, const tx_pt_tensor *t, int64_t first, int64_t n)
{
    if (!n) return TX_OK;
    if (s->n_segments == s->segments_cap) {
        size_t cap = 2 * s->segments_cap + 64;
        TX_TRY(tx_realloc(&s->segment, cap, sizeof *s->segment, "a list of tensors"));
        s->segments_cap = cap;
    }
    s->segment[s->n_segments++] = (tx__segment){ file, t, first, n };
    s->shard[s->n - 1].n_segments++;
    return TX_OK;
}

tx_status tx__shards_add_tensor(tx__shards *s, const tx__shard_key *key, const tx_pt *file, const tx_pt_tensor *t)
{
    bool added;
    TX_TRY(tx__shards_add(s, key, t->n_dims, t->dim, &added));
    return added ? tx__shards_add_segment(s, file, t, 0, tx_pt_numel(t)) : TX_OK;
}

tx_status tx__shards_add_number(tx__shards *s, const tx__shard_key *key, double number)
{
    const int64_t one = 1;
    bool added;
    TX_TRY(tx__shards_add(s, key, 1, &one, &added));
    if (!added) return TX_OK;
    s->shard[s->n - 1].is_number = true;
    s->shard[s->n - 1].number = number;
    return TX_OK;
}

tx_status tx__shards_add_flat(tx__shards *s, const tx__segments *flat, int64_t at, int64_t n)
{
    for (size_t i = 0; i < flat->n && n > 0; i++) {
        const tx__segment *run = &flat->run[i];
        if (at < run->n) {
            int64_t k = run->n - at < n ? run->n - at : n;
            TX_TRY(tx__shards_add_segment(s, run->file, run->tensor, run->first + at, k));
            n -= k;
            at = 0;
        } else {
            at -= run->n;
        }
    }
    return TX_OK;
}

static int by_name(const void *a, const void *b)
{
    const tx__shard_of *x = a, *y = b;
    int d = strcmp(x->name, y->name);
    if (!d) d = (x->part > y->part) - (x->part < y->part);
    return d ? d : (x->tp_rank > y->tp_rank) - (x->tp_rank < y->tp_rank);
}

tx_status tx__shards_sort(tx__shards *s, const char *path)
{
    for (size_t i = 0; i < s->n; i++) {
        const tx__shard_of *e = &s->shard[i];
        int64_t have = e->is_number, want;
        for (int k = 0; k < e->n_segments; k++) have += s->segment[e->segment + (size_t)k].n;
        if (e->n_dims < 1 || e->n_dims > 2 || __builtin_mul_overflow(e->dim[0], e->dim[1], &want) || want != have)
            return TX_FAIL(
                TX_ERR_FORMAT,
                "%s: %s of tensor-parallel rank %d has %" PRId64
                " elements where its shape asks for others: files of another run among them, or missing ones",
                path, e->name, e->tp_rank, have);
    }
    tx_hash_free(&s->by_name);
    if (s->n) qsort(s->shard, s->n, sizeof *s->shard, by_name);
    return TX_OK;
}

const tx__shard_of *tx__shards_find(const tx__shards *s, const char *name, int part, int tp_rank)
{
    tx__shard_of want = { .part = part, .tp_rank = tp_rank };
    snprintf(want.name, sizeof want.name, "%s", name);
    return s->n ? bsearch(&want, s->shard, s->n, sizeof want, by_name) : NULL;
}

const char *tx__shards_model(const tx__shards *s)
{
    return tx__shards_find(s, "lm_head.dense.weight", 0, 0) ? "BERT" : "GPT";
}

/* ---- does it fit the model? ---- */

/* A universal checkpoint made with ZeRO-3 has lost the shapes: matrices are vectors there. */
static bool is_flat(const tx_param *p, const tx__shard_of *e)
{
    return p->n_dims == 2 && e->n_dims == 1 && e->dim[0] % p->whole[1] == 0;
}

/* p as the folder's ranks have it: the vocabulary may be padded to another size there, position embeddings be split,
 * and experts be whole. */
static tx_param as_there(const tx__shards *s, const tx_param *p, const tx__shard_of *e)
{
    tx_param q = *p;
    int64_t layer, expert;
    if (s->whole_experts && tx__expert_of(p->name, &layer, &expert)) q.split_dim = -1;
    int64_t rows = is_flat(p, e) ? e->dim[0] / p->whole[1] : e->dim[0];
    if (s->split_positions && strstr(p->name, "position_embeddings")) q.split_dim = 0;
    if (tx__is_vocabulary(p->name)) q.whole[0] = q.whole_logical = rows * (q.split_dim == 0 ? s->n_tp : 1);
    return q;
}

/* What tensor ranks have of their shards: one number here. */
static tx_status check_number(const tx_source *src, const tx_param *p, int part)
{
    const tx__shards *s = src->impl;
    const tx__shard_of *first = tx__shards_find(s, p->name, part, 0), *e;
    for (int t = 1; t < s->n_tp; t++)
        if ((e = tx__shards_find(s, p->name, part, t)) && e->number != first->number)
            tx_warn_once("%s: its %d tensor-parallel ranks have a %s each of their parts of %s and of others: that of "
                         "the first is taken for the whole",
                         src->path, s->n_tp, src->part[part], p->name);
    return TX_OK;
}

static tx_status check_shape(const tx_source *src, const tx_param *p, int part)
{
    const tx__shards *s = src->impl;
    const tx_optim_theirs theirs = part ? tx_optim_theirs_of(src->optimizer, part - 1) : TX_THEIRS_SAME;
    if (theirs == TX_THEIRS_ZERO || theirs == TX_THEIRS_WEIGHTS) return TX_OK;
    const tx__shard_of *e = tx__shards_find(s, p->name, part, 0);
    if (!e)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds no %s of %s", src->path, part ? src->part[part] : "weights", p->name);
    if (e->is_number) return check_number(src, p, part);
    tx_param q = as_there(s, p, e);
    for (int t = 0; t < (q.split_dim < 0 ? 1 : s->n_tp); t++) {
        e = tx__shards_find(s, p->name, part, t);
        if (!e)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: there is %s of tensor-parallel rank 0 and none of rank %d: a file is "
                           "missing",
                           src->path, p->name, t);
        int64_t want[2] = { q.whole[0], q.n_dims == 2 ? q.whole[1] : 1 };
        if (q.split_dim >= 0) want[q.split_dim] /= s->n_tp;
        bool divides = tx_param_divides(&q, s->n_tp);
        if (divides && s->n_tp == 1 && is_flat(p, e) && e->dim[0] == want[0] * want[1]) continue;
        if (!divides || e->n_dims != p->n_dims || e->dim[0] != want[0] || e->dim[1] != want[1])
            return TX_FAIL(TX_ERR_SHAPE,
                           "%s: %s of tensor-parallel rank %d of %d is [%" PRId64 ",%" PRId64
                           "], this model has [%" PRId64 ",%" PRId64 "] there",
                           src->path, p->name, t, s->n_tp, e->dim[0], e->dim[1], want[0], want[1]);
    }
    return TX_OK;
}

/* The part of a layer's parameter's name after the layer's; NULL: it is none of a layer. */
static const char *in_layer(const char *name, int *layer)
{
    int at = 0;
    return sscanf(name, "encoder.layers.%d.%n", layer, &at) == 1 && at ? name + at : NULL;
}

/* @of_layers: rows of the table, by that part of their names. */
static bool has_in_layer(const tx_model *m, const tx_hash_table *of_layers, const char *rest)
{
    int layer;
    size_t at = 0, i;
    while (tx_hash_next(of_layers, tx_hash(rest, strlen(rest), 0), &at, &i))
        if (!strcmp(in_layer(m->params.param[i].name, &layer), rest)) return true;
    return false;
}

/* Each such name that the table has, once. */
static tx_status list_layers(const tx_model *m, tx_hash_table *of_layers)
{
    int layer;
    for (int i = 0; i < m->params.n; i++) {
        const char *rest = in_layer(m->params.param[i].name, &layer);
        if (rest && !has_in_layer(m, of_layers, rest))
            TX_TRY(tx_hash_add(of_layers, tx_hash(rest, strlen(rest), 0), (size_t)i));
    }
    return TX_OK;
}

/* The number of an expert that this rank has; of several expert-parallel ranks each has some. */
static int64_t first_expert(const tx_model *m)
{
    int64_t layer, expert;
    for (int i = 0; i < m->params.n; i++)
        if (tx__expert_of(m->params.param[i].name, &layer, &expert)) return expert;
    return 0;
}

/* What the model's table knows by the name, whichever its layer and its expert are: a rank of a pipeline has not all of
 * them. */
static bool is_known(const tx_model *m, const tx_hash_table *of_layers, const char *name)
{
    int layer;
    int64_t in, expert;
    char any[TX_PARAM_NAME_MAX];
    if (tx__expert_of(name, &in, &expert)) {
        snprintf(any, sizeof any, "%s", name);
        tx__set_expert(any, first_expert(m));
        name = any;
    }
    const char *rest = in_layer(name, &layer); /* NULL: the first stage's, or the last's */
    return !rest || (layer < m->n_layers && has_in_layer(m, of_layers, rest));
}

tx_status tx__shards_check(tx_source *src, const tx_model *m)
{
    const tx__shards *s = src->impl;
    tx_hash_table of_layers = { 0 };
    tx_status st = list_layers(m, &of_layers);
    for (int i = 0; i < m->params.n && !st; i++)
        for (int part = 0; part < src->n_parts && !st; part++) st = check_shape(src, &m->params.param[i], part);
    for (size_t i = 0; i < s->n && !st; i++)
        if (!is_known(m, &of_layers, s->shard[i].name))
            st = TX_FAIL(TX_ERR_FORMAT, "%s: holds %s, which a model with its options does not have", src->path,
                         s->shard[i].name);
    tx_hash_free(&of_layers);
    return tx_comm_agree(src->group, st);
}

/* ---- reading ---- */

static tx_status read_elements(const tx__shards *s, const tx__shard_of *e, int64_t first, int64_t n, float *x)
{
    for (int k = 0; k < e->n_segments && n; k++) {
        const tx__segment *g = &s->segment[e->segment + (size_t)k];
        if (first >= g->n) {
            first -= g->n;
            continue;
        }
        int64_t m = g->n - first < n ? g->n - first : n;
        TX_TRY(tx_pt_read_f32(g->file, g->tensor, g->first + first, m, x));
        x += m;
        n -= m;
        first = 0;
    }
    TX_ASSERT(!n); /* tx__shards_sort has counted them */
    return TX_OK;
}

/* Row of the file where row r of a shard of query_key_value lies, in ours [heads, (q k v), head_dim]. */
static int64_t qkv_row(int version, int64_t heads, int64_t d, int64_t r)
{
    int64_t head = r / (3 * d), j = r / d % 3, k = r % d;
    if (version == 0) return (j * heads + head) * d + k; /* [3, heads, d] */
    return (head * d + k) * 3 + j;                       /* 1.0: [heads, d, 3] */
}

/* How many rows from r on lie one after the other on both sides; *from is the first one's there. */
static int64_t run_of_rows(const tx__shards *s, const tx_model *m, const tx_param *q, int64_t r, int64_t *from)
{
    *from = r;
    if (s->qkv_version < 2 && strstr(q->name, "query_key_value")) {
        *from = qkv_row(s->qkv_version, m->n_heads / s->n_tp, m->head_dim, r);
        return 1;
    }
    int64_t block = q->split_dim == 0 && q->n_tp > 1 ? q->dim[0] / q->n_parts : q->dim[0];
    bool whole_rows = q->n_dims == 1 || q->dim[1] == q->whole[1];
    return whole_rows ? block - r % block : 1;
}

/* The shard of rank q->tp_rank there into the whole, of which only the first n_rows are ours. */
static tx_status read_shard(const tx__shards *s, const tx_model *m, int part, const tx_param *q, int64_t n_rows,
                            float *whole)
{
    const tx__shard_of *e = tx__shards_find(s, q->name, part, q->tp_rank);
    int64_t width = q->n_dims == 2 ? q->dim[1] : 1, whole_width = q->n_dims == 2 ? q->whole[1] : 1;
    for (int64_t r = 0, n; r < q->dim[0]; r += n) {
        int64_t from, to = tx_param_row(q, r);
        n = run_of_rows(s, m, q, r, &from);
        int64_t take = n_rows - to < n ? n_rows - to : n;
        if (take > 0)
            TX_TRY(read_elements(s, e, from * width, take * width, whole + to * whole_width + tx_param_column(q)));
    }
    return TX_OK;
}

unsigned tx__shards_change(const tx_source *src, const tx_model *m, const tx_param *p)
{
    const tx__shards *s = src->impl;
    const tx__shard_of *e = tx__shards_find(s, p->name, 0, 0);
    (void)m;
    if (!e) return TX_CHANGE_NONE;
    tx_param q = as_there(s, p, e);
    return (q.split_dim >= 0 && s->n_tp > 1 ? TX_CHANGE_MERGED : 0) |
           (s->qkv_version < 2 && strstr(p->name, "query_key_value") ? TX_CHANGE_REORDERED : 0) |
           (q.whole[0] > p->whole_logical ? TX_CHANGE_CUT : 0) | (q.whole[0] < p->whole_logical ? TX_CHANGE_PADDED : 0);
}

void tx__shards_set_version(tx_source *src, int version)
{
    ((tx__shards *)src->impl)->qkv_version = version;
}

tx_status tx__shards_read(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole)
{
    const tx__shards *s = src->impl;
    const tx_optim_theirs theirs = part ? tx_optim_theirs_of(src->optimizer, part - 1) : TX_THEIRS_SAME;
    if (theirs == TX_THEIRS_ZERO) {
        memset(whole, 0, (size_t)(p->whole[0] * (p->n_dims == 2 ? p->whole[1] : 1)) * sizeof *whole);
        return TX_OK;
    }
    if (theirs == TX_THEIRS_WEIGHTS) part = 0;
    const tx__shard_of *e = tx__shards_find(s, p->name, part, 0);
    if (e->is_number) {
        *whole = (float)e->number;
        return TX_OK;
    }
    tx_param q = as_there(s, p, e);
    int64_t width = p->n_dims == 2 ? p->whole[1] : 1;
    int64_t rows = q.whole[0] < p->whole_logical ? q.whole[0] : p->whole_logical;
    memset(whole + rows * width, 0, (size_t)((p->whole[0] - rows) * width) * sizeof *whole);
    for (int t = 0; t < (q.split_dim < 0 ? 1 : s->n_tp); t++) {
        tx_param shard = tx_param_shard(&q, s->n_tp, t);
        tx_status st = read_shard(s, m, part, &shard, rows, whole);
        if (st) return tx_fail_prefix(st, "%s of %s", part ? src->part[part] : "weights", p->name);
    }
    for (size_t i = 0; i < s->n_files; i++) tx_pt_forget(s->file[i]);
    return TX_OK;
}

/* ---- checksums ---- */

size_t tx__shards_unchecked(const tx_source *src, const tx_pt **first)
{
    const tx__shards *s = src->impl;
    size_t n = 0;
    for (size_t i = s->n_files; i-- > 0;)
        if (tx_pt_unchecked(s->file[i])) {
            *first = s->file[i];
            n++;
        }
    return n;
}

tx_status tx__shards_verify(const tx_source *src, uint64_t *bytes, size_t *n_files)
{
    const tx__shards *s = src->impl;
    for (size_t i = 0; i < s->n_files; i++) {
        uint64_t before = *bytes;
        TX_TRY(tx_pt_verify(s->file[i], bytes));
        tx_pt_forget(s->file[i]);
        *n_files += *bytes > before;
    }
    return TX_OK;
}
