/* world_open.c - a process as one of a launcher's ranks: who the others are, which of them share memory with it, and a
 * group of all. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/launched.h"
#include "base/log.h"
#include "comm/board.h"
#include "comm/plugin.h"

/* What each rank tells of itself. A host is a name and a start of its system; who has both in common must be able to
 * share memory besides, which containers can prevent. */
typedef struct card {
    char host_name[64], boot[40];
    tx_shared_place job; /* what it offers its host as the job's block */
    int flat;            /* TX_HOST_COMM, as all have to have it */
} card;

static tx_status told(int *flat)
{
    const char *way = getenv("TX_HOST_COMM");
    *flat = way && !strcmp(way, "flat");
    if (*flat || !way || !*way) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "TX_HOST_COMM is \"%s\": it can be flat, or is left out", way);
}

static void fill_card(card *me, const tx__job *job)
{
    memset(me, 0, sizeof *me);
    gethostname(me->host_name, sizeof me->host_name - 1);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, me->boot, sizeof me->boot - 1) : 0;
    if (n < 0) me->boot[0] = 0;
    if (fd >= 0) close(fd);
    if (job && !tx_shared_find(&me->job, job, sizeof *job)) me->job = (tx_shared_place){ 0 };
}

static bool one_host(const card *a, const card *b)
{
    return a->job.key && b->job.key && !strcmp(a->host_name, b->host_name) && !strcmp(a->boot, b->boot);
}

/* Whether this rank reaches the memory of all of its host. Errors only say that it does not. */
static int reaches_all(const card *all, int n, int rank)
{
    for (int i = 0; i < n; i++) {
        void *there;
        if (one_host(&all[i], &all[rank]) && tx_shared_map(&there, &all[i].job)) return 0;
    }
    return 1;
}

/* Ranks of a host on which anyone does not reach another sit alone.   @reaches [size]: by rank */
static bool together(const card *all, const int *reaches, int n, int a, int b)
{
    if (a == b) return true;
    for (int i = 0; i < n; i++)
        if (one_host(&all[i], &all[a]) && !reaches[i]) return false;
    return one_host(&all[a], &all[b]);
}

static void seat(tx_world *w, const card *all, const int *reaches)
{
    int n_hosts = 0;
    for (int i = 0; i < w->size; i++) {
        tx_seat s = { .host = -1 };
        memcpy(s.host_name, all[i].host_name, sizeof s.host_name);
        for (int k = 0; k < w->size; k++) {
            if (!together(all, reaches, w->size, i, k)) continue;
            s.n_local++;
            if (k >= i) continue;
            s.local_rank++;
            s.host = w->seats[k].host;
        }
        if (s.host < 0) s.host = n_hosts++;
        w->seats[i] = s;
    }
}

/* The block of the host's first rank is all its ranks'. */
static tx_status share_job(tx_world *w, const card *all)
{
    const tx_seat *mine = &w->seats[w->rank];
    if (mine->local_rank == 0) return TX_OK; /* its own */
    for (int i = 0; i < w->rank; i++)
        if (w->seats[i].host == mine->host && w->seats[i].local_rank == 0) return tx_shared_map(&w->job, &all[i].job);
    TX_ASSERT(false);
    return TX_OK;
}

static tx_status meet_others(tx_world *w, const card *me)
{
    card *all = NULL;
    int *reaches = NULL, mine;
    tx_status st;
    TX_GOTO(tx_alloc(&all, (size_t)w->size, sizeof *all, "the ranks of the job"));
    TX_GOTO(tx_alloc(&reaches, (size_t)w->size, sizeof *reaches, "the ranks of the job"));
    TX_GOTO(tx_comm_gather(w->all, all, me, sizeof *me));
    for (int i = 1; i < w->size && !st; i++)
        if (all[i].flat != all[0].flat) st = TX_FAIL(TX_ERR_ARG, "TX_HOST_COMM is not the same for ranks 0 and %d", i);
    if (st) goto out;
    mine = reaches_all(all, w->size, w->rank);
    if (!mine) tx_debug("no shared memory with other ranks of this host: %s", tx_last_error());
    TX_GOTO(tx_comm_gather(w->all, reaches, &mine, sizeof mine));
    seat(w, all, reaches);
    TX_GOTO(share_job(w, all));
out:
    tx_free(all);
    tx_free(reaches);
    return st;
}

static tx_status as_launched(const tx_launched *l, const tx__transport *net)
{
    if (net->size == l->size && net->rank == l->rank) return TX_OK;
    return TX_FAIL(
        TX_ERR_COMM,
        "%s has started %d ranks, and %s counts %d: they would be %d jobs that know nothing of each other. "
        "Open MPI's ranks are started by its mpirun or srun --mpi=pmix, MPICH's by its mpiexec or srun "
        "--mpi=pmi2; the module for either is libtriax_openmpi.so or libtriax_mpich.so (TX_MPI_PLUGIN=openmpi or "
        "mpich)",
        l->by, l->size, net->name, net->size, l->size);
}

/* Ranks talk over the transport first; the group that they then make is the fastest there is for them. */
static tx_status open_group(tx_world *w)
{
    tx_comm *first = w->all, *all;
    TX_TRY(tx_comm_split(&all, first, 0, "world"));
    w->all = all;
    tx_comm_close(first);
    return TX_OK;
}

static tx_status open_world(tx_world **out, const tx__transport *net, bool shared_memory)
{
    tx_world *w;
    card me;
    tx_status st;
    TX_TRY(tx__world_new(&w, net->rank, net->size));
    w->net = net;
    TX_GOTO(tx__remote_open(w->all, 0));
    tx_shared_enable(shared_memory);
    TX_GOTO(tx_shared_alloc(&w->own_job, tx__job_bytes(w->size), "the ranks of the job"));
    fill_card(&me, shared_memory ? w->own_job : NULL);
    TX_GOTO(tx_comm_agree(w->all, told(&me.flat)));
    tx_world_by_hosts(w, !me.flat);
    for (int i = 0; i < w->size; i++) w->seats[i] = (tx_seat){ .host = i, .n_local = 1 };
    w->job = w->own_job;
    TX_GOTO(meet_others(w, &me));
    tx__find_crowded(w);
    tx_shared_enable(w->seats[w->rank].n_local > 1);
    TX_GOTO(open_group(w));
    *out = w;
out:
    if (st) tx__world_free(w);
    return st;
}

tx_status tx_world_open(tx_world **out, bool shared_memory)
{
    const tx__transport *net;
    tx_launched l = tx_launched_find();
    if (l.lone)
        return TX_FAIL(
            TX_ERR_COMM,
            "srun has started %d tasks that cannot find each other, and each would train the whole by itself: "
            "give srun --mpi=pmix (MPICH: --mpi=pmi2), or one task a node and triax torchrun",
            l.lone);
    if (l.size == 1) return tx_world_self(out);
    TX_TRY(tx__plugin_open(&net));
    TX_TRY(as_launched(&l, net));
    if (*net->note && !l.rank) tx_warn("%s", net->note);
    return open_world(out, net, shared_memory);
}

/* Ranks that another one ends are ended by the launcher, which is to find them where they are: those that go by
 * themselves first are mistaken for the cause. */
static void wait_for_the_end(void)
{
    nanosleep(&(struct timespec){ .tv_sec = 5 }, NULL);
}

void tx_world_close(tx_world *w)
{
    if (!w) return;
    bool ended = w->job && atomic_load(&w->job->ended_by);
    if (w->net && !ended) ended = tx_comm_barrier(w->all) != TX_OK;
    if (w->net && tx_world_aborted(w)) wait_for_the_end();
    tx__groups_close(w);
    tx__boards_free(w, ended ? 0 : 5);
    const tx__transport *net = w->net;
    tx__job *job = w->own_job;
    tx__world_free(w);
    if (net && !ended) net->close();
    tx_shared_free(job); /* after the others have ended as well */
}
