/* labels: unit */
/* The filters, the draw and the rankings on thousands of random rows of logits (ties, -infinity, huge and tiny ones,
 * few tokens, edges of k and p), against the definitions in sample.h written down as plainly as can be: sorting, and
 * sums in long double. Where a sum meets p up to rounding, both neighbours are right. */
#include "support.h"

#include "base/rng.h"
#include "infer/sample.h"

#define MAX_N    400
#define N_CASES  6000
#define ROUNDING 1e-12L /* of sums that decide */

typedef struct test_case {
    int64_t n;
    float logits[MAX_N];
    tx_sampler s;
    tx_sample_past past;
    bool has_past;
    int32_t token[64], forbidden[8];
} test_case;

typedef struct reference {
    long double x[MAX_N];    /* logits after penalty, forbidden tokens, temperature */
    long double prob[MAX_N]; /* of the stage */
    int32_t order[MAX_N];    /* ids, likeliest first */
} reference;

/* ---- random cases ---- */

static const tx_rng rng = { .seed = 20, .stream = 1 };
static uint64_t n_drawn;

static double uniform(void)
{
    return tx_rng_uniform(&rng, n_drawn++);
}
static int64_t below(int64_t n)
{
    return (int64_t)(uniform() * (double)n);
}
static double between(double lo, double hi)
{
    return lo + (hi - lo) * uniform();
}
static bool chance(double p)
{
    return uniform() < p;
}

static void random_logits(test_case *c)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 7, 16, 50, 257, MAX_N };
    c->n = sizes[below(sizeof sizes / sizeof *sizes)];
    int64_t shape = below(7);
    double scale = pow(10, between(-3, 2));
    for (int64_t i = 0; i < c->n; i++) {
        double x = scale * tx_rng_normal(&rng, n_drawn++);
        switch (shape) {
        case 0:
            x = 3;
            break; /* all equal */
        case 1:
            x = (double)below(4);
            break; /* many ties */
        case 2:
            x *= 1e35;
            break; /* huge: all but one vanish */
        case 3:
            x = (double)(int64_t)(x * 8) / 8;
            break; /* as bf16 has them: some ties */
        case 4:
            x = i == 1 ? 50 : x * 1e-3;
            break; /* one has nearly everything */
        default:
            break;
        }
        c->logits[i] = (float)x;
    }
    if (chance(0.3))
        for (int64_t i = 0; i < c->n; i++)
            if (i != c->n / 2 && chance(0.5)) c->logits[i] = -INFINITY;
}

static void random_past(test_case *c)
{
    c->has_past = chance(0.8);
    c->past = (tx_sample_past){ .token = c->token, .n = below(64), .forbidden = c->forbidden };
    for (int64_t i = 0; i < c->past.n; i++) c->token[i] = (int32_t)below(c->n);
    c->past.n_new = below(c->past.n + 1);
    if (c->n > 1 && chance(0.3)) c->past.n_forbidden = 1 + below(8);
    for (int64_t i = 0; i < c->past.n_forbidden; i++) { /* never the one that is sure to be finite */
        c->forbidden[i] = (int32_t)below(c->n - 1);
        if (c->forbidden[i] >= c->n / 2) c->forbidden[i]++;
    }
}

static void random_sampler(test_case *c)
{
    static const double edges[] = { 0, 1, 1e-300, 1e-9, 0.5, 0.25, 0.75, 1 - 1e-16, 1 - 1e-9 };
    tx_sampler *s = &c->s;
    *s = (tx_sampler){ .temperature = chance(0.3) ? 1 : pow(10, between(-2, 2)) };
    if (chance(0.05)) s->temperature = 1e-6;
    if (chance(0.6)) s->top_k = chance(0.2) ? c->n + below(3) : 1 + below(c->n);
    if (chance(0.7)) s->top_p = chance(0.3) ? edges[below(sizeof edges / sizeof *edges)] : uniform();
    if (chance(0.3)) s->top_p_decay = between(0.5, 1), s->top_p_bound = chance(0.5) ? 0 : between(0, 0.9);
    if (chance(0.5)) s->repetition_penalty = chance(0.1) ? 1 : between(0.3, 3);
    s->greedy = chance(0.1);
}

/* ---- the definitions ---- */

static struct {
    const long double *x;
    bool higher_first; /* among equals */
} sorting;

static int likelier(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sorting.x[i] != sorting.x[j]) return sorting.x[i] > sorting.x[j] ? -1 : 1;
    return (i < j) == sorting.higher_first ? 1 : -1;
}

static void sort_by(reference *r, const long double *x, int64_t n, bool higher_first)
{
    for (int64_t i = 0; i < n; i++) r->order[i] = (int32_t)i;
    sorting.x = x;
    sorting.higher_first = higher_first;
    qsort(r->order, (size_t)n, sizeof *r->order, likelier);
}

static bool has(const int32_t *list, int64_t n, int64_t id)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

/* Logits after what changes them one by one. The filter computes them in double, and so must whoever looks for ties. */
static void change_logits(reference *r, const test_case *c, tx_sample_stage last)
{
    const tx_sample_past *past = c->has_past ? &c->past : NULL;
    double penalty = c->s.repetition_penalty;
    for (int64_t i = 0; i < c->n; i++) {
        double x = c->logits[i];
        if (last >= TX_STAGE_PENALTY && past) {
            if (penalty != 0 && has(past->token, past->n, i)) x = x > 0 ? x / penalty : x * penalty;
            if (has(past->forbidden, past->n_forbidden, i)) x = -INFINITY;
        }
        if (last >= TX_STAGE_TEMPERATURE && !c->s.greedy) x /= c->s.temperature;
        r->x[i] = x;
    }
}

/* prob = exp(x) / Σ over those that are kept */
static void normalize(reference *r, const bool *kept, int64_t n)
{
    long double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (kept[i] && r->x[i] > max) max = r->x[i];
    for (int64_t i = 0; i < n; i++) sum += r->prob[i] = kept[i] ? expl(r->x[i] - max) : 0;
    for (int64_t i = 0; i < n; i++) r->prob[i] /= sum;
}

static double top_p_now(const test_case *c)
{
    double p = c->s.top_p;
    for (int64_t i = 0; c->s.top_p_decay > 0 && c->has_past && i < c->past.n_new; i++) {
        p *= c->s.top_p_decay;
        if (p < c->s.top_p_bound) p = c->s.top_p_bound;
    }
    return p;
}

/* @seen probabilities of the filter that is tested: they say what rounding decided */
static void filter_by_definition(reference *r, const test_case *c, tx_sample_stage last, const double *seen)
{
    bool kept[MAX_N];
    int64_t n = c->n;
    memset(r, 0, sizeof *r);
    change_logits(r, c, last);
    for (int64_t i = 0; i < n; i++) kept[i] = true;
    sort_by(r, r->x, n, true);
    if (last >= TX_STAGE_TOP_K && !c->s.greedy && c->s.top_k > 0 && c->s.top_k < n)
        for (int64_t i = 0; i < n; i++) kept[i] = r->x[i] >= r->x[r->order[c->s.top_k - 1]];
    normalize(r, kept, n);
    double p = top_p_now(c);
    if (last < TX_STAGE_TOP_P || c->s.greedy || !(p > 0 && p < 1)) return;
    long double before = 0; /* probability of those that are likelier */
    for (int64_t i = 0; i < n; i++) {
        int32_t id = r->order[i];
        bool either = i > 0 && fabsl(before - p) <= ROUNDING;
        kept[id] = kept[id] && (either ? seen[id] > 0 : i == 0 || before < p);
        before += r->prob[id];
    }
    normalize(r, kept, n);
}

/* ---- comparisons ---- */

static void fail_case(const test_case *c, int64_t number, const char *what, int64_t id, double got, double expect)
{
    fail_msg(
        "case %lld (n %lld, temperature %g, top-k %lld, top-p %.17g, decay %g, penalty %g, greedy %d), token %lld: "
        "%s %.17g, expected %.17g",
        (long long)number, (long long)c->n, c->s.temperature, (long long)c->s.top_k, c->s.top_p, c->s.top_p_decay,
        c->s.repetition_penalty, c->s.greedy, (long long)id, what, got, expect);
}

static const tx_sample_past *past_of(const test_case *c)
{
    return c->has_past ? &c->past : NULL;
}

/* Probabilities below what a double has are nobody's matter. */
static void compare_stage(const test_case *c, int64_t number, tx_sample_stage stage, double *prob)
{
    static reference r;
    double work[MAX_N], sum = 0;
    tx_sample_filter(&(tx_token_probs){ prob, work, c->n }, &c->s, past_of(c), stage, c->logits);
    filter_by_definition(&r, c, stage, prob);
    for (int64_t i = 0; i < c->n; i++) {
        double expect = (double)r.prob[i];
        sum += prob[i];
        if (r.prob[i] == 0 && prob[i] != 0) fail_case(c, number, "dropped, but has", i, prob[i], 0);
        if (!(fabs(prob[i] - expect) <= 1e-10 * expect + 1e-300))
            fail_case(c, number, tx_sample_stage_names[stage], i, prob[i], expect);
    }
    ASSERT_NEAR(sum, 1, 1e-10, "sum of probabilities");
}

/* The token on which u falls, by the distribution that the filter has given. */
static void compare_draw(const test_case *c, int64_t number, const double *prob)
{
    double p[MAX_N], work[MAX_N];
    double us[] = { 0, uniform(), uniform(), 1 - 0x1p-53 };
    for (size_t k = 0; k < sizeof us / sizeof *us; k++) {
        int32_t id = tx_sample_token(&(tx_token_probs){ p, work, c->n }, &c->s, past_of(c), c->logits, us[k]);
        long double before = 0;
        if (id < 0 || id >= c->n) fail_case(c, number, "drawn", id, id, 0);
        for (int64_t i = 0; i < id; i++) before += prob[i];
        if (!(prob[id] > 0)) fail_case(c, number, "drawn, but has", id, prob[id], 1);
        if (us[k] < before - ROUNDING || us[k] > before + prob[id] + ROUNDING)
            fail_case(c, number, "drawn for", id, us[k], (double)before);
    }
}

/* Greedy, and top-k of one: the lowest id of the largest. */
static void compare_greedy(const test_case *c, int64_t number)
{
    static reference r;
    double p[MAX_N], work[MAX_N];
    change_logits(&r, c, TX_STAGE_PENALTY);
    sort_by(&r, r.x, c->n, false);
    tx_sampler s = c->s;
    for (int k = 0; k < 2; k++) {
        s.greedy = k == 0;
        s.top_k = 1;
        int32_t id = tx_sample_token(&(tx_token_probs){ p, work, c->n }, &s, past_of(c), c->logits, uniform());
        if (id != r.order[0]) fail_case(c, number, "greedy", id, id, r.order[0]);
    }
}

static void compare_rankings(const test_case *c, int64_t number, const double *prob)
{
    static reference r;
    int32_t top[MAX_N + 2];
    int64_t n_positive = 0, k = 1 + below(c->n + 2), expect;
    for (int64_t i = 0; i < c->n; i++) {
        r.prob[i] = prob[i];
        n_positive += prob[i] > 0;
    }
    sort_by(&r, r.prob, c->n, false);
    expect = k < n_positive ? k : n_positive;
    int64_t have = tx_sample_top(prob, c->n, k, top);
    if (have != expect) fail_case(c, number, "ranked", -1, (double)have, (double)expect);
    for (int64_t i = 0; i < have; i++)
        if (top[i] != r.order[i]) fail_case(c, number, "rank", i, top[i], r.order[i]);
    long double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < c->n; i++) max = c->logits[i] > max ? c->logits[i] : max;
    for (int64_t i = 0; i < c->n; i++) sum += expl(c->logits[i] - max);
    int64_t id = below(c->n);
    long double logprob = c->logits[id] - max - logl(sum);
    double got = tx_logprob(c->logits, c->n, (int32_t)id);
    if (isinf(c->logits[id]) ? got != -INFINITY : !(fabsl(got - logprob) <= 1e-12L * (1 + fabsl(logprob))))
        fail_case(c, number, "log-probability", id, got, (double)logprob);
}

/* A top-p that some of the likeliest tokens have together, up to the rounding of a sum. */
static void border_of_top_p(test_case *c)
{
    static reference r;
    double prob[MAX_N], work[MAX_N], tail = 0;
    tx_sample_filter(&(tx_token_probs){ prob, work, c->n }, &c->s, past_of(c), TX_STAGE_TOP_K, c->logits);
    for (int64_t i = 0; i < c->n; i++) r.prob[i] = prob[i];
    sort_by(&r, r.prob, c->n, true);
    for (int64_t i = c->n - 1, n_kept = 1 + below(c->n); i >= n_kept; i--) tail += prob[r.order[i]];
    c->s.top_p = 1 - tail;
    c->s.top_p_decay = 0;
}

static void random_rows(void **state)
{
    (void)state;
    static test_case c;
    for (int64_t number = 0; number < N_CASES; number++) {
        double prob[MAX_N] = { 0 };
        random_logits(&c);
        random_past(&c);
        random_sampler(&c);
        if (chance(0.3)) border_of_top_p(&c);
        for (int stage = 0; stage < TX_N_STAGES; stage++) compare_stage(&c, number, (tx_sample_stage)stage, prob);
        if (!c.s.greedy && c.s.top_k != 1) compare_draw(&c, number, prob);
        compare_greedy(&c, number);
        compare_rankings(&c, number, prob);
    }
}

/* Equals at the border of top-p: as many of them as it takes, the highest ids. */
static void equals_at_the_border(void **state)
{
    (void)state;
    const float logits[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    double prob[8], work[8];
    for (int n_kept = 1; n_kept <= 8; n_kept++) {
        tx_sampler s = { .temperature = 1, .top_p = (n_kept - 0.5) / 8 };
        tx_sample_filter(&(tx_token_probs){ prob, work, 8 }, &s, NULL, TX_STAGE_TOP_P, logits);
        for (int i = 0; i < 8; i++) ASSERT_NEAR(prob[i], i >= 8 - n_kept ? 1.0 / n_kept : 0, 1e-15, "one of equals");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_rows), cmocka_unit_test(equals_at_the_border) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
