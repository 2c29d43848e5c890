/* universal_sink.c - a universal checkpoint, which DeepSpeed loads into any layout; the mirror of universal_source.c,
 * which has the picture. Parameters are whole and vocabularies without padding; the model's files are those of the
 * layout that is asked for, since DeepSpeed looks for one of each rank.
 *
 *  DeepSpeed's engine reads another form with ZeRO-3: tensors without a description and without step.pt, and Adam's t
 * in the optimizer's file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "convert/deepspeed_write.h"

/* How DeepSpeed divides the tensor again: what is whole on every tensor rank has no cat_dim. */
static tx_py *describe(tx__file *f, const tx_param *p, const tx_py *t)
{
    tx_py *o = tx_py_dict(f->a);
    if (p->split_dim >= 0) tx__set(f, o, "cat_dim", tx_py_of_int(f->a, p->split_dim));
    if (p->n_parts == 2) tx__set(f, o, "param_n_sub_params", tx_py_of_int(f->a, 2));
    if (tx__is_vocabulary(p->name)) tx__set(f, o, "vocab_tensor", tx_py_of_bool(f->a, true));
    return tx__set(f, o, "param", t);
}

static tx_status write_part(tx_conversion *c, const char *dir, int row, int part, const char *name)
{
    const tx_param p = tx_param_shard(&c->m->params.param[row], 1, 0);
    const int64_t dim[2] = { p.whole_logical, p.whole[1] };
    tx__file f;
    TX_TRY(tx__file_begin(&f, c));
    const tx__shard_range real = { .part = part, .row = row, .shard = &p, .n = tx_param_n_real(&p) };
    tx_py *t = tx__file_tensor(&f, TX_PT_F32, p.n_dims, dim, &real, 1);
    return tx__file_end(&f, dir, name, c->zero_stage == 3 ? t : describe(&f, &p, t));
}

static tx_status write_step(tx_conversion *c, const char *dir)
{
    tx__file f;
    TX_TRY(tx__file_begin(&f, c));
    return tx__file_end(&f, dir, "step.pt", tx__file_number(&f, (float)c->src->state.optim_step));
}

static tx_status write_parameters(tx_conversion *c, const char *zero, bool pipeline)
{
    for (int i = 0; i < c->m->params.n; i++) {
        char name[2 * TX_PARAM_NAME_MAX], dir[TX__PATH_CAP];
        if (pipeline)
            tx__to_pipeline_name(c->m->params.param[i].name, c->m->n_layers, tx__is_tied(c), name);
        else
            tx__to_megatron_name(c->m->params.param[i].name, 0, name);
        TX_TRY(tx_path_join(dir, sizeof dir, zero, name));
        TX_TRY(tx_make_dirs(dir));
        TX_TRY(write_part(c, dir, i, 0, "fp32.pt"));
        for (int k = 0; k < tx__optim_of(c)->keeps->n; k++) {
            char file[64];
            snprintf(file, sizeof file, "%s.pt", tx__optim_of(c)->keeps->state[k].name);
            TX_TRY(write_part(c, dir, i, tx__state_part(c, k), file));
        }
        if (c->zero_stage < 3) TX_TRY(write_step(c, dir));
    }
    return tx_dir_sync(zero);
}

static tx_status write_optimizer(tx_conversion *c, const char *zero, const tx__rank *r)
{
    tx__file f;
    TX_TRY(tx__file_begin(&f, c));
    tx_py *o = tx__ds_global_state(&f, r);
    if (c->zero_stage == 3) {
        tx_py *inner = tx_py_dict(f.a), *state = tx_py_dict(f.a), *first = tx_py_dict(f.a);
        tx__set(&f, first, "step", tx__file_number(&f, (float)c->src->state.optim_step));
        tx__set(&f, inner, "state", tx__set_at(&f, state, 0, first));
        tx__set(&f, inner, "param_groups", tx__ds_param_groups(&f, r));
        tx__set(&f, o, "optimizer_state_dict", inner);
    }
    return tx__file_end(&f, zero, "optimizer_state.pt", tx__set(&f, o, "param_groups", tx__ds_param_groups(&f, r)));
}

static tx_status write_rank(tx_conversion *c, const char *dir, const char *zero, int tp, int pp)
{
    tx__rank r;
    TX_TRY(tx__ds_rank_open(&r, c, (tx__place){ tp, pp, 0 }));
    tx_status st = tx__ds_write_states(c, dir, &r, c->zero_stage == 3 ? 0 : -1);
    if (!st && !r.mp) st = write_optimizer(c, zero, &r);
    tx__rank_close(&r);
    return st;
}

static tx_status check(const tx_conversion *c)
{
    if (!c->with_optim)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: a universal checkpoint holds an optimizer's state, and there is none to be written; choose "
                       "another --to",
                       c->src->path);
    TX_TRY(tx__check_dense(c));
    if (c->zero_stage == 3 && (c->n_tp > 1 || c->n_pp > 1))
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "DeepSpeed's engine divides no universal checkpoint over tensor- or pipeline-parallel ranks with "
            "ZeRO-3: leave --target-tp and --target-pp out, or --target-zero-stage");
    if (c->zero_stage == 3 && c->src->optimizer != TX_OPTIMIZER_ADAM)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: DeepSpeed's engine reads only Adam's state from a universal checkpoint with ZeRO-3; leave "
                       "--target-zero-stage out",
                       c->src->path);
    return tx__check_layout(c, TX_OPTIMIZER_UNIVERSAL);
}

static tx_status write_layout(tx_conversion *c)
{
    tx__folder d;
    tx_status st;
    char name[64], zero[TX__PATH_CAP];
    snprintf(name, sizeof name, "global_step%" PRId64 "_universal", c->src->state.iteration);
    if (c->name) snprintf(name, sizeof name, "%s", c->name);
    TX_TRY(tx__check_engine(c));
    TX_TRY(check(c));
    TX_GOTO(tx__folder_begin(&d, c->out, name));
    TX_GOTO(tx_path_join(zero, sizeof zero, d.tmp, "zero"));
    TX_GOTO(tx_make_dirs(zero));
    for (int pp = 0; pp < c->n_pp; pp++)
        for (int tp = 0; tp < c->n_tp; tp++) TX_GOTO(write_rank(c, d.tmp, zero, tp, pp));
    TX_GOTO(write_parameters(c, zero, c->pipeline || c->n_pp > 1));
    TX_GOTO(tx__folder_publish(&d));
    st = tx__folder_track(&d, "latest_universal", name);
out:
    tx__folder_end(&d, st);
    return st;
}

/* Any data ranks take it, and nothing in it is in parts: the optimizer's small state is like that of ZeRO-1, or 3. */
static tx_status write_folder(tx_conversion *c)
{
    int stage = c->zero_stage, n_dp = c->n_dp;
    c->zero_stage = stage == 3 ? 3 : 1;
    c->n_dp = 1;
    tx_status st = write_layout(c);
    c->zero_stage = stage;
    c->n_dp = n_dp;
    return st;
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    (void)c;
    return p->whole_logical < p->whole[0] ? TX_CHANGE_CUT : TX_CHANGE_NONE;
}

const tx_sink_type tx_sink_universal = {
    .format = TX_FORMAT_UNIVERSAL,
    .has_optim = true,
    .write = write_folder,
    .change = change,
};
