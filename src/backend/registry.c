/* registry.c - the list of backends, their finished op tables, and the dispatcher every TX_RUN goes through. */
#include <string.h>

#include "backend/backend.h"
#include "backend/gpu_module.h"
#include "backend/trace.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/str.h"

extern const tx_backend tx_backend_ref, tx_backend_cpu;

const tx_backend *const tx_backends[] = { &tx_backend_cpu, &tx_backend_ref, NULL };

static const tx_backend *built_in(const char *name)
{
    for (int i = 0; tx_backends[i]; i++)
        if (!strcmp(tx_backends[i]->name, name)) return tx_backends[i];
    return NULL;
}

const char *tx_backend_auto(void)
{
    const tx_gpu_module *m;
    return tx_gpu_module_get(&m) ? "cpu" : "gpu";
}

tx_status tx_backend_find(const tx_backend **out, const char *name)
{
    if (!strcmp(name, "auto")) name = tx_backend_auto();
    if (!strcmp(name, "gpu")) {
        const tx_gpu_module *m;
        TX_TRY(tx_gpu_module_get(&m));
        *out = &m->backend;
        return TX_OK;
    }
    *out = built_in(name);
    if (*out) return TX_OK;
    tx_str names = { 0 };
    for (int i = 0; tx_backends[i]; i++) TX_TRY(tx_str_printf(&names, "%s, ", tx_backends[i]->name));
    tx_status st = TX_FAIL(TX_ERR_NOTFOUND, "there is no backend \"%s\"; there are: %sgpu", name, names.data);
    tx_str_free(&names);
    return st;
}

static void overlay(const tx_backend *be, tx_ops *ops)
{
    if (be->base) overlay(built_in(be->base), ops);
    be->fill_ops(ops);
}

void tx_backend_ops(const tx_backend *be, tx_ops *out)
{
    memset(out, 0, sizeof *out);
    tx__compose_ops(out);
    overlay(be, out);
}

double tx_peak_flops(const tx_ctx *c, tx_dtype *t)
{
    if (c->device) return tx__gpu_peak_flops(c->device->name, *t);
    if (!c->backend->peak_flops) return 0;
    double peak = c->backend->peak_flops(c, *t);
    if (peak > 0) return peak;
    *t = TX_F32;
    return c->backend->peak_flops(c, TX_F32);
}

tx_status tx_ctx_init(tx_ctx *c, const char *backend, int n_threads)
{
    return tx_ctx_init_on(c, backend, n_threads, 0);
}

tx_status tx_ctx_init_on(tx_ctx *c, const char *backend, int n_threads, int device_number)
{
    const tx_backend *be;
    *c = (tx_ctx){ .device_number = device_number };
    TX_TRY(tx_backend_find(&be, backend));
    tx_status st;
    c->n_threads = n_threads;
    if (n_threads <= 0) TX_GOTO(tx_default_threads(&c->n_threads));
    c->dry = true;
    tx_arena_init(&c->acts, "activations");
    tx_arena_init(&c->scratch, "workspace");
    tx_arena_init(&c->host, "host activations");
    c->acts.shared = c->scratch.shared = true; /* what ranks send each other lies there */
    TX_GOTO(tx_alloc(&c->ops, 1, sizeof *c->ops, "the op table"));
    tx_backend_ops(be, c->ops);
#define OP(op, ...)                                                                 \
    if (!c->ops->op.run) {                                                          \
        st = TX_FAIL(TX_ERR_UNSUPPORTED, "backend %s has no op %s", be->name, #op); \
        goto out;                                                                   \
    }
#include "backend/ops.def"
    if (be->open) TX_GOTO(be->open(c));
    c->backend = be;
    c->acts.device = c->scratch.device = c->host.device = c->device;
    c->host.in_host = true;
out:
    if (st) tx_ctx_deinit(c);
    return st;
}

tx_status tx_ctx_take_memory(tx_ctx *c)
{
    TX_ASSERT(c->dry);
    TX_TRY(tx_arena_reserve(&c->acts, c->acts.peak));
    TX_TRY(tx_arena_reserve(&c->scratch, c->scratch.peak));
    TX_TRY(tx_arena_reserve(&c->host, c->host.peak));
    c->dry = false;
    return TX_OK;
}

void tx_ctx_deinit(tx_ctx *c)
{
    tx_device_dismiss(c->device); /* first: giving memory back waits for all streams, and they may wait for others */
    tx_arena_deinit(&c->acts);
    tx_arena_deinit(&c->scratch);
    tx_arena_deinit(&c->host);
    if (c->backend && c->backend->close) c->backend->close(c);
    tx_free(c->ops);
    *c = (tx_ctx){ 0 };
}

static void swap_stack_and_top(tx_ctx *c)
{
    tx_arena acts = c->acts;
    c->acts = c->top->arena;
    c->top->arena = acts;
    c->top->on = !c->top->on;
}

bool tx_ctx_begin_top(tx_ctx *c)
{
    if (!c->top || c->top->on) return false;
    swap_stack_and_top(c);
    c->acts.peak = 0;
    return true;
}

void tx_ctx_end_top(tx_ctx *c, bool began)
{
    if (!began) return;
    tx_top *t = c->top;
    size_t top = c->acts.peak;
    tx_arena_pop(&c->acts, 0);
    swap_stack_and_top(c);
    if (top > t->peak) t->peak = top;
    if (c->acts.used + top > t->together) t->together = c->acts.used + top;
}

/* A run that began at `start`, when the profile had n_before runs. Counted unless others were counted since: then it is
 * made of them. */
static tx_status add_run(const tx_ctx *c, const char *op, double start, int64_t n_before, tx_cost cost)
{
    double seconds = tx_clock() - start;
    if (c->profile->n_runs > n_before) return TX_OK;
    return tx_profile_add(c->profile, op, &c->at, start, seconds, &cost);
}

static tx_status add_traced(tx_ctx *c, const char *op, tx_cost cost)
{
    return tx_trace_op(c, op, &cost);
}

/* Checks, takes the op's scratch, runs; a device is waited for where runs are timed. In a dry run only composed rows
 * are called, all others just count their scratch. */
#define OP(op, ...)                                                                                          \
    tx_status tx_op_##op(tx_ctx *c, const tx_##op##_args *a)                                                 \
    {                                                                                                        \
        const tx_##op##_row *row = &c->ops->op;                                                              \
        TX_TRY(tx__check_##op(a));                                                                           \
        size_t mark = tx_arena_mark(&c->scratch);                                                            \
        void *scratch = tx_arena_push(&c->scratch, row->scratch ? row->scratch(c, a) : 0);                   \
        bool timed = c->profile && !c->dry;                                                                  \
        int64_t n_traced = c->trace ? c->trace->n : 0;                                                       \
        int64_t n_before = timed ? c->profile->n_runs : 0;                                                   \
        double start = timed ? tx_clock() : 0;                                                               \
        tx__tell_##op(c, a);                                                                                 \
        tx_status st = c->dry && !row->composed ? TX_OK : row->run(c, a, scratch);                           \
        if (timed && !st) st = tx_device_sync(c->device, TX_STREAM_COMPUTE);                                 \
        if (timed && !st) st = add_run(c, #op, start, n_before, tx__cost_##op(a));                           \
        if (c->trace && c->dry && c->trace->n == n_traced && !st) st = add_traced(c, #op, tx__cost_##op(a)); \
        if (c->watch && !c->dry && !st) tx__watch_##op(c, a);                                                \
        tx_arena_pop(&c->scratch, mark);                                                                     \
        return st;                                                                                           \
    }
#include "backend/ops.def"
