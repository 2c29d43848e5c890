/* fit.c - changes that make a run fit into its memory, found by planning them.
 *
 *  What is tried: smaller micro-batches of the same global batch, every row of `levers`, and each two of all these
 *  together. The order of cost:
 *
 *      1  whether a disk is read and written
 *      2  extra compute, as a part of an iteration's FLOPs
 *      3  messages, in halves of what a rank sends
 *      4  fewer changes
 *      5  as tried: the micro-batch first, which changes no result but its rounding, then the rows of `levers`
 *
 *  A change that does more than another one that fits, such as a still smaller micro-batch or a higher stage of ZeRO,
 *  stands behind all others; one that saves nothing by that is none. */
#include "train/fit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "base/system_memory.h"

static double nothing(const tx_run_plan *p)
{
    (void)p;
    return 0;
}

/* A forward is a third of an iteration. */
static double layers_again(const tx_run_plan *p)
{
    return p->flops_layers / 3 / p->flops;
}

/* Options that save memory, and their extra compute. Of one kind only one is taken, and `stage` is the ZeRO stage that
 * it takes. A row that the options of a run do not go together with, or that saves nothing there (ZeRO with one
 * data-parallel rank, cpu where all memory is the processor's), is left out. */
static const struct lever {
    enum { ZERO, RECOMPUTE, PRECISION, STATE, PARAMS } kind;
    const char *flags;
    double (*extra)(const tx_run_plan *p);
    int stage;
    bool disk;
} levers[] = {
    { ZERO, "", nothing, 1, false },
    { PRECISION, "--bf16", nothing, 0, false },
    { RECOMPUTE, "--recompute-activations", nothing, 0, false }, /* no product is computed again */
    { ZERO, "", nothing, 2, false },
    { ZERO, "", nothing, 3, false },
    { RECOMPUTE, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", layers_again, 0,
      false },
    { STATE, "--offload-optimizer cpu", nothing, 1, false },
    { STATE, "--offload-optimizer nvme", nothing, 1, true },
    { PARAMS, "--offload-param cpu", nothing, 3, false },
    { PARAMS, "--offload-param nvme", nothing, 3, true },
};
enum { N_LEVERS = sizeof levers / sizeof *levers, MAX_FITS = (1 + N_LEVERS * N_LEVERS) * TX_MAX_CHANGES };

typedef struct candidate {
    unsigned levers; /* a bit each */
    int64_t b;       /* micro-batch */
    int n;           /* changes */
    double extra;
    double messages; /* for 1 of the run as it is */
    bool disk;
    tx_memory memory;
    bool surplus; /* another one that fits does less */
} candidate;

typedef struct search {
    const tx_config *cfg;
    int64_t vocab_size;
    const tx_run_plan *plan; /* of the run as it is */
    size_t limit;
    unsigned useful;        /* levers that save something by themselves */
    size_t alone[N_LEVERS]; /* what the run takes with one of them; SIZE_MAX: not tried, or impossible */
    candidate fits[MAX_FITS], least;
    int n_fits;
} search;

/* ---- trying ---- */

/* The stage of ZeRO with these levers; 0: as it is. */
static int stage_of(const search *s, const candidate *c)
{
    int stage = 0;
    for (int i = 0; i < N_LEVERS; i++)
        if (c->levers >> i & 1 && levers[i].stage > stage) stage = levers[i].stage;
    return stage > s->cfg->zero_stage ? stage : 0;
}

/* For people to put a folder in, where the run has none. */
static const char *folder_of(const search *s, const struct lever *l)
{
    if (!l->disk || (l->kind == STATE ? s->cfg->offload_optimizer_nvme_path : s->cfg->offload_param_nvme_path))
        return "";
    return l->kind == STATE ? " --offload-optimizer-nvme-path DIR" : " --offload-param-nvme-path DIR";
}

static void flags_of(const search *s, const candidate *c, char *buf, size_t cap)
{
    size_t n = 0;
    buf[0] = 0;
    if (c->b != s->cfg->micro_batch_size) {
        n += (size_t)snprintf(buf, cap, "--micro-batch-size %lld", (long long)c->b);
        if (!s->cfg->given.global_batch_size) /* else it would follow the micro-batch */
            n += (size_t)snprintf(buf + n, cap - n, " --global-batch-size %lld", (long long)s->cfg->global_batch_size);
    }
    if (stage_of(s, c)) n += (size_t)snprintf(buf + n, cap - n, "%s--zero-stage %d", n ? " " : "", stage_of(s, c));
    for (int i = 0; i < N_LEVERS; i++)
        if (c->levers >> i & 1 && levers[i].flags[0])
            n += (size_t)snprintf(buf + n, cap - n, "%s%s%s", n ? " " : "", levers[i].flags, folder_of(s, &levers[i]));
    TX_ASSERT(n < cap);
}

/* *possible: the options may have these values, and the backend can. */
static tx_status plan_candidate(const search *s, candidate *c, bool *possible)
{
    char flags[sizeof((tx_change *)0)->flags];
    tx_config *changed = NULL;
    tx_run_plan plan;
    flags_of(s, c, flags, sizeof flags);
    tx_status st = tx_config_with(&changed, s->cfg, flags);
    if (!st) st = tx_plan_run(&plan, changed, s->vocab_size);
    tx_config_free(changed);
    *possible = !st;
    if (st == TX_ERR_ARG || st == TX_ERR_UNSUPPORTED) return TX_OK;
    if (!st) c->memory = plan.memory;
    if (!st) c->messages = s->plan->sent > 0 ? plan.sent / s->plan->sent : 1;
    return st;
}

/* With what a higher stage of ZeRO does, too. */
static unsigned done_by(unsigned set)
{
    unsigned all = set;
    for (int i = 0; i < N_LEVERS; i++)
        for (int k = 0; k < N_LEVERS; k++)
            if (set >> i & 1 && levers[k].kind == ZERO && levers[k].stage <= levers[i].stage) all |= 1u << k;
    return all;
}

static bool does_more(const candidate *c, const candidate *than)
{
    return (done_by(c->levers) & than->levers) == than->levers && c->b <= than->b;
}

static tx_status try_one(search *s, candidate c, size_t *total)
{
    bool possible;
    *total = SIZE_MAX;
    TX_TRY(plan_candidate(s, &c, &possible));
    if (!possible) return TX_OK;
    *total = tx_memory_limited(&c.memory);
    if (*total < tx_memory_limited(&s->least.memory)) s->least = c;
    if (*total > s->limit) return TX_OK;
    for (int i = 0; i < s->n_fits; i++) {
        if (!does_more(&c, &s->fits[i])) continue;
        if (*total >= tx_memory_limited(&s->fits[i].memory)) return TX_OK;
        c.surplus = true;
    }
    s->fits[s->n_fits++] = c;
    return TX_OK;
}

/* The next smaller micro-batch that divides what the run's divides; below 1: none. */
static int64_t smaller(const search *s, int64_t b)
{
    for (b--; b > 0 && s->cfg->micro_batch_size % b;) b--;
    return b;
}

/* Whether a lever saves something, and more than those whose work it does, too. */
static bool is_useful(search *s, unsigned set, size_t total)
{
    bool useful = total < tx_memory_limited(&s->plan->memory);
    for (int i = 0; i < N_LEVERS; i++) {
        if (set >> i & 1) s->alone[i] = total;
        if ((done_by(set) & ~set) >> i & 1 && total >= s->alone[i]) useful = false;
    }
    return useful;
}

/* A set of one or two levers, or of none, alone and with each smaller micro-batch; no more than two changes. */
static tx_status try_levers(search *s, unsigned set)
{
    candidate c = { .levers = set, .b = s->cfg->micro_batch_size };
    size_t total;
    for (int i = 0; i < N_LEVERS; i++) {
        if (!(set >> i & 1)) continue;
        c.n++;
        c.extra += levers[i].extra(s->plan);
        c.disk = c.disk || levers[i].disk;
    }
    if (c.n) {
        TX_TRY(try_one(s, c, &total));
        if (c.n == 2 || !is_useful(s, set, total)) return TX_OK;
        s->useful |= set;
    }
    int enough = s->n_fits + TX_MAX_CHANGES;
    c.n++;
    while (s->n_fits < enough && (c.b = smaller(s, c.b)) > 0) TX_TRY(try_one(s, c, &total));
    return TX_OK;
}

/* ---- choosing ---- */

/* Less than as it is counts as that. */
static int half_messages(const candidate *c)
{
    return c->messages > 1 ? (int)(2 * c->messages + 0.5) : 2;
}

static bool less_work(const candidate *a, const candidate *b)
{
    if (a->disk != b->disk) return b->disk;
    return a->extra != b->extra ? a->extra < b->extra : half_messages(a) < half_messages(b);
}

static bool cheaper(const candidate *a, const candidate *b)
{
    if (a->surplus != b->surplus) return b->surplus;
    if (less_work(a, b) || less_work(b, a)) return less_work(a, b);
    return a->n < b->n;
}

/* Stable. */
static void sort(candidate *c, int n, bool (*before)(const candidate *a, const candidate *b))
{
    for (int i = 1; i < n; i++) {
        candidate one = c[i];
        int k = i;
        for (; k > 0 && before(&one, &c[k - 1]); k--) c[k] = c[k - 1];
        c[k] = one;
    }
}

static tx_change change_of(const search *s, const candidate *c)
{
    tx_change change = { .memory = c->memory, .extra_compute = c->extra, .messages = c->messages, .disk = c->disk };
    flags_of(s, c, change.flags, sizeof change.flags);
    return change;
}

tx_status tx_fit_find(tx_fit *out, const tx_config *cfg, int64_t vocab_size, const tx_run_plan *plan, size_t limit)
{
    search s = { .cfg = cfg, .vocab_size = vocab_size, .plan = plan, .limit = limit };
    s.least = (candidate){ .b = cfg->micro_batch_size, .memory = plan->memory, .messages = 1 };
    for (int i = 0; i < N_LEVERS; i++) s.alone[i] = SIZE_MAX;
    TX_TRY(try_levers(&s, 0));
    for (unsigned i = 0; i < N_LEVERS; i++) TX_TRY(try_levers(&s, 1u << i));
    for (unsigned i = 0; i < N_LEVERS; i++)
        for (unsigned k = i + 1; k < N_LEVERS; k++)
            if (levers[i].kind != levers[k].kind && s.useful >> i & s.useful >> k & 1)
                TX_TRY(try_levers(&s, 1u << i | 1u << k));
    sort(s.fits, s.n_fits, cheaper);
    tx_fit f = { .n = s.n_fits < TX_MAX_CHANGES ? s.n_fits : TX_MAX_CHANGES };
    sort(s.fits, f.n, less_work);
    for (int i = 0; i < f.n; i++) f.change[i] = change_of(&s, &s.fits[i]);
    f.least = change_of(&s, &s.least);
    *out = f;
    return TX_OK;
}

/* ---- the limit ---- */

tx_memory_limit tx_memory_limit_of(const tx_config *cfg, const tx_memory *planned)
{
    tx_memory_limit limit = { .whose = "--memory-limit is" };
    const char *text = cfg->memory_limit;
    if (!strcmp(text, "auto") && planned->gpu_free)
        limit = (tx_memory_limit){ .bytes = planned->gpu_free, .whose = "the GPU's free memory is" };
    else if (!strcmp(text, "auto"))
        limit.bytes = tx_system_memory(&limit.whose);
    else if (!tx_size_parse(text, &limit.bytes))
        limit.bytes = 0; /* "off"; the rules let nothing else through */
    return limit;
}

const char *tx_change_cost_text(char buf[96], const tx_change *c)
{
    int n = snprintf(buf, 96, "no extra compute");
    if (c->extra_compute > 0) n = snprintf(buf, 96, "about %.2g %% more compute", 100 * c->extra_compute);
    if (c->messages > 1.05) n += snprintf(buf + n, 96 - (size_t)n, ", %.2g times the messages", c->messages);
    if (c->disk) snprintf(buf + n, 96 - (size_t)n, ", a disk is read and written");
    return buf;
}

/* What keeps the least from being less. */
static void add_bound(char *text, size_t cap, const tx_memory *m)
{
    char size[24];
    size_t passing = m->activations + m->workspace + (m->gpu_free ? 0 : m->host_activations),
           state = tx_memory_limited(m) - passing;
    if (state > passing)
        snprintf(text, cap, "%s of it are parameters, gradients and optimizer state%s: take a smaller model",
                 tx_bytes_text(size, (double)state), m->saving ? " with --async-save's copy of them" : "");
    else
        snprintf(text, cap, "%s of it are activations and workspace: take a shorter --seq-length or a smaller model",
                 tx_bytes_text(size, (double)passing));
}

tx_status tx_fit_refuse(const tx_fit *f, const tx_memory *planned, tx_memory_limit limit)
{
    char text[1400] = "", bound[160], size[24], least[24], cost[96];
    size_t n = 0;
    int width = 0;
    for (int i = 0; i < f->n; i++)
        if ((int)strlen(f->change[i].flags) > width) width = (int)strlen(f->change[i].flags);
    for (int i = 0; i < f->n; i++) {
        const tx_change *c = &f->change[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "\n  %-*s  %10s, %s", width, c->flags,
                              tx_bytes_text(size, (double)tx_memory_limited(&c->memory)), tx_change_cost_text(cost, c));
    }
    tx_bytes_text(least, (double)tx_memory_limited(&f->least.memory));
    add_bound(bound, sizeof bound, &f->least.memory);
    if (!f->n && f->least.flags[0])
        snprintf(text, sizeof text, "the least it can be made to take is %s, with %s; %s", least, f->least.flags,
                 bound);
    else if (!f->n)
        snprintf(text, sizeof text, "%s%s",
                 f->untried ? "a smaller --micro-batch-size, a higher --zero-stage or recomputed layers may help; "
                            : "no option makes it less; ",
                 bound);
    char need[24], have[24], taken[64] = "", copy[64] = "";
    if (planned->saving && !planned->gpu_free)
        snprintf(copy, sizeof copy, ", %s of it the copy for --async-save",
                 tx_bytes_text(size, (double)planned->saving));
    if (limit.taken)
        snprintf(taken, sizeof taken, ", of which the program has %s", tx_bytes_text(size, (double)limit.taken));
    return TX_FAIL_LINES(TX_ERR_NOMEM, "the run would take %s of %s%s, but %s %s%s; %s%s",
                         tx_bytes_text(need, (double)tx_memory_limited(planned)),
                         planned->gpu_free ? "the GPU's memory" : "memory", copy, limit.whose,
                         tx_bytes_text(have, (double)limit.bytes), taken,
                         f->n ? "changes that make it fit, cheapest first:" : "", text);
}

tx_status tx_fit_check(const tx_config *cfg, int64_t vocab_size, bool can_plan, const tx_memory *planned)
{
    tx_memory_limit limit = tx_memory_limit_of(cfg, planned);
    size_t total = tx_memory_limited(planned), host = tx_memory_total(planned) - tx_memory_gpu(planned);
    size_t left = tx_system_memory_free();
    char need[24], have[24];
    tx_run_plan plan;
    tx_fit fit = { .least.memory = *planned, .untried = !can_plan };
    if (limit.bytes && !strcmp(cfg->memory_limit, "auto") && !planned->gpu_free) limit.taken = tx_system_memory_taken();
    size_t room = limit.bytes > limit.taken ? limit.bytes - limit.taken : 1;
    if (!limit.bytes || total <= room) {
        if (limit.bytes && left && host > left)
            tx_warn(
                "the run will take %s of the host's memory, and only %s is free now: the machine may swap, or end it",
                tx_bytes_text(need, (double)host), tx_bytes_text(have, (double)left));
        return TX_OK;
    }
    if (can_plan) TX_TRY(tx_plan_run(&plan, cfg, vocab_size));
    if (can_plan) TX_TRY(tx_fit_find(&fit, cfg, vocab_size, &plan, room));
    return tx_fit_refuse(&fit, planned, limit);
}
