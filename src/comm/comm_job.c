/* comm_job.c - what the ranks of a host know of each other: who has ended the job and why, and what each was seen
 * doing. */
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm_state.h"

size_t tx__job_bytes(int n_local)
{
    return sizeof(tx__job) + (size_t)n_local * sizeof(tx__presence);
}

int tx__local_rank(const tx_world *w, int rank)
{
    if (!w->job) return -1;
    return w->seats[rank].host == w->seats[w->rank].host ? w->seats[rank].local_rank : -1;
}

/* ---- presence ---- */

static void set(_Atomic uint64_t *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static void set_text(_Atomic uint64_t *to, const char *text, size_t n_words)
{
    uint64_t word[8] = { 0 };
    snprintf((char *)word, n_words * sizeof *word, "%s", text);
    for (size_t i = 0; i < n_words; i++) set(&to[i], word[i]);
}

static void get_text(char *text, const _Atomic uint64_t *from, size_t n_words)
{
    uint64_t word[8];
    for (size_t i = 0; i < n_words; i++) word[i] = get(&from[i]);
    memcpy(text, word, n_words * sizeof *word);
    text[n_words * sizeof *word - 1] = 0;
}

static tx__presence *begin(tx_world *w)
{
    tx__presence *p = w->job ? &w->job->rank[w->seats[w->rank].local_rank] : NULL;
    if (!p) return NULL;
    atomic_fetch_add_explicit(&p->version, 1, memory_order_acq_rel);
    return p;
}

static void end(tx__presence *p, uint64_t doing)
{
    set(&p->doing, doing);
    atomic_fetch_add_explicit(&p->version, 1, memory_order_release);
}

void tx__presence_note(tx_world *w, const char *what)
{
    tx__presence *p = begin(w);
    if (!p) return;
    set_text(p->note, what, 8);
    end(p, TX__NOTED);
}

void tx__presence_start(tx_world *w, const tx_request *r)
{
    tx__presence *p = begin(w);
    if (!p) return;
    set(&p->what, (uint64_t)r->what);
    set(&p->call, (uint64_t)r->call);
    set(&p->layer, (uint64_t)r->layer);
    set(&p->backward, r->backward);
    set_text(p->group, r->g->name, 4);
    end(p, TX__STARTED);
}

void tx__presence_wait(tx_world *w, const tx_request *r)
{
    if (!w->job) return;
    tx__presence *p = &w->job->rank[w->seats[w->rank].local_rank];
    if (r) tx__presence_start(w, r);
    set(&p->waits_since, r ? (uint64_t)(tx_clock() * 1e6) : 0);
    begin(w);
    end(p, r ? TX__WAITING : TX__WAITED);
}

void tx__presence_still(tx_world *w)
{
    if (w->job) set(&w->job->rank[w->seats[w->rank].local_rank].waits_at, (uint64_t)(tx_clock() * 1e6));
}

bool tx__presence_waits(const tx_world *w, int rank)
{
    const double fresh = 1; /* seconds */
    int local = tx__local_rank(w, rank);
    if (local < 0 || !get(&w->job->rank[local].waits_since)) return false;
    return tx_clock() - (double)get(&w->job->rank[local].waits_at) * 1e-6 < fresh;
}

void tx__presence_end(tx_world *w)
{
    tx__presence *p = begin(w);
    if (p) end(p, TX__ENDED);
}

bool tx__lower_rank_waits(tx_world *w, double since)
{
    for (int i = 0; w->job && i < w->seats[w->rank].local_rank; i++) {
        uint64_t t = get(&w->job->rank[i].waits_since);
        if (t && (double)t * 1e-6 < since) return true;
    }
    return false;
}

/* ---- sleep ---- */

/* A sleeper says that it sleeps, then looks once more; a waker changes the board, then looks who sleeps. Of two
 * sequentially consistent fences one is first, so that one of the two sees what the other has done. */
static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static void wake(tx_comm *g, int member)
{
    tx_world *w = g->world;
    _Atomic uint32_t *asleep = &w->job->rank[w->seats[tx_comm_world_rank(g, member)].local_rank].asleep;
    if (atomic_load_explicit(asleep, memory_order_relaxed) && atomic_exchange(asleep, 0))
        futex(asleep, FUTEX_WAKE, 1, NULL);
}

void tx__wake_member(tx_comm *g, int member)
{
    if (!g->world->job) return;
    atomic_thread_fence(memory_order_seq_cst);
    wake(g, member);
}

void tx__wake_members(tx_comm *g)
{
    if (!g->world->job) return;
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < g->size; i++)
        if (i != g->rank) wake(g, i);
}

tx_status tx__sleep(tx_world *w, const tx_request *r)
{
    const struct timespec most = { .tv_nsec = 5000000 }; /* the end of the job wakes nobody */
    _Atomic uint32_t *asleep = &w->job->rank[w->seats[w->rank].local_rank].asleep;
    atomic_store(asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    tx_status st = tx__progress(w);
    if (!st && !r->finished) futex(asleep, FUTEX_WAIT, 1, &most);
    atomic_store(asleep, 0);
    return st;
}

/* ---- in words ---- */

/* A call, by what names it in messages. */
typedef struct call_id {
    int what;       /* its name in tx__call_names */
    int64_t number; /* among the calls of its kind */
    const char *group;
    int layer; /* that the model was in; 0: none */
    bool backward;
} call_id;

static void describe(char *buf, size_t cap, const call_id *c)
{
    size_t n =
        (size_t)snprintf(buf, cap, "%s #%lld of the %s group", tx__call_names[c->what], (long long)c->number, c->group);
    if (c->layer && n < cap)
        snprintf(buf + n, cap - n, " (layer %d, %s)", c->layer, c->backward ? "backward" : "forward");
}

void tx__request_describe(char *buf, size_t cap, const tx_request *r)
{
    describe(buf, cap,
             &(call_id){
                 .what = r->what, .number = r->call, .group = r->g->name, .layer = r->layer, .backward = r->backward });
}

void tx__presence_describe(char *buf, size_t cap, tx_world *w, int rank)
{
    int local = tx__local_rank(w, rank);
    char group[32], note[64], call[160];
    uint64_t version, what, number, layer, backward, doing;
    if (local < 0) {
        snprintf(buf, cap, "on host %s", w->seats[rank].host_name);
        return;
    }
    tx__presence *p = &w->job->rank[local];
    int tries = 0;
    do {
        version = atomic_load_explicit(&p->version, memory_order_acquire);
        doing = get(&p->doing);
        what = get(&p->what);
        number = get(&p->call);
        layer = get(&p->layer);
        backward = get(&p->backward);
        get_text(group, p->group, 4);
        get_text(note, p->note, 8);
    } while (((version & 1) || atomic_load(&p->version) != version) &&
             ++tries < 1000); /* a rank that was stopped while it wrote stays odd for ever */
    if (what >= TX__N_CALLS) what = 0;
    describe(
        call, sizeof call,
        &(call_id){
            .what = (int)what, .number = (int64_t)number, .group = group, .layer = (int)layer, .backward = backward });
    switch (doing) {
    case TX__IDLE:
        snprintf(buf, cap, "before its first call");
        break;
    case TX__NOTED:
        snprintf(buf, cap, "%s", note);
        break;
    case TX__WAITING:
        snprintf(buf, cap, "in %s", call);
        break;
    case TX__ENDED:
        snprintf(buf, cap, "at its end");
        break;
    default:
        snprintf(buf, cap, "after %s", call);
    }
}

/* ---- the end of a job ---- */

bool tx__job_end(tx_world *w, const char *why)
{
    int nobody = 0;
    if (!w->job) return true;
    if (!atomic_compare_exchange_strong(&w->job->ended_by, &nobody, w->rank + 1)) return nobody == w->rank + 1;
    snprintf(w->job->why, sizeof w->job->why, "%s", why);
    atomic_store_explicit(&w->job->told, 1, memory_order_release);
    return true;
}

tx_status tx__job_check(tx_world *w)
{
    if (!w->job) return TX_OK;
    int by = atomic_load_explicit(&w->job->ended_by, memory_order_relaxed);
    if (!by) return TX_OK;
    for (int i = 0; i < 1000000 && !atomic_load_explicit(&w->job->told, memory_order_acquire); i++) {}
    bool told = atomic_load_explicit(&w->job->told, memory_order_acquire);
    return TX_FAIL(TX_ERR_COMM, "rank %d ended the job: %s", by - 1, told ? w->job->why : "it has not said why");
}
