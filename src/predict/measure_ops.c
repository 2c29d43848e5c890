/* measure_ops.c - from single runs of ops to rates. */
#include "predict/measure_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- gathering ---- */

static void read_shape(tx_op_time *t, const tx_tensor *s)
{
    t->dtype = s->dtype;
    if (t->bound == TX_COST_PRODUCT) {
        t->m = (double)s->dim[0];
        t->n = (double)s->dim[1];
        t->k = (double)s->dim[2];
    } else if (t->bound == TX_COST_ATTENTION) {
        t->m = (double)s->dim[0];
        t->n = (double)s->dim[4];
        t->k = (double)(s->dim[1] * s->dim[2] * s->dim[3]);
    }
}

static bool is_op(const tx_profile_event *e)
{
    return e->cost.kind != TX_COST_MESSAGES && e->cost.kind != TX_COST_WAITING;
}

tx_status tx_op_times_add(tx_op_times *t, const tx_profile *p)
{
    if (t->n + p->n_events > t->cap) {
        int64_t cap = 2 * t->cap > t->n + p->n_events ? 2 * t->cap : t->n + p->n_events;
        TX_TRY(tx_realloc(&t->run, (size_t)cap, sizeof *t->run, "the times of ops"));
        t->cap = cap;
    }
    for (const tx_profile_event *e = p->event; e < p->event + p->n_events; e++) {
        if (!is_op(e)) continue;
        tx_op_time *to = &t->run[t->n++];
        *to = (tx_op_time){ .op = e->op,
                            .part = e->at.part ? e->at.part : "",
                            .backward = e->at.backward,
                            .bound = e->cost.kind,
                            .size = e->cost.bytes,
                            .amount = e->cost.kind == TX_COST_MEMORY ? e->cost.bytes : e->cost.flops,
                            .seconds = e->seconds };
        read_shape(to, &e->cost.shape);
    }
    return TX_OK;
}

void tx_op_times_free(tx_op_times *t)
{
    tx_free(t->run);
    *t = (tx_op_times){ 0 };
}

/* ---- rates ---- */

static int compare(double a, double b)
{
    return a < b ? -1 : a > b;
}

/* What an entry is of: an op, a type, sizes. */
static int by_entry(const tx_op_time *a, const tx_op_time *b)
{
    int c = strcmp(a->op, b->op);
    if (!c) c = (int)a->dtype - (int)b->dtype;
    if (!c) c = compare(a->m, b->m);
    if (!c) c = compare(a->n, b->n);
    if (a->bound == TX_COST_ATTENTION) return c;
    if (!c) c = compare(a->k, b->k);
    if (!c && a->bound == TX_COST_MEMORY) c = compare(a->size, b->size);
    return c;
}

/* Parts of the model differ in what they do with a size: which of the matrices is transposed, what a cache has. */
static int by_part(const tx_op_time *a, const tx_op_time *b)
{
    int c = by_entry(a, b);
    if (!c) c = strcmp(a->part, b->part);
    if (!c) c = (int)a->backward - (int)b->backward;
    return c ? c : compare(a->amount, b->amount);
}

static int by_time(const void *a, const void *b)
{
    const tx_op_time *x = a, *y = b;
    int c = by_part(x, y);
    return c ? c : compare(x->seconds, y->seconds);
}

static double median(const tx_op_time *t, int64_t n)
{
    return (t[(n - 1) / 2].seconds + t[n / 2].seconds) / 2;
}

static tx_status append_product(tx_machine *m, const tx_op_time *t, double rate, int n_ranks)
{
    TX_TRY(tx_realloc(&m->product, (size_t)m->n_products + 1, sizeof *m->product, "measured products"));
    m->product[m->n_products++] = (tx_measured_product){
        .dtype = t->dtype, .m = t->m, .n = t->n, .k = t->k, .flops_per_s = rate, .ranks = n_ranks
    };
    return TX_OK;
}

static tx_status append_op(tx_machine *m, const tx_op_time *t, double rate, int n_ranks)
{
    bool attention = t->bound == TX_COST_ATTENTION;
    TX_TRY(tx_realloc(&m->op, (size_t)m->n_ops + 1, sizeof *m->op, "measured ops"));
    tx_measured_op *op = &m->op[m->n_ops++];
    *op = (tx_measured_op){ .dtype = t->dtype,
                            .size = attention ? t->m : t->size,
                            .head = attention ? t->n : 0,
                            .per_s = rate,
                            .ranks = n_ranks };
    snprintf(op->op, sizeof op->op, "%s", t->op);
    return TX_OK;
}

tx_status tx_op_times_rates(tx_op_times *t, int n_ranks, tx_machine *m)
{
    if (t->n) qsort(t->run, (size_t)t->n, sizeof *t->run, by_time);
    for (int64_t first = 0, end = 0; first < t->n; first = end) {
        double amount = 0, seconds = 0;
        for (int64_t i = first; i < t->n && !by_entry(&t->run[first], &t->run[i]); i = end) {
            for (end = i; end < t->n && !by_part(&t->run[i], &t->run[end]);) end++;
            amount += (double)(end - i) * t->run[i].amount;
            seconds += (double)(end - i) * median(&t->run[i], end - i);
        }
        const tx_op_time *of = &t->run[first];
        if (!(seconds > 0) || !(amount > 0)) continue; /* nothing to divide by: an op on no bytes, a clock that stood */
        TX_TRY((of->bound == TX_COST_PRODUCT ? append_product : append_op)(m, of, amount / seconds, n_ranks));
    }
    return TX_OK;
}
