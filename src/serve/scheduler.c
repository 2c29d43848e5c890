/* scheduler.c - waiting tasks, their turns, and the loop around the batcher. */
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
    tx__task *tasks;               /* all that are not over */
    tx__task *waiting, **wait_end; /* those with texts that have not joined, in the order of their turns */
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

static void wait_last(tx__scheduler *s, tx__task *task)
{
    task->next_waiting = NULL;
    *s->wait_end = task;
    s->wait_end = &task->next_waiting;
}

static tx__task *wait_pop(tx__scheduler *s)
{
    tx__task *task = s->waiting;
    s->waiting = task->next_waiting;
    if (!s->waiting) s->wait_end = &s->waiting;
    return task;
}

tx_status tx__scheduler_submit(tx__scheduler *s, tx__task *task)
{
    tx_status st = TX_OK;
    pthread_mutex_lock(&s->lock);
    if (s->closed) {
        st = TX_FAIL(TX_ERR_STATE, "the server is about to end");
    } else if (s->n_waiting >= s->max_queue && (s->max_queue || s->tasks)) {
        st = TX_FAIL(TX_ERR_STATE, "%lld requests are waiting, no more are taken", (long long)s->n_waiting);
    } else {
        atomic_fetch_add(&task->holders, 1);
        task->next = s->tasks;
        s->tasks = task;
        wait_last(s, task);
        tx__counters_set(s->counters, TX__REQUESTS_WAITING, ++s->n_waiting);
        pthread_cond_signal(&s->news);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

void tx__scheduler_cancel(tx__scheduler *s, tx__task *task)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&task->cancel, true);
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

static void stop_waiting(tx__scheduler *s, tx__task *task)
{
    tx__task **at = &s->waiting;
    while (*at && *at != task) at = &(*at)->next_waiting;
    if (!*at) return;
    *at = task->next_waiting;
    if (!*at) s->wait_end = at;
    s->n_waiting--;
}

static void cancel_texts(tx__scheduler *s, tx__task *task)
{
    for (int i = 0; i < task->n_choices; i++)
        if (task->choice[i].in_batch) tx_batcher_cancel(s->batcher, &task->choice[i].seq);
}

/* Whether nobody wants a task any more, or it has had its time. */
static tx__end early_end(const tx__scheduler *s, const tx__task *task, double now)
{
    if ((s->closed && now > s->close_at) || atomic_load(&task->cancel)) return TX__CANCELLED;
    return now > task->deadline ? TX__TIMED_OUT : TX__GOES_ON;
}

/* Those with an early end leave. */
static void sweep(tx__scheduler *s)
{
    double now = tx_clock();
    for (tx__task *task = s->tasks; task; task = task->next) {
        tx__end end = early_end(s, task, now);
        if (end == TX__GOES_ON && task->end == TX__GOES_ON) continue;
        stop_waiting(s, task);
        tx__task_end(task, end);
        cancel_texts(s, task);
    }
}

/* Tasks of which no text is in the batch or has yet to join are over. */
static void drop_ended(tx__scheduler *s)
{
    for (tx__task **at = &s->tasks; *at;) {
        tx__task *task = *at;
        bool in_batch = false;
        for (int i = 0; i < task->n_choices; i++) in_batch |= task->choice[i].in_batch;
        if (in_batch || (task->end == TX__GOES_ON && (task->n_left || !task->n_choices))) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        stop_waiting(s, task);
        tx__task_end(task, TX__COMPLETE);
        tx__counters_ended(s->counters, task);
        tx__task_release(task);
    }
}

/* One text of the first in the queue joins, and if it has more it goes to the end. TX_ERR_ARG is the task's alone. */
static tx_status admit_one(tx__scheduler *s)
{
    tx__task *task = wait_pop(s);
    tx__choice *c = &task->choice[task->n_admitted++];
    tx_status st = tx_batcher_add(s->batcher, &c->seq);
    c->in_batch = !st;
    if (st == TX_ERR_ARG) {
        tx__task_end(task, TX__FAILED);
        cancel_texts(s, task);
        st = TX_OK;
    } else if (task->n_admitted < task->n_choices) {
        wait_last(s, task);
        return st;
    }
    s->n_waiting--;
    return st;
}

/* *beam: the task whose turn it is to search. */
static tx_status admit(tx__scheduler *s, tx__task **beam)
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
    tx__task *task;
    tx__end end;
} search;

/* A search holds the batching thread, so no sweep comes between its steps. */
static bool ends_early(void *user)
{
    search *x = user;
    pthread_mutex_lock(&x->s->lock);
    x->end = early_end(x->s, x->task, tx_clock());
    pthread_mutex_unlock(&x->s->lock);
    return x->end != TX__GOES_ON;
}

static tx_status work(tx__scheduler *s, tx__task *beam)
{
    if (!beam) return tx_batcher_step(s->batcher);
    search x = { .s = s, .task = beam };
    tx_status st = tx__task_search(beam, s->decoder, ends_early, &x);
    if (!st) tx__task_end(beam, x.end == TX__GOES_ON ? TX__COMPLETE : x.end);
    return st;
}

/* Waits until there is something to do. False: it is closed, and all is done. */
static bool next_round(tx__scheduler *s)
{
    while (!s->tasks && !s->closed) pthread_cond_wait(&s->news, &s->lock);
    return s->tasks;
}

static void end_all(tx__scheduler *s)
{
    s->closed = true;
    while (s->tasks) {
        tx__task *task = s->tasks;
        s->tasks = task->next;
        tx__task_end(task, TX__FAILED);
        tx__task_release(task);
    }
    s->waiting = NULL;
    s->n_waiting = 0;
}

tx_status tx__scheduler_run(tx__scheduler *s)
{
    tx_status st = TX_OK;
    tx__task *beam;
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
