/* signals.c - a flag that signals set, to their number. */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;

static void on_signal(int number)
{
    seen = number;
}

void tx_signals_watch(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

bool tx_signals_seen(void)
{
    return seen;
}

const char *tx_signals_name(void)
{
    static const struct {
        int number;
        const char *name;
    } names[] = { { SIGTERM, "SIGTERM" }, { SIGUSR1, "SIGUSR1" }, { SIGINT, "SIGINT" }, { SIGHUP, "SIGHUP" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == seen) return names[i].name;
    return "";
}

static const int quitting[] = { SIGTERM, SIGINT, SIGHUP };
enum { N_QUITTING = sizeof quitting / sizeof *quitting };
static struct sigaction before[N_QUITTING];

void tx_signals_hold(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    seen = 0;
    for (int i = 0; i < N_QUITTING; i++) {
        sigaction(quitting[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(quitting[i], &action, NULL);
    }
}

void tx_signals_release(void)
{
    for (int i = 0; i < N_QUITTING; i++) sigaction(quitting[i], &before[i], NULL);
    seen = 0;
}
