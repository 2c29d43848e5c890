/* upstream_optim.c - the state of parameters that files have by number, under their names. */
#include "convert/upstream_optim.h"

#include "base/alloc.h"
#include "convert/upstream.h"

void tx__upstream_parts(tx_source *src, enum tx_optimizer_kind kind)
{
    src->n_parts = 0;
    src->optimizer = kind;
    src->part[src->n_parts++] = TX_CKPT_MODEL;
    for (int k = 0; kind && k < tx_optim_type_of(kind)->keeps->n; k++)
        src->part[src->n_parts++] = tx_optim_type_of(kind)->keeps->state[k].name;
}

tx__torch_state tx__torch_state_like(enum tx_optimizer_kind kind)
{
    const tx_optim_type *o = tx_optim_type_of(kind);
    tx__torch_state has = { .kind = kind, .n = o->keeps->n };
    for (int k = 0; k < o->keeps->n; k++) has.name[k] = o->keeps->state[k].name;
    return has;
}

/* How much of it is an optimizer's; 0: something is missing. */
static int matches(const tx_py *state, const tx_py *group, const tx_optim_type *o, tx__torch_state *has)
{
    int n = 0;
    double number;
    for (int k = 0; k < o->keeps->n; k++) {
        const char *other = o->other_name[k];
        const tx_py *v = tx_py_get(state, has->name[k]);
        if (o->theirs[k] == TX_THEIRS_ZERO || o->theirs[k] == TX_THEIRS_WEIGHTS) continue;
        bool there = tx_optim_is_number(has->kind, k) ? tx_py_float(v, &number) : tx_py_tensor(v) != NULL;
        if (!there && o->theirs[k] == TX_THEIRS_LATER) continue;
        if (!there && (!other || !tx_py_tensor(tx_py_get(state, other)))) return 0;
        if (!there) has->name[k] = other;
        n++;
    }
    for (const tx_optim_mark *m = o->mark; m->key; m++, n++)
        if (!tx_py_get(state, m->key)) return 0;
    for (const tx_optim_member *m = o->member; group && m && m->key; m++) {
        if (!m->option[0]) continue; /* a class has it, another of the same optimizer not */
        if (!tx_py_get(group, m->key)) return 0;
        n++;
    }
    return n;
}

tx__torch_state tx__torch_state_of(const tx_py *torch_state)
{
    const tx_py *states = tx_py_get(torch_state, "state"),
                *group = tx_py_item(tx_py_get(torch_state, "param_groups"), 0);
    tx__torch_state best = { 0 };
    int most = 0;
    if (!states || states->kind != TX_PY_DICT || !states->as.dict.n) return best;
    for (int kind = 1; tx_optim_type_at(kind - 1); kind++) {
        tx__torch_state has = tx__torch_state_like((enum tx_optimizer_kind)kind);
        int n = matches(states->as.dict.value[0], group, tx_optim_type_at(kind - 1), &has);
        if (n > most) most = n, best = has;
    }
    return best;
}

tx_status tx__rows_add(tx__rows *r, const tx__row *row)
{
    if (r->n == r->cap) {
        size_t cap = 2 * r->cap + 64;
        TX_TRY(tx_realloc(&r->row, cap, sizeof *r->row, "a list of tensors"));
        r->cap = cap;
    }
    r->row[r->n++] = *row;
    return TX_OK;
}

/* Elements [at, at + n) of what `v` has are the row's, whose shape they take. */
static tx_status add_part(tx__shards *s, const tx__optim_file *f, const tx__row *row, int part, const tx_py *v,
                          int64_t at)
{
    const tx__shard_key key = { row->name, part, row->whole ? 0 : f->tp_rank };
    const tx_pt_tensor *t = tx_py_tensor(v);
    int64_t n = tx_pt_numel(row->tensor);
    bool added;
    if (!t || at + n > tx_pt_numel(t))
        return TX_FAIL(TX_ERR_FORMAT, "%s: the optimizer's state does not fit %s", tx_pt_path(f->file), row->name);
    if (row->copy) return TX_OK;
    TX_TRY(tx__shards_add(s, &key, row->tensor->n_dims, row->tensor->dim, &added));
    return added ? tx__shards_add_segment(s, f->file, t, at, n) : TX_OK;
}

/* Buffer k of a parameter's state. */
static tx_status add_buffer(tx__shards *s, const tx__optim_file *f, const tx__row *row, int k, const tx_py *v,
                            int64_t at)
{
    const tx__shard_key key = { row->name, 1 + k, row->whole ? 0 : f->tp_rank };
    const tx_optim_theirs theirs = tx_optim_theirs_of(f->has->kind, k);
    double number = 0;
    if (theirs == TX_THEIRS_ZERO || theirs == TX_THEIRS_WEIGHTS) return TX_OK;
    if (!tx_optim_is_number(f->has->kind, k)) return add_part(s, f, row, 1 + k, v, at);
    if (!tx_py_float(v, &number) && theirs != TX_THEIRS_LATER)
        return TX_FAIL(TX_ERR_FORMAT, "%s: the optimizer's state of %s holds no %s", tx_pt_path(f->file), row->name,
                       f->has->name[k]);
    return row->copy ? TX_OK : tx__shards_add_number(s, &key, number);
}

/* Adam's t: of a parameter's state, or of the group, where apex has it. */
static void raise_step(const tx_py *state, const tx_py *group, int64_t *step)
{
    double t;
    if ((tx_py_float(tx_py_get(state, "step"), &t) || tx_py_float(tx_py_get(group, "step"), &t)) && t > (double)*step)
        *step = (int64_t)t;
}

typedef struct group {
    const tx_py *torch_group, *masters; /* masters: a list of tensors, or one */
    const tx_py *state;                 /* of all groups */
    size_t k;                           /* parameters so far */
    int64_t at;                         /* their elements */
} group;

/* The next parameter of a group: by itself, or in the group's one tensor. */
static tx_status add_next(tx__shards *s, const tx__optim_file *f, const tx__row *row, group *g, int64_t *step)
{
    const tx_py *numbers = tx_py_get(g->torch_group, "params");
    int64_t number;
    bool flat = tx_py_len(numbers) == 1 && tx_py_tensor(g->masters);
    if (!tx_py_int(tx_py_item(numbers, flat ? 0 : g->k), &number))
        return TX_FAIL(TX_ERR_FORMAT, "%s: a group of the optimizer has %zu parameters, the model has more",
                       tx_pt_path(f->file), tx_py_len(numbers));
    const tx_py *mine = tx_py_get_int(g->state, number);
    int64_t at = flat ? g->at : 0;
    if (g->masters) TX_TRY(add_part(s, f, row, 0, flat ? g->masters : tx_py_item(g->masters, g->k), at));
    for (int k = 0; k < f->has->n; k++) TX_TRY(add_buffer(s, f, row, k, tx_py_get(mine, f->has->name[k]), at));
    raise_step(mine, g->torch_group, step);
    g->k++;
    g->at += tx_pt_numel(row->tensor);
    return TX_OK;
}

static group group_at(const tx_py *torch_state, const tx_py *masters, size_t n)
{
    return (group){ .torch_group = tx_py_item(tx_py_get(torch_state, "param_groups"), n),
                    .state = tx_py_get(torch_state, "state"),
                    .masters = tx_py_item(masters, n) };
}

/* Whether it has all its parameters. */
static bool is_full(const group *g)
{
    const tx_py *numbers = tx_py_get(g->torch_group, "params");
    const tx_pt_tensor *flat = tx_py_tensor(g->masters);
    return g->k && (tx_py_len(numbers) == 1 && flat ? g->at >= tx_pt_numel(flat) : g->k >= tx_py_len(numbers));
}

static bool has_expert_groups(const tx_py *torch_state)
{
    const tx_py *groups = tx_py_get(torch_state, "param_groups");
    for (size_t i = 0; i < tx_py_len(groups); i++)
        if (tx_py_get(tx_py_item(groups, i), "moe")) return true;
    return false;
}

tx_status tx__optim_add(tx__shards *s, const tx__optim_file *f, const tx_py *torch_state, const tx_py *masters,
                        int64_t *step)
{
    const tx__rows *r = f->rows;
    const bool apart = has_expert_groups(torch_state);
    size_t n = 0;
    for (int sort = 0; sort < (apart ? 4 : 2); sort++) {
        const bool decay = sort % 2 == 0, expert = sort >= 2;
        group g = group_at(torch_state, masters, n);
        for (size_t i = 0; i < r->n; i++) {
            const tx__row *row = &r->row[i];
            if (tx__decays(row->name, row->tensor->n_dims) != decay || (apart && row->expert != expert)) continue;
            if (expert && is_full(&g)) g = group_at(torch_state, masters, ++n);
            TX_TRY(add_next(s, f, row, &g, step));
        }
        n += g.k > 0;
    }
    return TX_OK;
}

tx_status tx__optim_add_reversed(tx__shards *s, const tx__optim_file *f)
{
    const tx__rows *r = f->rows;
    const tx_py *root = tx_pt_root(f->file), *buffers = NULL;
    int chunk = -1;
    int64_t at = 0;
    for (size_t i = r->n; i-- > 0;) {
        const tx__row *row = &r->row[i];
        if (row->chunk != chunk) {
            const tx_py *dtypes = tx_py_get_int(root, row->chunk);
            buffers = dtypes && dtypes->kind == TX_PY_DICT && dtypes->as.dict.n == 1 ? dtypes->as.dict.value[0] : NULL;
            chunk = row->chunk;
            at = 0;
        }
        if (!tx_py_get(buffers, "param"))
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: not a distributed optimizer's state with one buffer a model chunk",
                           tx_pt_path(f->file));
        for (int part = 0; part <= f->has->n; part++)
            TX_TRY(add_part(s, f, row, part, tx_py_get(buffers, part ? f->has->name[part - 1] : "param"), at));
        at += tx_pt_numel(row->tensor);
    }
    return TX_OK;
}
