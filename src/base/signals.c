/* signals.c - a flag that SIGTERM sets. */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;

static void on_signal(int number)
{
    (void)number;
    seen = 1;
}

void tx_signals_watch(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

bool tx_signals_seen(void)
{
    return seen;
}
