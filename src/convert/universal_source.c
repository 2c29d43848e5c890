/* universal_source.c - a universal checkpoint, DeepSpeed's form that knows no ranks, as a source.
 *
 *      DIR/latest_universal                             "global_step4_universal"
 *      DIR/global_step4_universal/mp_rank_00_model_states.pt         'args' and the run's state
 *                                 zero/PARAMETER/fp32.pt             {'param': the whole tensor}, or the tensor
 *                                                exp_avg.pt, exp_avg_sq.pt, step.pt: of Adam
 *                            zero/optimizer_state.pt            'param_groups', the loss scale
 *
 *  Made of ZeRO-3 it has no 'param', no step.pt, tensors of one dimension, and the states' file under another name. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "convert/shards.h"
#include "convert/upstream.h"
#include "convert/upstream_optim.h"

enum { PATH_CAP = 4096 };

typedef struct universal {
    tx__shards s; /* first: shards.h */
    const tx_py *root;
    tx_names names; /* of zero/ */
    int64_t first_layer, optim_step;
    bool pipeline;
} universal;

static tx_status open_in(universal *u, const tx_source *src, const char *a, const char *b, const tx_pt **out)
{
    char path[PATH_CAP];
    int n = snprintf(path, sizeof path, "%s/zero/%s/%s", src->path, a, b);
    if (n < 0 || (size_t)n >= sizeof path) return TX_FAIL(TX_ERR_ARG, "%s: the path is too long", src->path);
    return tx__shards_open(&u->s, path, out);
}

/* A rank's states, which are copied as they are: made with ZeRO-3 under another name. */
static tx_status open_states(universal *u, const tx_source *src, const tx_pt **out)
{
    static const char *const name[] = { "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt",
                                        "bf16_zero_pp_rank_0_mp_rank_00_model_states.pt" };
    char path[PATH_CAP];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        TX_TRY(tx_path_join(path, sizeof path, src->path, name[i]));
        if (tx_path_exists(path)) return tx__shards_open(&u->s, path, out);
    }
    return TX_FAIL(TX_ERR_NOTFOUND, "%s: holds no %s", src->path, name[0]);
}

static tx_status add_tensor(universal *u, const tx_source *src, const char *folder, int part, const char *ours)
{
    char name[64] = "fp32.pt";
    const tx_pt *f;
    if (part) snprintf(name, sizeof name, "%s.pt", src->part[part]);
    TX_TRY(open_in(u, src, folder, name, &f));
    const tx_py *v = tx_pt_root(f);
    const tx_pt_tensor *t = tx_py_tensor(v) ? tx_py_tensor(v) : tx_py_tensor(tx_py_get(v, "param"));
    if (!t) return TX_FAIL(TX_ERR_FORMAT, "%s: holds no tensor", tx_pt_path(f));
    return tx__shards_add_tensor(&u->s, &(tx__shard_key){ ours, part, 0 }, f, t);
}

static void find_first_layer(universal *u)
{
    u->first_layer = INT64_MAX;
    for (size_t i = 0; i < u->names.n; i++) {
        int64_t layer = tx__pipeline_layer(u->names.name[i]);
        if (layer >= 0 && layer < u->first_layer) u->first_layer = layer;
    }
    u->pipeline = u->first_layer != INT64_MAX;
}

static tx_status add_parameter(universal *u, const tx_source *src, const char *folder)
{
    char ours[TX_PARAM_NAME_MAX], path[PATH_CAP];
    bool split;
    snprintf(path, sizeof path, "%s/zero/%s", src->path, folder);
    if (!tx_path_is_dir(path)) return TX_OK;
    tx__name_kind kind = u->pipeline ? tx__pipeline_name(folder, u->first_layer, u->s.n_layers, ours, &split)
                                     : tx__megatron_name(folder, 0, ours, &split);
    if (kind == TX__NAME_COPY) return TX_OK;
    if (kind == TX__NAME_ELSE) return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: is no parameter of a GPT or a BERT", path);
    for (int part = 0; part < src->n_parts; part++) TX_TRY(add_tensor(u, src, folder, part, ours));
    return TX_OK;
}

/* The optimizer's file; *f NULL: there is none. */
static tx_status open_optimizer(universal *u, const tx_source *src, const tx_pt **f)
{
    char path[PATH_CAP];
    *f = NULL;
    TX_TRY(tx_path_join(path, sizeof path, src->path, "zero/optimizer_state.pt"));
    return tx_path_exists(path) ? tx__shards_open(&u->s, path, f) : TX_OK;
}

/* Adam's t: a file of a parameter's; of ZeRO-3, where DeepSpeed looks, the first state of the optimizer, whose group
 * may have an older number; else the group. */
static tx_status find_step_number(universal *u, const tx_source *src)
{
    const tx_pt *f;
    double step = 0;
    for (size_t i = 0; i < u->names.n && step <= 0; i++) {
        char path[PATH_CAP];
        snprintf(path, sizeof path, "%s/zero/%s/step.pt", src->path, u->names.name[i]);
        if (!tx_path_exists(path)) continue;
        TX_TRY(tx__shards_open(&u->s, path, &f));
        const tx_py *v = tx_pt_root(f);
        if (!tx_py_float(v, &step)) tx_py_float(tx_py_get(v, "param"), &step);
    }
    TX_TRY(open_optimizer(u, src, &f));
    if (step <= 0 && f) {
        const tx_py *state = tx_py_at(tx_pt_root(f), "optimizer_state_dict.state"),
                    *groups = tx_py_get(tx_pt_root(f), "param_groups");
        if (!tx_py_float(tx_py_get(tx_py_get_int(state, 0), "step"), &step))
            tx_py_float(tx_py_get(tx_py_item(groups, 0), "step"), &step);
    }
    u->optim_step = (int64_t)step;
    return TX_OK;
}

static bool has_file(const tx_names *files, const char *buffer)
{
    char name[64];
    snprintf(name, sizeof name, "%s.pt", buffer);
    for (size_t i = 0; i < files->n; i++)
        if (!strcmp(files->name[i], name)) return true;
    return false;
}

/* Whose state it is: the files beside a parameter's weights are one optimizer's buffers. */
static tx_status find_optimizer(const universal *u, tx_source *src)
{
    tx_names files = { 0 };
    char path[PATH_CAP];
    enum tx_optimizer_kind found = TX_OPTIMIZER_ADAM;
    const tx_optim_type *o;
    size_t i = 0;
    do {
        if (i == u->names.n) return TX_FAIL(TX_ERR_FORMAT, "%s: its folder zero holds no parameter", src->path);
        snprintf(path, sizeof path, "%s/zero/%s", src->path, u->names.name[i++]);
    } while (!tx_path_is_dir(path));
    TX_TRY(tx_dir_list(path, &files));
    int most = 0; /* Lion's one buffer is Adam's first */
    for (int kind = 1; (o = tx_optim_type_at(kind - 1)); kind++) {
        int n = 0;
        if (!(tx_optimizer_traits((enum tx_optimizer_kind)kind) & TX_OPTIMIZER_UNIVERSAL)) continue;
        for (int k = 0; k < o->keeps->n; k++) n += has_file(&files, o->keeps->state[k].name);
        if (n == o->keeps->n && n > most) found = (enum tx_optimizer_kind)kind, most = n;
    }
    tx_names_free(&files);
    tx__upstream_parts(src, found);
    return TX_OK;
}

/* DeepSpeed's converter takes tensor ranks for data ranks with ZeRO-3, and mixes their numbers. */
static tx_status refuse_mixed(const tx_source *src)
{
    char path[PATH_CAP];
    TX_TRY(tx_path_join(path, sizeof path, src->path, "zero_pp_rank_0_mp_rank_01_model_states.pt"));
    if (!tx_path_exists(path)) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "%s: made of a ZeRO-3 run with tensor-parallel ranks, which DeepSpeed's converter mixes up: its "
                   "weights are lost; convert the run's own folder: triax convert --to universal",
                   src->path);
}

static tx_status open_universal(tx_source *src)
{
    universal *u;
    const tx_pt *states;
    char path[PATH_CAP];
    TX_TRY(tx_alloc(&u, 1, sizeof *u, "a checkpoint"));
    src->impl = u;
    u->s.unverified = src->unverified;
    u->s.n_tp = 1;
    u->s.qkv_version = 3;
    TX_TRY(tx__follow_tracker(src, "latest_universal"));
    TX_TRY(tx_path_join(path, sizeof path, src->path, "zero"));
    TX_TRY(tx_dir_list(path, &u->names));
    TX_TRY(refuse_mixed(src));
    TX_TRY(open_states(u, src, &states));
    u->root = tx_pt_root(states);
    tx_py_int(tx_py_at(u->root, "args.num_layers"), &u->s.n_layers);
    find_first_layer(u);
    TX_TRY(find_optimizer(u, src));
    for (size_t i = 0; i < u->names.n; i++) TX_TRY(add_parameter(u, src, u->names.name[i]));
    TX_TRY(tx__shards_sort(&u->s, src->path));
    TX_TRY(find_step_number(u, src));
    tx__args_to_state(u->root, &src->state);
    src->state.optim_step = u->optim_step ? u->optim_step : src->state.iteration - src->state.skipped;
    src->vocab_size = tx__vocabulary_of(u->root);
    return tx__run_of(tx_py_get(u->root, "lr_scheduler"), tx_py_get(u->root, "args"), NULL, &src->run);
}

static void close_universal(tx_source *src)
{
    universal *u = src->impl;
    if (!u) return;
    tx__shards_deinit(&u->s);
    tx_names_free(&u->names);
    tx_free(u);
}

static tx_status options(tx_source *src, const json_t *all, json_t **out)
{
    const universal *u = src->impl;
    TX_TRY(tx__refuse_experts(tx_py_get(u->root, "args"), src->path));
    return tx__args_to_options(tx_py_get(u->root, "args"), tx__shards_model(&u->s), all, src->path, out);
}

const tx_source_type tx_source_universal = {
    .format = TX_FORMAT_UNIVERSAL,
    .title = "universal checkpoint",
    .resumes = true,
    .open = open_universal,
    .close = close_universal,
    .options = options,
    .check = tx__shards_check,
    .read = tx__shards_read,
    .change = tx__shards_change,
    .unchecked = tx__shards_unchecked,
    .verify = tx__shards_verify,
};
