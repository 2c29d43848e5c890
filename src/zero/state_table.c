/* state_table.c - which tensors each buffer of the optimizer's state has numbers of, and where. */
#include "zero/state_table.h"

#include "base/alloc.h"
#include "zero/matrices.h"

static const char what[] = "the table of the optimizer's state";

static bool has_row(const tx_zero *z, tx_state_of of, int row)
{
    if (z->ps->param[row].frozen) return false;
    switch (of) {
    case TX_STATE_OF_ALL:
        return true;
    case TX_STATE_OF_OTHERS:
        return !tx_zero_is_matrix(z, row);
    case TX_STATE_OF_ROWS:
    case TX_STATE_OF_COLUMNS:
        return z->ps->param[row].n_dims == 2;
    case TX_STATE_OF_VECTORS:
        return z->ps->param[row].n_dims == 1;
    case TX_STATE_OF_TENSORS:
        return true;
    }
    return true;
}

static int64_t packed_of(const tx_state_table *t, int64_t at)
{
    return t->packed[at / TX_TIER_BLOCK] * TX_TIER_BLOCK + at % TX_TIER_BLOCK;
}

/* Which blocks have numbers, and then how many do before each. */
static tx_status pack(const tx_zero *z, tx_state_table *t, tx_state_of of)
{
    int64_t n = tx_tier_padded(z->flat.kept.numel) / TX_TIER_BLOCK, before = 0;
    TX_TRY(tx_alloc(&t->packed, (size_t)n + 1, sizeof *t->packed, what));
    for (int i = 0; i < z->flat.kept.n; i++) {
        const tx_fragment *s = &z->flat.kept.fragment[i];
        if (!has_row(z, of, s->row)) continue;
        for (int64_t b = s->at / TX_TIER_BLOCK; b * TX_TIER_BLOCK < s->at + s->numel; b++) t->packed[b] = 1;
    }
    for (int64_t b = 0; b <= n; b++) {
        int64_t has = t->packed[b];
        t->packed[b] = before;
        before += has;
    }
    t->numel = before * TX_TIER_BLOCK;
    return TX_OK;
}

static void add_row(const tx_zero *z, tx_state_table *t, int row)
{
    const tx_param *p = &z->ps->param[row];
    t->n_divided[0] += p->numel;
    if (p->reduce_group != TX_GROUP_DATA) t->n_divided[1] += p->numel;
    for (int i = 0; i < z->flat.kept.n; i++) {
        tx_fragment s = z->flat.kept.fragment[i];
        if (s.row != row) continue;
        if (t->packed)
            s.at = packed_of(t, s.at);
        else
            s.at = t->numel, t->numel += (s.numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
        t->at[row] = s.at - s.first;
        s.row = t->rows.n;
        t->kept.fragment[t->kept.n++] = s;
    }
    t->rows.param[t->rows.n++] = *p;
}

/* A side of a matrix as a tensor of one dimension, which every data-parallel rank has all of. */
static tx_param side_of(const tx_zero *z, const tx_param *p, int side)
{
    bool split = p->n_tp > 1 && p->split_dim == side;
    tx_param q = *p;
    q.n_dims = 1;
    q.numel = q.dim[0] = p->dim[side];
    q.whole[0] = p->whole[side];
    q.dim[1] = q.whole[1] = 1;
    q.rows_logical = side ? p->dim[1] : p->rows_logical;
    q.whole_logical = side ? p->whole[1] : p->whole_logical;
    q.split_dim = split ? 0 : -1;
    q.n_parts = split ? p->n_parts : 1;
    q.n_tp = split ? p->n_tp : 1;
    q.tp_rank = split ? p->tp_rank : 0;
    bool first = tx_comm_rank(tx_grid_group(z->grid, p->reduce_group)) == 0;
    q.counted = p->counted && first && (split || p->tp_rank == 0);
    return q;
}

/* The one number of a tensor, which every data-parallel rank has, and every tensor rank. */
static tx_param number_of(const tx_zero *z, const tx_param *p)
{
    tx_param q = *p;
    q.n_dims = 1;
    q.numel = q.dim[0] = q.whole[0] = q.dim[1] = q.whole[1] = 1;
    q.rows_logical = q.whole_logical = 1;
    q.split_dim = -1;
    q.n_parts = q.n_tp = 1;
    q.counted = p->counted && p->tp_rank == 0 && tx_comm_rank(tx_grid_group(z->grid, p->reduce_group)) == 0;
    q.tp_rank = 0;
    return q;
}

static void add_each(tx_state_table *t, int row, const tx_param *each)
{
    tx_param *q = &t->rows.param[t->rows.n];
    *q = *each;
    t->at[row] = q->offset = t->numel;
    t->kept.fragment[t->kept.n++] = (tx_fragment){ .row = t->rows.n++, .numel = q->numel, .at = t->numel };
    t->numel += (q->numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
    t->n_each += q->numel;
}

static void add(const tx_zero *z, tx_state_table *t, tx_state_of of, int row)
{
    const tx_param *p = &z->ps->param[row];
    tx_param each;
    switch (of) {
    case TX_STATE_OF_ROWS:
    case TX_STATE_OF_COLUMNS:
        each = side_of(z, p, of == TX_STATE_OF_COLUMNS);
        add_each(t, row, &each);
        break;
    case TX_STATE_OF_TENSORS:
        each = number_of(z, p);
        add_each(t, row, &each);
        break;
    case TX_STATE_OF_ALL:
    case TX_STATE_OF_OTHERS:
    case TX_STATE_OF_VECTORS:
        add_row(z, t, row);
    }
}

static tx_status open_uneven(const tx_zero *z, tx_state_table *t, tx_state_of of, bool packed)
{
    TX_TRY(tx_alloc(&t->at, (size_t)z->ps->n + 1, sizeof *t->at, what));
    TX_TRY(tx_alloc(&t->rows.param, (size_t)z->ps->n + 1, sizeof *t->rows.param, what));
    TX_TRY(tx_alloc(&t->kept.fragment, (size_t)z->ps->n + 1, sizeof *t->kept.fragment, what));
    for (int row = 0; row < z->ps->n; row++) t->at[row] = TX_NOWHERE;
    if (packed) TX_TRY(pack(z, t, of));
    for (int row = 0; row < z->ps->n; row++)
        if (has_row(z, of, row)) add(z, t, of, row);
    t->kept.numel = t->numel;
    return TX_OK;
}

tx_status tx__state_tables_open(tx_zero *z, const tx_optim_keeps *keeps, bool offloaded)
{
    for (int k = 0; k < z->n_state; k++) {
        tx_state_table *t = &z->table[k];
        *t = (tx_state_table){ .even = true, .numel = z->flat.kept.numel };
        tx_state_of of = keeps ? keeps->state[k].of : TX_STATE_OF_ALL;
        if (of == TX_STATE_OF_ALL && z->flat.n_trained == z->flat.n_buckets) continue;
        TX_ASSERT(!offloaded || of == TX_STATE_OF_OTHERS);
        *t = (tx_state_table){ .even = false };
        TX_TRY(open_uneven(z, t, of, offloaded));
    }
    return TX_OK;
}

void tx__state_tables_close(tx_zero *z)
{
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) {
        tx_free(z->table[k].at);
        tx_free(z->table[k].packed);
        tx_free(z->table[k].kept.fragment);
        tx_params_deinit(&z->table[k].rows);
        z->table[k] = (tx_state_table){ .even = false };
    }
}

int64_t tx__state_at(const tx_zero *z, int k, const tx_fragment *s)
{
    const tx_state_table *t = &z->table[k];
    if (k >= z->n_state) return TX_NOWHERE;
    if (t->even) return s->at;
    return t->at[s->row] == TX_NOWHERE ? TX_NOWHERE : t->at[s->row] + (t->n_each ? 0 : s->first);
}

int64_t tx__state_packed(const tx_zero *z, int k, int64_t at)
{
    return z->table[k].even ? at : packed_of(&z->table[k], at);
}
