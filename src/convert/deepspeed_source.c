/* deepspeed_source.c - a folder that DeepSpeed wrote for Megatron-DeepSpeed, as a source.
 *
 *      DIR/latest                                              "global_step4"
 *      DIR/global_step4/mp_rank_01_model_states.pt             'args' and the run's state; 'param_shapes'; without a
 *                                                              pipeline the weights in 'module'. With ZeRO-3
 *                                                              zero_pp_rank_0_mp_rank_01_model_states.pt
 *                      layer_03-model_01-model_states.pt       a pipeline's weights: layer 3, tensor rank 1
 *                      [bf16_]zero_pp_rank_2_mp_rank_01_optim_states.pt    data rank 2's part of masters and moments
 *                      layer_0_expert_5_mp_rank_01_model_states.pt         expert 5 of the first layer that has some
 *                      expp_rank_1_mp_rank_01_optim_states.pt              without ZeRO: the optimizer of the ranks
 * that have the second part of the experts
 *
 *  A model-parallel rank is stage * tensor ranks + tensor rank. With ZeRO 1 and 2 the parameters of a group lie one
 * after the other, in the order of param_shapes, and data ranks have even parts of that; with ZeRO-3 every parameter is
 * divided by itself, into parts of ceil(n / ranks) elements. Experts are in groups of their own, which fewer ranks
 * divide; there their numbers count from a rank's first one on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "convert/shards.h"
#include "convert/upstream.h"
#include "convert/upstream_optim.h"

enum { PATH_CAP = 4096 };

typedef struct deepspeed {
    tx__shards s;      /* first: shards.h */
    const tx_py *root; /* of the first rank's states */
    const tx_py *scaler;
    tx_names names;
    int n_mp, n_dp;
    bool pipeline, stage_3, optim; /* optim: in files of its own */
    bool inside;                   /* the optimizer's state is in the model's files */
    int64_t first_layer;           /* a pipeline's number of the first transformer layer */
    int64_t optim_step;
    tx__torch_state has; /* the optimizer */
    bool experts;        /* in files of their own */
    int n_ep;            /* ranks that share a layer's experts */
    int64_t *n_experts;  /* [n_layers]; owned */
} deepspeed;

/* ---- which folder and which files ---- */

/* What an expert's file is called. */
typedef struct expert_name {
    int layer, expert, mp; /* layer: of those with experts; -1: early files have an expert's of all */
} expert_name;

static bool read_expert_name(const char *name, expert_name *out)
{
    int end = 0;
    *out = (expert_name){ .layer = -1 };
    if (sscanf(name, "layer_%d_expert_%d_mp_rank_%d_model_states.pt%n", &out->layer, &out->expert, &out->mp, &end) ==
            3 &&
        end)
        return true;
    return sscanf(name, "expert_%d_mp_rank_%d_model_states.pt%n", &out->expert, &out->mp, &end) == 2 && end;
}

/* What the names in the folder tell. */
static tx_status read_names(deepspeed *d, const tx_source *src)
{
    TX_TRY(tx_dir_list(src->path, &d->names));
    for (size_t i = 0; i < d->names.n; i++) {
        const char *name = d->names.name[i];
        int mp, dp, layer, tp, end = 0;
        if (!strncmp(name, "bf16_", 5)) name += 5;
        if (sscanf(name, "mp_rank_%d_model_states.pt%n", &mp, &end) == 1 && end) {
            if (mp >= d->n_mp) d->n_mp = mp + 1;
        } else if (end = 0, sscanf(name, "zero_pp_rank_%d_mp_rank_%d_model_states.pt%n", &dp, &mp, &end) == 2 && end) {
            d->stage_3 = true;
            if (mp >= d->n_mp) d->n_mp = mp + 1;
        } else if (end = 0, sscanf(name, "zero_pp_rank_%d_mp_rank_%d_optim_states.pt%n", &dp, &mp, &end) == 2 && end) {
            d->optim = true;
            if (dp >= d->n_dp) d->n_dp = dp + 1;
        } else if (end = 0, sscanf(name, "layer_%d-model_%d-model_states.pt%n", &layer, &tp, &end) == 2 && end) {
            d->pipeline = true;
            if (tp >= d->s.n_tp) d->s.n_tp = tp + 1;
        } else {
            expert_name of;
            d->experts = read_expert_name(name, &of) || d->experts;
        }
    }
    for (size_t i = 0; i < d->names.n && !d->n_mp; i++) /* results of conversions, side by side */
        if (!strncmp(d->names.name[i], "global_step", 11))
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: has no file `latest`; name the folder in it that is meant, such as %s/%s", src->path,
                           src->path, d->names.name[i]);
    if (!d->n_mp)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: holds no mp_rank_*_model_states.pt; give the folder that has them, or the one "
                       "above with its file `latest`",
                       src->path);
    if (!d->pipeline) d->s.n_tp = d->n_mp;
    if (d->n_mp % d->s.n_tp)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %d model-parallel ranks are not a multiple of %d tensor-parallel ones",
                       src->path, d->n_mp, d->s.n_tp);
    return TX_OK;
}

/* File of that name in the step's folder, with or without the bf16_ in front. */
static tx_status open_file(deepspeed *d, const tx_source *src, const char *name, const tx_pt **out)
{
    char path[PATH_CAP], other[128];
    TX_TRY(tx_path_join(path, sizeof path, src->path, name));
    if (!tx_path_exists(path)) {
        snprintf(other, sizeof other, "bf16_%s", name);
        TX_TRY(tx_path_join(path, sizeof path, src->path, other));
        if (!tx_path_exists(path))
            return TX_FAIL(TX_ERR_NOTFOUND,
                           "%s/%s: is missing; a checkpoint of %d model- and %d data-parallel ranks has it", src->path,
                           name, d->n_mp, d->n_dp);
    }
    return tx__shards_open(&d->s, path, out);
}

/* ---- a group's numbers, flat ---- */

/* Runs of one buffer, of all data ranks of a model-parallel rank. */
typedef struct runs {
    tx__segment *run;
    size_t n, cap;
} runs;

static tx_status add_run(runs *r, const tx_pt *file, const tx_py *v, int64_t n)
{
    const tx_pt_tensor *t = tx_py_tensor(v);
    if (!t) return TX_FAIL(TX_ERR_FORMAT, "%s: a partition of the optimizer's state is missing", tx_pt_path(file));
    if (r->n == r->cap) {
        size_t cap = 2 * r->cap + 16;
        TX_TRY(tx_realloc(&r->run, cap, sizeof *r->run, "a list of partitions"));
        r->cap = cap;
    }
    int64_t have = tx_pt_numel(t);
    r->run[r->n++] = (tx__segment){ file, t, 0, n >= 0 && n < have ? n : have };
    return TX_OK;
}

/* What torch's optimizer had for its state_dict(). */
static const tx_py *torch_state_in(const tx_py *optim)
{
    const tx_py *base = tx_py_get(optim, "base_optimizer_state");
    return base ? base : tx_py_get(optim, "optimizer_state_dict");
}

/* Where a file's optimizer has group g of a buffer: {state: {g: {exp_avg}}} and a list of masters. */
static const tx_py *group_of(const deepspeed *d, const tx_py *optim, int buffer, size_t g)
{
    static const char *const masters[] = { "single_partition_of_fp32_groups", "fp32_flat_groups", "fp32_groups_flat" };
    for (size_t i = 0; !buffer && i < sizeof masters / sizeof *masters; i++)
        if (tx_py_get(optim, masters[i])) return tx_py_item(tx_py_get(optim, masters[i]), g);
    if (!buffer) return NULL;
    const tx_py *state = tx_py_get(torch_state_in(optim), "state");
    return tx_py_get(tx_py_get_int(state, (int64_t)g), d->has.name[buffer - 1]);
}

static int64_t step_of(const tx_py *optim)
{
    const tx_py *o = torch_state_in(optim), *step = tx_py_get(tx_py_get_int(tx_py_get(o, "state"), 0), "step");
    double f;
    if (!step) step = tx_py_get(tx_py_item(tx_py_get(o, "param_groups"), 0), "step");
    return tx_py_float(step, &f) ? (int64_t)f : 0;
}

/* ---- parameters of a rank ---- */

static tx__name_kind ours_of(deepspeed *d, const char *theirs, char ours[TX_PARAM_NAME_MAX])
{
    bool split;
    tx__name_kind kind = d->pipeline ? tx__pipeline_name(theirs, d->first_layer, d->s.n_layers, ours, &split)
                                     : tx__megatron_name(theirs, 0, ours, &split);
    if (kind == TX__NAME_OURS) d->s.split_positions = d->s.split_positions || split;
    return kind;
}

/* A rank's number of an expert becomes the layer's. */
static tx_status count_on(const deepspeed *d, const char *path, int ep, char ours[TX_PARAM_NAME_MAX])
{
    int64_t layer, expert;
    if (!tx__expert_of(ours, &layer, &expert)) return TX_OK;
    int64_t each = layer < d->s.n_layers && d->n_experts ? d->n_experts[layer] / d->n_ep : 0;
    if (expert >= each)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: holds %s, where the folder's files of experts make %" PRId64
                       " a rank: some of layer_*_expert_*_model_states.pt are missing",
                       path, ours, each);
    tx__set_expert(ours, ep * each + expert);
    return TX_OK;
}

/* A row of param_shapes. */
typedef struct shape {
    tx__name_kind kind;
    char ours[TX_PARAM_NAME_MAX]; /* its name here */
    int n_dims;
    int64_t dim[2], numel;
} shape;

static tx_status read_shape(deepspeed *d, const char *path, const tx_py *name, const tx_py *size, shape *out)
{
    const char *theirs = tx_py_str(name);
    *out = (shape){ .n_dims = (int)tx_py_len(size), .dim = { 1, 1 }, .numel = 1 };
    bool good = theirs && out->n_dims >= 1 && out->n_dims <= 2;
    for (int i = 0; good && i < out->n_dims; i++)
        good = tx_py_int(tx_py_item(size, (size_t)i), &out->dim[i]) && out->dim[i] > 0 &&
               !__builtin_mul_overflow(out->numel, out->dim[i], &out->numel);
    if (!good) return TX_FAIL(TX_ERR_FORMAT, "%s: param_shapes has a shape that no parameter has", path);
    out->kind = ours_of(d, theirs, out->ours);
    if (out->kind == TX__NAME_ELSE)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: holds \"%s\", which is no parameter of a GPT or a BERT", path, theirs);
    return TX_OK;
}

/* ZeRO 1 and 2: what follows `at` in the group's flat numbers. */
static tx_status add_even(deepspeed *d, const runs *r, int64_t at, int64_t n)
{
    return tx__shards_add_flat(&d->s, &(tx__segments){ r->run, r->n }, at, n);
}

/* ZeRO 3: a part of each rank's, whose runs are r[0 ...]; `at` counts in each of them. */
static tx_status add_divided(deepspeed *d, const runs *r, int64_t at, int64_t n)
{
    int64_t each = (n + d->n_dp - 1) / d->n_dp;
    for (int dp = 0; dp < d->n_dp; dp++) {
        int64_t left = n - dp * each;
        if (left > 0)
            TX_TRY(tx__shards_add_flat(&d->s, &(tx__segments){ r[dp].run, r[dp].n }, at, left < each ? left : each));
    }
    return TX_OK;
}

/* A model-parallel rank's files: its states, and of each data rank the optimizer's. */
typedef struct rank_files {
    const tx_pt *states;
    const tx_pt **file;  /* [n_dp] */
    const tx_py **optim; /* [n_dp], in these */
    int tp;              /* what its shards are of */
    int ep;              /* of a group of experts: which part of them */
} rank_files;

static const tx_py *shapes_of(const rank_files *f)
{
    return tx_py_get(tx_pt_root(f->states), "param_shapes");
}

/* Elements after each parameter of group g, with parameter_alignment; or NULL. (param_slice_mappings would tell as
 * well, but is wrong with round_robin_gradients.) */
static const tx_py *gaps_of(const deepspeed *d, const rank_files *f, size_t g)
{
    return d->stage_3 ? NULL : tx_py_item(tx_py_get(f->optim[0], "param_alignment_paddings"), g);
}

/* All parameters of group g, whose order in param_shapes is that of memory, also with round_robin_gradients. *at: where
 * the next one begins in the runs. */
static tx_status add_group(deepspeed *d, const rank_files *f, size_t g, int buffer, const runs *r, int64_t *at)
{
    const tx_py *shapes = tx_py_item(shapes_of(f), g), *gaps = gaps_of(d, f, g);
    const char *path = tx_pt_path(f->states);
    if (!shapes || shapes->kind != TX_PY_DICT)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds no param_shapes; it was not written with ZeRO", path);
    for (size_t i = 0; i < shapes->as.dict.n; i++) {
        shape one;
        bool added = false;
        TX_TRY(read_shape(d, path, shapes->as.dict.key[i], shapes->as.dict.value[i], &one));
        TX_TRY(count_on(d, path, f->ep, one.ours));
        const tx__shard_key key = { one.ours, buffer, f->tp };
        if (one.kind == TX__NAME_OURS) TX_TRY(tx__shards_add(&d->s, &key, one.n_dims, one.dim, &added));
        int64_t gap = 0;
        if (tx_py_int(tx_py_item(gaps, i), &gap) && gap < 0)
            return TX_FAIL(TX_ERR_FORMAT, "%s: param_alignment_paddings holds a negative number", path);
        if (added) TX_TRY(d->stage_3 ? add_divided(d, r, *at, one.numel) : add_even(d, r, *at, one.numel));
        *at += d->stage_3 ? (one.numel + d->n_dp - 1) / d->n_dp : one.numel + gap;
    }
    return TX_OK;
}

static void free_runs(runs *r, int n)
{
    for (int i = 0; i < n; i++) tx_free(r[i].run);
}

static tx_status add_even_group(deepspeed *d, const rank_files *f, size_t g, int buffer)
{
    runs r = { 0 };
    int64_t at = 0;
    tx_status st = TX_OK;
    for (int dp = 0; dp < d->n_dp && !st; dp++) st = add_run(&r, f->file[dp], group_of(d, f->optim[dp], buffer, g), -1);
    if (!st) st = add_group(d, f, g, buffer, &r, &at);
    free_runs(&r, 1);
    return st;
}

/* Whether group g is of experts: what its first parameter is. */
static bool is_of_experts(deepspeed *d, const rank_files *f, size_t g)
{
    const tx_py *shapes = tx_py_item(shapes_of(f), g);
    char ours[TX_PARAM_NAME_MAX];
    int64_t layer, expert;
    if (!d->experts || !shapes || shapes->kind != TX_PY_DICT || !shapes->as.dict.n) return false;
    const char *theirs = tx_py_str(shapes->as.dict.key[0]);
    return theirs && ours_of(d, theirs, ours) == TX__NAME_OURS && tx__expert_of(ours, &layer, &expert);
}

static tx_status add_even_groups(deepspeed *d, const rank_files *f, int buffer)
{
    for (size_t g = 0; g < tx_py_len(shapes_of(f)); g++)
        if (!is_of_experts(d, f, g)) TX_TRY(add_even_group(d, f, g, buffer));
    return TX_OK;
}

static tx_status add_divided_groups(deepspeed *d, const rank_files *f, int buffer)
{
    runs *r;
    TX_TRY(tx_alloc(&r, (size_t)d->n_dp, sizeof *r, "a list of partitions"));
    tx_status st = TX_OK;
    for (int dp = 0; dp < d->n_dp && !st; dp++) {
        size_t n = tx_py_len(tx_py_get(f->optim[dp], "fp32_flat_groups"));
        for (size_t g = 0; g < n && !st; g++)
            st = add_run(&r[dp], f->file[dp], group_of(d, f->optim[dp], buffer, g), -1);
    }
    int64_t at = 0;
    for (size_t g = 0; g < tx_py_len(shapes_of(f)) && !st; g++) st = add_group(d, f, g, buffer, r, &at);
    free_runs(r, d->n_dp);
    tx_free(r);
    return st;
}

static tx_status open_optimizer(deepspeed *d, const tx_source *src, const tx_pt *states, int mp, rank_files *f)
{
    *f = (rank_files){ .states = states, .tp = mp % d->s.n_tp };
    TX_TRY(tx_alloc(&f->file, (size_t)d->n_dp, sizeof *f->file, "a list of files"));
    TX_TRY(tx_alloc(&f->optim, (size_t)d->n_dp, sizeof *f->optim, "a list of files"));
    for (int dp = 0; dp < d->n_dp; dp++) {
        char name[96];
        snprintf(name, sizeof name, "zero_pp_rank_%d_mp_rank_%02d_optim_states.pt", dp, mp);
        TX_TRY(open_file(d, src, name, &f->file[dp]));
        f->optim[dp] = tx_py_get(tx_pt_root(f->file[dp]), "optimizer_state_dict");
    }
    if (!d->scaler) d->scaler = tx_py_get(f->optim[0], "loss_scaler");
    if (step_of(f->optim[0]) > d->optim_step) d->optim_step = step_of(f->optim[0]);
    return TX_OK;
}

/* Group g of the experts that part `ep` of n_ep ranks has. Ranks that have the same ones follow each other at a
 * distance of n_ep: among all of the stage, or where tensor ranks split experts among the data ranks of tensor rank
 * `tp`.   @all [n_tp] */
static tx_status add_expert_group(deepspeed *d, const rank_files *all, int tp, int ep, size_t g, int buffer)
{
    const bool whole = d->s.whole_experts;
    const int n_tp = whole ? d->s.n_tp : 1;
    rank_files f = all[tp];
    runs r = { 0 };
    int64_t at = 0;
    tx_status st = TX_OK;
    f.ep = ep;
    for (int q = ep; q < n_tp * d->n_dp && !st; q += d->n_ep) {
        const rank_files *of = &all[whole ? q % n_tp : tp];
        st = add_run(&r, of->file[q / n_tp], group_of(d, of->optim[q / n_tp], buffer, g), -1);
    }
    if (!st) st = add_group(d, &f, g, buffer, &r, &at);
    free_runs(&r, 1);
    return st;
}

static tx_status add_expert_groups(deepspeed *d, const rank_files *all, int buffer)
{
    for (int tp = 0; tp < (d->s.whole_experts ? 1 : d->s.n_tp); tp++)
        for (int ep = 0; ep < d->n_ep; ep++)
            for (size_t g = 0; g < tx_py_len(shapes_of(&all[tp])); g++)
                if (is_of_experts(d, &all[tp], g)) TX_TRY(add_expert_group(d, all, tp, ep, g, buffer));
    return TX_OK;
}

/* Masters and moments of all model-parallel ranks, from their data ranks' files. */
static tx_status add_optimizers(deepspeed *d, const tx_source *src, const tx_pt *const *states)
{
    rank_files *all;
    tx_status st;
    TX_TRY(tx_alloc(&all, (size_t)d->n_mp, sizeof *all, "a list of files"));
    for (int mp = 0; mp < d->n_mp; mp++) TX_GOTO(open_optimizer(d, src, states[mp], mp, &all[mp]));
    if (d->n_mp) d->has = tx__torch_state_of(torch_state_in(all[0].optim[0]));
    for (int b = 0; b <= d->has.n; b++) {
        for (int mp = 0; mp < d->n_mp; mp++)
            TX_GOTO((d->stage_3 ? add_divided_groups : add_even_groups)(d, &all[mp], b));
        if (d->experts) TX_GOTO(add_expert_groups(d, all, b));
    }
    st = TX_OK;
out:
    for (int mp = 0; mp < d->n_mp; mp++) {
        tx_free(all[mp].file);
        tx_free(all[mp].optim);
    }
    tx_free(all);
    return st;
}

/* A tx__tensor_fn: weights as the model computed with them, of which there may be no others. */
typedef struct module {
    deepspeed *d;
    const tx_pt *file;
    int tp, layer; /* of a pipeline's file, else -1 */
    tx__rows rows; /* without ZeRO: in the order of the optimizer */
} module;

static tx_status add_weight(void *user, const char *name, const tx_pt_tensor *t)
{
    module *m = user;
    char theirs[600], ours[TX_PARAM_NAME_MAX];
    if (m->layer >= 0)
        snprintf(theirs, sizeof theirs, "%d.%s", m->layer, name);
    else
        snprintf(theirs, sizeof theirs, "%s", name);
    tx__name_kind kind = ours_of(m->d, theirs, ours);
    if (kind == TX__NAME_ELSE)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: holds \"%s\", which is no parameter of a GPT or a BERT",
                       tx_pt_path(m->file), name);
    int64_t in, expert;
    if (kind == TX__NAME_COPY || !tx_pt_numel(t)) return TX_OK;           /* ZeRO-3 leaves empty ones there */
    if (m->d->experts && tx__expert_of(ours, &in, &expert)) return TX_OK; /* there under a rank's number */
    tx__row row = { .tensor = t };
    snprintf(row.name, sizeof row.name, "%s", ours);
    if (m->d->inside) return tx__rows_add(&m->rows, &row);
    return tx__shards_add_tensor(&m->d->s, &(tx__shard_key){ ours, 0, m->tp }, m->file, t);
}

/* Without ZeRO: the optimizer's state lies in the model's file, of fp16 with masters. */
static tx_status add_masters(module *m)
{
    deepspeed *d = m->d;
    const tx_py *optimizer = tx_py_get(tx_pt_root(m->file), "optimizer");
    const tx_py *inner = tx_py_get(optimizer, "optimizer_state_dict"), *masters = tx_py_get(optimizer, "fp32_groups");
    if (!masters) masters = tx_py_get(optimizer, "fp32_groups_flat");
    if (!d->scaler) d->scaler = optimizer;
    if (!d->has.kind) d->has = tx__torch_state_of(inner ? inner : optimizer);
    const tx__optim_file f = { m->file, &m->rows, m->tp, &d->has };
    return tx__optim_add(&d->s, &f, inner ? inner : optimizer, masters, &d->optim_step);
}

static tx_status add_rows(const module *m)
{
    for (size_t i = 0; i < m->rows.n; i++) {
        const tx__shard_key key = { m->rows.row[i].name, 0, m->tp };
        TX_TRY(tx__shards_add_tensor(&m->d->s, &key, m->file, m->rows.row[i].tensor));
    }
    return TX_OK;
}

/* ---- experts ---- */

/* Their files, each of one expert: `rows` has its parameters, and `of` says whose they are. */
typedef struct expert_files {
    struct expert_file {
        expert_name of;
        module m;
    } * file; /* owned; by layer, expert and rank */
    size_t n;
} expert_files;

static int by_expert(const void *a, const void *b)
{
    const expert_name *x = &((const struct expert_file *)a)->of, *y = &((const struct expert_file *)b)->of;
    if (x->layer != y->layer) return x->layer - y->layer;
    return x->expert != y->expert ? x->expert - y->expert : x->mp - y->mp;
}

/* A tx__tensor_fn of a module that has one expert's. */
static tx_status list_expert(void *user, const char *name, const tx_pt_tensor *t)
{
    module *m = user;
    deepspeed *d = m->d;
    int64_t layer, expert;
    tx__row row = { .tensor = t, .expert = true, .whole = d->s.whole_experts };
    if (ours_of(d, name, row.name) != TX__NAME_OURS || !tx__expert_of(row.name, &layer, &expert))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: holds \"%s\", which is no parameter of an expert", tx_pt_path(m->file),
                       name);
    if (layer >= d->s.n_layers)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds \"%s\", where the model has %" PRId64 " layers", tx_pt_path(m->file),
                       name, d->s.n_layers);
    if (expert >= d->n_experts[layer]) d->n_experts[layer] = expert + 1;
    return tx__rows_add(&m->rows, &row);
}

static tx_status open_experts(expert_files *e, deepspeed *d, const tx_source *src)
{
    TX_TRY(tx_alloc(&e->file, d->names.n + 1, sizeof *e->file, "a list of experts"));
    TX_TRY(tx_alloc(&d->n_experts, (size_t)d->s.n_layers + 1, sizeof *d->n_experts, "a list of experts"));
    for (size_t i = 0; i < d->names.n; i++) {
        struct expert_file *f = &e->file[e->n];
        if (!read_expert_name(d->names.name[i], &f->of)) continue;
        f->m = (module){ .d = d, .tp = d->s.whole_experts ? 0 : f->of.mp % d->s.n_tp, .layer = -1 };
        e->n++;
        TX_TRY(open_file(d, src, d->names.name[i], &f->m.file));
        TX_TRY(tx__each_tensor(tx_pt_root(f->m.file), list_expert, &f->m));
    }
    qsort(e->file, e->n, sizeof *e->file, by_expert);
    for (int64_t i = 0; i < d->s.n_layers; i++)
        if (d->n_experts[i] % d->n_ep)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: layer %" PRId64 " has %" PRId64
                           " experts, which %d expert-parallel ranks do not divide",
                           src->path, i + 1, d->n_experts[i], d->n_ep);
    return TX_OK;
}

/* How its args divide experts over ranks. */
static tx_status read_expert_layout(deepspeed *d, const tx_source *src)
{
    int64_t ep = 1, split = 0;
    const tx_py *args = tx_py_get(d->root, "args");
    if (!d->experts && tx__args_have_experts(args))
        return TX_FAIL(TX_ERR_FORMAT, "%s: its model has experts, and there is no layer_*_expert_*_model_states.pt",
                       src->path);
    if (!d->experts) return TX_OK;
    tx_py_int(tx_py_get(args, "moe_expert_parallel_size"), &ep);
    tx_py_int(tx_py_get(args, "enable_expert_tensor_parallelism"), &split);
    d->s.whole_experts = !split;
    d->n_ep = ep > 0 && ep <= INT32_MAX ? (int)ep : 1;
    if (d->pipeline || d->stage_3)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: a model with experts %s cannot be read", src->path,
                       d->pipeline ? "in a pipeline" : "of ZeRO-3");
    if (d->optim && (d->n_dp * (split ? 1 : d->s.n_tp)) % d->n_ep)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: %d data- and %d tensor-parallel ranks are not a multiple of %d "
                       "expert-parallel ones",
                       src->path, d->n_dp, d->s.n_tp, d->n_ep);
    return TX_OK;
}

/* Those of a layer that part `ep` of the ranks has, in their order, as tensor rank m->tp has them. */
static tx_status list_experts(module *m, const expert_files *e, int64_t layer, int ep)
{
    const deepspeed *d = m->d;
    const int64_t each = d->n_experts[layer] / d->n_ep;
    const struct expert_file *last = NULL;
    for (size_t i = 0; i < e->n; i++) {
        const struct expert_file *f = &e->file[i];
        int64_t in, expert;
        if (f->of.expert / (each ? each : 1) != ep || (!d->s.whole_experts && f->m.tp != m->tp)) continue;
        if (last && last->of.layer == f->of.layer && last->of.expert == f->of.expert) continue; /* another rank's */
        last = f;
        for (size_t k = 0; k < f->m.rows.n; k++)
            if (tx__expert_of(f->m.rows.row[k].name, &in, &expert) && in == layer)
                TX_TRY(tx__rows_add(&m->rows, &f->m.rows.row[k]));
    }
    return TX_OK;
}

static tx_status add_expert_masters(const module *shared, const expert_files *e, const tx_pt *file, int ep)
{
    module all = { .d = shared->d, .file = file, .tp = shared->tp };
    tx_status st = TX_OK;
    for (size_t i = 0; i < shared->rows.n; i++) {
        const tx__row *row = &shared->rows.row[i];
        int64_t layer;
        int end = 0;
        TX_GOTO(tx__rows_add(&all.rows, row));
        if (sscanf(row->name, "encoder.layers.%" SCNd64 ".mlp.router.weight%n", &layer, &end) == 1 && end)
            TX_GOTO(list_experts(&all, e, layer, ep));
    }
    st = add_masters(&all);
out:
    tx_free(all.rows.row);
    return st;
}

/* Without ZeRO: the optimizer of the parameters of `shared`, and of the experts beside them: a file for each part of
 * these. */
static tx_status add_shared_masters(const module *shared, const expert_files *e, const tx_source *src)
{
    deepspeed *d = shared->d;
    for (size_t i = 0; i < d->names.n; i++) {
        const tx_pt *file;
        int ep, mp, end = 0;
        if (sscanf(d->names.name[i], "expp_rank_%d_mp_rank_%d_optim_states.pt%n", &ep, &mp, &end) != 2 || !end)
            continue;
        if (mp != shared->tp) continue;
        TX_TRY(open_file(d, src, d->names.name[i], &file));
        TX_TRY(add_expert_masters(shared, e, file, ep));
    }
    return TX_OK;
}

static tx_status add_module(deepspeed *d, const tx_source *src, const tx_pt *states, int tp, const expert_files *e)
{
    module m = { .d = d, .file = states, .tp = tp, .layer = -1 };
    tx_status st = tx__each_tensor(tx_py_get(tx_pt_root(states), "module"), add_weight, &m);
    if (!st && d->inside) st = d->experts ? add_shared_masters(&m, e, src) : add_masters(&m);
    if (!st) st = add_rows(&m); /* which are there with d->inside only */
    tx_free(m.rows.row);
    return st;
}

/* ---- a pipeline's layers ---- */

typedef struct layer_files {
    module *m; /* owned; by layer and tensor rank */
    size_t n;
    bool tied;
} layer_files;

static int by_layer(const void *a, const void *b)
{
    const module *x = a, *y = b;
    return x->layer != y->layer ? x->layer - y->layer : x->tp - y->tp;
}

static tx_status open_layers(layer_files *l, deepspeed *d, const tx_source *src)
{
    TX_TRY(tx_alloc(&l->m, d->names.n + 1, sizeof *l->m, "a list of layers"));
    for (size_t i = 0; i < d->names.n; i++) {
        module *m = &l->m[l->n];
        int end = 0;
        *m = (module){ .d = d };
        if (sscanf(d->names.name[i], "layer_%d-model_%d-model_states.pt%n", &m->layer, &m->tp, &end) != 2 || !end)
            continue;
        l->n++;
        TX_TRY(open_file(d, src, d->names.name[i], &m->file));
    }
    qsort(l->m, l->n, sizeof *l->m, by_layer);
    l->tied = true;
    for (size_t i = 0; i < l->n; i++) {
        TX_TRY(tx__each_tensor(tx_pt_root(l->m[i].file), add_weight, &l->m[i]));
        for (size_t k = 0; k < l->m[i].rows.n; k++)
            if (!strcmp(l->m[i].rows.row[k].name, "output_layer.weight")) l->tied = false;
    }
    return TX_OK;
}

/* Without ZeRO: the optimizer of a rank, whose parameters no file lists. They are those of its stage's layers, each
 * stage having as many of the transformer's, and in front of the last one's the copy of a tied embedding. */
static tx_status add_stage(deepspeed *d, const layer_files *l, const tx_pt *states, int mp)
{
    const int n_pp = d->n_mp / d->s.n_tp, last = n_pp - 1, pp = mp / d->s.n_tp;
    const int64_t each = d->s.n_layers / n_pp;
    module all = { .d = d, .file = states, .tp = mp % d->s.n_tp };
    tx_status st = TX_OK;
    for (size_t i = 0; i < l->n; i++) {
        const module *m = &l->m[i];
        int64_t at = m->layer - d->first_layer;
        int stage = at < 0 ? 0 : at >= d->s.n_layers ? last : (int)(at / each);
        bool copy = at < 0 && l->tied && pp == last && last > 0;
        if (m->tp != all.tp || (stage != pp && !copy)) continue;
        for (size_t k = 0; k < m->rows.n; k++) {
            tx__row row = m->rows.row[k];
            row.copy = copy;
            TX_GOTO(tx__rows_add(&all.rows, &row));
        }
    }
    st = add_masters(&all);
out:
    tx_free(all.rows.row);
    return st;
}

/* Masters before weights: what is there already wins. */
static tx_status add_layers(deepspeed *d, const tx_source *src, const tx_pt *const *states)
{
    layer_files l = { 0 };
    tx_status st;
    TX_GOTO(open_layers(&l, d, src));
    for (int mp = 0; mp < d->n_mp && d->inside; mp++) TX_GOTO(add_stage(d, &l, states[mp], mp));
    for (size_t i = 0; i < l.n && d->inside; i++) TX_GOTO(add_rows(&l.m[i]));
out:
    for (size_t i = 0; i < l.n; i++) tx_free(l.m[i].rows.row);
    tx_free(l.m);
    return st;
}

/* ---- the source ---- */

/* The lowest number of a transformer layer: it differs between the family's programs. */
static void find_first_layer(deepspeed *d, const tx_py *const *root)
{
    d->first_layer = INT64_MAX;
    for (int mp = 0; mp < d->n_mp; mp++) {
        const tx_py *shapes = tx_py_get(root[mp], "param_shapes");
        for (size_t g = 0; g < tx_py_len(shapes); g++) {
            const tx_py *group = tx_py_item(shapes, g);
            for (size_t i = 0; group->kind == TX_PY_DICT && i < group->as.dict.n; i++) {
                const char *name = tx_py_str(group->as.dict.key[i]);
                int64_t layer = name ? tx__pipeline_layer(name) : -1;
                if (layer >= 0 && layer < d->first_layer) d->first_layer = layer;
            }
        }
    }
    if (d->first_layer != INT64_MAX) return;
    /* Without ZeRO: of the files' numbers the first is the embedding's, and Megatron-DeepSpeed's layers follow at once.
     */
    for (size_t i = 0; i < d->names.n; i++) {
        int layer, tp;
        if (sscanf(d->names.name[i], "layer_%d-model_%d", &layer, &tp) == 2 && layer > 1 && layer < d->first_layer)
            d->first_layer = layer;
    }
}

/* Of a pipeline: how many layers each has follows from how many there are. */
static bool stages_are_even(const deepspeed *d)
{
    return !d->pipeline || (d->s.n_layers > 0 && d->s.n_layers % (d->n_mp / d->s.n_tp) == 0);
}

/* Whether a file's optimizer has numbers. */
static bool has_state(const tx_py *root)
{
    const tx_py *optimizer = tx_py_get(root, "optimizer"), *inner = tx_py_get(optimizer, "optimizer_state_dict");
    return tx_py_get(inner ? inner : optimizer, "state");
}

/* Whether the first of the optimizer's files, if there is one, has any state. */
static tx_status find_expert_optimizer(deepspeed *d, const tx_source *src)
{
    for (size_t i = 0; i < d->names.n; i++) {
        const tx_pt *file;
        if (strncmp(d->names.name[i], "expp_rank_", 10) != 0) continue;
        TX_TRY(open_file(d, src, d->names.name[i], &file));
        d->inside = has_state(tx_pt_root(file));
        return TX_OK;
    }
    return TX_OK;
}

/* Masters before weights: what is there already wins. */
static tx_status add_with_experts(deepspeed *d, const tx_source *src, const tx_pt *const *states)
{
    expert_files e = { 0 };
    tx_status st;
    TX_GOTO(open_experts(&e, d, src));
    if (d->optim) TX_GOTO(add_optimizers(d, src, states));
    if (!d->optim) TX_GOTO(find_expert_optimizer(d, src));
    for (int mp = 0; mp < d->n_mp; mp++) TX_GOTO(add_module(d, src, states[mp], mp, &e));
    for (size_t i = 0; i < e.n; i++) TX_GOTO(add_rows(&e.file[i].m));
out:
    for (size_t i = 0; i < e.n; i++) tx_free(e.file[i].m.rows.row);
    tx_free(e.file);
    return st;
}

static tx_status add_ranks(deepspeed *d, const tx_source *src, const tx_pt **states, const tx_py **root)
{
    int64_t layers = 0;
    for (int mp = 0; mp < d->n_mp; mp++) {
        char name[96];
        if (d->stage_3)
            snprintf(name, sizeof name, "zero_pp_rank_0_mp_rank_%02d_model_states.pt", mp);
        else
            snprintf(name, sizeof name, "mp_rank_%02d_model_states.pt", mp);
        TX_TRY(open_file(d, src, name, &states[mp]));
        root[mp] = tx_pt_root(states[mp]);
    }
    d->root = root[0];
    tx_py_int(tx_py_at(d->root, "args.num_layers"), &layers);
    d->s.n_layers = layers;
    find_first_layer(d, root);
    TX_TRY(read_expert_layout(d, src));
    if (d->experts) return add_with_experts(d, src, states);
    if (d->optim) TX_TRY(add_optimizers(d, src, states));
    d->inside = !d->optim && has_state(d->root) && stages_are_even(d);
    if (d->pipeline) return add_layers(d, src, states);
    for (int mp = 0; mp < d->n_mp; mp++) TX_TRY(add_module(d, src, states[mp], mp, NULL));
    return TX_OK;
}

static tx_status read_run(deepspeed *d, tx_source *src)
{
    double version = 3;
    tx_py_float(tx_py_get(d->root, "checkpoint_version"), &version);
    d->s.qkv_version = (int)version;
    tx__args_to_state(d->root, &src->state);
    int64_t steps;
    if (!src->state.iteration && tx_py_int(tx_py_get(d->root, "global_steps"), &steps)) src->state.iteration = steps;
    src->state.optim_step = d->optim_step;
    src->n_tp = d->s.n_tp;
    src->n_pp = d->n_mp / d->s.n_tp;
    src->pipeline = d->pipeline;
    src->vocab_size = tx__vocabulary_of(d->root);
    tx__upstream_parts(src, d->has.kind);
    if (src->n_parts == 1 && d->pipeline && tx_py_get(tx_py_get(d->root, "optimizer"), "param_groups"))
        tx_warn_once(
            "%s: the optimizer's state of a pipeline without ZeRO, whose stages have different numbers of layers, "
            "cannot be read, only the weights are",
            src->path);
    return tx__run_of(tx_py_get(d->root, "lr_scheduler"), tx_py_get(d->root, "args"), d->scaler, &src->run);
}

static tx_status open_deepspeed(tx_source *src)
{
    deepspeed *d;
    const tx_pt **states = NULL;
    const tx_py **root = NULL;
    tx_status st;
    TX_TRY(tx_alloc(&d, 1, sizeof *d, "a checkpoint"));
    src->impl = d;
    d->s.unverified = src->unverified;
    TX_TRY(tx__follow_tracker(src, "latest"));
    TX_TRY(read_names(d, src));
    TX_GOTO(tx_alloc(&states, (size_t)d->n_mp, sizeof *states, "a list of files"));
    TX_GOTO(tx_alloc(&root, (size_t)d->n_mp, sizeof *root, "a list of files"));
    TX_GOTO(add_ranks(d, src, states, root));
    TX_GOTO(tx__shards_sort(&d->s, src->path));
    st = read_run(d, src);
out:
    tx_free(states);
    tx_free(root);
    return st;
}

static void close_deepspeed(tx_source *src)
{
    deepspeed *d = src->impl;
    if (!d) return;
    tx__shards_deinit(&d->s);
    tx_names_free(&d->names);
    tx_free(d->n_experts);
    tx_free(d);
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    const deepspeed *d = src->impl;
    return tx__args_to_options(tx_py_get(d->root, "args"), tx__shards_model(&d->s), all, src->path, out);
}

const tx_source_type tx_source_deepspeed = {
    .format = TX_FORMAT_DEEPSPEED,
    .title = "DeepSpeed checkpoint",
    .resumes = true,
    .open = open_deepspeed,
    .close = close_deepspeed,
    .options = options,
    .check = tx__shards_check,
    .read = tx__shards_read,
    .change = tx__shards_change,
    .unchecked = tx__shards_unchecked,
    .verify = tx__shards_verify,
    .set_version = tx__shards_set_version,
};
