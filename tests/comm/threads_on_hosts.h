/* threads_on_hosts.h - ranks as threads that take each other for ranks of several hosts: a transport within the process
 * carries what hosts send each other, late and in any order that MPI allows, and counts it. */
#ifndef TX_TESTS_THREADS_ON_HOSTS_H
#define TX_TESTS_THREADS_ON_HOSTS_H

#include <pthread.h>
#include <stdlib.h>

#include "comm/board.h"
#include "comm/transport.h"
#include "comm_body.h"

enum { MOST_RANKS = 16, MOST_POSTED = 4096 };

typedef struct parcel {
    struct parcel *next;
    int from, channel, tag;
    size_t bytes;
    unsigned char data[];
} parcel;

/* What has been sent to a rank and has not been taken, in the order of sending. */
static struct {
    pthread_mutex_t lock;
    parcel *first, **last;
} mailboxes[MOST_RANKS];

typedef struct posted {
    bool used, come;
    int from, channel, tag;
    void *data;
    size_t bytes, got;
} posted;

/* A rank's: it is a thread. */
static _Thread_local struct {
    int rank;
    posted receive[MOST_POSTED];
    int n, order[MOST_POSTED]; /* those that wait, in the order in which they were posted */
    uint64_t dice;
} here;

static int host_of_rank[MOST_RANKS];
static tx__job *job_of_host[MOST_RANKS];
static _Atomic int64_t crossing[MOST_RANKS]; /* bytes that a host has sent to others */

static int thread_send(tx__move *m, const void *data, size_t bytes, int to, int channel, int tag)
{
    parcel *p = malloc(sizeof *p + bytes);
    if (!p) return 1;
    *p = (parcel){ .from = here.rank, .channel = channel, .tag = tag, .bytes = bytes };
    if (bytes) memcpy(p->data, data, bytes);
    if (host_of_rank[to] != host_of_rank[here.rank])
        atomic_fetch_add(&crossing[host_of_rank[here.rank]], (int64_t)bytes);
    pthread_mutex_lock(&mailboxes[to].lock);
    *mailboxes[to].last = p;
    mailboxes[to].last = &p->next;
    pthread_mutex_unlock(&mailboxes[to].lock);
    *m = MOST_POSTED + 1; /* done as soon as it is looked at */
    return 0;
}

static int thread_receive(tx__move *m, void *data, size_t bytes, int from, int channel, int tag)
{
    int i = 0;
    while (i < MOST_POSTED && here.receive[i].used) i++;
    if (i == MOST_POSTED) return 1;
    here.receive[i] =
        (posted){ .used = true, .from = from, .channel = channel, .tag = tag, .data = data, .bytes = bytes };
    here.order[here.n++] = i;
    *m = (tx__move)i + 1;
    return 0;
}

static parcel *take(const posted *r)
{
    parcel **at = &mailboxes[here.rank].first, *p;
    for (; (p = *at); at = &p->next)
        if (p->from == r->from && p->channel == r->channel && p->tag == r->tag) break;
    if (!p) return NULL;
    *at = p->next;
    if (mailboxes[here.rank].last == &p->next) mailboxes[here.rank].last = at;
    return p;
}

/* Messages of one sender and tag go to receives in the order of both. */
static int deliver(void)
{
    int left = 0, too_long = 0;
    pthread_mutex_lock(&mailboxes[here.rank].lock);
    for (int k = 0; k < here.n; k++) {
        posted *r = &here.receive[here.order[k]];
        parcel *p = take(r);
        if (!p) {
            here.order[left++] = here.order[k];
            continue;
        }
        r->come = true;
        r->got = p->bytes;
        too_long |= p->bytes > r->bytes;
        if (p->bytes && !too_long) memcpy(r->data, p->data, p->bytes);
        free(p);
    }
    here.n = left;
    pthread_mutex_unlock(&mailboxes[here.rank].lock);
    return too_long;
}

static int thread_test(tx__move *m, int *done, size_t *bytes)
{
    here.dice = body_hash(here.dice + (uint64_t)here.rank + 1);
    *done = 0;
    if (here.dice % 4 == 0) return 0;
    if (deliver()) return 1;
    posted *r = *m <= MOST_POSTED ? &here.receive[*m - 1] : NULL;
    if (r && !r->come) return 0;
    if (r) *bytes = r->got;
    if (r) r->used = false;
    *m = 0;
    *done = 1;
    return 0;
}

static void thread_explain(int error, char *text, size_t cap)
{
    (void)error;
    snprintf(text, cap, "a message is too long");
}

static void thread_abort(int code)
{
    (void)code;
    for (int h = 0; h < MOST_RANKS && job_of_host[h]; h++) {
        int nobody = 0;
        if (!atomic_compare_exchange_strong(&job_of_host[h]->ended_by, &nobody, here.rank + 1)) continue;
        snprintf(job_of_host[h]->why, TX__WHY, "aborted");
        atomic_store(&job_of_host[h]->told, 1);
    }
}

static const tx__transport thread_net = { .version = TX_TRANSPORT_VERSION,
                                          .largest_tag = 1 << 30,
                                          .name = "threads",
                                          .send = thread_send,
                                          .receive = thread_receive,
                                          .test = thread_test,
                                          .explain = thread_explain,
                                          .abort = thread_abort };

typedef struct host_rank {
    tx_world *world;
    tx_rank_fn *fn;
    void *user;
    pthread_t thread;
    tx_status st;
    char message[2048];
    bool own;
} host_rank;

static void *run_host_rank(void *user)
{
    host_rank *t = user;
    tx_comm *first = t->world->all;
    here.rank = t->world->rank;
    here.n = 0;
    memset(here.receive, 0, sizeof here.receive);
    t->st = tx_comm_split(&t->world->all, first, 0, "world");
    if (!t->st) tx_comm_close(first);
    if (!t->st) t->st = t->fn(t->world, t->user);
    if (t->st) {
        snprintf(t->message, sizeof t->message, "%s", tx_last_error());
        t->own = !tx_world_aborted(t->world);
        if (t->own) tx_world_abort(t->world, t->message);
    }
    tx__presence_end(t->world);
    return NULL;
}

static tx_status seat_rank(host_rank *t, int rank, int n)
{
    TX_TRY(tx__world_new(&t->world, rank, n));
    tx_world *w = t->world;
    w->one_process = true;
    w->net = &thread_net;
    for (int i = 0; i < n; i++) {
        tx_seat *s = &w->seats[i];
        s->host = host_of_rank[i];
        snprintf(s->host_name, sizeof s->host_name, "node%d", s->host);
        for (int k = 0; k < n; k++) s->n_local += host_of_rank[k] == s->host;
        for (int k = 0; k < i; k++) s->local_rank += host_of_rank[k] == s->host;
    }
    int own = host_of_rank[rank];
    if (!job_of_host[own]) TX_TRY(tx_alloc(&job_of_host[own], 1, tx__job_bytes(n), "a test"));
    w->job = job_of_host[own];
    return tx__remote_open(w->all, 0);
}

/* Runs fn on ranks whose hosts are the digits of `hosts`: "0011". The status of a rank that failed of itself. */
static tx_status threads_on_hosts(const char *hosts, tx_rank_fn *fn, void *user)
{
    static host_rank t[MOST_RANKS];
    int n = (int)strlen(hosts);
    tx_status st = TX_OK;
    memset(t, 0, sizeof t);
    for (int i = 0; i < n; i++) {
        host_of_rank[i] = hosts[i] - '0';
        crossing[i] = 0;
        mailboxes[i].first = NULL;
        mailboxes[i].last = &mailboxes[i].first;
        pthread_mutex_init(&mailboxes[i].lock, NULL);
    }
    for (int i = 0; i < n && !st; i++) st = seat_rank(&t[i], i, n);
    for (int i = 0; i < n && !st; i++) {
        t[i].fn = fn;
        t[i].user = user;
        TX_ASSERT(!pthread_create(&t[i].thread, NULL, run_host_rank, &t[i]));
    }
    for (int i = 0; i < n; i++) pthread_join(t[i].thread, NULL);
    for (int i = 0; i < n; i++)
        if (t[i].own && !st) st = TX_FAIL_LINES(t[i].st, "%s", t[i].message);
    for (int i = 0; i < n && !st; i++)
        if (t[i].st) st = TX_FAIL_LINES(t[i].st, "%s", t[i].message);
    for (int i = 0; i < n; i++) tx__groups_close(t[i].world);
    for (int i = 0; i < n; i++) tx__boards_free(t[i].world, 0);
    for (int i = 0; i < n; i++) {
        tx__world_free(t[i].world);
        tx_free(job_of_host[i]);
        job_of_host[i] = NULL;
        for (parcel *p = mailboxes[i].first, *next; p; p = next) {
            next = p->next;
            free(p);
        }
    }
    return st;
}

#endif
