/* world.c - a rank's world: alone, or one of several threads of this process. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/board.h"
#include "comm/transport.h"

#define TIMEOUT_S 600

tx_status tx__world_new(tx_world **out, int rank, int size)
{
    tx_world *w;
    TX_TRY(tx_alloc(&w, 1, sizeof *w, "the ranks of the job"));
    w->rank = rank;
    w->size = size;
    w->timeout = TIMEOUT_S;
    tx_status st;
    TX_GOTO(tx_alloc(&w->seats, (size_t)size, sizeof *w->seats, "the ranks of the job"));
    TX_GOTO(tx__group_new(&w->all, w, size, rank, "world"));
    for (int i = 0; i < size; i++) w->all->world_rank[i] = i;
    *out = w;
out:
    if (st) tx__world_free(w);
    return st;
}

void tx__groups_close(tx_world *w)
{
    while (w->groups) tx_comm_close(w->groups); /* w->all among them */
}

void tx__world_free(tx_world *w)
{
    if (!w) return;
    tx__groups_close(w);
    tx__sides_close(w);
    tx_free(w->cards);
    tx_free(w->seats);
    tx_free(w);
}

void tx__find_crowded(tx_world *w)
{
    w->crowded = w->seats[w->rank].n_local > sysconf(_SC_NPROCESSORS_ONLN);
}

/* Threads, or one alone. */
static void sit_here(tx_world *w)
{
    char name[sizeof w->seats[0].host_name] = "";
    gethostname(name, sizeof name - 1);
    for (int i = 0; i < w->size; i++) {
        w->seats[i] = (tx_seat){ .local_rank = i, .n_local = w->size };
        memcpy(w->seats[i].host_name, name, sizeof name);
    }
    tx__find_crowded(w);
}

tx_status tx_world_self(tx_world **out)
{
    TX_TRY(tx__world_new(out, 0, 1));
    (*out)->one_process = true;
    sit_here(*out);
    return TX_OK;
}

/* ---- threads ---- */

typedef struct thread_rank {
    tx_world *world;
    tx_rank_fn *fn;
    void *user;
    pthread_t thread;
    tx_status st;
    bool own; /* it failed of itself */
    char message[2048];
} thread_rank;

static void *run_rank(void *user)
{
    thread_rank *t = user;
    t->st = t->fn(t->world, t->user);
    if (t->st) {
        snprintf(t->message, sizeof t->message, "%s", tx_last_error());
        t->own = !tx_world_aborted(t->world);
        if (t->own) tx_world_abort(t->world, t->message);
    }
    tx__presence_end(t->world);
    return NULL;
}

static tx_status make_ranks(thread_rank *t, int n, tx__job *job)
{
    tx__board *board = NULL;
    for (int i = 0; i < n; i++) {
        TX_TRY(tx__world_new(&t[i].world, i, n));
        tx_world *w = t[i].world;
        w->one_process = true;
        w->job = job;
        sit_here(w);
        if (n > 1 && i == 0) TX_TRY(tx__board_make(&board, w, n));
        if (n > 1) TX_TRY(tx__local_open(w->all, board, true));
    }
    return TX_OK;
}

/* How surely a rank failed of itself: one that was told of another's failure (tx_comm_agree) may come back first. */
static int blame(const thread_rank *t)
{
    return !t->st ? 0 : 1 + (t->own ? 1 : 0) + (t->st != TX_ERR_COMM ? 2 : 0);
}

/* The status of the first rank that failed of itself. */
static tx_status verdict_of(const thread_rank *t, int n)
{
    const thread_rank *first = NULL;
    for (int i = 0; i < n; i++)
        if (blame(&t[i]) > (first ? blame(first) : 0)) first = &t[i];
    return first ? TX_FAIL_LINES(first->st, "%s", first->message) : TX_OK;
}

tx_status tx_world_threads(int n, tx_rank_fn *fn, void *user)
{
    TX_ASSERT(n > 0 && n <= TX__MEMBERS);
    thread_rank *t = NULL;
    tx__job *job = NULL;
    int started = 0;
    tx_status st;
    TX_GOTO(tx_alloc(&t, (size_t)n, sizeof *t, "ranks as threads"));
    TX_GOTO(tx_alloc(&job, 1, tx__job_bytes(n), "ranks as threads"));
    TX_GOTO(make_ranks(t, n, job));
    for (; started < n; started++) {
        t[started].fn = fn;
        t[started].user = user;
        if (pthread_create(&t[started].thread, NULL, run_rank, &t[started])) {
            st = TX_FAIL(TX_ERR_NOMEM, "the system starts no more than %d threads for ranks", started);
            tx__job_end(t[started].world, tx_last_error());
            break;
        }
    }
    for (int i = 0; i < started; i++) pthread_join(t[i].thread, NULL);
    if (!st) st = verdict_of(t, n);
out:
    for (int i = 0; t && i < n; i++)
        if (t[i].world) tx__groups_close(t[i].world);
    for (int i = 0; t && i < n; i++)
        if (t[i].world) tx__boards_free(t[i].world, 0); /* when nobody has a group any more */
    for (int i = 0; t && i < n; i++) tx__world_free(t[i].world);
    tx_free(job);
    tx_free(t);
    return st;
}

/* ---- what a world tells ---- */

int tx_world_rank(const tx_world *w)
{
    return w->rank;
}

int tx_world_size(const tx_world *w)
{
    return w->size;
}

tx_comm *tx_world_comm(tx_world *w)
{
    return w->all;
}

const tx_seat *tx_world_seat(const tx_world *w, int rank)
{
    TX_ASSERT(rank >= 0 && rank < w->size);
    return &w->seats[rank];
}

void tx_world_set_timeout(tx_world *w, double seconds)
{
    w->timeout = seconds;
}

double tx_world_timeout(const tx_world *w)
{
    return w->timeout;
}

void tx_world_by_hosts(tx_world *w, bool on)
{
    w->flat = !on;
}

void tx_world_note(tx_world *w, const char *what)
{
    tx__presence_note(w, what);
}

void tx_world_abort(tx_world *w, const char *why)
{
    tx__job_end(w, why);
    if (w->net) w->net->abort(1);
}

bool tx_world_aborted(const tx_world *w)
{
    int by = w->job ? atomic_load(&w->job->ended_by) : 0;
    return by && by != w->rank + 1;
}
