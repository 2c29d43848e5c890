/* megatron_sink.c - a folder that Megatron-LM loads; the mirror of megatron_source.c, which has the picture.
 *
 *      {'args', 'checkpoint_version': 3.0, 'iteration', 'tokens', 'universal_checkpoint_info', 'model', 'optimizer',
 *       'opt_param_scheduler'}
 *
 *  The states of random numbers are not written: they belong to Python, NumPy and the device, and Megatron resumes
 * with --no-load-rng. */
#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "convert/upstream_write.h"

/* Masters in the optimizer's groups. */
static tx_py *masters(tx__file *f, const tx__rank *r)
{
    tx_py *all = tx_py_list(f->a);
    for (int g = 0; g < r->n_groups; g++) {
        tx_py *list = tx_py_list(f->a);
        for (int i = 0; i < r->group[g].n; i++)
            tx__append(f, list, tx__file_shard(f, TX_PT_F32, 0, &r->row[r->order[r->group[g].first + i]]));
        tx__append(f, all, list);
    }
    return all;
}

/* Megatron keeps the scale as a tensor, and of a scale that does not move nothing. */
static tx_py *grad_scaler(tx__file *f)
{
    const tx__loss_scale s = tx__loss_scale_of(f);
    tx_py *o = tx_py_dict(f->a);
    if (!s.dynamic) return o;
    tx__set(f, o, "scale", tx__file_ones(f, (float)s.scale));
    tx__set(f, o, "growth_tracker", tx_py_of_int(f->a, s.growth));
    return tx__set(f, o, "hysteresis_tracker", tx_py_of_int(f->a, s.hysteresis));
}

static tx_py *optimizer(tx__file *f, const tx__rank *r)
{
    tx_py *inner = tx__torch_optimizer(f, r);
    if (f->c->dtype == TX_ST_F32) return inner;
    tx_py *o = tx__set(f, tx_py_dict(f->a), "optimizer", inner);
    if (f->c->dtype == TX_ST_F16) tx__set(f, o, "grad_scaler", grad_scaler(f));
    return tx__set(f, o, "fp32_from_fp16_params", masters(f, r));
}

static tx_py *root_of(tx__file *f, const tx__rank *r)
{
    const tx_ckpt_state *s = &f->c->src->state;
    tx_py *root = tx_py_dict(f->a);
    bool tied = tx__is_tied(f->c);
    tx__set(f, root, "args", tx__args(f));
    tx__set(f, root, "checkpoint_version", tx_py_of_float(f->a, 3.0));
    tx__set(f, root, "iteration", tx_py_of_int(f->a, s->iteration));
    tx__set(f, root, "tokens", tx_py_of_int(f->a, f->c->release ? 0 : s->consumed_train_tokens));
    tx__set(f, root, "universal_checkpoint_info", tx__universal_info(f, false, false));
    /* Where weights stand alone upstream's converter has the head's embedding on every last stage. */
    bool head = tied && r->pp == f->c->n_pp - 1 && !f->c->with_optim;
    tx__set(f, root, "model", tx__module(f, r, false, head));
    if (s->skipped && !f->c->release) tx__set(f, root, "skipped_steps", tx_py_of_int(f->a, s->skipped));
    if (!f->c->with_optim) return root;
    tx__set(f, root, "optimizer", optimizer(f, r));
    const tx_py *scheduler = tx__scheduler(f);
    return scheduler ? tx__set(f, root, "opt_param_scheduler", scheduler) : root;
}

/* The ranks of a data group have one file. */
static tx_status write_rank(tx_conversion *c, const char *dir, int tp, int pp, int dp)
{
    char name[64], path[TX__PATH_CAP];
    tx__file f = { 0 };
    tx__rank r;
    tx_status st;
    if (dp) return TX_OK;
    int n = snprintf(name, sizeof name, "mp_rank_%02d", tp);
    if (c->n_pp > 1) snprintf(name + n, sizeof name - (size_t)n, "_%03d", pp);
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(tx_make_dirs(path));
    TX_TRY(tx__rank_open(&r, c, (tx__place){ tp, pp, 0 }, false, false));
    TX_GOTO(tx__file_begin(&f, c));
    st = tx__file_end(&f, path, "model_optim_rng.pt", root_of(&f, &r));
    if (!st) st = tx_dir_sync(path);
out:
    tx__rank_close(&r);
    return st;
}

static tx_status check(const tx_conversion *c)
{
    TX_TRY(tx__check_dense(c));
    return tx__check_layout(c, TX_OPTIMIZER_MEGATRON);
}

static tx_status write_folder(tx_conversion *c)
{
    tx__folder d;
    tx_status st;
    char name[64], tracker[32];
    snprintf(tracker, sizeof tracker, c->release ? "release" : "%" PRId64, c->src->state.iteration);
    snprintf(name, sizeof name, c->release ? "release" : "iter_%07" PRId64, c->src->state.iteration);
    TX_TRY(check(c));
    TX_GOTO(tx__folder_begin(&d, c->out, name));
    for (int pp = 0; pp < c->n_pp; pp++)
        for (int tp = 0; tp < c->n_tp; tp++) TX_GOTO(write_rank(c, d.tmp, tp, pp, 0));
    TX_GOTO(tx__folder_publish(&d));
    st = tx__folder_track(&d, "latest_checkpointed_iteration.txt", tracker);
out:
    tx__folder_end(&d, st);
    return st;
}

const tx_sink_type tx_sink_megatron = {
    .format = TX_FORMAT_MEGATRON,
    .has_optim = true,
    .write = write_folder,
    .change = tx__change,
    .check = check,
    .write_rank = write_rank,
};
