/* torch_dist_source.c - Megatron Core's distributed checkpoints (--ckpt-format torch_dist) as a source: the files of
 * torch.distributed.checkpoint, with Core's names.
 *
 *      DIR/latest_checkpointed_iteration.txt      "4"
 *      DIR/iter_0000004/common.pt                 'args', 'iteration', the optimizer's groups
 *                       .metadata                 a pickle: tensors' shapes, and which bytes of which file a box of one
 * is
 *                       __0_0.distcp, ...         archives of torch.save, one after the other, each with one box
 *                       metadata.json             {"sharded_backend": "torch_dist", ...}
 *
 *  Layers are stacked: decoder.layers.mlp.linear_fc2.weight is [layers, h, f]. The norm in front of a matrix is called
 * like a part of it, whatever module it is of. Buffers of the optimizer have the parameter's key behind
 * "optimizer.state.exp_avg."; masters "optimizer.state.fp32_param.". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "convert/shards.h"
#include "convert/upstream.h"
#include "convert/upstream_optim.h"

enum { PATH_CAP = 4096, KEY_CAP = 320, MAX_DIMS = 3, MAX_CHUNKS = 1 << 14 };

/* A box of a tensor, and where it is. */
typedef struct chunk {
    int64_t offset[MAX_DIMS], size[MAX_DIMS];
    const char *file; /* NULL: nowhere so far */
    uint64_t at, bytes;
} chunk;

typedef struct tensor {
    const char *key;
    int n_dims;
    int64_t dim[MAX_DIMS];
    chunk *chunk; /* owned */
    size_t n;
} tensor;

typedef struct torch_dist {
    tx_pt *index, *common;
    const tx_py *args;
    tensor *tensor; /* owned */
    size_t n;
    tx_hash_table by_key;
    int64_t n_layers;
    bool checked; /* boxes are compared with their checksums */
} torch_dist;

/* ---- names ---- */

/* What stands behind a layer's number, or begins a name; a row of Core's own spelling counts where the first is not
 * there. */
static const struct {
    const char *ours, *theirs;
} spelling[] = {
    { "input_layernorm.", "self_attention.linear_qkv.layer_norm_" },
    { "input_layernorm.", "input_layernorm." },
    { "post_attention_layernorm.", "mlp.linear_fc1.layer_norm_" },
    { "post_attention_layernorm.", "pre_mlp_layernorm." },
    { "self_attention.query_key_value.", "self_attention.linear_qkv." },
    { "self_attention.dense.", "self_attention.linear_proj." },
    { "mlp.dense_h_to_4h.", "mlp.linear_fc1." },
    { "mlp.dense_4h_to_h.", "mlp.linear_fc2." },
    { "", "" },
};
enum { N_SPELLINGS = sizeof spelling / sizeof *spelling };

static const tensor *find(const torch_dist *d, const char *key)
{
    size_t at = 0, i;
    uint64_t hash = tx_hash(key, strlen(key), 0);
    while (tx_hash_next(&d->by_key, hash, &at, &i))
        if (!strcmp(d->tensor[i].key, key)) return &d->tensor[i];
    return NULL;
}

/* The tensor of a parameter; *layer: which of it, or -1: it is not stacked.   @before "", "optimizer.state.exp_avg." */
static const tensor *find_param(const torch_dist *d, const char *before, const char *ours, int64_t *layer)
{
    char key[KEY_CAP];
    const tensor *t = NULL;
    int at = 0;
    *layer = -1;
    if (sscanf(ours, "encoder.layers.%" SCNd64 ".%n", layer, &at) != 1 || !at) {
        bool norm = !strncmp(ours, "encoder.", 8);
        snprintf(key, sizeof key, "%s%s%s", before, norm ? "decoder." : "", norm ? ours + 8 : ours);
        *layer = -1;
        return find(d, key);
    }
    const char *rest = ours + at;
    for (int i = 0; i < N_SPELLINGS && !t; i++) {
        size_t n = strlen(spelling[i].ours);
        if (strncmp(rest, spelling[i].ours, n) != 0) continue;
        snprintf(key, sizeof key, "%sdecoder.layers.%s%s", before, spelling[i].theirs, rest + n);
        if ((t = find(d, key))) return t;
        snprintf(key, sizeof key, "%sdecoder.layers.%" PRId64 ".%s%s", before, *layer, spelling[i].theirs, rest + n);
        t = find(d, key);
    }
    *layer = -1; /* layers that differ have a tensor each */
    return t;
}

static const char *before_of(const tx_source *src, int part, char buf[64])
{
    buf[0] = 0;
    if (part) snprintf(buf, 64, "optimizer.state.%s.", src->part[part]);
    return buf;
}

/* Part 0 is the masters, where there are some. */
static const tensor *find_part(const tx_source *src, int part, const char *ours, int64_t *layer)
{
    const torch_dist *d = src->impl;
    char before[64];
    const tensor *t = part ? NULL : find_param(d, "optimizer.state.fp32_param.", ours, layer);
    return t ? t : find_param(d, before_of(src, part, before), ours, layer);
}

/* ---- the index ---- */

static tx_status ints(const tx_source *src, const char *key, const tx_py *tuple, int64_t out[MAX_DIMS])
{
    for (size_t i = 0; i < tx_py_len(tuple); i++)
        if (!tx_py_int(tx_py_item(tuple, i), &out[i]) || out[i] < 0 || out[i] > (int64_t)1 << 40)
            return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: %.200s has a shape that is none", src->path, key);
    return TX_OK;
}

static bool overlap(const chunk *a, const chunk *b, int n_dims)
{
    for (int i = 0; i < n_dims; i++)
        if (a->offset[i] + a->size[i] <= b->offset[i] || b->offset[i] + b->size[i] <= a->offset[i]) return false;
    return true;
}

static tx_status add_chunks(const tx_source *src, tensor *t, const tx_py *chunks)
{
    int64_t numel = 1, covered = 0;
    if (tx_py_len(chunks) > MAX_CHUNKS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s/.metadata: %.200s has more than %d boxes", src->path, t->key,
                       MAX_CHUNKS);
    TX_TRY(tx_alloc(&t->chunk, tx_py_len(chunks) + 1, sizeof *t->chunk, "a checkpoint's index"));
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(numel, t->dim[i], &numel)) numel = -1, i = t->n_dims;
    for (size_t k = 0; k < tx_py_len(chunks); k++) {
        const tx_py *one = tx_py_item(chunks, k), *offset = tx_py_get(one, "offsets"), *size = tx_py_get(one, "sizes");
        chunk *c = &t->chunk[t->n++];
        int64_t n = 1;
        bool inside = (int)tx_py_len(offset) == t->n_dims && (int)tx_py_len(size) == t->n_dims && numel >= 0;
        if (inside) TX_TRY(ints(src, t->key, offset, c->offset));
        if (inside) TX_TRY(ints(src, t->key, size, c->size));
        for (int i = 0; i < t->n_dims && inside; i++) {
            inside = c->size[i] <= t->dim[i] && c->offset[i] <= t->dim[i] - c->size[i];
            n *= inside ? c->size[i] : 1;
        }
        if (!inside)
            return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: a box of %.200s is not inside of it", src->path, t->key);
        if (__builtin_add_overflow(covered, n, &covered)) numel = -1;
        for (size_t i = 0; i + 1 < t->n; i++)
            if (n && overlap(c, &t->chunk[i], t->n_dims))
                return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: two boxes of %.200s overlap", src->path, t->key);
    }
    if (covered != numel)
        return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: boxes of %.200s have %" PRId64 " numbers, and it has %" PRId64,
                       src->path, t->key, covered, numel);
    return TX_OK;
}

static tx_status add_tensors(torch_dist *d, const tx_source *src, const tx_py *all)
{
    size_t n = tx_py_len(all);
    if (!all || all->kind != TX_PY_DICT)
        return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: holds no index of torch.distributed.checkpoint", src->path);
    TX_TRY(tx_alloc(&d->tensor, n + 1, sizeof *d->tensor, "a checkpoint's index"));
    for (size_t i = 0; i < n; i++) {
        const char *key = tx_py_str(all->as.dict.key[i]);
        const tx_py *v = all->as.dict.value[i], *size = tx_py_get(v, "size");
        size_t n_dims = tx_py_len(size);
        if (!key || !size || n_dims < 1 || n_dims > MAX_DIMS) continue; /* bytes; nothing of a model has other shapes */
        tensor *t = &d->tensor[d->n];
        *t = (tensor){ .key = key, .n_dims = (int)n_dims };
        TX_TRY(tx_hash_add(&d->by_key, tx_hash(key, strlen(key), 0), d->n++));
        TX_TRY(ints(src, key, size, t->dim));
        TX_TRY(add_chunks(src, t, tx_py_get(v, "chunks")));
    }
    return TX_OK;
}

static chunk *chunk_at(const tensor *t, const tx_py *offset)
{
    for (size_t k = 0; k < t->n && (int)tx_py_len(offset) == t->n_dims; k++) {
        bool same = true;
        for (int i = 0; i < t->n_dims; i++) {
            int64_t at = -1;
            tx_py_int(tx_py_item(offset, (size_t)i), &at);
            same = same && at == t->chunk[k].offset[i];
        }
        if (same) return &t->chunk[k];
    }
    return NULL;
}

/* Which bytes a box is. A name in the folder, and none elsewhere. */
static tx_status place_chunk(const torch_dist *d, const tx_source *src, const tx_py *key, const tx_py *info)
{
    const char *name = tx_py_str(tx_py_get(key, "fqn")), *file = tx_py_str(tx_py_get(info, "relative_path"));
    const tensor *t = name ? find(d, name) : NULL;
    chunk *c = t ? chunk_at(t, tx_py_get(key, "offset")) : NULL;
    int64_t at, bytes;
    if (!c) return TX_OK;
    const tx_py *changed = tx_py_get(info, "transform_descriptors");
    if (tx_py_len(changed))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %.200s is compressed or encrypted", src->path, name);
    if (!file || !*file || *file == '.' || strchr(file, '/') || !tx_py_int(tx_py_get(info, "offset"), &at) ||
        !tx_py_int(tx_py_get(info, "length"), &bytes) || at < 0 || bytes < 1)
        return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: does not say in which bytes of which file %.200s is", src->path,
                       name);
    c->file = file;
    c->at = (uint64_t)at;
    c->bytes = (uint64_t)bytes;
    return TX_OK;
}

static tx_status read_index(torch_dist *d, const tx_source *src)
{
    char path[PATH_CAP];
    TX_TRY(tx_path_join(path, sizeof path, src->path, ".metadata"));
    TX_TRY(tx_pt_open_pickle(&d->index, path));
    const tx_py *root = tx_pt_root(d->index), *places = tx_py_get(root, "storage_data");
    TX_TRY(add_tensors(d, src, tx_py_get(root, "state_dict_metadata")));
    if (!places || places->kind != TX_PY_DICT)
        return TX_FAIL(TX_ERR_FORMAT, "%s: does not say where tensors are", path);
    for (size_t i = 0; i < places->as.dict.n; i++)
        TX_TRY(place_chunk(d, src, places->as.dict.key[i], places->as.dict.value[i]));
    return TX_OK;
}

/* ---- the source ---- */

static tx_status read_common(torch_dist *d, const tx_source *src)
{
    char path[PATH_CAP];
    int64_t experts = 0;
    TX_TRY(tx_path_join(path, sizeof path, src->path, "common.pt"));
    if (!tx_path_exists(path))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: holds no common.pt: a checkpoint of torch.distributed.checkpoint, but not one of Megatron "
                       "Core's, which have the model's options there",
                       src->path);
    TX_TRY(src->unverified ? tx_pt_open_unchecked(&d->common, path) : tx_pt_open(&d->common, path));
    d->args = tx_py_get(tx_pt_root(d->common), "args");
    tx_py_int(tx_py_get(d->args, "num_layers"), &d->n_layers);
    if (tx_py_int(tx_py_get(d->args, "num_experts"), &experts) && experts > 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: a mixture of experts can be read from DeepSpeed's own folders alone",
                       src->path);
    return TX_OK;
}

/* Adam's t: what all parameters share is in the common file. */
static int64_t optim_step_of(const tx_py *root, int64_t otherwise)
{
    double t;
    const tx_py *optimizer = tx_py_get(root, "optimizer"), *inner = tx_py_get(optimizer, "optimizer");
    for (int i = 0; i < 2; i++, optimizer = inner) {
        const tx_py *common = tx_py_at(optimizer, "state.common_step"), *groups = tx_py_get(optimizer, "param_groups");
        if (tx_py_float(common, &t) || tx_py_float(tx_py_get(tx_py_item(groups, 0), "step"), &t)) return (int64_t)t;
    }
    return otherwise;
}

/* Whose buffers there are: all of an optimizer's, of the words. */
static enum tx_optimizer_kind find_optimizer(const torch_dist *d)
{
    enum tx_optimizer_kind found = (enum tx_optimizer_kind)0;
    const tx_optim_type *o;
    int most = 0;
    for (int kind = 1; (o = tx_optim_type_at(kind - 1)); kind++) {
        int n = 0;
        if (!(tx_optimizer_traits((enum tx_optimizer_kind)kind) & TX_OPTIMIZER_MEGATRON)) continue;
        for (int k = 0; k < o->keeps->n; k++) {
            char key[KEY_CAP];
            snprintf(key, sizeof key, "optimizer.state.%s.embedding.word_embeddings.weight", o->keeps->state[k].name);
            n += find(d, key) != NULL;
        }
        if (n == o->keeps->n && n > most) found = (enum tx_optimizer_kind)kind, most = n;
    }
    return found;
}

static void say_left_out(const torch_dist *d, const tx_source *src)
{
    for (size_t i = 0; i < d->n && !src->optimizer; i++) {
        if (strncmp(d->tensor[i].key, "optimizer", 9) != 0) continue;
        if (tx_comm_rank(src->group) == 0)
            tx_warn("%s: its optimizer's state is not in the parameters' shapes (\"%.100s\") and is not read; Core "
                    "writes it so "
                    "with --dist-ckpt-optim-fully-reshardable",
                    src->path, d->tensor[i].key);
        return;
    }
}

static tx_status open_torch_dist(tx_source *src)
{
    torch_dist *d;
    TX_TRY(tx_alloc(&d, 1, sizeof *d, "a checkpoint"));
    src->impl = d;
    d->checked = !src->unverified;
    TX_TRY(tx__follow_iteration(src, TX_CKPT_TORCH_DIST));
    TX_TRY(read_common(d, src));
    TX_TRY(read_index(d, src));
    const tx_py *root = tx_pt_root(d->common);
    tx__args_to_state(root, &src->state);
    src->state.optim_step = optim_step_of(root, src->state.iteration);
    src->vocab_size = tx__vocabulary_of(root);
    tx__upstream_parts(src, find_optimizer(d));
    say_left_out(d, src);
    return tx__run_of(tx_py_get(root, "opt_param_scheduler"), d->args, tx_py_at(root, "optimizer.grad_scaler"),
                      &src->run);
}

static void close_torch_dist(tx_source *src)
{
    torch_dist *d = src->impl;
    if (!d) return;
    for (size_t i = 0; i < d->n; i++) tx_free(d->tensor[i].chunk);
    tx_free(d->tensor);
    tx_hash_free(&d->by_key);
    tx_pt_close(d->common);
    tx_pt_close(d->index);
    tx_free(d);
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    const torch_dist *d = src->impl;
    return tx__args_to_options(d->args, "GPT", all, src->path, out);
}

/* ---- does it fit the model? ---- */

static tx_status check_param(const tx_source *src, const tx_param *p, int part)
{
    const torch_dist *d = src->impl;
    int64_t layer;
    const tensor *t = find_part(src, part, p->name, &layer);
    if (!t)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds no %s of %s", src->path, part ? src->part[part] : "weights", p->name);
    const int64_t *dim = t->dim + (layer >= 0), rows = dim[0], cols = p->n_dims == 2 ? dim[1] : 1;
    bool fits = t->n_dims == p->n_dims + (layer >= 0) && (layer < 0 || t->dim[0] == d->n_layers) &&
                (rows == p->whole[0] || tx__is_vocabulary(p->name)) && cols == (p->n_dims == 2 ? p->whole[1] : 1);
    if (!fits)
        return TX_FAIL(TX_ERR_SHAPE,
                       "%s: %s is [%" PRId64 ",%" PRId64 "] there, this model has [%" PRId64 ",%" PRId64 "]", src->path,
                       t->key, rows, cols, p->whole[0], p->n_dims == 2 ? p->whole[1] : 1);
    for (size_t k = 0; k < t->n; k++)
        if (!t->chunk[k].file)
            return TX_FAIL(TX_ERR_FORMAT, "%s/.metadata: no file holds a box of %s", src->path, t->key);
    return TX_OK;
}

/* Whether a parameter of the model comes from the tensor; a rank of a pipeline has not all of them. */
static bool is_used(const tx_source *src, const tx_model *m, const tensor *t)
{
    int64_t layer;
    if (strncmp(t->key, "decoder.layers.", 15) != 0)
        return !strncmp(t->key, "embedding.", 10) || !strncmp(t->key, "output_layer.", 13) ||
               !strncmp(t->key, "decoder.final_layernorm.", 24);
    for (int i = 0; i < m->params.n; i++)
        if (find_param(src->impl, "", m->params.param[i].name, &layer) == t) return true;
    return t->key[15] >= '0' && t->key[15] <= '9'; /* another stage's layer */
}

static tx_status check_all(const tx_source *src, const tx_model *m)
{
    const torch_dist *d = src->impl;
    for (int i = 0; i < m->params.n; i++)
        for (int part = 0; part < src->n_parts; part++) TX_TRY(check_param(src, &m->params.param[i], part));
    for (size_t i = 0; i < d->n; i++) {
        const char *key = d->tensor[i].key;
        if (!strncmp(key, "optimizer", 9) || strstr(key, "_extra_state") || !strncmp(key, "rng_state", 9)) continue;
        if (!is_used(src, m, &d->tensor[i]))
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: holds %s, which a model with its options does not have", src->path,
                           key);
    }
    return TX_OK;
}

static tx_status check(tx_source *src, const tx_model *m)
{
    return tx_comm_agree(src->group, check_all(src, m));
}

/* ---- reading ---- */

typedef struct target {
    const tensor *t;
    int64_t layer, rows, width; /* rows: no more are wanted */
    float *whole;
} target;

static tx_status check_box(const tx_pt *f, const tensor *t, const chunk *c, const tx_pt_tensor **box)
{
    *box = tx_py_tensor(tx_pt_root(f));
    bool same = *box && (*box)->n_dims == t->n_dims;
    for (int i = 0; i < t->n_dims && same; i++) same = (*box)->dim[i] == c->size[i];
    if (same) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: bytes from %" PRIu64 " on hold no tensor with the shape of the box of %s",
                   tx_pt_path(f), c->at, t->key);
}

/* Rows of one layer of the box. */
static tx_status take_box(const tx_pt *f, const chunk *c, const target *to)
{
    const tx_pt_tensor *box;
    const int axis = to->layer >= 0;
    const bool matrix = to->t->n_dims > axis + 1;
    TX_TRY(check_box(f, to->t, c, &box));
    int64_t cols = matrix ? c->size[axis + 1] : 1, column = matrix ? c->offset[axis + 1] : 0;
    int64_t first = c->offset[axis], n = c->size[axis];
    int64_t at = axis ? (to->layer - c->offset[0]) * n * cols : 0;
    if (first + n > to->rows) n = to->rows > first ? to->rows - first : 0;
    if (cols == to->width) return n ? tx_pt_read_f32(f, box, at, n * cols, to->whole + first * to->width) : TX_OK;
    for (int64_t r = 0; r < n; r++)
        TX_TRY(tx_pt_read_f32(f, box, at + r * cols, cols, to->whole + (first + r) * to->width + column));
    return TX_OK;
}

static tx_status read_box(const tx_source *src, const chunk *c, const target *to)
{
    const torch_dist *d = src->impl;
    char path[PATH_CAP];
    tx_pt *f;
    if (to->layer >= 0 && (to->layer < c->offset[0] || to->layer >= c->offset[0] + c->size[0])) return TX_OK;
    TX_TRY(tx_path_join(path, sizeof path, src->path, c->file));
    TX_TRY(tx_pt_open_part(&f, path, c->at, c->bytes, d->checked));
    tx_status st = take_box(f, c, to);
    tx_pt_close(f);
    return st;
}

static tx_status read(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole)
{
    (void)m;
    target to = { .width = p->n_dims == 2 ? p->whole[1] : 1, .whole = whole };
    to.t = find_part(src, part, p->name, &to.layer);
    TX_ASSERT(to.t); /* check() has found it */
    int64_t there = to.t->dim[to.layer >= 0];
    to.rows = there < p->whole_logical ? there : p->whole_logical;
    memset(whole + to.rows * to.width, 0, (size_t)((p->whole[0] - to.rows) * to.width) * sizeof *whole);
    for (size_t k = 0; k < to.t->n; k++) {
        tx_status st = read_box(src, &to.t->chunk[k], &to);
        if (st) return tx_fail_prefix(st, "%s of %s", part ? src->part[part] : "weights", p->name);
    }
    return TX_OK;
}

static unsigned change(const tx_source *src, const tx_model *m, const tx_param *p)
{
    int64_t layer;
    const tensor *t = find_part(src, 0, p->name, &layer);
    (void)m;
    if (!t) return TX_CHANGE_NONE;
    int64_t rows = t->dim[layer >= 0];
    return (layer >= 0 ? TX_CHANGE_SPLIT : 0) | (rows > p->whole_logical ? TX_CHANGE_CUT : 0) |
           (rows < p->whole_logical ? TX_CHANGE_PADDED : 0);
}

static tx_status verify(const tx_source *src, uint64_t *bytes, size_t *n_files)
{
    const torch_dist *d = src->impl;
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->tensor[i].n; k++) {
            const chunk *c = &d->tensor[i].chunk[k];
            char path[PATH_CAP];
            tx_pt *f;
            if (!c->file) continue;
            TX_TRY(tx_path_join(path, sizeof path, src->path, c->file));
            TX_TRY(tx_pt_open_part(&f, path, c->at, c->bytes, true));
            uint64_t before = *bytes;
            tx_status st = tx_pt_verify(f, bytes);
            tx_pt_close(f);
            TX_TRY(st);
            *n_files += *bytes > before;
        }
    return TX_OK;
}

const tx_source_type tx_source_torch_dist = {
    .format = TX_FORMAT_TORCH_DIST,
    .title = "distributed checkpoint of Megatron Core",
    .resumes = true,
    .open = open_torch_dist,
    .close = close_torch_dist,
    .options = options,
    .check = check,
    .read = read,
    .change = change,
    .verify = verify,
};
