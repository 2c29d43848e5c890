/* cpu_crew.c - threads that stay together, and fetch what comes next while they wait.
 *
 *  Each thread has a run of the units in one word, which its owner takes from in front and others from behind when they
 * have no more of their own. Whoever has taken units finds the job's other members as they were when the word was
 * written, because no job begins before all units of the one before are done. A thread that comes late, because the
 * system had put it to sleep, finds nothing left, and nobody has waited for it. */
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/crew.h"
#include "base/alloc.h"

enum { LINE = 64, MAX_READS = 4096, PATIENCE = 2048 };

/* What a job has read: a step reads the same in the same order as the one before. */
typedef struct reading {
    const void *at;
    size_t bytes, unit_bytes;
} reading;

typedef struct seat {
    _Alignas(LINE) _Atomic uint64_t left; /* the first unit of its run, and above it the end */
    _Alignas(LINE) unsigned fetched_for;  /* the owner's: of which job it has fetched */
    size_t fetched;                       /* so many bytes */
} seat;

struct tx__crew {
    int n_threads, n_here;  /* of the region */
    bool in_step, together; /* in_step: also in a dry run, and where the system has given no thread */
    size_t most_ahead;      /* bytes that a thread fetches at most: they stay in its own cache */
    _Alignas(LINE) _Atomic unsigned n_jobs;
    _Atomic bool over;
    _Atomic int64_t step;
    _Atomic(const void *) next; /* read by the job after this one; NULL: not known */
    _Atomic size_t next_bytes, next_unit_bytes;
    void (*unit)(const void *arg, int64_t first, int64_t end, int thread);
    const void *arg;
    _Alignas(LINE) _Atomic int64_t n_done;
    reading *reads; /* [MAX_READS] */
    int n_reads, at;
    seat seat[];
};

static void rest(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int64_t at_part(int64_t n, int parts, int t)
{
    return n * t / parts;
}

/* ---- taking work ---- */

static uint64_t run_of(int64_t first, int64_t end)
{
    return (uint64_t)end << 32 | (uint64_t)first;
}

/* Units of the run of thread `of`, which is the caller's own or not.   False: there are none */
static bool take_from(tx__crew *w, int of, bool own, tx__range *out)
{
    uint64_t was = atomic_load_explicit(&w->seat[of].left, memory_order_acquire);
    for (;;) {
        int64_t first = (int64_t)(was & UINT32_MAX), end = (int64_t)(was >> 32),
                n = atomic_load_explicit(&w->step, memory_order_relaxed);
        if (first >= end) return false;
        if (n > end - first) n = end - first;
        uint64_t then = own ? run_of(first + n, end) : run_of(first, end - n);
        if (atomic_compare_exchange_weak_explicit(&w->seat[of].left, &was, then, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *out = own ? (tx__range){ first, first + n } : (tx__range){ end - n, end };
            return true;
        }
    }
}

static bool take(tx__crew *w, int t, tx__range *out)
{
    for (int i = 0; i < w->n_here; i++)
        if (take_from(w, (t + i) % w->n_here, i == 0, out)) return true;
    return false;
}

/* All that can be taken. */
static void work(tx__crew *w, int t)
{
    tx__range r;
    while (take(w, t, &r)) {
        w->unit(w->arg, r.lo, r.hi, t);
        atomic_fetch_add_explicit(&w->n_done, r.hi - r.lo, memory_order_acq_rel);
    }
}

/* ---- waiting ---- */

/* What keeps a race detector quiet about what is read and not used. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNUSED_READ __attribute__((no_sanitize("thread")))
#endif
#endif
#if !defined(UNUSED_READ)
#define UNUSED_READ
#endif

/* Some lines of what thread t will read of the next job. They are read, because processors may drop a wish for them.
 * False: it has fetched enough */
UNUSED_READ static bool fetch(tx__crew *w, int t)
{
    enum { AT_ONCE = 4 };
    seat *s = &w->seat[t];
    unsigned job = atomic_load_explicit(&w->n_jobs, memory_order_relaxed);
    const volatile char *at = atomic_load_explicit(&w->next, memory_order_relaxed);
    size_t each = atomic_load_explicit(&w->next_unit_bytes, memory_order_relaxed),
           bytes = atomic_load_explicit(&w->next_bytes, memory_order_relaxed);
    int64_t n = each ? (int64_t)(bytes / each) : 0;
    size_t from = (size_t)at_part(n, w->n_here, t) * each, end = (size_t)at_part(n, w->n_here, t + 1) * each;
    if (s->fetched_for != job) s->fetched_for = job, s->fetched = 0;
    if (!at || from + s->fetched + AT_ONCE * LINE > end || s->fetched >= w->most_ahead) return false;
    for (int i = 0; i < AT_ONCE; i++) (void)at[from + s->fetched + (size_t)i * LINE];
    s->fetched += AT_ONCE * LINE;
    return true;
}

/* Once more around a loop that waits; after some time others may have the core. */
static void linger(tx__crew *w, int t, int *n)
{
    if (fetch(w, t)) return;
    if (++*n < PATIENCE)
        rest();
    else
        sched_yield();
}

static void serve(tx__crew *w, int t)
{
    unsigned seen = 0;
    for (int n = 0; !atomic_load_explicit(&w->over, memory_order_acquire);) {
        unsigned job = atomic_load_explicit(&w->n_jobs, memory_order_acquire);
        if (job != seen) {
            seen = job;
            n = 0;
            work(w, t);
        }
        linger(w, t, &n);
    }
}

/* ---- the first thread ---- */

/* What this job reads is noted, and what the next one will is told. */
static void foresee(tx__crew *w, const tx__crew_job *job)
{
    if (job && job->reads && w->at < MAX_READS) {
        const reading here = { job->reads, job->bytes, job->unit_bytes };
        if (w->at == w->n_reads || w->reads[w->at].at != here.at || w->reads[w->at].bytes != here.bytes) {
            w->reads[w->at] = here;
            w->n_reads = w->at + 1;
        }
        w->at++;
    }
    const reading next = w->at < w->n_reads ? w->reads[w->at] : (reading){ 0 };
    atomic_store_explicit(&w->next, next.at, memory_order_relaxed);
    atomic_store_explicit(&w->next_bytes, next.bytes, memory_order_relaxed);
    atomic_store_explicit(&w->next_unit_bytes, next.unit_bytes, memory_order_relaxed);
}

void tx__crew_share(tx__crew *w, const tx__crew_job *job)
{
    w->unit = job->unit;
    w->arg = job->arg;
    atomic_store_explicit(&w->step, job->step > 1 ? job->step : 1, memory_order_relaxed);
    atomic_store_explicit(&w->n_done, 0, memory_order_relaxed);
    foresee(w, job);
    for (int t = 0; t < w->n_here; t++)
        atomic_store_explicit(&w->seat[t].left,
                              run_of(at_part(job->n, w->n_here, t), at_part(job->n, w->n_here, t + 1)),
                              memory_order_release);
    atomic_fetch_add_explicit(&w->n_jobs, 1, memory_order_release);
    work(w, 0);
    for (int n = 0; atomic_load_explicit(&w->n_done, memory_order_acquire) < job->n;) linger(w, 0, &n);
}

tx__crew *tx__crew_of(const tx_ctx *c)
{
    tx__crew *w = ((const tx__cpu *)c->backend_state)->crew;
    return w && w->together ? w : NULL;
}

tx_status tx__cpu_together(tx_ctx *c, tx_status (*run)(void *user), void *user)
{
    tx__crew *w = ((tx__cpu *)c->backend_state)->crew;
    tx_status st = TX_OK;
    if (!w) return run(user);
    w->in_step = true;
    if (c->dry) {
        st = run(user);
        w->in_step = false;
        return st;
    }
    atomic_store_explicit(&w->over, false, memory_order_relaxed);
    atomic_store_explicit(&w->n_jobs, 0, memory_order_relaxed);
    for (int t = 0; t < w->n_threads; t++) w->seat[t].fetched_for = 0, w->seat[t].fetched = 0;
    w->at = 0;
    foresee(w, NULL);
#pragma omp parallel num_threads(w->n_threads)
    {
        int t = omp_get_thread_num();
        if (t == 0) {
            w->n_here = omp_get_num_threads();
            w->together = w->n_here > 1;
        }
#pragma omp barrier
        if (t > 0) serve(w, t);
        if (t == 0) {
            st = run(user);
            w->together = false;
            atomic_store_explicit(&w->over, true, memory_order_release);
        }
    }
    w->in_step = false;
    return st;
}

int tx__crew_threads(const tx_ctx *c)
{
    const tx__crew *w = ((const tx__cpu *)c->backend_state)->crew;
    return w && w->in_step ? 1 : c->n_threads;
}

/* ---- life ---- */

tx_status tx__crew_open(tx__crew **out, int n_threads)
{
    tx__crew *w = NULL;
    *out = NULL;
    if (n_threads < 2) return TX_OK;
    TX_TRY(tx_alloc(&w, 1, sizeof *w + (size_t)n_threads * sizeof w->seat[0], "threads of a step"));
    tx_status st = tx_alloc(&w->reads, MAX_READS, sizeof *w->reads, "threads of a step");
    if (st) {
        tx__crew_close(w);
        return st;
    }
    w->n_threads = n_threads;
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    w->most_ahead = cache > 0 ? (size_t)cache / 4 * 3 : 256 << 10;
    *out = w;
    return TX_OK;
}

void tx__crew_close(tx__crew *w)
{
    if (!w) return;
    tx_free(w->reads);
    tx_free(w);
}
