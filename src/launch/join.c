/* join.c - a node's side: it finds node 0, runs Open MPI's daemon when it is told to, and nothing else. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/orted_words.h"
#include "launch/rendezvous.h"

enum { MAX_WORDS = 4096 };

struct member {
    const tx_meeting *m;
    tx_supervisor *s;
    tx_link link;
    bool was_running, ended;
    int code, stops_told;
    char shared[64]; /* where this node's MPI keeps its shared memory, if it has the host's name in common with another
                      */
};

/* ---- finding node 0 ---- */

static tx_status wait_a_little(struct member *b)
{
    struct pollfd fds[TX_SUPERVISOR_FDS];
    double until = tx_clock() + 0.5;
    while (tx_clock() < until) TX_TRY(tx__supervisor_wait(b->s, fds, 0, until - tx_clock()));
    return b->s->n_stops ? TX_FAIL(TX_ERR_STATE, "stopped while node 0 was looked for") : TX_OK;
}

static tx_status find_node_0(struct member *b)
{
    const tx_meeting *m = b->m;
    double start = tx_clock(), tell = start + 5;
    char why[160] = "";
    for (;;) {
        double left = start + m->timeout - tx_clock();
        int fd = tx__connect(m->host, m->port, left < 5 ? left + 0.1 : 5, why, sizeof why);
        if (fd >= 0) return tx__link_init(&b->link, fd, TX_WIRE_CLIENT, &m->key, m->host);
        if (left < 0.5)
            return TX_FAIL(TX_ERR_COMM,
                           "node 0 does not answer at %s:%d (%s), tried for %.0f s; start triax torchrun there with "
                           "--node_rank 0 and the same --master_port",
                           m->host, m->port, why, m->timeout);
        if (tx_clock() > tell) {
            tx_info("waiting for node 0 at %s:%d (%s)", m->host, m->port, why);
            tell = tx_clock() + 30;
        }
        TX_TRY(wait_a_little(b));
    }
}

/* ---- what node 0 says ---- */

static tx_status say_text(struct member *b, int type, int64_t number, const char *text)
{
    tx_str s = { 0 };
    tx_status st = tx__pack_number(&s, number);
    if (!st && text) st = tx__pack_text(&s, text);
    if (!st) st = tx__link_say(&b->link, type, &s);
    tx_str_free(&s);
    return st;
}

static tx_status check_here(const char *program, const char *folder)
{
    const char *other = getenv("TX_LAUNCH_PROGRAM");
    if (access(other && *other ? other : program, X_OK))
        return TX_FAIL(TX_ERR_NOTFOUND, "%s cannot be run here: %s; triax has to lie in the same place on all nodes",
                       program, strerror(errno));
    if (access(folder, X_OK))
        return TX_FAIL(TX_ERR_NOTFOUND, "the folder %s, where node 0 was started, is not here: %s", folder,
                       strerror(errno));
    return TX_OK;
}

static tx_status on_welcome(struct member *b, tx_unpack *u)
{
    char program[4096], folder[4096], why[512];
    int64_t node;
    TX_TRY(tx__unpack_number(u, 1, TX_MAX_NODES, &node));
    TX_TRY(tx__unpack_text(u, program, sizeof program));
    TX_TRY(tx__unpack_text(u, folder, sizeof folder));
    TX_TRY(tx__unpack_end(u));
    tx_status st = check_here(program, folder);
    if (!st) {
        tx_info("this is node %lld of %d; node 0 at %s:%d starts the ranks", (long long)node, b->m->n_nodes, b->m->host,
                b->m->port);
        return tx__link_say(&b->link, TX_SAY_READY, NULL);
    }
    snprintf(why, sizeof why, "%s", tx_last_error());
    (void)say_text(b, TX_SAY_REFUSE, 1, why);
    tx__link_flush(&b->link, 2);
    return TX_FAIL(st, "%s", why);
}

/* Open MPI names files of shared memory by the host's name and the number of a rank on its node. */
static tx_status separate_shared_memory(struct member *b, tx_words *env)
{
    static const char *const parameters[] = { "btl_vader_backing_directory", "osc_sm_backing_directory",
                                              "osc_rdma_backing_directory" };
    if (!*b->shared) {
        strcpy(b->shared, "/dev/shm/triax-XXXXXX");
        if (!mkdtemp(b->shared)) {
            *b->shared = 0;
            return TX_FAIL(TX_ERR_IO, "cannot make a folder in /dev/shm: %s", strerror(errno));
        }
    }
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        TX_TRY(tx__words_addf(env, "OMPI_MCA_%s=%s", parameters[i], b->shared));
    return TX_OK;
}

static tx_status on_run(struct member *b, tx_unpack *u)
{
    tx_launch_command start = { 0 };
    int64_t same_host;
    tx_status st;
    if (b->s->pid) return TX_FAIL(TX_ERR_FORMAT, "node 0 wants a second daemon here");
    TX_GOTO(tx__unpack_number(u, 0, 1, &same_host));
    TX_GOTO(tx__unpack_words(u, &start.words, MAX_WORDS));
    TX_GOTO(tx__unpack_end(u));
    TX_GOTO(tx__orted_check(start.words.word, start.words.n));
    TX_GOTO(tx__forget_outer_launcher(&start.env));
    TX_GOTO(tx__share_cores(&start.env));
    if (same_host) TX_GOTO(separate_shared_memory(b, &start.env));
    TX_GOTO(tx__supervisor_start(b->s, &start, true));
    b->was_running = true;
out:
    tx__start_free(&start);
    return st;
}

static tx_status on_end(struct member *b, tx_unpack *u)
{
    char why[1024];
    int64_t code;
    TX_TRY(tx__unpack_number(u, 0, 255, &code));
    TX_TRY(tx__unpack_text(u, why, sizeof why));
    b->ended = true;
    b->code = (int)code;
    return *why ? TX_FAIL(TX_ERR_COMM, "%s", why) : TX_OK;
}

static tx_status on_message(struct member *b, const tx_message *msg)
{
    tx_unpack u = { msg->bytes, msg->bytes + msg->n };
    switch (msg->type) {
    case TX_SAY_WELCOME:
        return on_welcome(b, &u);
    case TX_SAY_RUN:
        return on_run(b, &u);
    case TX_SAY_END:
        return on_end(b, &u);
    case TX_SAY_KILL:
        if (b->s->pid) tx__supervisor_end(b->s);
        return TX_OK;
    default:
        return TX_FAIL(TX_ERR_FORMAT, "says what node 0 does not say");
    }
}

/* ---- the loop ---- */

static tx_status explain(const struct member *b, tx_status st)
{
    if (b->link.wire.open || b->ended) return st;
    if (st == TX_ERR_STATE)
        return TX_FAIL(TX_ERR_STATE,
                       "the torchrun at %s:%d has another key than %s; where homes are not shared copy it: "
                       "scp -p %s:%s %s",
                       b->m->host, b->m->port, b->m->key_path, b->m->host, b->m->key_path, b->m->key_path);
    return st == TX_ERR_FORMAT ? tx_fail_prefix(st, "what listens at %s:%d", b->m->host, b->m->port) : st;
}

static tx_status take_messages(struct member *b)
{
    tx_message msg;
    bool hello = b->link.wire.open;
    while (!b->ended) {
        tx_status st = tx__link_next(&b->link, &msg);
        if (st) return explain(b, st);
        if (!hello && b->link.wire.open) {
            tx_str s = { 0 };
            st = tx__hello_pack(&s, b->m);
            if (!st) st = tx__link_say(&b->link, TX_SAY_HELLO, &s);
            tx_str_free(&s);
            if (st) return st;
            hello = true;
        }
        if (!msg.type) return TX_OK;
        TX_TRY(on_message(b, &msg));
    }
    return TX_OK;
}

/* Signals to stop go to node 0, which gives the ranks their time. */
static tx_status tell_stops(struct member *b)
{
    while (b->stops_told < b->s->n_stops && b->link.wire.open) {
        b->stops_told++;
        TX_TRY(say_text(b, TX_SAY_STOP, b->s->stop_signal, NULL));
    }
    return b->s->n_stops > 2 ? TX_FAIL(TX_ERR_STATE, "stopped by a third signal") : TX_OK;
}

static tx_status turn(struct member *b)
{
    struct pollfd fds[TX_SUPERVISOR_FDS + 1];
    fds[TX_SUPERVISOR_FDS] = tx__link_poll(&b->link);
    TX_TRY(tx__supervisor_wait(b->s, fds, 1, -1));
    if (b->was_running && !b->s->pid) {
        b->was_running = false;
        TX_TRY(say_text(b, TX_SAY_EXITED, b->s->code, NULL));
    }
    TX_TRY(tell_stops(b));
    TX_TRY(tx__link_pump(&b->link));
    TX_TRY(take_messages(b));
    if (!b->link.ended || b->ended) return TX_OK;
    return b->link.wire.open ? TX_FAIL(TX_ERR_COMM,
                                       "node 0 at %s:%d does not answer any more: its torchrun was ended or the link "
                                       "is down; this node's ranks are ended",
                                       b->m->host, b->m->port)
                             : TX_FAIL(TX_ERR_COMM, "%s:%d has closed the connection; is it a triax torchrun?",
                                       b->m->host, b->m->port);
}

tx_status tx__join(const tx_meeting *m, tx_supervisor *s, int *code)
{
    struct member b = { .m = m, .s = s, .link.fd = -1, .code = 1 };
    char why[1024];
    s->only_counts = true;
    tx_status st = find_node_0(&b);
    while (!st && !b.ended) st = turn(&b);
    snprintf(why, sizeof why, "%s", tx_last_error());
    tx__supervisor_finish(s);
    if (*b.shared) (void)tx_remove_tree(b.shared);
    tx__link_close(&b.link);
    *code = b.code;
    return st ? TX_FAIL(st, "%s", why) : TX_OK;
}
