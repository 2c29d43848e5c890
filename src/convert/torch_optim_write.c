/* torch_optim_write.c - state_dict() of an optimizer of torch's kind: what each parameter has of its buffers. */
#include "convert/upstream_write.h"

static const tx_py *note(tx__file *f, const tx_py *v)
{
    if (!v) f->short_of_memory = true;
    return v;
}

bool tx__has_buffer(const tx__file *f, int k)
{
    const tx_optim_theirs theirs = tx__optim_of(f->c)->theirs[k];
    return theirs != TX_THEIRS_ZERO && theirs != TX_THEIRS_WEIGHTS;
}

/* The number of a tensor; NULL: it is not found yet, or cannot be read. */
static const tx_py *number_in(tx__file *f, int k, int row)
{
    const tx_optim_type *o = tx__optim_of(f->c);
    const tx_param *p = &f->c->m->params.param[row];
    const int part = tx__state_part(f->c, k);
    tx_param tensor;
    const float *whole = NULL;
    if (f->failed) return NULL;
    if (tx_source_tensor(f->c->src, part, p, &tensor))
        f->failed = tx_conversion_fetch_tensor(f->c, part, row, &tensor, &whole);
    else
        f->failed = TX_FAIL(TX_ERR_FORMAT, "%s: holds no %s of %s", f->c->src->path, f->c->src->part[part], p->name);
    if (f->failed || (*whole == 0 && o->theirs[k] == TX_THEIRS_LATER)) return NULL;
    return note(f, tx_py_of_float(f->a, (double)*whole));
}

/* Buffer k of a parameter; NULL: files have none. */
static const tx_py *buffer_of(tx__file *f, int k, const tx__rank_row *row)
{
    if (!tx__has_buffer(f, k)) return NULL;
    if (tx__optim_of(f->c)->keeps->state[k].of == TX_STATE_OF_TENSORS) return number_in(f, k, row->row);
    return note(f, tx__file_shard(f, TX_PT_F32, tx__state_part(f->c, k), row));
}

tx_py *tx__torch_optimizer(tx__file *f, const tx__rank *r)
{
    tx_py *o = tx_py_dict(f->a), *state = tx_py_dict(f->a), *groups = tx_py_list(f->a);
    for (int g = 0; g < r->n_groups; g++) {
        const tx__group *group = &r->group[g];
        for (int i = group->first; i < group->first + group->n; i++) {
            const tx__rank_row *row = &r->row[r->order[i]];
            const tx_py *one[TX_OPTIM_MAX_STATE];
            for (int k = 0; k < tx__optim_of(f->c)->keeps->n; k++) one[k] = buffer_of(f, k, row);
            tx__set_at(f, state, i, tx__optim_state(f, one, row->shard.numel));
        }
        tx__append(f, groups, tx__param_group(f, group, group->first, group->n));
    }
    tx__set(f, o, "state", state);
    return tx__set(f, o, "param_groups", groups);
}
