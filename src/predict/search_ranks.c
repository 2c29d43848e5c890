/* search_ranks.c - the fewest ranks that are fast enough. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "predict/search_run.h"

enum { MOST_RANKS = 1 << 20, NO_FASTER = 2 };

static int64_t node_of(const tx__search *s)
{
    return (int64_t)s->args->machine->ranks_per_node;
}

static bool is_enough(const tx_search_result *r, double seconds)
{
    return r->n && r->best[0].time.iteration <= seconds;
}

/* Doubles the nodes until they are enough. Ends without, where that has helped nothing NO_FASTER times, or there is no
 * layout for so many.   @fastest *ranks 0: none fits anywhere; then its `least` is the nearest */
static tx_status double_nodes(tx__search *s, tx_search_result *fastest, bool *enough, double seconds)
{
    int slower = 0;
    *enough = false;
    *fastest = (tx_search_result){ 0 };
    for (int64_t ranks = node_of(s); ranks <= MOST_RANKS && slower < NO_FASTER && !*enough; ranks *= 2) {
        tx_search_result r;
        TX_TRY(tx__search_on(s, &r, ranks));
        if (!r.n_layouts) break;
        bool faster = r.n && (!fastest->n || r.best[0].time.iteration < fastest->best[0].time.iteration);
        slower = faster || !fastest->n ? 0 : slower + 1;
        *enough = is_enough(&r, seconds);
        if (faster || !fastest->n) *fastest = r;
    }
    return TX_OK;
}

/* Of more nodes than that so many are tried that they differ by a STEPS-th. */
enum { STEPS = 64 };

/* One node after the other between half of these and these, from a little before where ranks that lose nothing would be
 * enough: `took` is what these take. */
static tx_status refine(tx__search *s, int64_t *ranks, double took, double seconds)
{
    int64_t node = node_of(s), most = *ranks / node, step = most > STEPS ? most / STEPS : 1;
    int64_t ideal = (int64_t)(0.85 * (double)most * took / seconds) / step * step;
    s->within = nextafter(seconds, INFINITY);
    for (int64_t n = ideal > most / 2 + step ? ideal : most / 2 + step; n < most; n += step) {
        tx_search_result r;
        TX_TRY(tx__search_on(s, &r, n * node));
        if (!is_enough(&r, seconds)) continue;
        *ranks = n * node;
        break;
    }
    s->within = INFINITY;
    return TX_OK;
}

static tx_status search(tx__search *s, tx_search_result *out, bool *enough, double seconds)
{
    s->most = 1;
    s->within = nextafter(seconds, INFINITY); /* what is slower by its bound is not even planned */
    TX_TRY(double_nodes(s, out, enough, seconds));
    s->within = INFINITY;
    if (!*enough) TX_TRY(double_nodes(s, out, enough, seconds));
    int64_t ranks = out->ranks;
    if (*enough) TX_TRY(refine(s, &ranks, out->best[0].time.iteration, seconds));
    s->most = TX_SEARCH_BEST;
    return out->n ? tx__search_on(s, out, ranks) : TX_OK;
}

tx_status tx_search_ranks(tx_search_result *out, bool *enough, const tx_search_args *a, double seconds)
{
    tx__search *s;
    TX_TRY(tx_alloc(&s, 1, sizeof *s, "a search for layouts"));
    tx__search_open(s, a);
    tx_status st = search(s, out, enough, seconds);
    tx__search_close(s);
    tx_free(s);
    return st;
}

/* ---- why ---- */

/* The parts of an iteration, in the order of tx_time. */
enum { N_PARTS = 7 + TX_N_STEP_GROUPS };
static void parts_of(double part[N_PARTS], const tx_time *t)
{
    const double first[] = { t->products, t->attention, t->memory_bound, t->copies, t->bubble, t->update, t->other };
    for (int i = 0; i < 7; i++) part[i] = first[i];
    for (int i = 0; i < TX_N_STEP_GROUPS; i++) part[7 + i] = t->exposed[i];
}

const char *tx_search_reason(char buf[96], const tx_time *a, const tx_time *b)
{
    static const char *const name[] = {
        "in matrix products",       "in attention",     "in other ops",       "in copies to and from the host",
        "waiting for other stages", "in the optimizer", "in straggling ranks"
    };
    double x[N_PARTS], y[N_PARTS];
    int at = 0;
    parts_of(x, a);
    parts_of(y, b);
    for (int i = 1; i < N_PARTS; i++)
        if (y[i] - x[i] > y[at] - x[at]) at = i;
    double less = y[at] - x[at];
    int n = snprintf(buf, 96, "%.3g %s less ", less < 1 ? 1e3 * less : less, less < 1 ? "ms" : "s");
    if (at < 7)
        snprintf(buf + n, 96 - (size_t)n, "%s", name[at]);
    else
        snprintf(buf + n, 96 - (size_t)n, "in %s messages", tx_group_names[at - 7]);
    return buf;
}
