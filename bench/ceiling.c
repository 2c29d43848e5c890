/* ceiling.c - how near a training step comes to what its own products allow, on this machine and in one run.
 *
 *      ceiling LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH [flags of pretrain-gpt, e.g. --bf16 --threads 2]
 *
 *  The ceiling of a step is what it would take if
 *      each of its matrix products ran as fast as it does alone, again and again,
 *      attention ran at half of the rate that these products have together, and
 *      everything else moved its tensors once, at the speed of memory,
 *  one after another. What the step is made of is read off its profile. Dropout is off unless a flag switches it on.
 *
 *  `make bench` in the build folder builds it. */
#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "step.h"

enum { STEPS = 5, RUNS = 7, MAX_PRODUCTS = 64 };

/* A product as one of the three of a linear layer. */
typedef struct product {
    int64_t m, n, k;
    enum { FORWARD, DX, DW } which;
    bool logits; /* wide */
    int64_t calls;
} product;

/* dW is the one that sums over rows: all of the micro-batch, or those of a chunk of the head. */
static product product_of(const tx_profile_event *e, int64_t rows)
{
    const int64_t *d = e->cost.shape.dim;
    product p = { .m = d[0], .n = d[1], .k = d[2], .which = FORWARD };
    bool head = e->at.n_rows > 0;
    if (e->at.backward) p.which = p.k == (head ? e->at.n_rows : rows) ? DW : DX;
    p.logits = head && p.which == FORWARD;
    return p;
}

static int gather(product *out, const tx_profile *profile, int64_t rows)
{
    int n = 0;
    for (int64_t i = 0; i < profile->n_events; i++) {
        if (strcmp(profile->event[i].op, "gemm")) continue;
        product p = product_of(&profile->event[i], rows);
        int at = 0;
        while (at < n && (out[at].m != p.m || out[at].n != p.n || out[at].k != p.k || out[at].which != p.which)) at++;
        if (at == MAX_PRODUCTS) check(TX_FAIL(TX_ERR_ARG, "more than %d kinds of products", MAX_PRODUCTS));
        if (at == n) out[n++] = p;
        out[at].calls++;
    }
    return n;
}

/* Seconds of the best of several runs. */
static double alone(tx_ctx *c, const product *p, tx_dtype t)
{
    tx_dtype ct = p->which == DW || p->logits ? TX_F32 : t;
    size_t bytes[3] = { (size_t)(p->m * p->k) * tx_dtype_size(t), (size_t)(p->k * p->n) * tx_dtype_size(t),
                        (size_t)(p->m * p->n) * tx_dtype_size(ct) };
    void *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = aligned_alloc(64, (bytes[i] + 63) / 64 * 64);
        if (!x[i]) check(TX_FAIL(TX_ERR_NOMEM, "no memory for a product"));
        memset(x[i], 0, bytes[i]);
    }
    bool ta = p->which == DW, tb = p->which == FORWARD;
    tx_gemm_args a = { .c = tx_tensor2(x[2], ct, p->m, p->n),
                       .a = tx_tensor2(x[0], t, ta ? p->k : p->m, ta ? p->m : p->k),
                       .b = tx_tensor2(x[1], t, tb ? p->n : p->k, tb ? p->k : p->n),
                       .trans_a = ta,
                       .trans_b = tb };
    double best = INFINITY;
    for (int i = 0; i <= RUNS; i++) {
        double start = tx_clock();
        check(tx_op_gemm(c, &a));
        if (i) best = fmin(best, tx_clock() - start);
    }
    for (int i = 0; i < 3; i++) free(x[i]);
    return best;
}

/* Seconds of the best of several steps, of which the last is profiled. */
static double run_steps(tx_engine *e, int32_t *tokens, tx_profile *profile)
{
    double best = INFINITY;
    for (int i = 0; i <= STEPS + 1; i++) {
        if (i > STEPS) e->trainer->ctx.profile = profile;
        double start = time_now(e);
        run_step(e, tokens);
        if (i && i <= STEPS) best = fmin(best, time_now(e) - start);
    }
    e->trainer->ctx.profile = NULL;
    return best;
}

int main(int argc, char **argv)
{
    tx_config *cfg;
    tx_engine *e = open_engine(argc, argv, &cfg);
    tx_ctx *c = &e->trainer->ctx;
    if (c->device) check(TX_FAIL(TX_ERR_UNSUPPORTED, "the ceiling is known of CPUs only: --device cpu"));
    int64_t rows = atoll(argv[5]) * atoll(argv[6]);
    int32_t *tokens = random_samples(argc, argv);

    tx_profile profile = { 0 };
    double step = run_steps(e, tokens, &profile);
    double flops[TX_N_COST_KINDS] = { 0 }, bytes[TX_N_COST_KINDS] = { 0 }, products = 0;
    for (int64_t i = 0; i < profile.n_rows; i++) {
        flops[profile.row[i].kind] += profile.row[i].flops;
        bytes[profile.row[i].kind] += profile.row[i].bytes;
    }
    product kind[MAX_PRODUCTS];
    int n_kinds = gather(kind, &profile, rows);
    tx_dtype t = e->trainer->model->dtype;
    for (int i = 0; i < n_kinds; i++) {
        double seconds = alone(c, &kind[i], t);
        static const char *const name[] = { "forward", "dX", "dW" };
        printf("  %-8s m %6d n %6d k %6d  %3d times %9.3f ms alone, %7.1f GFLOP/s\n", name[kind[i].which],
               (int)kind[i].m, (int)kind[i].n, (int)kind[i].k, (int)kind[i].calls, 1e3 * seconds,
               2e-9 * (double)(kind[i].m * kind[i].n) * (double)kind[i].k / seconds);
        products += (double)kind[i].calls * seconds;
    }
    tx_bandwidth memory;
    check(c->backend->bandwidth(c, &memory));
    double rate = flops[TX_COST_PRODUCT] / products, attention = flops[TX_COST_ATTENTION] / (rate / 2);
    double rest = bytes[TX_COST_MEMORY] / memory.triad, ceiling = products + attention + rest;
    printf("products %.1f ms (%.1f GFLOP/s), attention %.1f, the rest %.1f (%.2f GB at %.1f GB/s): ceiling %.1f ms\n",
           1e3 * products, 1e-9 * rate, 1e3 * attention, 1e3 * rest, 1e-9 * bytes[TX_COST_MEMORY], 1e-9 * memory.triad,
           1e3 * ceiling);
    printf("step %.1f ms: %.1f %% of the ceiling's speed\n", 1e3 * step, 100 * ceiling / step);
    tx_profile_free(&profile);
    free(tokens);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return 0;
}
