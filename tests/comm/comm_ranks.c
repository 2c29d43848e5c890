/* comm_ranks.c - a program that tests start as ranks of an MPI job (tests/cli/test_comm_mpi.sh).
 *
 *      comm_ranks WHAT [hosts]     hosts: as if each rank were on a host of its own */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm_body.h"

static void sleep_s(double s)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9) }, NULL);
}

static tx_status all(tx_world *w)
{
    TX_TRY(body_all(w, 1, true));
    return body_all(w, 1, false);
}

static tx_status seats(tx_world *w)
{
    for (int i = 0; i < tx_world_size(w) && tx_world_rank(w) == 0; i++) {
        const tx_seat *s = tx_world_seat(w, i);
        printf("rank %d: host %d, %d of %d\n", i, s->host, s->local_rank, s->n_local);
    }
    return TX_OK;
}

/* One all-reduce of 8 MiB. */
static tx_status sum(tx_world *w)
{
    static float x[1 << 21];
    tx_world_set_timeout(w, 60);
    TX_TRY(tx_comm_barrier(tx_world_comm(w)));
    double start = tx_clock();
    TX_TRY(tx_all_reduce(NULL, tx_world_comm(w), tx_tensor1(x, TX_F32, 1 << 21), TX_SUM));
    TX_TRY(tx_comm_barrier(tx_world_comm(w)));
    if (tx_world_rank(w) == 0) printf("%.3f s\n", tx_clock() - start);
    return TX_OK;
}

/* All-reduces until somebody ends it. */
static tx_status loop(tx_world *w)
{
    static float x[100000];
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (;;) TX_TRY(tx_all_reduce(NULL, tx_world_comm(w), tx_tensor1(x, TX_F32, 100000), TX_SUM));
}

static tx_status one_fails(tx_world *w)
{
    TX_TRY(tx_comm_barrier(tx_world_comm(w)));
    if (tx_world_rank(w) == 1) return TX_FAIL(TX_ERR_IO, "the disk is full");
    return tx_comm_barrier(tx_world_comm(w));
}

static tx_status one_stops(tx_world *w)
{
    tx_world_set_timeout(w, 2);
    TX_TRY(tx_comm_barrier(tx_world_comm(w)));
    tx_world_note(w, "reading data");
    if (tx_world_rank(w) == tx_world_size(w) - 1) raise(SIGSTOP);
    return tx_comm_barrier(tx_world_comm(w));
}

/* A rank that computes for a while is not late. */
static tx_status one_is_slow(tx_world *w)
{
    if (tx_world_rank(w) == 0) sleep_s(1);
    return tx_comm_barrier(tx_world_comm(w));
}

/* Rank 1 sends `more` rows more than rank 0 expects. */
static tx_status sends(tx_world *w, int64_t more)
{
    static float x[2][40000];
    int64_t to[2] = { 1900, 1900 }, from[2] = { 1900, 1900 - more };
    tx_all_to_all_rows rows = { to, tx_world_rank(w) ? to : from, 7600 };
    return tx_all_to_all(NULL, tx_world_comm(w), tx_tensor2(x[0], TX_F32, 4000, 10), tx_tensor2(x[1], TX_F32, 4000, 10),
                         &rows);
}

static tx_status sends_more(tx_world *w)
{
    return sends(w, 1);
}

static tx_status sends_less(tx_world *w)
{
    return sends(w, -1);
}

static const struct {
    const char *name;
    tx_status (*run)(tx_world *w);
} jobs[] = { { "all", all },
             { "seats", seats },
             { "sum", sum },
             { "loop", loop },
             { "sends-more", sends_more },
             { "sends-less", sends_less },
             { "one-fails", one_fails },
             { "one-stops", one_stops },
             { "one-is-slow", one_is_slow } };

int main(int argc, char **argv)
{
    tx_world *w;
    tx_status st = tx_world_open(&w, !(argc > 2 && !strcmp(argv[2], "hosts")));
    if (st) {
        fprintf(stderr, "comm_ranks: %s\n", tx_last_error());
        return 1;
    }
    tx_world_set_timeout(w, 5); /* a test that hangs says where */
    st = TX_FAIL(TX_ERR_ARG, "no such job");
    for (size_t i = 0; argc > 1 && i < sizeof jobs / sizeof jobs[0]; i++)
        if (!strcmp(argv[1], jobs[i].name)) st = jobs[i].run(w);
    if (st && !tx_world_aborted(w)) {
        fprintf(stderr, "comm_ranks: rank %d: %s\n", tx_world_rank(w), tx_last_error());
        tx_world_abort(w, tx_last_error());
    }
    tx_world_close(w);
    return st != TX_OK;
}
