/* non_finite.c - runs a bad iteration again, watched, and says what was found. */
#include "train/non_finite.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/watch.h"

bool tx_non_finite_is_fault(const tx_trainer *t)
{
    return t->last_step == TX_STEP_FAULTY;
}

/* ---- the sentence ---- */

__attribute__((format(printf, 2, 3))) static void add(tx_non_finite *f, const char *fmt, ...)
{
    size_t n = strlen(f->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text + n, sizeof f->text - n, fmt, ap);
    va_end(ap);
}

static const char *kind(double v)
{
    return isnan(v) ? "NaN" : v > 0 ? "+inf" : "-inf";
}

static void add_element(tx_non_finite *f, const tx_param *p, int64_t i)
{
    int64_t columns = p->n_dims == 2 ? p->dim[1] : 1;
    if (p->n_dims == 2)
        add(f, "row %lld, column %lld", (long long)(i / columns), (long long)(i % columns));
    else
        add(f, "element %lld", (long long)i);
}

/* The first parameter that is bad already; false: there is none. */
static bool add_parameter(tx_non_finite *f, const tx_ctx *c, const tx_params *ps)
{
    int64_t index[TX_MAX_DIMS];
    double v;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        if (!p->weight->value.data || !tx_find_not_finite(c, p->weight->value, index, &v)) continue;
        add(f, "parameter %s holds %s at ", p->name, kind(v));
        add_element(f, p, p->n_dims == 2 ? index[0] * p->dim[1] + index[1] : index[0]);
        return true;
    }
    return false;
}

/* Where in a tensor of s*b rows, or of [s, b, ...]; of other ones the plain index. */
static void add_index(tx_non_finite *f, const tx_trainer *t, const tx_watch *w)
{
    int64_t s = t->stage.s, b = t->b, n_rows = w->where.n_rows ? w->where.n_rows : s * b, row, element = 0;
    const int64_t *dim = w->tensor.dim, *at = w->index;
    int used, n = w->tensor.n_dims;
    if (n >= 3 && dim[0] == s && dim[1] == b) {
        row = at[0] * b + at[1];
        used = 2;
    } else if (n <= 2 && dim[0] == n_rows) {
        row = at[0] + w->where.first_row;
        used = 1;
    } else {
        for (int i = 0; i < n; i++) add(f, "%s%lld", i ? ", " : "[", (long long)at[i]);
        add(f, "]");
        return;
    }
    for (int i = used; i < n; i++) element = element * dim[i] + at[i];
    add(f, "sample %lld, position %lld", (long long)(row % b), (long long)(row / b));
    if (used < n) add(f, ", element %lld", (long long)element);
}

static void add_hit(tx_non_finite *f, const tx_trainer *t, const tx_watch *w)
{
    const tx_param *p = t->zero.hit.param;
    add(f, "the first value that is not finite is %s in ", kind(w->value));
    if (p) {
        add(f, "the gradient of %s (%s): ", p->name, w->op);
        add_element(f, p, t->zero.hit.element);
        return;
    }
    bool loss = !strcmp(w->output, "loss"), dz = !strcmp(w->op, "cross_entropy") && !loss;
    bool backward = w->where.backward || dz;
    add(f, "the %s of ", loss ? "loss" : backward ? "gradient that comes out" : "output");
    if (w->where.layer) add(f, "encoder.layers.%d.", w->where.layer - 1);
    add(f, "%s (%s, %s): ", w->where.part ? w->where.part : "the model", backward ? "backward" : "forward", w->op);
    add_index(f, t, w);
}

/* ---- the search ---- */

static tx_status run_watched(tx_trainer *t, const tx_bad_iteration *bad, tx_micro_batch_fn *read, void *user,
                             tx_watch *w, int64_t *micro)
{
    const void *rows;
    double loss;
    t->grads_begin = true;
    for (t->micro = bad->first_micro; t->micro < bad->first_micro + bad->n_micro && !w->op; t->micro++) {
        size_t mark = tx_arena_mark(&t->ctx.acts);
        *micro = t->micro;
        TX_TRY(read(user, t->micro, &rows));
        t->ctx.at = (tx_model_place){ 0 };
        t->ctx.watch = w;
        tx_status st = tx_trainer_forward(t, rows, &loss);
        if (!st && !w->op) st = tx_trainer_backward(t);
        t->ctx.watch = NULL;
        t->want = TX_WANT_FORWARD;
        tx_arena_pop(&t->ctx.acts, mark); /* what a backward left out would have popped */
        TX_TRY(st);
    }
    return TX_OK;
}

tx_status tx_non_finite_search(tx_trainer *t, const tx_bad_iteration *bad, tx_micro_batch_fn *read, void *user,
                               tx_non_finite *out)
{
    TX_ASSERT(!t->micro && t->want == TX_WANT_FORWARD);
    int64_t iteration = t->iteration, consumed = t->consumed_train_samples, n_micro = t->n_micro;
    double loss = t->iteration_loss, losses[TX_MAX_LOSSES];
    tx_watch w = { 0 };
    memcpy(losses, t->losses, sizeof losses);
    *out = (tx_non_finite){ 0 };
    t->iteration = bad->iteration - 1;
    t->consumed_train_samples = bad->consumed_train_samples;
    t->n_micro = tx_config_batch_size(t->cfg, bad->consumed_train_samples) / t->b;
    bool parameter = add_parameter(out, &t->ctx, &t->model->params);
    tx_status st = run_watched(t, bad, read, user, &w, &out->micro);
    out->found = parameter || w.op;
    if (!st && w.op) {
        add(out, "%smicro-batch %lld of %lld: ", parameter ? "; " : "", (long long)out->micro + 1,
            (long long)t->n_micro);
        add_hit(out, t, &w);
    }
    t->iteration = iteration;
    t->consumed_train_samples = consumed;
    t->n_micro = n_micro;
    t->iteration_loss = loss;
    memcpy(t->losses, losses, sizeof losses);
    t->micro = 0;
    t->grads_begin = true;
    return st;
}
