/* measured_time.c - looks up what was measured. */
#include "predict/measured_time.h"

#include <math.h>
#include <string.h>

double tx__ranks_a_core(const tx_machine *m, double n_ranks)
{
    return m->cores > 0 && n_ranks > m->cores ? n_ranks / m->cores : 1;
}

/* Ops are computed by one rank at a time on each core. What was measured by more ranks than cores is a mixture: short
 * ops ran while the others did not, long ones were interrupted. */
static int at_once(const tx_machine *m, int n_ranks)
{
    return m->cores > 0 && n_ranks > m->cores ? (int)m->cores : n_ranks;
}

/* Of two counts of ranks the one that is nearer to n; 0 is none. */
static double nearer(double a, double b, double n)
{
    return a > 0 && fabs(log(a / n)) <= fabs(log(b / n)) ? a : b;
}

/* What was measured by `measured` ranks at once takes as much longer by n as more of them share a core. */
static double slowed(const tx_machine *m, double seconds, double measured, int n)
{
    return seconds * tx__ranks_a_core(m, n) / tx__ranks_a_core(m, measured);
}

/* ---- products: near ones count most ---- */

/* What a product of another shape counts: distances in doublings of m, n and k. */
static double weight_of(const tx_measured_product *p, const tx_work_event *e)
{
    double a = log2(p->m / e->m), b = log2(p->n / e->n), c = log2(p->k / e->k), d = a * a + b * b + c * c + 0.01;
    return 1 / (d * d);
}

static double product(const tx_machine *m, const tx_work_event *e, int n_ranks)
{
    double ranks = 0, sum = 0, weights = 0;
    for (int i = 0; i < m->n_products; i++)
        if (m->product[i].dtype == e->dtype) ranks = nearer(ranks, m->product[i].ranks, at_once(m, n_ranks));
    for (int i = 0; i < m->n_products; i++) {
        const tx_measured_product *p = &m->product[i];
        if (p->dtype != e->dtype || p->ranks != ranks) continue;
        double w = weight_of(p, e);
        sum += w * log(p->flops_per_s);
        weights += w;
    }
    return weights > 0 ? slowed(m, e->flops / exp(sum / weights), ranks, n_ranks) : -1;
}

/* ---- ops: a line between the sizes below and above ---- */

static bool is_of(const tx_measured_op *o, const char *op, tx_dtype dtype)
{
    return o->dtype == dtype && !strcmp(o->op, op);
}

static double ranks_of(const tx_machine *m, const char *op, tx_dtype dtype, int n_ranks)
{
    double ranks = 0;
    for (int i = 0; i < m->n_ops; i++)
        if (is_of(&m->op[i], op, dtype)) ranks = nearer(ranks, m->op[i].ranks, n_ranks);
    return ranks;
}

/* Of the head dimensions that were measured the nearest one. */
static double head_of(const tx_machine *m, const char *op, tx_dtype dtype, double head, double ranks)
{
    double nearest = 0;
    for (int i = 0; i < m->n_ops && head > 0; i++)
        if (is_of(&m->op[i], op, dtype) && m->op[i].ranks == ranks) nearest = nearer(nearest, m->op[i].head, head);
    return nearest;
}

typedef struct entry {
    const char *op;
    tx_dtype dtype;
    double size, head; /* head 0: no attention */
} entry;

static double rate_between(const tx_measured_op *below, const tx_measured_op *above, double size)
{
    if (!below || !above) return (below ? below : above)->per_s;
    if (below->size >= above->size) return below->per_s;
    double x = log(size / below->size) / log(above->size / below->size);
    return below->per_s * pow(above->per_s / below->per_s, x);
}

/* Negative: none. */
static double rate_of(const tx_machine *m, const entry *e, double ranks)
{
    const tx_measured_op *below = NULL, *above = NULL;
    double head = head_of(m, e->op, e->dtype, e->head, ranks);
    for (int i = 0; i < m->n_ops; i++) {
        const tx_measured_op *o = &m->op[i];
        if (!is_of(o, e->op, e->dtype) || o->ranks != ranks || (head > 0 && o->head != head)) continue;
        if (o->size <= e->size && (!below || o->size > below->size)) below = o;
        if (o->size >= e->size && (!above || o->size < above->size)) above = o;
    }
    return below || above ? rate_between(below, above, e->size) : -1;
}

double tx__measured_op(const tx_machine *m, const tx_work_event *e, int n_ranks)
{
    if (e->bound == TX_COST_PRODUCT) return product(m, e, n_ranks);
    bool attention = e->bound == TX_COST_ATTENTION;
    double ranks = ranks_of(m, e->op, e->dtype, at_once(m, n_ranks));
    double rate = rate_of(m, &(entry){ e->op, e->dtype, attention ? e->m : e->bytes, attention ? e->n : 0 }, ranks);
    return rate > 0 ? slowed(m, (attention ? e->flops : e->bytes) / rate, ranks, n_ranks) : -1;
}

double tx__measured_call(const tx_machine *m, const char *op, tx_dtype dtype, double bytes, int n_ranks)
{
    double ranks = ranks_of(m, op, dtype, n_ranks);
    double rate = rate_of(m, &(entry){ op, dtype, bytes, 0 }, ranks);
    return rate > 0 ? slowed(m, bytes / rate, ranks, n_ranks) : -1;
}
