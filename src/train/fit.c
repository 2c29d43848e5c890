/* fit.c - changes that make a run fit into its memory, found by planning them.
 *
 *  The space is in fit.h. It is a product: what is done with a micro-batch ("work": its size, what is computed again,
 *  sequence parallelism) times where the model's state is ("state": ZeRO, what is offloaded), on a layout in a
 *  precision. What a stage takes is a sum of both but for its workspace, which is the larger one of both:
 *
 *      parameters, gradients, optimizer    of (state, least work)
 *      activations                         of (run's state, work)
 *      workspace                           the larger of these two
 *
 *  so a layout is planned once for each row and once for each column, and a product of hundreds is known
 *  (tests/train/test_fit.c compares all of it with plans). What is said is planned as a whole again.
 *
 *  The run's own layout is looked at first, the others of its ranks where that has fewer than TX_MAX_CHANGES, and then
 *  twice, four times, eight times its ranks, until there is one. The order of cost:
 *
 *      1  whether a disk is read and written
 *      2  extra compute, as a part of an iteration's FLOPs
 *      3  whether the layout is another one
 *      4  messages, in halves of what a rank sends
 *      5  fewer changes
 *      6  in the order of `first_change`, the micro-batch first, which changes no result but its rounding
 *
 *  A change that does more than another one that fits, such as a still smaller micro-batch or a higher stage of ZeRO,
 *  stands behind all others; one that saves nothing by that is none. */
#include "train/fit.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

/* What of the layers is computed again; in chunks of positions, in memory or what they keep outside of it. */
typedef enum again_kind { AS_IS, SELECTIVE, HALF, FULL, CHUNKED, CHUNKED_OUT, N_AGAIN } again_kind;

enum {
    MAX_MICRO = 12,                     /* sizes of micro-batches, the run's own among them */
    MAX_WORK = MAX_MICRO * N_AGAIN * 3, /* sequence parallel, its inputs divided, or neither */
    MAX_STATE = 2 * 36,
    MAX_LAYOUTS = 256,
    MAX_TABLES = 4 * 2 * MAX_LAYOUTS,
    MAX_FITS = 64,
    LEAST_POSITIONS = 2048, /* of a context-parallel rank */
    LEAST_CHUNK = 1024,
};

/* ---------------------------------------------------------------- choices */

typedef enum place { IN_PLACE, CPU, NVME, N_PLACES } place;

typedef struct work_choice {
    int64_t b; /* micro-batch */
    again_kind again;
    bool sequence; /* --sequence-parallel */
    bool divided;  /* --partition-activations */
} work_choice;

typedef struct state_choice {
    int zero; /* 0: as it is */
    place optimizer, params;
    bool half; /* gradients as the values are, instead of fp32 */
} state_choice;

typedef struct layout {
    int64_t ranks, tp, pp;
    int64_t cp; /* with more than the run has: ... */
    bool heads; /* --cp-comm-type a2a, instead of p2p */
    bool bf16;  /* instead of fp32 */
} layout;

/* What a plan says of the stages that it looks at. */
typedef struct sizes {
    tx_memory stage[TX__PLAN_STAGES];
    int n;
    double sent;
} sizes;

typedef struct candidate {
    layout on;
    work_choice work;
    state_choice state;
    size_t bytes;
    sizes sizes;            /* where planned as a whole */
    double extra, messages; /* messages for 1 of the run as it is */
    int n;                  /* changes */
    bool disk;
    bool surplus; /* another one that fits does less */
} candidate;

/* A layout's plans. */
typedef struct table {
    layout on;
    int n_work, n_state, base; /* base: the work that states are planned with */
    struct {
        work_choice is;
        int64_t n_micro; /* `filling`; 0: not possible here */
        sizes sizes;
    } work[MAX_WORK];
    struct {
        state_choice is;
        bool possible;
        sizes sizes;
    } state[MAX_STATE];
} table;

typedef struct search {
    const tx_config *cfg;
    int64_t vocab_size;
    const tx_run_plan *plan; /* of the run as it is */
    size_t limit;
    table *table[MAX_TABLES]; /* owned */
    int n_tables;
    candidate fits[MAX_FITS];
    int n_fits, n_plain;       /* plain: no surplus, no disk */
    candidate fewer[MAX_FITS]; /* what fits on the run's ranks */
    int n_fewer;
    candidate least;
} search;

static int64_t ranks_of(const tx_config *c)
{
    return c->world_size;
}

static bool other_layout(const search *s, const layout *on)
{
    return on->ranks != ranks_of(s->cfg) || on->tp != s->cfg->tensor_model_parallel_size ||
           on->pp != s->cfg->pipeline_model_parallel_size || on->cp != s->cfg->context_parallel_size;
}

/* --ds-sequence-parallel-fpdt-chunk-size: an 8th of the positions, within reason. */
static int64_t chunk_of(const search *s)
{
    int64_t n = s->cfg->seq_length / 8;
    return n < LEAST_CHUNK ? LEAST_CHUNK : n > 65536 ? 65536 : n;
}

/* Layers of a run of them: what --recompute-method block counts in. */
static int64_t layers_of_chunk(const search *s, const layout *on)
{
    int64_t v = s->cfg->num_layers_per_virtual_pipeline_stage, n = s->cfg->num_layers / on->pp;
    return v && v < n ? v : n;
}

/* A forward is a third of an iteration. */
static double extra_of(const search *s, const candidate *c)
{
    double all = s->plan->flops_layers / 3 / s->plan->flops, chunk = (double)layers_of_chunk(s, &c->on);
    if (c->work.again >= FULL) return all;
    return c->work.again == HALF ? all * (double)((int64_t)chunk / 2) / chunk : 0;
}

static int count_changes(const search *s, const candidate *c)
{
    return (c->on.ranks != ranks_of(s->cfg)) + (c->on.tp != s->cfg->tensor_model_parallel_size) +
           (c->on.pp != s->cfg->pipeline_model_parallel_size) + (c->on.cp != s->cfg->context_parallel_size) +
           c->on.bf16 + (c->work.b != s->cfg->micro_batch_size) + (c->work.again != AS_IS) + c->work.sequence +
           c->work.divided + (c->state.zero && c->state.optimizer == IN_PLACE && c->state.params == IN_PLACE) +
           (c->state.optimizer != IN_PLACE) + (c->state.params != IN_PLACE) + c->state.half;
}

/* ---------------------------------------------------------------- as flags */

typedef struct flag_text {
    char *text;
    size_t n, cap;
} flag_text;

static void add(flag_text *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(flag_text *f, const char *fmt, ...)
{
    va_list ap;
    if (f->n) f->text[f->n++] = ' ';
    va_start(ap, fmt);
    f->n += (size_t)vsnprintf(f->text + f->n, f->cap - f->n, fmt, ap);
    va_end(ap);
    TX_ASSERT(f->n + 1 < f->cap);
}

/* For people to put a folder in, where the run has none. */
static void add_place(flag_text *f, const char *flag, place where, const char *folder)
{
    if (where == IN_PLACE) return;
    add(f, "--%s %s", flag, where == CPU ? "cpu" : "nvme");
    if (where == NVME && !folder) add(f, "--%s-nvme-path DIR", flag);
}

/* But for the ranks. */
static void write_flags(const search *s, const candidate *c, char text[TX_FIT_FLAGS])
{
    const tx_config *cfg = s->cfg;
    flag_text f = { .text = text, .cap = TX_FIT_FLAGS };
    int64_t model = c->on.tp * c->on.pp * c->on.cp;
    bool moves = c->on.ranks / model != tx_config_data_parallel(cfg);
    text[0] = 0;
    if (c->on.tp != cfg->tensor_model_parallel_size) add(&f, "--tensor-model-parallel-size %lld", (long long)c->on.tp);
    if (c->on.pp != cfg->pipeline_model_parallel_size)
        add(&f, "--pipeline-model-parallel-size %lld", (long long)c->on.pp);
    if (c->on.cp != cfg->context_parallel_size)
        add(&f, "--context-parallel-size %lld --cp-comm-type %s", (long long)c->on.cp, c->on.heads ? "a2a" : "p2p");
    if (c->work.b != cfg->micro_batch_size) add(&f, "--micro-batch-size %lld", (long long)c->work.b);
    if ((c->work.b != cfg->micro_batch_size || moves) && !cfg->given.global_batch_size) /* else it would follow */
        add(&f, "--global-batch-size %lld", (long long)cfg->global_batch_size);
    if (c->state.zero) add(&f, "--zero-stage %d", c->state.zero);
    if (c->on.bf16) add(&f, "--bf16");
    if (c->state.half) add(&f, "--grad-dtype %s", cfg->fp16 ? "fp16" : "bf16");
    if (c->work.sequence) add(&f, "--sequence-parallel");
    if (c->work.again == SELECTIVE) add(&f, "--recompute-activations");
    if (c->work.again == FULL)
        add(&f, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
    if (c->work.again == HALF)
        add(&f, "--recompute-granularity full --recompute-method block --recompute-num-layers %lld",
            (long long)(layers_of_chunk(s, &c->on) / 2));
    if (c->work.again >= CHUNKED)
        add(&f, "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size %lld", (long long)chunk_of(s));
    if (c->work.again == CHUNKED_OUT) add(&f, "--ds-sequence-parallel-fpdt-offloading");
    if (c->work.again == CHUNKED_OUT && !s->plan->memory.gpu_free && !cfg->fpdt_nvme_path)
        add(&f, "--ds-sequence-parallel-fpdt-nvme-path DIR");
    if (c->work.divided) add(&f, "--partition-activations");
    add_place(&f, "offload-optimizer", c->state.optimizer, cfg->offload_optimizer_nvme_path);
    if (c->state.optimizer != IN_PLACE && cfg->offload_optimizer_ratio < 1) add(&f, "--offload-optimizer-ratio 1");
    add_place(&f, "offload-param", c->state.params, cfg->offload_param_nvme_path);
}

/* What stands against it in the run's own flags. */
static const char *left_out(const search *s, const candidate *c)
{
#define AGAIN "--recompute-activations"
#define ZERO  "--use-distributed-optimizer"
#define GRADS "--accumulate-allreduce-grads-in-fp32"
    static const char *const text[2][2][2] = {
        /* [again][zero][grads] */
        { { "", GRADS }, { ZERO, ZERO " and " GRADS } },
        { { AGAIN, AGAIN " and " GRADS }, { AGAIN " and " ZERO, AGAIN ", " ZERO " and " GRADS } }
    };
    bool again = (c->work.again == FULL || c->work.again == HALF) && s->cfg->recompute_activations;
    bool zero = c->state.zero > 1 && s->cfg->use_distributed_optimizer;
    bool grads = c->state.half && s->cfg->accumulate_allreduce_grads_in_fp32;
    return text[again][zero][grads];
}

/* ---------------------------------------------------------------- planning */

/* *config NULL: the options may not have these values. */
static tx_status config_of(const search *s, const candidate *c, tx_config **config)
{
    char text[TX_FIT_FLAGS];
    tx_config from = *s->cfg; /* borrows its texts */
    from.world_size = c->on.ranks;
    from.given.world_size = false;                          /* a launcher has started others */
    from.sequence_parallel |= from.given.sequence_parallel; /* typed, but without effect on one tensor rank */
    if (strstr(left_out(s, c), "recompute")) from.recompute_activations = false;
    if (strstr(left_out(s, c), "distributed")) from.use_distributed_optimizer = false;
    if (strstr(left_out(s, c), "accumulate")) from.accumulate_allreduce_grads_in_fp32 = false;
    write_flags(s, c, text);
    *config = NULL;
    tx_status st = tx_config_with(config, &from, text);
    return st == TX_ERR_ARG ? TX_OK : st;
}

/* *possible: the options may have these values, and the backend can. */
static tx_status plan_candidate(const search *s, const candidate *c, sizes *out, bool *possible)
{
    int stage[TX__PLAN_STAGES];
    tx_config *changed;
    sizes z = { 0 };
    TX_TRY(config_of(s, c, &changed));
    *possible = changed != NULL;
    if (!changed) return TX_OK;
    tx_status st = TX_OK;
    z.n = tx__plan_stages(changed, stage);
    for (int i = 0; i < z.n && !st; i++) {
        tx_run_plan plan;
        st = tx__plan_sizes(&plan, changed, s->vocab_size, stage[i]);
        if (st) break;
        z.stage[i] = plan.memory;
        z.stage[i].gpu_free = s->plan->memory.gpu_free;
        if (plan.sent > z.sent) z.sent = plan.sent;
    }
    tx_config_free(changed);
    *out = z;
    *possible = !st;
    return st == TX_ERR_ARG || st == TX_ERR_UNSUPPORTED ? TX_OK : st;
}

static const tx_memory *most_of(const sizes *z)
{
    int most = 0;
    for (int i = 1; i < z->n; i++)
        if (tx_memory_limited(&z->stage[i]) > tx_memory_limited(&z->stage[most])) most = i;
    return &z->stage[most];
}

/* What a state's plan and a work's plan say of both together. */
static size_t bytes_of(const sizes *state, const sizes *work)
{
    size_t most = 0;
    for (int i = 0; i < state->n; i++) {
        tx_memory m = state->stage[i];
        const tx_memory *w = &work->stage[i];
        m.activations = w->activations;
        m.host_activations = w->host_activations;
        m.nvme_activations = w->nvme_activations;
        if (w->workspace > m.workspace) m.workspace = w->workspace;
        if (tx_memory_limited(&m) > most) most = tx_memory_limited(&m);
    }
    return most;
}

static size_t most_workspace(const sizes *z)
{
    size_t most = 0;
    for (int i = 0; i < z->n; i++)
        if (z->stage[i].workspace > most) most = z->stage[i].workspace;
    return most;
}

/* ---------------------------------------------------------------- a layout's table */

/* The next smaller micro-batch that divides what the run's divides; below 1: none. */
static int64_t smaller(const search *s, int64_t b)
{
    for (b--; b > 0 && s->cfg->micro_batch_size % b;) b--;
    return b;
}

/* A part of each input on each tensor rank is for layers that are computed again whole. */
static bool may_divide(const search *s, const layout *on, const work_choice *w)
{
    bool again = w->again == FULL || w->again == HALF || (w->again == AS_IS && tx_config_recompute(s->cfg).n_layers);
    bool sequence = w->sequence || s->cfg->sequence_parallel || s->cfg->given.sequence_parallel;
    return again && on->tp > 1 && !sequence && !s->cfg->partition_activations;
}

static bool is_of_use(const search *s, const layout *on, const work_choice *w)
{
    tx_recompute now = tx_config_recompute(s->cfg);
    if (w->sequence && (on->tp == 1 || s->cfg->sequence_parallel || s->cfg->given.sequence_parallel)) return false;
    if (w->divided && !may_divide(s, on, w)) return false;
    if (w->again == SELECTIVE) return !now.selective && !now.n_layers;
    if (w->again >= CHUNKED) return !s->cfg->fpdt && on->cp == 1 && s->cfg->seq_length >= 2 * chunk_of(s);
    if (w->again == HALF) return !now.n_layers && layers_of_chunk(s, on) > 1;
    return w->again != FULL || now.n_layers < s->cfg->num_layers || now.group != 1;
}

static void list_work(const search *s, table *t)
{
    int n_micro = 0;
    t->n_work = 0;
    for (int64_t b = s->cfg->micro_batch_size; b > 0; b = smaller(s, b)) {
        if (++n_micro == MAX_MICRO) b = 1;
        for (int i = 0; i < N_AGAIN * 4; i++) {
            work_choice w = { .b = b, .again = (again_kind)(i / 4), .sequence = i & 1, .divided = i & 2 };
            if (!is_of_use(s, &t->on, &w)) continue;
            TX_ASSERT(t->n_work < MAX_WORK);
            t->work[t->n_work++].is = w;
        }
    }
}

static void list_states(const search *s, table *t)
{
    bool gpu = s->plan->memory.gpu_free, values = s->cfg->bf16 || s->cfg->fp16 || t->on.bf16;
    bool fp32 = values && s->cfg->grad_dtype == TX_FLOAT_FP32;
    t->n_state = 0;
    for (int i = 0; i < (1 + fp32) * 4 * N_PLACES * N_PLACES; i++) {
        state_choice is = { .zero = i / (N_PLACES * N_PLACES) % 4,
                            .optimizer = (place)(i / N_PLACES % N_PLACES),
                            .params = (place)(i % N_PLACES),
                            .half = i >= 4 * N_PLACES * N_PLACES };
        bool cpu = is.optimizer == CPU || is.params == CPU;
        int zero = is.zero ? is.zero : (int)s->cfg->zero_stage;
        if (is.zero && is.zero <= (int)s->cfg->zero_stage) continue;
        if ((is.optimizer != IN_PLACE && !zero) || (is.params != IN_PLACE && zero < 3) || (cpu && !gpu)) continue;
        t->state[t->n_state++].is = is;
    }
}

/* Micro-batches beyond which more of them keep no more activations. */
static int64_t filling(const tx_config *cfg)
{
    int64_t n = cfg->global_batch_size / (cfg->micro_batch_size * tx_config_data_parallel(cfg));
    int64_t most = 2 * cfg->pipeline_model_parallel_size * tx_config_chunks(cfg);
    return n < most || cfg->pipeline_schedule == TX_PIPELINE_GPIPE ? n : most;
}

/* Where another plan of this layout has been filled by as many micro-batches, it has the same activations. */
static tx_status plan_work(search *s, table *t, int i, const table *known)
{
    candidate c = { .on = t->on, .work = t->work[i].is };
    tx_config *changed;
    bool possible;
    t->work[i].n_micro = 0;
    TX_TRY(config_of(s, &c, &changed));
    if (!changed) return TX_OK;
    int64_t n = filling(changed);
    tx_config_free(changed);
    if (known && known->work[i].n_micro == n) {
        t->work[i] = known->work[i];
        return TX_OK;
    }
    TX_TRY(plan_candidate(s, &c, &t->work[i].sizes, &possible));
    t->work[i].n_micro = possible ? n : 0;
    return TX_OK;
}

/* ---------------------------------------------------------------- choosing */

/* Changed, and so in both; or not changed. */
static bool does_as_much(const search *s, const candidate *c, const candidate *than)
{
    const layout *a = &c->on, *b = &than->on;
    const work_choice *w = &c->work, *x = &than->work;
    const state_choice *y = &c->state, *z = &than->state;
    return (b->ranks == ranks_of(s->cfg) || a->ranks == b->ranks) &&
           (b->tp == s->cfg->tensor_model_parallel_size || a->tp == b->tp) &&
           (b->pp == s->cfg->pipeline_model_parallel_size || a->pp == b->pp) &&
           (b->cp == s->cfg->context_parallel_size || (a->cp == b->cp && a->heads == b->heads)) && a->bf16 >= b->bf16 &&
           w->b <= x->b && (x->again == AS_IS || w->again == x->again) && w->sequence >= x->sequence &&
           w->divided >= x->divided && y->zero >= z->zero && y->half >= z->half &&
           (z->optimizer == IN_PLACE || y->optimizer == z->optimizer) &&
           (z->params == IN_PLACE || y->params == z->params);
}

/* Less than as it is counts as that. */
static int half_messages(const candidate *c)
{
    return c->messages > 1 ? (int)(2 * c->messages + 0.5) : 2;
}

/* Below 0, 0, above 0: a is less work than b, as much, more. */
static int compare_work(const search *s, const candidate *a, const candidate *b)
{
    int more = a->disk - b->disk;
    if (!more) more = (a->extra > b->extra) - (a->extra < b->extra);
    if (!more) more = other_layout(s, &a->on) - other_layout(s, &b->on);
    return more ? more : half_messages(a) - half_messages(b);
}

static int first_change(const search *s, const candidate *c)
{
    return c->work.b != s->cfg->micro_batch_size ? 0
           : c->state.zero == 1                  ? 1
           : c->on.bf16                          ? 2
           : c->work.sequence                    ? 3
           : c->work.again == SELECTIVE          ? 4
           : c->state.zero                       ? 4 + c->state.zero
           : c->state.half                       ? 8
                                                 : 9;
}

static bool is_cheaper(const search *s, const candidate *a, const candidate *b)
{
    int work = compare_work(s, a, b);
    if (a->surplus != b->surplus) return b->surplus;
    if (work) return work < 0;
    if (a->n != b->n) return a->n < b->n;
    if (first_change(s, a) != first_change(s, b)) return first_change(s, a) < first_change(s, b);
    return a->work.b > b->work.b;
}

/* Sorted; the dearest one goes when there is no room. */
static void keep(search *s, const candidate *c)
{
    int at = s->n_fits;
    while (at > 0 && is_cheaper(s, c, &s->fits[at - 1])) at--;
    if (at == MAX_FITS) return;
    s->n_fits += s->n_fits < MAX_FITS;
    for (int i = s->n_fits - 1; i > at; i--) s->fits[i] = s->fits[i - 1];
    s->fits[at] = *c;
}

static bool is_plain(const candidate *c)
{
    return !c->surplus && !c->disk;
}

/* A candidate that fits, among those before it. */
static void consider(search *s, candidate c)
{
    c.surplus = false;
    for (int i = 0; i < s->n_fits; i++) {
        if (!does_as_much(s, &c, &s->fits[i])) continue;
        if (c.bytes >= s->fits[i].bytes) return;
        c.surplus = true;
    }
    int n = 0; /* those that do more than this one */
    candidate more[MAX_FITS];
    for (int i = 0; i < s->n_fits; i++) {
        if (!does_as_much(s, &s->fits[i], &c)) continue;
        more[n] = s->fits[i];
        for (int k = i--; k + 1 < s->n_fits; k++) s->fits[k] = s->fits[k + 1];
        s->n_fits--;
        more[n++].surplus = true;
    }
    keep(s, &c);
    for (int i = 0; i < n; i++)
        if (more[i].bytes < c.bytes) keep(s, &more[i]);
    s->n_plain = 0;
    for (int i = 0; i < s->n_fits; i++) s->n_plain += is_plain(&s->fits[i]);
}

/* All of a layout's product, of the smallest micro-batches or of the others. */
static void consider_table(search *s, const table *t, bool smallest)
{
    for (int k = 0; k < t->n_state; k++)
        for (int i = 0; i < t->n_work; i++) {
            if ((t->work[i].is.b == 1) != smallest) continue;
            const sizes *work = &t->work[i].sizes, *state = &t->state[k].sizes;
            if (!t->work[i].n_micro || !t->state[k].possible) continue;
            candidate c = { .on = t->on, .work = t->work[i].is, .state = t->state[k].is };
            double sent = work->sent + state->sent - t->work[t->base].sizes.sent;
            c.bytes = bytes_of(state, work);
            c.extra = extra_of(s, &c);
            c.messages = s->plan->sent > 0 ? (sent > 0 ? sent : 0) / s->plan->sent : 1;
            c.disk = c.state.optimizer == NVME || c.state.params == NVME ||
                     (c.work.again == CHUNKED_OUT && !s->plan->memory.gpu_free);
            c.n = count_changes(s, &c);
            if (c.bytes < s->least.bytes) s->least = c;
            if (c.bytes <= s->limit && c.n) consider(s, c);
        }
}

/* ---------------------------------------------------------------- layouts */

static table *find_table(const search *s, const layout *on)
{
    for (int i = s->n_tables - 1; i >= 0; i--) {
        const layout *a = &s->table[i]->on;
        if (a->tp == on->tp && a->pp == on->pp && a->cp == on->cp && a->heads == on->heads && a->bf16 == on->bf16)
            return s->table[i];
    }
    return NULL;
}

static tx_status plan_works(search *s, table *t, const table *known, bool smallest)
{
    for (int i = 0; i < t->n_work; i++)
        if ((t->work[i].is.b == 1) == smallest) TX_TRY(plan_work(s, t, i, known));
    return TX_OK;
}

/* Larger micro-batches take more: they are planned where the smallest ones fit. */
static tx_status try_layout(search *s, layout on)
{
    const table *known = find_table(s, &on);
    table *t;
    size_t least = SIZE_MAX;
    if (s->n_tables == MAX_TABLES) return TX_OK;
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "the plans of a layout"));
    s->table[s->n_tables++] = t;
    t->on = on;
    t->base = -1;
    list_work(s, t);
    list_states(s, t);
    TX_TRY(plan_works(s, t, known, true));
    for (int i = 0; i < t->n_work; i++) {
        size_t its = most_workspace(&t->work[i].sizes);
        if (!t->work[i].n_micro || its >= least) continue;
        least = its;
        t->base = i;
    }
    if (t->base < 0) return TX_OK;
    for (int i = 0; i < t->n_state; i++) {
        candidate c = { .on = on, .work = t->work[t->base].is, .state = t->state[i].is };
        TX_TRY(plan_candidate(s, &c, &t->state[i].sizes, &t->state[i].possible));
    }
    int before = s->n_fits;
    consider_table(s, t, true);
    if (s->n_fits == before) return TX_OK;
    TX_TRY(plan_works(s, t, known, false));
    consider_table(s, t, false);
    return TX_OK;
}

static tx_status try_precisions(search *s, layout on)
{
    TX_TRY(try_layout(s, on));
    on.bf16 = !s->cfg->bf16 && !s->cfg->fp16;
    return on.bf16 ? try_layout(s, on) : TX_OK;
}

static double distance(const search *s, const layout *on)
{
    double tp = (double)on->tp / (double)s->cfg->tensor_model_parallel_size;
    double pp = (double)on->pp / (double)s->cfg->pipeline_model_parallel_size;
    double cp = (double)on->cp / (double)s->cfg->context_parallel_size;
    return (tp > 1 ? tp : 1 / tp) * (pp > 1 ? pp : 1 / pp) * cp;
}

/* In the order of their distance.   Returns how many there are then. */
static int insert(const search *s, layout on, layout out[MAX_LAYOUTS], int n)
{
    int at = n;
    while (at > 0 && distance(s, &on) < distance(s, &out[at - 1])) at--;
    if (at == MAX_LAYOUTS) return n;
    n += n < MAX_LAYOUTS;
    for (int i = n - 1; i > at; i--) out[i] = out[i - 1];
    out[at] = on;
    return n;
}

/* As many context ranks as the run has, or more, around a ring and by heads, where parts are not too short. */
static int insert_contexts(const search *s, layout on, layout out[MAX_LAYOUTS], int n)
{
    int64_t own = s->cfg->context_parallel_size, ranks = on.ranks / on.tp / on.pp;
    for (on.cp = own; on.cp <= ranks; on.cp += own) {
        if (on.cp > own && s->cfg->seq_length / on.cp < LEAST_POSITIONS) break;
        if (ranks % on.cp) continue;
        on.heads = false;
        n = insert(s, on, out, n);
        on.heads = true;
        if (on.cp > own) n = insert(s, on, out, n);
    }
    return n;
}

/* All layouts of so many ranks that could go, the run's own first, then by distance from it. */
static int list_layouts(const search *s, int64_t ranks, layout out[MAX_LAYOUTS])
{
    int n = 0;
    for (int64_t tp = 1; tp <= ranks && tp <= s->cfg->num_attention_heads; tp++)
        for (int64_t pp = 1; ranks % tp == 0 && pp <= ranks / tp && pp <= s->cfg->num_layers; pp++)
            if (ranks / tp % pp == 0) n = insert_contexts(s, (layout){ .ranks = ranks, .tp = tp, .pp = pp }, out, n);
    return n;
}

/* Plans the cheapest as a whole, and keeps of them what fits. */
static tx_status confirm(search *s)
{
    enum { CONFIRMED = 12 };
    candidate all[MAX_FITS];
    int n = s->n_fits < CONFIRMED ? s->n_fits : CONFIRMED;
    memcpy(all, s->fits, sizeof all);
    s->n_fits = s->n_plain = 0;
    for (int i = 0; i < n; i++) {
        bool possible;
        TX_TRY(plan_candidate(s, &all[i], &all[i].sizes, &possible));
        if (!possible) continue;
        all[i].bytes = tx_memory_limited(most_of(&all[i].sizes));
        all[i].messages = s->plan->sent > 0 ? all[i].sizes.sent / s->plan->sent : 1;
        if (all[i].bytes > s->limit) continue;
        keep(s, &all[i]);
        s->n_plain += is_plain(&all[i]);
    }
    return TX_OK;
}

/* On so many ranks, until there are as many as wanted. */
static tx_status try_ranks(search *s, int64_t ranks, int n_wanted)
{
    layout *all;
    tx_status st = TX_OK;
    TX_TRY(tx_alloc(&all, MAX_LAYOUTS, sizeof *all, "layouts"));
    int n = list_layouts(s, ranks, all);
    for (int i = 0; i < n && s->n_plain < n_wanted && !st; i++) st = try_precisions(s, all[i]);
    tx_free(all);
    if (ranks == ranks_of(s->cfg)) {
        memcpy(s->fewer, s->fits, sizeof s->fewer);
        s->n_fewer = s->n_fits;
    }
    return st ? st : confirm(s);
}

static tx_change change_of(const search *s, const candidate *c)
{
    tx_change change = { .ranks = c->on.ranks,
                         .memory = *most_of(&c->sizes),
                         .extra_compute = c->extra,
                         .messages = c->messages,
                         .disk = c->disk,
                         .without = left_out(s, c) };
    write_flags(s, c, change.flags);
    return change;
}

static void sort_by_work(const search *s, candidate *c, int n)
{
    for (int i = 1; i < n; i++) {
        candidate one = c[i];
        int k = i;
        for (; k > 0 && compare_work(s, &one, &c[k - 1]) < 0; k--) c[k] = c[k - 1];
        c[k] = one;
    }
}

static layout run_layout(const search *s)
{
    return (layout){ .ranks = ranks_of(s->cfg),
                     .tp = s->cfg->tensor_model_parallel_size,
                     .pp = s->cfg->pipeline_model_parallel_size,
                     .cp = s->cfg->context_parallel_size };
}

static tx_status find_least(search *s, tx_change *out)
{
    bool possible;
    TX_TRY(plan_candidate(s, &s->least, &s->least.sizes, &possible));
    if (!possible)
        s->least = (candidate){ .on = run_layout(s),
                                .work.b = s->cfg->micro_batch_size,
                                .sizes = { .stage = { s->plan->memory }, .n = 1, .sent = s->plan->sent } };
    s->least.messages = s->plan->sent > 0 ? s->least.sizes.sent / s->plan->sent : 1;
    *out = change_of(s, &s->least);
    return TX_OK;
}

/* The whole of a machine is no limit of a rank's where more of them would share it. */
static bool is_of_a_rank(const search *s)
{
    return !tx_memory_limit_is_of_machine(s->cfg) || s->plan->memory.gpu_free;
}

/* The cheapest on more ranks that is none of those on fewer, with ranks besides. */
static const candidate *cheapest_more(const search *s)
{
    for (int i = 0; i < s->n_fits; i++) {
        int k = 0;
        while (k < s->n_fewer && !does_as_much(s, &s->fits[i], &s->fewer[k])) k++;
        if (k == s->n_fewer) return &s->fits[i];
    }
    return NULL;
}

static tx_status find(search *s, tx_fit *f)
{
    const tx_config *cfg = s->cfg;
    s->least = (candidate){ .bytes = SIZE_MAX };
    TX_TRY(try_ranks(s, ranks_of(cfg), TX_MAX_CHANGES));
    f->n = s->n_fits < TX_MAX_CHANGES ? s->n_fits : TX_MAX_CHANGES;
    sort_by_work(s, s->fits, f->n);
    for (int i = 0; i < f->n; i++) f->change[i] = change_of(s, &s->fits[i]);
    TX_TRY(find_least(s, &f->least));
    for (f->times = 2; f->times <= TX_FIT_MOST_RANKS && is_of_a_rank(s); f->times *= 2) {
        s->n_fits = s->n_plain = 0;
        TX_TRY(try_ranks(s, f->times * ranks_of(cfg), 1));
        if (!s->n_fits) continue;
        const candidate *more = cheapest_more(s);
        if (more) f->more = change_of(s, more);
        return TX_OK;
    }
    f->times = is_of_a_rank(s) ? TX_FIT_MOST_RANKS : 1;
    return TX_OK;
}

tx_status tx_fit_find(tx_fit *out, const tx_config *cfg, int64_t vocab_size, const tx_run_plan *plan, size_t limit)
{
    search *s;
    tx_fit f = { .has_file = cfg->deepspeed_config };
    TX_TRY(tx_alloc(&s, 1, sizeof *s, "a search for changes"));
    s->cfg = cfg;
    s->vocab_size = vocab_size;
    s->plan = plan;
    s->limit = limit;
    tx_status st = find(s, &f);
    for (int i = 0; i < s->n_tables; i++) tx_free(s->table[i]);
    tx_free(s);
    if (!st) *out = f;
    return st;
}
