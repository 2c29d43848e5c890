/* signals.c - a flag that signals set, to their number. Handlers only touch lock-free atomics, post a semaphore, or put
 * the default back and send the signal again. */
#include "base/signals.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static atomic_int seen;

bool tx_signals_seen(void)
{
    return atomic_load(&seen) != 0;
}

static const char *name_of(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = { { SIGTERM, "SIGTERM" },
                  { SIGUSR1, "SIGUSR1" },
                  { SIGINT, "SIGINT" },
                  { SIGHUP, "SIGHUP" },
                  { SIGPIPE, "SIGPIPE" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number) return names[i].name;
    return "";
}

const char *tx_signals_name(void)
{
    return name_of(atomic_load(&seen));
}

/* True: nothing had come before. */
static bool note(int number)
{
    int none = 0;
    return atomic_compare_exchange_strong(&seen, &none, number);
}

/* ---- holding ---- */

static const int quitting[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1 };
enum { N_QUITTING = sizeof quitting / sizeof *quitting };
static struct sigaction before[N_QUITTING];

static void on_signal(int number)
{
    note(number);
}

void tx_signals_hold(bool warning)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    atomic_store(&seen, 0);
    for (int i = 0; i < N_QUITTING; i++) {
        bool is_warning = quitting[i] == SIGUSR1;
        sigaction(quitting[i], NULL, &before[i]);
        action.sa_flags = is_warning ? 0 : (int)SA_RESETHAND;
        if (before[i].sa_handler != SIG_IGN && (warning || !is_warning)) sigaction(quitting[i], &action, NULL);
    }
}

void tx_signals_release(void)
{
    for (int i = 0; i < N_QUITTING; i++) sigaction(quitting[i], &before[i], NULL);
    atomic_store(&seen, 0);
}

/* ---- a training run ---- */

static const int of_a_run[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE };
enum { N_OF_A_RUN = sizeof of_a_run / sizeof *of_a_run };

static struct {
    int n; /* calls of tx_signals_watch */
    _Atomic(const char *) text;
    bool taken[N_OF_A_RUN];
    tx_signal_watch how;
    atomic_bool ends; /* the first signal ends the process */
    atomic_llong at;  /* when it came, in milliseconds */
    sem_t come;       /* a signal, or the end of the watch; never destroyed: a handler may still be about to post it */
    bool threaded;    /* the thread runs */
    pthread_t thread;
} watch;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

static long long milliseconds(void)
{
    struct timespec t; /* clock_gettime may be called by handlers, tx_clock makes no such promise */
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* As if it had never been handled: the process dies of it. */
static void die_of(int number)
{
    signal(number, SIG_DFL);
    kill(getpid(), number);
}

/* Two that mean one wish: another number, or in another rank's way, at the same time. */
static bool is_echo(int number)
{
    long long at = atomic_load(&watch.at); /* 0: another thread is just noting the first one */
    return (watch.how.several || number != atomic_load(&seen)) && (!at || milliseconds() - at < 1000);
}

/* Which nobody sends twice to say more with it. */
static bool is_warning(int number)
{
    return number == SIGUSR1 || number == SIGPIPE;
}

static void on_signal_of_a_run(int number)
{
    if (note(number)) {
        atomic_store(&watch.at, milliseconds());
        if (watch.threaded)
            sem_post(&watch.come);
        else if (atomic_load(&watch.ends))
            die_of(number);
    } else if (!is_warning(number) && !is_echo(number)) {
        die_of(number);
    }
}

static void explain(int number)
{
    bool again = !is_warning(number) && !atomic_load(&watch.ends);
    if (number == SIGTERM && watch.how.silent_term) return;
    tx_warn("%s: %s%s", name_of(number), atomic_load(&watch.text), again ? "; a second signal ends it at once" : "");
}

static void *speak(void *user)
{
    (void)user;
    while (sem_wait(&watch.come)) continue;
    int number = atomic_load(&seen);
    if (!number) return NULL; /* the watch is over */
    explain(number);
    if (atomic_load(&watch.ends)) die_of(number);
    return NULL;
}

static void start_thread(void)
{
    sigset_t all, old;
    if (!watch.how.speaks || sem_init(&watch.come, 0, 0)) return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    watch.threaded = !pthread_create(&watch.thread, NULL, speak, NULL); /* else nothing is said */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void start_watching(const tx_signal_watch *w)
{
    struct sigaction action = { .sa_handler = on_signal_of_a_run, .sa_flags = SA_RESTART }, now;
    sigemptyset(&action.sa_mask);
    watch.how = *w;
    atomic_store(&seen, 0);
    atomic_store(&watch.at, 0);
    atomic_store(&watch.ends, true);
    start_thread();
    for (int i = 0; i < N_OF_A_RUN; i++) {
        bool wanted = of_a_run[i] != SIGPIPE || !w->several; /* ranks may have one of MPI's connections */
        watch.taken[i] =
            wanted && !sigaction(of_a_run[i], NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
        if (watch.taken[i]) sigaction(of_a_run[i], &action, NULL);
    }
}

void tx_signals_watch(const tx_signal_watch *w, const char *text)
{
    pthread_mutex_lock(&watch_lock);
    if (!watch.n++) {
        atomic_store(&watch.text, text);
        start_watching(w);
    }
    pthread_mutex_unlock(&watch_lock);
}

void tx_signals_take(const char *text)
{
    atomic_store(&watch.text, text);
    atomic_store(&watch.ends, false);
}

void tx_signals_unwatch(void)
{
    pthread_mutex_lock(&watch_lock);
    bool last = !--watch.n;
    for (int i = 0; last && i < N_OF_A_RUN; i++)
        if (watch.taken[i]) signal(of_a_run[i], SIG_DFL);
    if (last && watch.threaded) {
        sem_post(&watch.come);
        pthread_join(watch.thread, NULL);
        watch.threaded = false;
    }
    pthread_mutex_unlock(&watch_lock);
}
