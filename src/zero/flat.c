/* flat.c - buckets and parts. */
#include "zero/flat.h"

#include "base/alloc.h"

/* ---- which row is in which bucket ---- */

static bool is_layer(const tx_unit *u)
{
    return u->kind == TX_UNIT_LAYER;
}

/* Whether it may be in a bucket with others. */
static bool joins_layers(const tx_unit *u)
{
    return is_layer(u) && !u->apart;
}

/* What buckets are cut of: parameters of a group that are trained, or those that are not. */
typedef struct sort {
    int group;
    bool frozen;
} sort;

static bool is_of(const tx_param *p, sort of)
{
    return p->reduce_group == of.group && p->frozen == of.frozen;
}

/* A new bucket. A sort's layers share pool buffers; the other kinds are counted on from those. */
static int add_bucket(tx_flat *f, sort of, bool shares, bool persistent)
{
    f->bucket[f->n_buckets] = (tx_bucket){ .group = of.group,
                                           .frozen = of.frozen,
                                           .kind = shares ? of.group + of.frozen * TX_N_GROUPS : f->n_kinds++,
                                           .persistent = persistent };
    return f->n_buckets++;
}

/* Elements of a unit's parameters of a sort. */
static int64_t numel_of(const tx_params *ps, const tx_unit *u, sort of)
{
    int64_t n = 0;
    for (int row = u->first; row < u->end; row++)
        if (is_of(&ps->param[row], of)) n += ps->param[row].numel;
    return n;
}

/* Runs of a sort's layers, from the table's end on, which is the order in which backward completes them. */
static void cut_runs(tx_flat *f, const tx_params *ps, sort of, int64_t bucket_size)
{
    int open = -1, chunk = -1;
    for (int i = ps->n_units - 1; i >= 0; i--) {
        const tx_unit *u = &ps->unit[i];
        int64_t n = numel_of(ps, u, of);
        if (!n) continue;
        bool joins = open >= 0 && joins_layers(u) && u->chunk == chunk && f->bucket[open].numel + n <= bucket_size;
        int k = joins ? open : add_bucket(f, of, is_layer(u), false);
        for (int row = u->first; row < u->end; row++)
            if (is_of(&ps->param[row], of)) f->of_row[row] = k;
        f->bucket[k].numel += n;
        f->bucket[k].n_units++;
        open = joins_layers(u) ? k : -1;
        chunk = u->chunk;
    }
}

/* A sort's bucket for each unit, and for what is persistent of it, or of all layers of a chunk.
 * @left elements that may still be persistent */
static void cut_units(tx_flat *f, const tx_params *ps, sort of, int64_t small, int64_t *left)
{
    int shared = -1, chunk = -1;
    for (int i = 0; i < ps->n_units; i++) {
        const tx_unit *u = &ps->unit[i];
        int own = -1, kept = joins_layers(u) && u->chunk == chunk ? shared : -1;
        bool counted = false;
        for (int row = u->first; row < u->end; row++) {
            int64_t n = ps->param[row].numel;
            if (!is_of(&ps->param[row], of)) continue;
            bool persistent = n <= small && n <= *left;
            if (persistent) *left -= n;
            if (persistent && kept < 0) kept = add_bucket(f, of, false, true);
            if (!persistent && own < 0) own = add_bucket(f, of, is_layer(u), false), f->bucket[own].n_units = 1;
            if (persistent && !counted) f->bucket[kept].n_units++, counted = true;
            f->of_row[row] = persistent ? kept : own;
        }
        if (joins_layers(u)) shared = kept, chunk = u->chunk;
    }
}

/* ---- where they lie ---- */

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* The fragments of bucket k that this rank keeps. */
static void keep_part(tx_flat *f, const tx_params *ps, int k)
{
    tx_bucket *b = &f->bucket[k];
    int64_t own = tx_bucket_own(f, b), end = own + tx_bucket_part(f, b);
    b->first = f->kept.n;
    for (int row = 0; row < ps->n; row++) {
        const tx_param *p = &ps->param[row];
        if (f->of_row[row] != k) continue;
        int64_t from = p->offset > own ? p->offset : own, to = p->offset + p->numel;
        if (to > end) to = end;
        if (from < to)
            f->kept.fragment[f->kept.n++] =
                (tx_fragment){ .row = row, .first = from - p->offset, .numel = to - from, .at = b->at + from - own };
    }
    b->end = f->kept.n;
}

static void place(tx_flat *f, tx_params *ps, int64_t align)
{
    ps->numel = 0;
    for (int k = 0; k < f->n_buckets; k++) {
        tx_bucket *b = &f->bucket[k];
        if (k == f->n_trained) f->trained = ps->numel, f->kept_trained = f->kept.numel;
        b->offset = ps->numel;
        b->at = f->kept.numel;
        for (int row = 0; row < ps->n; row++) {
            if (f->of_row[row] != k) continue;
            ps->param[row].offset = ps->numel;
            ps->numel += round_up(ps->param[row].numel, TX_PARAM_ALIGN);
        }
        b->numel = round_up(ps->numel - b->offset, f->ranks[b->group].n * align);
        ps->numel = b->offset + b->numel;
        f->kept.numel += tx_bucket_part(f, b);
        keep_part(f, ps, k);
    }
    if (f->n_trained == f->n_buckets) f->trained = ps->numel, f->kept_trained = f->kept.numel;
}

tx_status tx_flat_open(tx_flat *f, tx_params *ps, const tx_flat_spec *s)
{
    *f = (tx_flat){ .n_kinds = 2 * TX_N_GROUPS };
    size_t most = 4 * (size_t)ps->n_units * TX_N_GROUPS + 1; /* with `each`: two of a unit and sort */
    int64_t left = s->small_all;
    tx_status st;
    TX_ASSERT(s->align % TX_PARAM_ALIGN == 0);
    for (int g = 0; g < TX_N_GROUPS; g++)
        f->ranks[g] = s->ranks[g].n ? s->ranks[g] : (tx_flat_ranks){ .n = 1, .rank = 0 };
    TX_GOTO(tx_alloc(&f->bucket, most, sizeof *f->bucket, "the buckets"));
    TX_GOTO(tx_alloc(&f->of_row, (size_t)ps->n, sizeof *f->of_row, "the buckets"));
    TX_GOTO(tx_alloc(&f->kept.fragment, (size_t)ps->n, sizeof *f->kept.fragment, "the buckets"));
    for (int i = 0; i < 2 * TX_N_GROUPS; i++) {
        const sort of = { .group = i % TX_N_GROUPS, .frozen = i >= TX_N_GROUPS };
        if (i == TX_N_GROUPS) f->n_trained = f->n_buckets;
        if (s->each)
            cut_units(f, ps, of, s->small, &left);
        else
            cut_runs(f, ps, of, s->bucket_size);
    }
    place(f, ps, s->align);
out:
    if (st) tx_flat_close(f);
    return st;
}

void tx_flat_close(tx_flat *f)
{
    tx_free(f->bucket);
    tx_free(f->of_row);
    tx_free(f->kept.fragment);
    *f = (tx_flat){ 0 };
}
