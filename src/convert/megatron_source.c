/* megatron_source.c - a folder that Megatron-LM wrote, as a source.
 *
 *      DIR/latest_checkpointed_iteration.txt          "4", or "release"
 *      DIR/iter_0000004/mp_rank_00/                   tensor rank 0, no pipeline; else mp_rank_00_000, stage 0, ...
 *                           model_optim_rng.pt        'model' (or 'model0', 'model1': chunks of a stage), 'optimizer',
 *                                                     'args', 'iteration', 'checkpoint_version'
 *                           distrib_optim.pt          with --use-distributed-optimizer, of which 'optimizer' has
 *                                                     nothing then */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "convert/shards.h"
#include "convert/upstream.h"
#include "convert/upstream_optim.h"

enum { PATH_CAP = 4096 };

typedef struct megatron {
    tx__shards s; /* first: shards.h */
    const tx_py *args;
    int n_pp;
    int64_t optim_step;
    enum tx_optimizer_kind optimizer; /* 0: there is no state */
} megatron;

/* What walks through a rank's model. */
typedef struct walk {
    tx__rows rows;
    int64_t first; /* number of the chunk's first layer */
    int chunk;
    bool split;
    const char *path;
} walk;

/* ---- which folder ---- */

/* How many ranks there are, by the folders' names; *staged: they have a stage's number, too. */
static tx_status count_ranks(const tx_source *src, int *n_tp, int *n_pp, bool *staged)
{
    tx_names names = { 0 };
    int n = 0;
    *n_tp = *n_pp = 0;
    *staged = false;
    TX_TRY(tx_dir_list(src->path, &names));
    for (size_t i = 0; i < names.n; i++) {
        int tp, pp = 0, end = 0;
        int got = sscanf(names.name[i], "mp_rank_%2d_%3d%n", &tp, &pp, &end);
        if (got < 1 || (got == 2 && names.name[i][end]) || (got == 1 && strlen(names.name[i]) != 10)) continue;
        *staged = *staged || got == 2;
        if (tp >= *n_tp) *n_tp = tp + 1;
        if (pp >= *n_pp) *n_pp = pp + 1;
        n++;
    }
    tx_names_free(&names);
    if (n && n == *n_tp * *n_pp) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s: has %d folders mp_rank_*, where %d tensor- and %d pipeline-parallel ranks have %d", src->path,
                   n, *n_tp, *n_pp, *n_tp * *n_pp);
}

/* ---- a rank's file ---- */

/* A tx__tensor_fn. */
static tx_status add_row(void *user, const char *name, const tx_pt_tensor *t)
{
    walk *w = user;
    bool split;
    tx__row row = { .tensor = t, .chunk = w->chunk };
    tx__name_kind kind = tx__megatron_name(name, w->first, row.name, &split);
    if (kind == TX__NAME_ELSE)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: holds \"%s\", which is no parameter of a GPT or a BERT", w->path, name);
    row.copy = kind == TX__NAME_COPY;
    w->split = w->split || split;
    return tx__rows_add(&w->rows, &row);
}

/* The state that lies in the model's file, or, of the distributed optimizer, beside it. */
static tx_status add_optimizer(megatron *g, const tx_pt *file, const char *folder, const tx__rows *r, int tp)
{
    const tx_py *optimizer = tx_py_get(tx_pt_root(file), "optimizer"), *inner = tx_py_get(optimizer, "optimizer");
    const tx_py *masters = tx_py_get(optimizer, "fp32_from_fp16_params");
    char path[PATH_CAP];
    const tx_pt *beside;
    if (!inner) inner = optimizer; /* fp32: torch's own */
    if (!masters) masters = tx_py_get(optimizer, "fp32_from_float16_params");
    if (tx_py_get(inner, "state")) {
        const tx__torch_state has = tx__torch_state_of(inner);
        g->optimizer = has.kind;
        return tx__optim_add(&g->s, &(tx__optim_file){ file, r, tp, &has }, inner, masters, &g->optim_step);
    }
    TX_TRY(tx_path_join(path, sizeof path, folder, "distrib_optim.pt"));
    if (!tx_path_exists(path)) return TX_OK;
    const tx__torch_state has = tx__torch_state_like(g->optimizer = TX_OPTIMIZER_ADAM);
    TX_TRY(tx__shards_open(&g->s, path, &beside));
    tx_py_int(tx_py_get(tx_py_item(tx_py_get(inner, "param_groups"), 0), "step"), &g->optim_step);
    return tx__optim_add_reversed(&g->s, &(tx__optim_file){ beside, r, tp, &has });
}

static int64_t arg(const tx_py *args, const char *key, int64_t otherwise)
{
    int64_t v;
    return tx_py_int(tx_py_get(args, key), &v) ? v : otherwise;
}

/* The tensors of all chunks of a stage, in the order of its optimizer. */
static tx_status list_rows(megatron *g, const tx_pt *file, int pp, walk *w)
{
    const tx_py *root = tx_pt_root(file), *model = tx_py_get(root, "model");
    int64_t layers = g->s.n_layers, chunks = 1;
    char key[32];
    *w = (walk){ .path = tx_pt_path(file), .first = pp * (layers / g->n_pp) };
    if (model) return tx__each_tensor(model, add_row, w);
    while (snprintf(key, sizeof key, "model%lld", (long long)chunks) && tx_py_get(root, key)) chunks++;
    for (int64_t c = 0; c < chunks; c++) {
        snprintf(key, sizeof key, "model%lld", (long long)c);
        if (!tx_py_get(root, key)) return TX_FAIL(TX_ERR_FORMAT, "%s: holds no \"model\"", w->path);
        w->chunk = (int)c;
        w->first = c * (layers / chunks) + pp * (layers / (chunks * g->n_pp));
        TX_TRY(tx__each_tensor(tx_py_get(root, key), add_row, w));
    }
    return TX_OK;
}

static tx_status add_rank(megatron *g, const char *folder, int tp, int pp)
{
    const tx_pt *file;
    char path[PATH_CAP];
    walk w = { .chunk = 0 };
    tx_status st;
    TX_TRY(tx_path_join(path, sizeof path, folder, "model_optim_rng.pt"));
    TX_TRY(tx__shards_open(&g->s, path, &file));
    if (!g->args) g->args = tx_py_get(tx_pt_root(file), "args");
    g->s.n_layers = arg(g->args, "num_layers", 0);
    if (g->s.n_layers < 1 || g->s.n_layers % g->n_pp)
        return TX_FAIL(TX_ERR_FORMAT, "%s: its args have no number of layers that %d stages divide", path, g->n_pp);
    TX_GOTO(list_rows(g, file, pp, &w));
    g->s.split_positions = g->s.split_positions || w.split;
    TX_GOTO(add_optimizer(g, file, folder, &w.rows, tp));
    for (size_t i = 0; i < w.rows.n; i++) { /* after the masters, which win */
        const tx__row *row = &w.rows.row[i];
        const tx__shard_key key = { row->name, 0, tp };
        if (!row->copy) TX_GOTO(tx__shards_add_tensor(&g->s, &key, file, row->tensor));
    }
out:
    tx_free(w.rows.row);
    return st;
}

/* ---- the source ---- */

static tx_status read_version(megatron *g, const tx_source *src)
{
    double v = 0; /* the first versions did not say */
    tx_py_float(tx_py_get(tx_pt_root(g->s.file[0]), "checkpoint_version"), &v);
    if (v != 0 && v != 1 && v != 2 && v != 3)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: checkpoint_version %g is not known (0, 1, 2 and 3 are)", src->path, v);
    g->s.qkv_version = (int)v;
    return TX_OK;
}

static tx_status read_run(megatron *g, tx_source *src)
{
    const tx_py *root = tx_pt_root(g->s.file[0]), *schedule = tx_py_get(root, "opt_param_scheduler");
    if (!schedule) schedule = tx_py_get(root, "lr_scheduler");
    tx__args_to_state(root, &src->state);
    src->state.optim_step =
        g->optim_step ? g->optim_step : src->state.iteration; /* a distributed optimizer's is lost */
    src->vocab_size = tx__vocabulary_of(root);
    tx__upstream_parts(src, g->optimizer);
    return tx__run_of(schedule, g->args, tx_py_at(root, "optimizer.grad_scaler"), &src->run);
}

static tx_status open_megatron(tx_source *src)
{
    megatron *g;
    bool staged;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "a checkpoint"));
    src->impl = g;
    g->s.unverified = src->unverified;
    TX_TRY(tx__follow_iteration(src, TX_CKPT_MEGATRON));
    TX_TRY(count_ranks(src, &g->s.n_tp, &g->n_pp, &staged));
    for (int pp = 0; pp < g->n_pp; pp++)
        for (int tp = 0; tp < g->s.n_tp; tp++) {
            char name[64], path[PATH_CAP];
            int n = snprintf(name, sizeof name, "mp_rank_%02d", tp);
            if (staged) snprintf(name + n, sizeof name - (size_t)n, "_%03d", pp);
            TX_TRY(tx_path_join(path, sizeof path, src->path, name));
            TX_TRY(add_rank(g, path, tp, pp));
        }
    TX_TRY(read_version(g, src));
    TX_TRY(tx__shards_sort(&g->s, src->path));
    return read_run(g, src);
}

static void close_megatron(tx_source *src)
{
    if (src->impl) tx__shards_deinit(src->impl);
    tx_free(src->impl);
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    const megatron *g = src->impl;
    TX_TRY(tx__refuse_experts(g->args, src->path));
    return tx__args_to_options(g->args, tx__shards_model(&g->s), all, src->path, out);
}

const tx_source_type tx_source_megatron = {
    .format = TX_FORMAT_MEGATRON,
    .title = "Megatron checkpoint",
    .resumes = true,
    .open = open_megatron,
    .close = close_megatron,
    .options = options,
    .check = tx__shards_check,
    .read = tx__shards_read,
    .change = tx__shards_change,
    .unchecked = tx__shards_unchecked,
    .verify = tx__shards_verify,
    .set_version = tx__shards_set_version,
};
