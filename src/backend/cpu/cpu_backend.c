/* cpu_backend.c - opening "cpu", its choice of instruction set and its rows.
 *
 *  TX_CPU_ISA in the environment (generic, avx2, avx512 or avx512_bf16) takes another set than the processor's best for
 * our kernels: for comparison and debugging. oneDNN chooses for itself (ONEDNN_MAX_CPU_ISA). */
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"

typedef struct isa {
    const char *name;
    const tx__cpu_kernels *kernels;
    bool here, best; /* best: take it unasked before those behind it */
} isa;

#if defined(__x86_64__)
/* Whether vectors multiply bf16 faster than fp32. Where AMX does such products (Sapphire Rapids and later), they do it
 * at half the rate of fp32; without it (Zen 4, Zen 5, Cooper Lake) at up to twice. */
static bool fast_bf16_vectors(void)
{
    enum { AMX_BF16 = 1 << 22 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && !(d & AMX_BF16);
}
#endif

enum { N_ISAS = 4 };

/* Best first, of those that were compiled. */
static int list_isas(isa out[N_ISAS])
{
    int n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    bool bf16 = v4 && __builtin_cpu_supports("avx512bf16"), fast = fast_bf16_vectors();
    (void)v3, (void)bf16, (void)fast; /* where the build has fewer sets */
#ifdef TX_ISA_avx512_bf16
    out[n++] = (isa){ "avx512_bf16", &tx__cpu_kernels_avx512_bf16, bf16, fast };
#endif
#ifdef TX_ISA_avx512
    out[n++] = (isa){ "avx512", &tx__cpu_kernels_avx512, v4, true };
#endif
#ifdef TX_ISA_avx2
    out[n++] = (isa){ "avx2", &tx__cpu_kernels_avx2, v3, true };
#endif
#endif
    out[n++] = (isa){ "generic", &tx__cpu_kernels_generic, true, true };
    return n;
}

/* The best set, or the one TX_CPU_ISA names. */
static tx_status choose_isa(isa *out)
{
    isa list[N_ISAS];
    int n = list_isas(list);
    const char *wish = getenv("TX_CPU_ISA");
    for (int i = 0; i < n; i++)
        if (list[i].here && (wish ? !strcmp(wish, list[i].name) : list[i].best)) {
            *out = list[i];
            return TX_OK;
        }
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "TX_CPU_ISA=%s: not an instruction set of this processor; take generic, avx2, avx512 or avx512_bf16",
                   wish ? wish : "");
}

const tx__cpu_kernels *tx__cpu_best_kernels(void)
{
    isa list[N_ISAS];
    int n = list_isas(list), i = 0;
    while (i < n - 1 && !(list[i].here && list[i].best)) i++;
    return list[i].kernels;
}

static const char *describe(void)
{
    static _Thread_local char line[120];
    char version[64];
    isa chosen;
    snprintf(line, sizeof line, "%s, %s", choose_isa(&chosen) ? "no such TX_CPU_ISA" : chosen.name,
             tx__cpu_gemm_version(version, sizeof version));
    return line;
}

static void close_cpu(tx_ctx *c)
{
    tx__cpu *s = c->backend_state;
    if (s) tx__cpu_gemm_close(s->gemm), tx__crew_close(s->crew);
    tx_free(s);
    c->backend_state = NULL;
}

static tx_status open_cpu(tx_ctx *c)
{
    isa chosen;
    TX_TRY(choose_isa(&chosen));
    TX_TRY(tx_alloc(&c->backend_state, 1, sizeof(tx__cpu), "backend cpu"));
    tx__cpu *s = c->backend_state;
    s->k = chosen.kernels;
    tx_status st = tx__cpu_gemm_open(&s->gemm);
    if (!st) st = tx__crew_open(&s->crew, c->n_threads);
    if (st) close_cpu(c);
    return st;
}

static void fill_ops(tx_ops *ops)
{
#define ROW(op) ops->op = (tx_##op##_row){ .run = tx__cpu_##op };
#include "backend/cpu/rows.def"
#define OP(op, outputs, cost, scratch) scratch
#define CPU_SCRATCH(op)                ops->op.scratch = tx__cpu_##op##_scratch;
#include "backend/ops.def"
    ops->gemm.composed = true; /* in a dry run it finds out whether oneDNN has the product */
    ops->grouped_gemm.composed = ops->grouped_dw.composed = true; /* perhaps */
}

extern const tx_backend tx_backend_cpu; /* registry.c lists it */
const tx_backend tx_backend_cpu = {
    .name = "cpu",
    .describe = describe,
    .open = open_cpu,
    .close = close_cpu,
    .fill_ops = fill_ops,
    .peak_flops = tx__cpu_peak_flops,
    .bandwidth = tx__cpu_bandwidth,
    .together = tx__cpu_together,
    .base = "ref",
};
