/* threads.c - what OpenMP's runtimes read from the environment when they are loaded: how many threads, where, and how
 * long they spin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "config/config.h"
#include "triax/jobs.h"

static bool any_set(const char *const *variable)
{
    for (; *variable; variable++)
        if (getenv(*variable)) return true;
    return false;
}

/* The runtimes spin for milliseconds at every barrier before they sleep. Where other programs use the same cores,
 * threads then burn the time that the thread they wait for needs (docs/decisions). */
static void spin_briefly(void)
{
    static const char *const users[] = { "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", NULL };
    if (any_set(users)) return;
    setenv("GOMP_SPINCOUNT", "20000", 1); /* libgomp */
    setenv("KMP_BLOCKTIME", "1", 1);      /* libomp, ms */
}

static tx_status bind(const tx_cores *c, int n_threads)
{
    tx_str places = { 0 };
    tx_status st;
    TX_GOTO(tx_cores_places(&places, c, n_threads));
    setenv("OMP_PLACES", places.data, 1);
    setenv("OMP_PROC_BIND", "close", 1); /* thread i on place i */
out:
    tx_str_free(&places);
    return st;
}

static void set_number(int n_threads)
{
    char number[16];
    snprintf(number, sizeof number, "%d", n_threads);
    setenv("OMP_NUM_THREADS", number, 1);
}

tx_status tx_threads_environment(const tx_config *cfg, bool may_bind)
{
    static const char *const users[] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", NULL };
    const char *number = getenv("OMP_NUM_THREADS");
    int n = cfg->threads ? (int)cfg->threads : number ? atoi(number) : 0;
    tx_cores c;
    spin_briefly();
    if (cfg->threads) set_number(n);
    if (any_set(users)) return TX_OK; /* and then OpenMP knows how many there are */
    TX_TRY(tx_cores_find(&c, NULL, tx_local_rank_find(), ""));
    tx_status st;
    if (!n) set_number(n = c.n_threads);
    /* ranks that are threads, as --machine-file has, bind themselves */
    if (may_bind && !cfg->machine_file && cfg->cpu_bind == TX_CPU_BIND_AUTO && tx_cores_bind(&c, n))
        TX_GOTO(bind(&c, n));
    st = TX_OK;
out:
    tx_cores_free(&c);
    return st;
}
