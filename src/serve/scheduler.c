/* scheduler.c - waiting generations, their turns, and the loop around the batcher. */
#include "serve/scheduler.h"

#include "base/alloc.h"
#include "base/clock.h"

struct tx__scheduler {
    pthread_mutex_t lock;
    pthread_cond_t news;
    tx_decoder *decoder;
    tx_batcher *batcher;
    tx__counters *counters;
    int64_t max_queue;
    tx__generation *generations;         /* all that are not over */
    tx__generation *waiting, **wait_end; /* those with texts that have not joined, in the order of their turns */
    int64_t n_waiting;
    bool closed;
    double close_at; /* when what runs is cancelled */
};

tx_status tx__scheduler_create(tx__scheduler **out, tx_decoder *decoder, int64_t max_queue, tx__counters *counters)
{
    tx__scheduler *s;
    TX_TRY(tx_alloc(&s, 1, sizeof *s, "the queue"));
    s->decoder = decoder;
    s->max_queue = max_queue;
    s->counters = counters;
    s->wait_end = &s->waiting;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    tx_status st = tx_batcher_create(&s->batcher, decoder);
    if (st)
        tx__scheduler_destroy(s);
    else
        *out = s;
    return st;
}

void tx__scheduler_destroy(tx__scheduler *s)
{
    if (!s) return;
    tx_batcher_destroy(s->batcher);
    pthread_cond_destroy(&s->news);
    pthread_mutex_destroy(&s->lock);
    tx_free(s);
}

/* ---------------------------------------------------------------- from any thread */

static void wait_last(tx__scheduler *s, tx__generation *g)
{
    g->next_waiting = NULL;
    *s->wait_end = g;
    s->wait_end = &g->next_waiting;
}

static tx__generation *wait_pop(tx__scheduler *s)
{
    tx__generation *g = s->waiting;
    s->waiting = g->next_waiting;
    if (!s->waiting) s->wait_end = &s->waiting;
    return g;
}

tx_status tx__scheduler_submit(tx__scheduler *s, tx__generation *g)
{
    tx_status st = TX_OK;
    pthread_mutex_lock(&s->lock);
    if (s->closed) {
        st = TX_FAIL(TX_ERR_STATE, "the server is about to end");
    } else if (s->n_waiting >= s->max_queue && (s->max_queue || s->generations)) {
        st = TX_FAIL(TX_ERR_STATE, "%lld requests are waiting, no more are taken", (long long)s->n_waiting);
    } else {
        atomic_fetch_add(&g->holders, 1);
        g->next = s->generations;
        s->generations = g;
        wait_last(s, g);
        tx__counters_set(s->counters, TX__REQUESTS_WAITING, ++s->n_waiting);
        pthread_cond_signal(&s->news);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

void tx__scheduler_cancel(tx__scheduler *s, tx__generation *g)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&g->cancel, true);
    pthread_cond_signal(&s->news);
    pthread_mutex_unlock(&s->lock);
}

void tx__scheduler_close(tx__scheduler *s, double seconds)
{
    pthread_mutex_lock(&s->lock);
    if (!s->closed) s->close_at = tx_clock() + seconds;
    s->closed = true;
    pthread_cond_signal(&s->news);
    pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------- the batching thread, with the lock held */

static void stop_waiting(tx__scheduler *s, tx__generation *g)
{
    tx__generation **at = &s->waiting;
    while (*at && *at != g) at = &(*at)->next_waiting;
    if (!*at) return;
    *at = g->next_waiting;
    if (!*at) s->wait_end = at;
    s->n_waiting--;
}

static void cancel_texts(tx__scheduler *s, tx__generation *g)
{
    for (int i = 0; i < g->n_choices; i++)
        if (g->choice[i].in_batch) tx_batcher_cancel(s->batcher, &g->choice[i].seq);
}

/* Whether nobody wants a generation any more, or its time is over. */
static tx__end early_end(const tx__scheduler *s, const tx__generation *g, double now)
{
    if ((s->closed && now > s->close_at) || atomic_load(&g->cancel)) return TX__CANCELLED;
    return now > g->deadline ? TX__TIMED_OUT : TX__GOES_ON;
}

/* Those with an early end leave. */
static void sweep(tx__scheduler *s)
{
    double now = tx_clock();
    for (tx__generation *g = s->generations; g; g = g->next) {
        tx__end end = early_end(s, g, now);
        if (end == TX__GOES_ON && g->end == TX__GOES_ON) continue;
        stop_waiting(s, g);
        tx__generation_end(g, end);
        cancel_texts(s, g);
    }
}

/* Tasks of which no text is in the batch or has yet to join are over. */
static void drop_ended(tx__scheduler *s)
{
    for (tx__generation **at = &s->generations; *at;) {
        tx__generation *g = *at;
        bool in_batch = false;
        for (int i = 0; i < g->n_choices; i++) in_batch |= g->choice[i].in_batch;
        if (in_batch || (g->end == TX__GOES_ON && (g->n_left || !g->n_choices))) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        stop_waiting(s, g);
        tx__generation_end(g, TX__COMPLETE);
        tx__counters_ended(s->counters, g);
        tx__generation_release(g);
    }
}

/* One text of the first in the queue joins, and if it has more it goes to the end. TX_ERR_ARG is the error of that
 * generation alone. */
static tx_status admit_one(tx__scheduler *s)
{
    tx__generation *g = wait_pop(s);
    tx__choice *c = &g->choice[g->n_admitted++];
    tx_status st = tx_batcher_add(s->batcher, &c->seq);
    c->in_batch = !st;
    if (st == TX_ERR_ARG) {
        tx__generation_end(g, TX__FAILED);
        cancel_texts(s, g);
        st = TX_OK;
    } else if (g->n_admitted < g->n_choices) {
        wait_last(s, g);
        return st;
    }
    s->n_waiting--;
    return st;
}

/* *beam: the generation whose turn it is to search. */
static tx_status admit(tx__scheduler *s, tx__generation **beam)
{
    int64_t slots = tx_decoder_slots(s->decoder);
    *beam = NULL;
    for (;;) {
        int64_t in = tx_batcher_running(s->batcher) + tx_batcher_waiting(s->batcher);
        if (!s->waiting || in >= slots) break;
        if (s->waiting->hypothesis) {
            if (in) break;
            *beam = wait_pop(s);
            s->n_waiting--;
            break;
        }
        TX_TRY(admit_one(s));
    }
    tx__counters_set(s->counters, TX__REQUESTS_WAITING, s->n_waiting);
    return TX_OK;
}

typedef struct search {
    tx__scheduler *s;
    tx__generation *generation;
    tx__end end;
} search;

/* A search holds the batching thread, so no sweep comes between its steps. */
static bool ends_early(void *user)
{
    search *x = user;
    pthread_mutex_lock(&x->s->lock);
    x->end = early_end(x->s, x->generation, tx_clock());
    pthread_mutex_unlock(&x->s->lock);
    return x->end != TX__GOES_ON;
}

static tx_status work(tx__scheduler *s, tx__generation *beam)
{
    if (!beam) return tx_batcher_step(s->batcher);
    search x = { .s = s, .generation = beam };
    tx_status st = tx__generation_search(beam, s->decoder, ends_early, &x);
    if (!st) tx__generation_end(beam, x.end == TX__GOES_ON ? TX__COMPLETE : x.end);
    return st;
}

/* Waits until there is something to do. False: it is closed, and all is done. */
static bool next_round(tx__scheduler *s)
{
    while (!s->generations && !s->closed) pthread_cond_wait(&s->news, &s->lock);
    return s->generations;
}

static void end_all(tx__scheduler *s)
{
    s->closed = true;
    while (s->generations) {
        tx__generation *g = s->generations;
        s->generations = g->next;
        tx__generation_end(g, TX__FAILED);
        tx__generation_release(g);
    }
    s->waiting = NULL;
    s->n_waiting = 0;
}

tx_status tx__scheduler_run(tx__scheduler *s)
{
    tx_status st = TX_OK;
    tx__generation *beam;
    pthread_mutex_lock(&s->lock);
    while (!st && next_round(s)) {
        sweep(s);
        st = admit(s, &beam);
        tx__counters_set(s->counters, TX__TEXTS_RUNNING,
                         tx_batcher_running(s->batcher) + tx_batcher_waiting(s->batcher) + (beam ? 1 : 0));
        pthread_mutex_unlock(&s->lock);
        if (!st) st = work(s, beam);
        pthread_mutex_lock(&s->lock);
        if (!st) drop_ended(s);
        tx__counters_set(s->counters, TX__TEXTS_RUNNING, tx_batcher_running(s->batcher));
    }
    if (st) end_all(s);
    pthread_mutex_unlock(&s->lock);
    return st;
}
