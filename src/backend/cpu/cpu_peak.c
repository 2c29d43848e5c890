/* cpu_peak.c - what the cores in use can do at most: multiply-adds between registers, and memory traffic. The best of
 * several short runs counts, because other programs may hold a core for a while. oneDNN takes the processor's best
 * instructions whatever TX_CPU_ISA says, and so do the measurements. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/system_memory.h"

enum { RUNS = 10, WARM = 4 }; /* warm: threads begin, and clocks settle at what wide vectors leave them */

/* Runs its chains many times; gives back the number of floating-point operations. */
typedef double chains_fn(float *sums, int64_t rounds);

/* ---- bf16, by instructions that compilers are asked for here alone ---- */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>

/* Multiply-adds of a round, in lanes × pairs: 16 × 2 of a vector, 16 × 16 × 32 of a tile. */
__attribute__((target("avx512f,avx512bf16"))) static double vector_bf16(float *sums, int64_t rounds)
{
    enum { CHAINS = 12 };
    const __m512bh half = (__m512bh)_mm512_set1_epi32(0x3f003f00);
    __m512 s[CHAINS];
    for (int i = 0; i < CHAINS; i++) s[i] = _mm512_loadu_ps(sums + 16 * i);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) s[i] = _mm512_dpbf16_ps(s[i], half, half);
    for (int i = 0; i < CHAINS; i++) _mm512_storeu_ps(sums + 16 * i, s[i]);
    return 2.0 * CHAINS * 16 * 2 * (double)rounds;
}

/* The layout that the instruction reads: palette 1, rows and bytes a row of every tile. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

__attribute__((target("amx-tile,amx-bf16"))) static double tile_bf16(float *sums, int64_t rounds)
{
    enum { CHAINS = 6 }; /* tiles 0 to 5 are sums, 6 and 7 what is multiplied */
    /* not on the stack: gcc knows of the instruction only that it reads the first bytes, and drops stores to the rest
     */
    static const tile_config eight_full = { .palette = 1,
                                            .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
                                            .rows = { 16, 16, 16, 16, 16, 16, 16, 16 } };
    (void)sums;
    _tile_loadconfig(&eight_full);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t r = 0; r < rounds / 16; r++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_release();
    return 2.0 * CHAINS * 16 * 16 * 32 * (double)(rounds / 16);
}

static chains_fn *bf16_chains(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, TILES = 1 << 22 | 1 << 24, VECTORS = 1 << 5 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return NULL;
    if ((d & TILES) == TILES && !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA)) return tile_bf16;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return NULL;
    return a & VECTORS && __builtin_cpu_supports("avx512f") ? vector_bf16 : NULL;
}
#else
static chains_fn *bf16_chains(void)
{
    return NULL;
}
#endif

/* ---- multiply-adds ---- */

double tx__cpu_peak_flops(const tx_ctx *c, tx_dtype t)
{
    enum { ROUNDS = 1 << 19 }; /* about 2 ms */
    chains_fn *run = t == TX_F32 ? tx__cpu_best_kernels()->fma_chains : t == TX_BF16 ? bf16_chains() : NULL;
    double best = 0;
    if (!run) return 0;
    for (int k = -WARM; k < RUNS; k++) {
        double flops = 0, start = tx_clock();
#pragma omp parallel num_threads(c->n_threads) reduction(+ : flops)
        {
            float sums[TX__PEAK_CHAINS * TX__LANES] = { 0 };
            flops += run(sums, ROUNDS);
        }
        if (k >= 0) best = fmax(best, flops / (tx_clock() - start));
    }
    return best;
}

/* ---- memory ---- */

typedef enum traffic { READ, COPY, TRIAD, FILL, N_TRAFFIC } traffic;

/* One pass over arrays [3][n]; bytes moved. */
static double move(const tx_ctx *c, const tx__cpu_kernels *k, float *x, int64_t n, traffic what)
{
    static const int arrays[N_TRAFFIC] = { 1, 2, 3, 3 };
#pragma omp parallel for schedule(static) num_threads(c->n_threads)
    for (int t = 0; t < c->n_threads; t++) {
        tx__range r = tx__cpu_part(n, 1024, c->n_threads, t);
        int64_t part = r.hi - r.lo;
        float *a = x + r.lo, *b = a + n, *y = b + n;
        if (what == READ) k->sum(a, part);
        if (what == COPY) memcpy(b, a, (size_t)part * sizeof *b);
        if (what == TRIAD) k->triad(y, a, b, part);
        if (what == FILL) k->fill(a, part, 1.0f), k->fill(b, part, 1.0f), k->fill(y, part, 1.0f);
    }
    return (double)(arrays[what] * n) * sizeof(float);
}

size_t tx__cpu_bandwidth_array(long cache, size_t free_bytes)
{
    enum { LEAST = 64 << 20, MOST = 256 << 20, SHARE = 16, PAGE = 4096 };
    size_t bytes = cache > LEAST / 2 ? 2 * (size_t)cache : LEAST;
    if (bytes > MOST) bytes = MOST;
    if (free_bytes && bytes > free_bytes / SHARE) bytes = free_bytes / SHARE;
    return bytes > PAGE ? bytes / PAGE * PAGE : PAGE;
}

tx_status tx__cpu_bandwidth(const tx_ctx *c, tx_bandwidth *out)
{
    const tx__cpu_kernels *k = tx__cpu_best_kernels();
    size_t bytes = tx__cpu_bandwidth_array(sysconf(_SC_LEVEL3_CACHE_SIZE), tx_system_memory_free());
    int64_t n = (int64_t)(bytes / sizeof(float));
    double best[N_TRAFFIC] = { 0 };
    float *x = NULL;
    TX_TRY(tx_realloc(&x, (size_t)(3 * n), sizeof *x, "arrays to measure memory with"));
    move(c, k, x, n, FILL); /* each thread's pages are beside it */
    for (int run = 0; run < RUNS; run++)
        for (traffic i = READ; i < FILL; i++) {
            double start = tx_clock(), moved = move(c, k, x, n, i);
            best[i] = fmax(best[i], moved / (tx_clock() - start));
        }
    tx_free(x);
    *out = (tx_bandwidth){ best[READ], best[COPY], best[TRIAD], bytes };
    return TX_OK;
}
