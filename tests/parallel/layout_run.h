/* layout_run.h - a training run of a layout with ranks as threads, and one rank's run of the same batches that it is
 * compared with. What is told apart are flags that say what is computed (both runs have them) and flags that say how
 * (only the layout's has them). Ranks are threads, where cmocka cannot fail: they return a status. */
#ifndef TX_TESTS_LAYOUT_RUN_H
#define TX_TESTS_LAYOUT_RUN_H

#include "support.h"

#include "nn/param_cut.h"

#include <omp.h>
#include <xxhash.h>

#include "base/rng.h"
#include "data/bert_dataset.h"
#include "data/draws.h"
#include "data/finetune_dataset.h"
#include "train/trainer.h"

enum { MAX_RANKS = 8, MAX_STEPS = 16, N_SCORED = 13 /* samples: no whole number of batches */, N_DRAWN = 100 };

/* ---- samples: a function of their number ---- */

#define BEGIN_OF_SCORED 1000000

/* Mostly the word that follows the one before by rule, so that there is something to learn; documents end now and then.
 */
static inline void sample_tokens(int32_t *row, int64_t sample, int64_t s, int64_t vocab)
{
    const tx_rng rng = { .seed = 77, .stream = (uint32_t)sample };
    int64_t token = sample % 50;
    for (int64_t i = 0; i <= s; i++) {
        uint32_t w[4];
        tx_rng_u32x4(&rng, (uint64_t)i, w);
        token = w[0] % 4 ? (7 * token + 3) % 101 : w[1] % vocab;
        row[i] = (int32_t)(w[2] % 11 ? token : vocab - 1);
    }
}

/* The same as a BERT sees it: shorter or not, with a second segment or not, some tokens to predict or none. */
static inline void sample_pair(int32_t *row, int64_t sample, int64_t s, int64_t vocab)
{
    const tx_rng rng = { .seed = 78, .stream = (uint32_t)sample };
    const tx_bert_ids out = tx_bert_ids_of(row, s);
    uint32_t w[4];
    sample_tokens(row, sample, s, vocab); /* has s + 1 */
    tx_rng_u32x4(&rng, 0, w);
    int64_t n = w[0] % 3 ? s / 2 + w[1] % (s / 2) : s, second = w[2] % n;
    *out.n_tokens = (int32_t)n;
    *out.is_random = w[3] % 2;
    for (int64_t i = 0; i < s; i++) {
        tx_rng_u32x4(&rng, 1 + (uint64_t)i, w);
        bool masked = i && i < n && sample % 5 && w[0] % 8 == 0;
        out.types[i] = i >= second && i < n;
        out.labels[i] = masked ? out.tokens[i] : -1;
        if (i >= n) out.tokens[i] = 0;
        if (masked && w[1] % 10 < 8) out.tokens[i] = 103;
    }
}

/* The same as conversations, of 3 to 8 tokens each, the later half of which are an answer; what is left is padding. */
static inline void sample_places(int32_t *row, int64_t sample, int64_t s, int64_t vocab)
{
    const tx_rng rng = { .seed = 79, .stream = (uint32_t)sample };
    tx_finetune_place *place = (tx_finetune_place *)row;
    int32_t token[64];
    uint32_t w[4];
    TX_ASSERT(s < 64);
    sample_tokens(token, sample, s, vocab);
    for (int64_t at = 0, n; at < s; at += n) {
        tx_rng_u32x4(&rng, (uint64_t)at, w);
        n = 3 + w[0] % 6;
        if (n > s - at) n = s - at;
        for (int64_t i = 0; i < n; i++)
            place[at + i] =
                (tx_finetune_place){ token[at + i], i + 1 < n && i + 1 >= n / 2 ? token[at + i + 1] : -1, (int32_t)i };
    }
}

/* What a run's samples are dealt by. */
static inline void sample_of(const tx_trainer *t, int32_t *row, int64_t sample)
{
    (t->cfg->finetune_data.n           ? sample_places
     : t->model->type->samples->masked ? sample_pair
                                       : sample_tokens)(row, sample, t->s, t->model->vocab_size);
}

/* A rank's micro-batches, dealt out as the sampler does. */
typedef struct dealer {
    const tx_trainer *t;
    int64_t begin;
    int32_t *rows;   /* [b][row_len] */
    tx_draws *draws; /* NULL: samples come in their order */
    bool scores;     /* an evaluation, whose samples are not drawn */
} dealer;

/* Sample of a position of the run, as train/batch_reader.c finds it. */
static inline tx_status sample_at(const dealer *d, int64_t position, int64_t *sample)
{
    const uint32_t *batch;
    int64_t size = d->t->cfg->global_batch_size;
    *sample = position;
    if (!d->draws || d->scores) return TX_OK;
    TX_TRY(tx_draws_batch(d->draws, &batch, position / size + 1));
    *sample = batch[position % size];
    return TX_OK;
}

static inline tx_status deal(void *user, int64_t micro, const void **rows)
{
    dealer *d = user;
    const tx_trainer *t = d->t;
    int64_t first =
        d->begin + (micro * tx_grid_size(t->grid, TX_AXIS_DATA) + tx_grid_rank(t->grid, TX_AXIS_DATA)) * t->b;
    for (int64_t j = 0, sample; j < t->b; j++) {
        TX_TRY(sample_at(d, first + j, &sample));
        sample_of(t, d->rows + j * tx_trainer_row_len(t), sample);
    }
    *rows = d->rows;
    return TX_OK;
}

/* ---- what a run comes to ---- */

/* Of one rank. Without padding, so that two can be compared as bytes. */
typedef struct outcome {
    double loss[MAX_STEPS], norm[MAX_STEPS], scored[2]; /* evaluations before the first and behind the last step */
    double dropped;                                     /* choices, in layers with experts */
    uint64_t routed;          /* sum over iterations and layers of hashes of how many tokens each expert has */
    uint64_t weights, states; /* hashes of what the rank keeps; their sums over ranks do not depend on who keeps what */
    int64_t n_steps;          /* iterations of the whole run, those before a load included */
} outcome;

/* One rank's run, which has the whole of every parameter. */
typedef struct reference {
    outcome o;
    tx_param *param;
    int n;
    float *first, *last; /* flat */
} reference;

typedef struct layout_run {
    const tx_config *cfg;
    int64_t vocab;
    int n_ranks, tp, pp;
    int64_t until;                 /* iterations */
    const char *load, *save;       /* folders, or NULL */
    const char *again;             /* what was loaded is saved there at once */
    const reference *ref;          /* that shards are compared with */
    reference *keep;               /* one rank: filled */
    void (*tamper)(tx_trainer *t); /* in front of saving, which may then fail: */
    struct {
        tx_status st;
        char message[512];
    } saved[MAX_RANKS];
    outcome rank[MAX_RANKS];
    double off[MAX_RANKS]; /* most that a parameter is off, by the whole one's norm */
    char off_in[MAX_RANKS][TX_PARAM_NAME_MAX];
} layout_run;

static inline void reference_free(reference *r)
{
    tx_free(r->param);
    tx_free(r->first);
    tx_free(r->last);
    memset(r, 0, sizeof *r);
}

static inline const tx_param *reference_param(const reference *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->param[i].name, name)) return &r->param[i];
    return NULL;
}

/* ---- shards beside the whole ---- */

/* 1 where a bias is a key's, whose gradient is nothing but rounding; 0 elsewhere.   @whole [whole_logical, whole[1]] */
static inline void mark_key_biases(const tx_trainer *t, const tx_param *p, float *whole)
{
    const char *end = strstr(p->name, "query_key_value.bias");
    const tx_model *m = t->model;
    int64_t per_group = m->n_heads / m->n_groups + 2;
    for (int64_t i = 0; i < p->whole_logical; i++)
        whole[i] = end && i / m->head_dim % per_group == per_group - 2 ? 1 : 0;
}

/* @room [numel] twice: for a parameter of the whole, and a rank's numbers as the host sees them */
static inline tx_status first_weights_are_the_same(tx_trainer *t, const reference *ref, float *room)
{
    tx_zero *z = &t->zero;
    float *cut = room + t->model->params.numel;
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        const float *now;
        TX_TRY(tx_zero_see_master(z, i, &now, room));
        const tx_param *p = &z->ps->param[s->row], *q = reference_param(ref, p->name);
        if (!q) return TX_FAIL(TX_ERR_NUMERIC, "one rank has no %s", p->name);
        param_cut(p, cut, ref->first + q->offset);
        if (memcmp(cut + s->first, now, (size_t)s->numel * sizeof *cut) != 0)
            return TX_FAIL(TX_ERR_NUMERIC, "rank %d: %s begins with other weights than on one rank", t->grid->rank,
                           p->name);
    }
    return TX_OK;
}

static inline double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* A bias begins at 0, and where its gradients cancel each other it hardly moves: the one of the two coefficients of a
 * residual MLP has come to 5e-7 in the end, where others have come to 1e-2, and is as exact as all of them, to 1e-9 to
 * 5e-9 (muon, 4x2x1). An element counts as so much at least. */
#define LEAST 1e-4

/* @room [4 numel] */
static inline tx_status measure_last_weights(tx_trainer *t, const reference *ref, float *room, layout_run *r)
{
    tx_zero *z = &t->zero;
    int rank = t->grid->rank;
    float *cut = room + t->model->params.numel, *marks = cut + t->model->params.numel;
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        const tx_param *p = &z->ps->param[s->row], *q = reference_param(ref, p->name);
        const float *now;
        TX_TRY(tx_zero_see_master(z, i, &now, room));
        double sum = 0;
        param_cut(p, cut, ref->last + q->offset);
        memset(marks, 0, (size_t)p->numel * sizeof *marks);
        if (p->n_dims == 1) {
            mark_key_biases(t, p, marks + p->numel);
            param_cut(p, marks, marks + p->numel);
        }
        for (int64_t k = 0; k < s->numel; k++) {
            double off = (double)now[k] - (double)cut[s->first + k];
            if (marks[s->first + k] == 0) sum += off * off;
        }
        double norm = norm_of(ref->last + q->offset, q->numel), least = LEAST * sqrt((double)q->numel);
        double off = sqrt(sum) / (norm > least ? norm : least);
        if (off <= r->off[rank]) continue; /* also where it is not a number: then losses are not, either */
        r->off[rank] = off;
        memcpy(r->off_in[rank], p->name, sizeof p->name);
    }
    return TX_OK;
}

/* ---- a rank ---- */

/* The sum of the mean losses. */
static inline tx_status score(tx_trainer *t, dealer *d, double *sum)
{
    double mean[TX_MAX_LOSSES] = { 0 };
    d->begin = BEGIN_OF_SCORED;
    d->scores = true;
    TX_TRY(tx_trainer_score(t, N_SCORED, deal, d, mean, NULL));
    d->scores = false;
    *sum = mean[0] + mean[1];
    return TX_OK;
}

static inline tx_status load_from(tx_trainer *t, const char *dir)
{
    tx_source from;
    TX_TRY(tx_source_open(&from, dir, NULL, tx_grid_group(t->grid, TX_GROUP_WORLD)));
    tx_status st = tx_trainer_load(t, &from);
    tx_source_close(&from);
    return st;
}

/* Of a range's numbers, block by block of the tensor. */
static inline uint64_t hash_of(const tx_zero *z, int i, const float *x, int which)
{
    const tx_fragment *s = &z->fragment[i];
    uint64_t h = 0;
    for (int64_t k = 0; k < s->numel; k += TX_PARAM_ALIGN) {
        struct {
            char name[TX_PARAM_NAME_MAX];
            int64_t first, which;
        } key = { .first = s->first + k, .which = which };
        int64_t n = s->numel - k < TX_PARAM_ALIGN ? s->numel - k : TX_PARAM_ALIGN;
        memcpy(key.name, z->ps->param[s->row].name, strlen(z->ps->param[s->row].name));
        h += XXH3_64bits_withSeed(x + k, (size_t)n * sizeof *x, XXH3_64bits(&key, sizeof key));
    }
    return h;
}

/* Of what this rank counts, without ZeRO as the first of those that keep it; of the optimizer's state where the host
 * sees it.   @room [numel] */
static inline tx_status hash_all(tx_zero *z, outcome *o, float *room)
{
    o->weights = o->states = 0;
    for (int i = 0; i < z->n_ranges; i++) {
        const float *now;
        const tx_param *p = &z->ps->param[z->fragment[i].row];
        if (!(z->stage ? p->counted : tx_zero_first(z, p))) continue;
        if (z->mics && tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_FAR))) continue;
        TX_TRY(tx_zero_see_master(z, i, &now, room));
        o->weights += hash_of(z, i, now, 0);
        if (z->c->device) continue;
        TX_TRY(tx_zero_fetch(z, i, TX_FETCH_STATE, false));
        for (int k = 0; k < z->optim.type->keeps->n; k++)
            if (z->range[i].state[k] && !z->table[k].n_each) o->states += hash_of(z, i, z->range[i].state[k], 1 + k);
    }
    for (int k = 0; k < z->n_state; k++) /* averages of rows and columns */
        for (int i = 0; i < z->table[k].rows.n && z->table[k].n_each; i++) {
            const tx_param *p = &z->table[k].rows.param[i];
            size_t bytes = (size_t)p->rows_logical * sizeof(float);
            if (p->counted)
                o->states += XXH3_64bits_withSeed(z->state[k] + p->offset, bytes,
                                                  XXH3_64bits(p->name, strlen(p->name)) + (uint64_t)k);
        }
    return TX_OK;
}

static inline tx_status keep_reference(reference *k, tx_trainer *t, float **flat)
{
    const tx_params *ps = &t->model->params;
    if (!k->param) {
        TX_TRY(tx_alloc(&k->param, (size_t)ps->n, sizeof *k->param, "test"));
        memcpy(k->param, ps->param, (size_t)ps->n * sizeof *k->param);
        k->n = ps->n;
    }
    TX_TRY(tx_alloc(flat, (size_t)ps->numel, sizeof **flat, "test"));
    for (int i = 0; i < ps->n; i++) TX_TRY(tx_zero_load_row(&t->zero, i, *flat + ps->param[i].offset));
    return TX_OK;
}

static inline void add_routed(outcome *o, const tx_trainer *t)
{
    for (int k = 0; k < t->n_expert_layers; k++) {
        const tx_expert_record *r = &t->expert[k];
        o->dropped += r->dropped;
        o->routed += XXH3_64bits_withSeed(r->load, (size_t)r->n_experts * sizeof *r->load,
                                          (XXH64_hash_t)(t->iteration * 1000 + r->layer));
    }
}

static inline tx_status train_and_compare(layout_run *r, tx_trainer *t, dealer *d, float *room)
{
    outcome *o = &r->rank[t->grid->rank];
    if (r->keep) TX_TRY(keep_reference(r->keep, t, &r->keep->first));
    if (r->ref) TX_TRY(first_weights_are_the_same(t, r->ref, room));
    if (r->load) TX_TRY(load_from(t, r->load));
    if (r->again) TX_TRY(tx_trainer_save(t, r->again, NULL, NULL));
    TX_TRY(score(t, d, &o->scored[0]));
    while (t->iteration < r->until) {
        int64_t i = t->iteration;
        d->begin = t->consumed_train_samples;
        TX_TRY(tx_trainer_train(t, deal, d));
        o->loss[i] = t->iteration_loss;
        o->norm[i] = t->grad_norm;
        add_routed(o, t);
    }
    o->n_steps = t->iteration;
    TX_TRY(score(t, d, &o->scored[1]));
    TX_TRY(hash_all(&t->zero, o, room));
    if (r->keep) TX_TRY(keep_reference(r->keep, t, &r->keep->last));
    if (r->ref) TX_TRY(measure_last_weights(t, r->ref, room, r));
    if (!r->tamper) return r->save ? tx_trainer_save(t, r->save, NULL, NULL) : TX_OK;
    int rank = t->grid->rank;
    r->tamper(t);
    r->saved[rank].st = tx_trainer_save(t, r->save, NULL, NULL);
    snprintf(r->saved[rank].message, sizeof r->saved[rank].message, "%s", r->saved[rank].st ? tx_last_error() : "");
    return TX_OK;
}

static inline tx_status run_rank_of(tx_world *w, void *user)
{
    layout_run *r = user;
    tx_grid grid;
    tx_trainer *t = NULL;
    dealer d = { 0 };
    float *room = NULL;
    tx_status st;
    omp_set_num_threads(1);
    tx_world_set_timeout(w, 200);
    const tx_layout layout = tx_layout_of(r->cfg);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_grid_choose_work(&grid, r->cfg->device));
    TX_GOTO(tx_trainer_create(&t, r->cfg, r->vocab, (int32_t)r->vocab - 1, true, &grid));
    TX_GOTO(tx_alloc(&d.rows, (size_t)(t->b * tx_trainer_row_len(t)), sizeof *d.rows, "test"));
    TX_GOTO(tx_alloc(&room, (size_t)(4 * t->model->params.numel), sizeof *room, "test"));
    d.t = t;
    if (r->cfg->data_efficiency_curriculum_learning)
        TX_GOTO(tx_draws_open(&d.draws, r->cfg, N_DRAWN, "the test's samples"));
    st = train_and_compare(r, t, &d, room);
out:
    tx_draws_close(d.draws);
    tx_free(room);
    tx_free(d.rows);
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

/* ---- runs ---- */

/* All numbers that a step gives back are the same on all ranks. */
static inline tx_status ranks_agree(const layout_run *r)
{
    for (int i = 1; i < r->n_ranks; i++)
        if (memcmp(r->rank[i].loss, r->rank[0].loss, offsetof(outcome, weights)) != 0)
            return TX_FAIL(TX_ERR_NUMERIC, "rank %d has another loss, norm or evaluation than rank 0", i);
    return TX_OK;
}

/* r's members after `rank` are results. The flags are of pretrain-gpt, or with --model-type of another. */
static inline tx_status run_layout(layout_run *r, const char *flags)
{
    tx_config *cfg;
    char all[8192];
    snprintf(all, sizeof all, "%s --world-size %d --tensor-model-parallel-size %d --pipeline-model-parallel-size %d",
             flags, r->n_ranks, r->tp, r->pp);
    TX_TRY(tx_config_parse_string(&cfg, strstr(all, "--model-type BERT") ? "pretrain-bert" : "pretrain-gpt", all));
    r->cfg = cfg;
    memset(r->rank, 0, sizeof r->rank);
    memset(r->off, 0, sizeof r->off);
    tx_status st = tx_source_teacher(cfg, "", &tx_comm_self);
    if (!st) st = tx_world_threads(r->n_ranks, run_rank_of, r);
    if (!st) st = ranks_agree(r);
    r->cfg = NULL;
    tx_config_free(cfg);
    return st;
}

/* Rank 0's, with the hashes of all that the ranks keep, each number counted once. */
static inline outcome of_all_ranks(const layout_run *r)
{
    outcome o = r->rank[0];
    o.weights = o.states = 0;
    for (int i = 0; i < r->n_ranks; i++) {
        o.weights += r->rank[i].weights;
        o.states += r->rank[i].states;
    }
    return o;
}

/* In iterations [from, until), the evaluation behind them, and what is kept then.   @other what b is, for the message
 */
static inline tx_status has_the_bits_of(const outcome *a, const outcome *b, int64_t from, int64_t until,
                                        const char *other)
{
    for (int64_t i = from; i < until; i++)
        if (memcmp(&a->loss[i], &b->loss[i], sizeof(double)) || memcmp(&a->norm[i], &b->norm[i], sizeof(double)))
            return TX_FAIL(TX_ERR_NUMERIC, "iteration %lld: loss %.17g, %s %.17g; gradient norm %.17g, %.17g",
                           (long long)i + 1, a->loss[i], other, b->loss[i], a->norm[i], b->norm[i]);
    if (a->weights != b->weights) return TX_FAIL(TX_ERR_NUMERIC, "the weights are not those %s", other);
    if (a->states != b->states) return TX_FAIL(TX_ERR_NUMERIC, "the optimizer's state is not that %s", other);
    if (memcmp(&a->scored[1], &b->scored[1], sizeof(double)) || a->n_steps != b->n_steps)
        return TX_FAIL(TX_ERR_NUMERIC, "an evaluation is not that %s", other);
    return TX_OK;
}

/* ---- runs of one rank, which several layouts are compared with ---- */

typedef struct known {
    char flags[4096];
    reference ref;
} known;

enum { MAX_KNOWN = 1024 };
static int64_t reference_steps = 10;
static known *all_known[MAX_KNOWN];
static int n_known;

static inline tx_status reference_of(const reference **out, const char *flags, int64_t vocab)
{
    char key[4096];
    snprintf(key, sizeof key, "%lld %s", (long long)vocab, flags);
    for (int i = 0; i < n_known; i++)
        if (!strcmp(all_known[i]->flags, key)) {
            *out = &all_known[i]->ref;
            return TX_OK;
        }
    assert_true(n_known < MAX_KNOWN);
    known *k = all_known[n_known] = test_calloc(1, sizeof *k);
    static layout_run r;
    r = (layout_run){ .vocab = vocab, .n_ranks = 1, .tp = 1, .pp = 1, .until = reference_steps, .keep = &k->ref };
    TX_TRY(run_layout(&r, flags));
    snprintf(k->flags, sizeof k->flags, "%s", key);
    k->ref.o = r.rank[0];
    n_known++;
    *out = &k->ref;
    return TX_OK;
}

static inline void forget_references(void)
{
    for (int i = 0; i < n_known; i++) {
        reference_free(&all_known[i]->ref);
        test_free(all_known[i]);
    }
    n_known = 0;
}

/* ---- bounds ---- */

typedef struct bounds {
    double loss, norm, weights; /* relative; weights: by the norm of the whole parameter */
} bounds;

/* fp32 sums in another order, for ten steps; what dropout or initial weights would do shows in the first loss. */
static const bounds fp32_bounds = { 1e-5, 1e-4, 1e-4 };
#define FIRST_LOSS 1e-6

/* Sums of two bytes, rounded another number of times. */
static const bounds half_bounds = { 2e-4, 5e-3, 3e-2 };

/* The same with MiCS, which rounds a sum over near ranks, and again that over the rows of these. */
static const bounds half_rows_bounds = { 4e-4, 1e-2, 3e-2 };

static inline bounds bounds_of_sums(bool half, bool rows)
{
    return !half ? fp32_bounds : rows ? half_rows_bounds : half_bounds;
}

/* The most by which a trajectory is off from another in iterations [from, until), and its evaluation. */
static inline bounds distance(const outcome *a, const outcome *b, int64_t from, int64_t until)
{
    bounds off = { 0 };
    for (int64_t i = from; i < until; i++) {
        double loss = fabs(a->loss[i] / b->loss[i] - 1), norm = fabs(a->norm[i] / b->norm[i] - 1);
        if (!(loss <= off.loss)) off.loss = loss; /* not a number is the most */
        if (!(norm <= off.norm)) off.norm = norm;
    }
    double scored = fabs(a->scored[1] / b->scored[1] - 1);
    if (!(scored <= off.loss)) off.loss = scored;
    return off;
}

/* The layout's run is within `allowed` of the reference's in iterations [from, until). */
static inline tx_status is_within(const layout_run *r, const reference *ref, int64_t from, bounds allowed)
{
    bounds off = distance(&r->rank[0], &ref->o, from, r->until);
    for (int i = 0; i < r->n_ranks; i++)
        if (r->off[i] > allowed.weights)
            return TX_FAIL(TX_ERR_NUMERIC, "%s on rank %d is off by %.2e, allowed %.1e", r->off_in[i], i, r->off[i],
                           allowed.weights);
    if (!(off.loss <= allowed.loss))
        return TX_FAIL(TX_ERR_NUMERIC, "a loss is off by %.2e, allowed %.1e", off.loss, allowed.loss);
    if (!(off.norm <= allowed.norm))
        return TX_FAIL(TX_ERR_NUMERIC, "a gradient norm is off by %.2e, allowed %.1e", off.norm, allowed.norm);
    return TX_OK;
}

#endif
