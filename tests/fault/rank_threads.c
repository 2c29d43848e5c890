/* rank_threads.c - `rank_threads N FLAGS`: triax pretrain-gpt FLAGS by N ranks that are threads of one process. The
 * whole job as several processes run it, but that it starts at once and that one kill ends all of it. The linker gives
 * the two calls that open and close a process's world to the ones here. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/comm.h"
#include "triax/config.h"
#include "triax/jobs.h"
#include "triax/log.h"

static _Thread_local tx_world *own;

typedef struct job {
    int argc;
    char **argv;
} job;

tx_status __wrap_tx_world_open(tx_world **out, bool shared_memory);
tx_status __wrap_tx_world_open(tx_world **out, bool shared_memory)
{
    (void)shared_memory;
    *out = own;
    return TX_OK;
}

void __wrap_tx_world_close(tx_world *w);
void __wrap_tx_world_close(tx_world *w)
{
    (void)w; /* tx_world_threads will */
}

/* A rank that failed has said why; the others are ended by the launcher. */
void __wrap_tx_world_abort(tx_world *w, const char *why);
void __wrap_tx_world_abort(tx_world *w, const char *why)
{
    (void)w;
    (void)why;
    _exit(1);
}

static void show(void *user, tx_log_level level, const char *line)
{
    (void)user;
    const char *what = level == TX_LOG_ERROR ? "error: " : level == TX_LOG_WARN ? "warning: " : "";
    fprintf(what[0] ? stderr : stdout, "%s%s\n", what, line);
    fflush(stdout);
}

static tx_status rank(tx_world *world, void *user)
{
    const job *j = user;
    tx_config *cfg = NULL;
    own = world;
    tx_status st = tx_config_parse(&cfg, "pretrain-gpt", j->argc, j->argv);
    if (!st) st = tx_pretrain(cfg);
    tx_config_free(cfg);
    return st;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;
    if (n < 1) {
        fputs("usage: rank_threads N FLAGS OF PRETRAIN-GPT\n", stderr);
        return 2;
    }
    job j = { argc - 2, argv + 2 };
    tx_log_set(show, NULL, TX_LOG_INFO);
    if (!tx_world_threads(n, rank, &j)) return 0;
    fprintf(stderr, "error: %s\n", tx_last_error());
    return 1;
}
