/* stretch_fixture.h - ranks that keep fragments of the shards of a table: which ones is drawn at random, and in what
 * kind of buffer each of the parts is. Numbers are those of layout_fixture.h. */
#ifndef TX_TESTS_STRETCH_FIXTURE_H
#define TX_TESTS_STRETCH_FIXTURE_H

#include "layout_fixture.h"

enum { MAX_STRETCHES = 256 };

/* Tensor-parallel ranks, fastest, and data-parallel ones. A row of the table is cut into up to max_cuts + 1 fragments,
 * every one some data-parallel rank's; max_cuts 0: every data-parallel rank has all, and only the first saves. */
typedef struct cut {
    int tp, dp, max_cuts;
    uint64_t seed; /* of the fragments and of the kinds of buffers */
} cut;

/* Rows of a table, and its sizes; those that a split needs are multiples of 24. */
typedef struct table {
    const tx_param_decl *decl;
    int n;
    tx_dims dims;
} table;

/* What one rank keeps. */
typedef struct keeper {
    tx_params ps;
    tx_fragments kept;
    float *store[N_BUFFERS]; /* of part[i].flat, or of what it moves */
    size_t n_store[N_BUFFERS];
    tx_ckpt_part part[N_BUFFERS];
    int row_moved;  /* the last one */
    int64_t moved;  /* elements of it, up to its end */
    int moves_left; /* before the one that fails; < 0: none does */
} keeper;

typedef struct draw {
    tx_rng rng;
    uint64_t n;
} draw;

static inline int64_t below(draw *d, int64_t n)
{
    return (int64_t)(tx_rng_uniform(&d->rng, d->n++) * (double)n);
}

/* Numbers that are not in memory, as far as the checkpoint knows: only whole windows of a fragment, and stored in
 * order.
 */
static inline tx_status move_numbers(void *user, const tx_ckpt_window *w, bool store)
{
    keeper *k = user;
    const tx_fragment *s = w->fragment;
    int64_t first = w->first, n = w->n;
    int64_t left = s->first + s->numel - first, window = left < TX_CKPT_WINDOW ? left : TX_CKPT_WINDOW;
    if (n != window || n < 1 || first < s->first || (first - s->first) % TX_CKPT_WINDOW)
        return TX_FAIL(TX_ERR_ARG, "%lld elements at %lld are no window", (long long)n, (long long)first);
    if (store && first != s->first && (k->row_moved != s->row || k->moved != first))
        return TX_FAIL(TX_ERR_ARG, "element %lld is not the next", (long long)first);
    if (k->moves_left >= 0 && k->moves_left-- == 0) return TX_FAIL(TX_ERR_IO, "the disk is gone");
    float *x = k->store[w->part] + s->at + first - s->first;
    memcpy(store ? x : w->buf, store ? w->buf : x, (size_t)n * sizeof *x);
    k->row_moved = s->row;
    k->moved = first + n;
    return TX_OK;
}

/* Appends what data-parallel rank dp_rank keeps of a row; all ranks draw the same. Boundaries are at odd places. */
static inline void cut_row(keeper *k, draw *d, const cut *c, int row, int dp_rank)
{
    int64_t numel = k->ps.param[row].numel, first = 0;
    for (int64_t left = c->max_cuts ? below(d, c->max_cuts + 1) : 0; first < numel; left--) {
        int64_t n = left > 0 ? 3 * below(d, numel / 6 + 2) : numel - first;
        if (n > numel - first) n = numel - first;
        bool mine = !c->max_cuts || below(d, c->dp) == dp_rank;
        if (mine) {
            TX_ASSERT(k->kept.n < MAX_STRETCHES);
            k->kept.fragment[k->kept.n++] = (tx_fragment){ row, first, n, k->kept.numel };
            k->kept.numel += n + 5;
        }
        first += n;
    }
}

static inline tx_status keeper_buffers(keeper *k, draw *d)
{
    static const char *const name[N_BUFFERS] = { TX_CKPT_MODEL, "exp_avg", "exp_avg_sq" };
    int64_t kind = below(d, 3);
    for (int g = 0; g < N_BUFFERS; g++, kind++) {
        bool whole = kind % 3 == 0;
        k->n_store[g] = (size_t)(whole ? k->ps.numel : k->kept.numel);
        TX_TRY(tx_alloc(&k->store[g], k->n_store[g], sizeof(float), "test"));
        for (size_t i = 0; i < k->n_store[g]; i++) k->store[g][i] = (float)NAN;
        k->part[g] = kind % 3 == 2 ? (tx_ckpt_part){ .name = name[g], .move = move_numbers, .user = k }
                                   : (tx_ckpt_part){ .name = name[g], .flat = k->store[g], .whole = whole };
    }
    return TX_OK;
}

static inline tx_status keeper_create(keeper *k, const table *t, const cut *c, int rank)
{
    tx_dims dims = t->dims;
    dims.n_tp = c->tp;
    dims.tp_rank = rank % c->tp;
    draw d = { .rng = { .seed = c->seed, .step = (uint32_t)dims.tp_rank } };
    dims.V = (dims.v_logical / c->tp + 1 + (int64_t)(c->seed % 9)) * c->tp; /* padding, of whole ranks too */
    *k = (keeper){ .moves_left = -1 };
    TX_TRY(tx_params_declare(&k->ps, "", t->decl, t->n, NULL, &dims));
    TX_TRY(tx_alloc(&k->kept.fragment, MAX_STRETCHES, sizeof *k->kept.fragment, "test"));
    for (int i = 0; i < k->ps.n; i++) cut_row(k, &d, c, i, rank / c->tp);
    d.rng.stream = (uint32_t)rank + 1; /* kinds of buffers are a rank's own */
    return keeper_buffers(k, &d);
}

static inline void keeper_destroy(keeper *k)
{
    for (int g = 0; g < N_BUFFERS; g++) tx_free(k->store[g]);
    tx_free(k->kept.fragment);
    tx_params_deinit(&k->ps);
}

/* Every kept number is written, or compared and then NaN, which leaves nothing but NaN where a rank keeps nothing. */
static inline tx_status keeper_numbers(keeper *k, bool fill)
{
    for (int g = 0; g < N_BUFFERS; g++) {
        for (int n = 0; n < k->kept.n; n++) {
            const tx_fragment *s = &k->kept.fragment[n];
            const tx_param *p = &k->ps.param[s->row];
            int64_t width = p->n_dims == 2 ? p->dim[1] : 1;
            float *base = k->store[g] + (k->part[g].whole ? p->offset : s->at - s->first);
            for (int64_t i = s->first; i < s->first + s->numel; i++) {
                int64_t at = place_of(p, i / width, i % width);
                float expect = at < 0 ? 0 : number_at(p, g, at);
                if (!fill && memcmp(&base[i], &expect, sizeof expect))
                    return TX_FAIL(TX_ERR_NUMERIC, "%s, part %d, element %lld of shard %d: %g, not %g", p->name, g,
                                   (long long)i, p->tp_rank, (double)base[i], (double)expect);
                base[i] = fill && at >= 0 ? expect : (float)NAN;
            }
        }
        for (size_t i = 0; i < k->n_store[g] && !fill; i++)
            if (!isnan(k->store[g][i])) return TX_FAIL(TX_ERR_NUMERIC, "part %d: %zu is written", g, i);
    }
    return TX_OK;
}

static inline tx_status keeper_save(keeper *k, const char *dir, int64_t iteration, tx_comm *group)
{
    tx_ckpt_state state = { .iteration = iteration, .vocab_size = VOCAB, .seed = 7 };
    json_t *config = json_pack("{s:i}", "num_layers", N_LAYERS);
    tx_status st =
        tx_checkpoint_save(&(tx_ckpt_save_args){ dir, &state, config, &k->ps, &k->kept, k->part, N_BUFFERS, group });
    json_decref(config);
    return st;
}

static inline tx_status keeper_load(keeper *k, const char *dir, tx_comm *group)
{
    tx_checkpoint *c;
    TX_TRY(tx_checkpoint_open(&c, dir, group));
    tx_status st = tx_checkpoint_read(c, &k->ps, &k->kept, k->part, N_BUFFERS);
    tx_checkpoint_close(c);
    return st;
}

#endif
