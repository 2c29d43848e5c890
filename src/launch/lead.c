/* lead.c - node 0's side: who has come, whose daemon mpirun wants, who was lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/orted_words.h"
#include "launch/rendezvous.h"

enum { STRANGERS = 64, PROOF_SECONDS = 10, START_SECONDS = 60, MAX_WORDS = 4096 };

/* A connection: a stranger until it has said HELLO, a node's, or an agent's that mpirun has called. */
struct guest {
    tx_link link;
    bool agent, used;
    int node; /* of a node its number, of an agent the node whose daemon it stands for; -1: none yet */
    double since;
};

struct tx_lead {
    const tx_meeting *m;
    int port_fd, agent_fd;
    struct guest *guest; /* n_guests, those not `used` are free */
    int n_guests;
    struct pollfd *poll;
    tx_node_place *place; /* of every node; host "" until it has come */
    bool *ready;
    bool running, agents_may_come;
    bool hopeless; /* a node of the job cannot take part */
    char folder[64], socket[96], hostfile[96], agent[4300];
    char lost[TX_HOST_NAME]; /* a node that went away while ranks ran */
};

/* ---- life ---- */

static tx_status make_folder(tx_lead *l)
{
    char self[4096];
    strcpy(l->folder, "/tmp/triax-XXXXXX");
    if (!mkdtemp(l->folder)) {
        int e = errno;
        *l->folder = 0;
        return TX_FAIL(TX_ERR_IO, "cannot make a folder in /tmp: %s", strerror(e));
    }
    snprintf(l->socket, sizeof l->socket, "%s/agents", l->folder);
    snprintf(l->hostfile, sizeof l->hostfile, "%s/hosts", l->folder);
    TX_TRY(tx__self_path(self, sizeof self));
    snprintf(l->agent, sizeof l->agent, "%s launch-agent %s", self, l->socket);
    if (strpbrk(self, " \t\"'"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: mpirun cannot call a program with a blank in its path; move triax",
                       self);
    l->agent_fd = tx__listen_local(l->socket);
    return l->agent_fd >= 0 ? TX_OK : TX_FAIL(TX_ERR_IO, "%s: cannot listen: %s", l->socket, strerror(errno));
}

static tx_status open_lead(tx_lead *l, const tx_meeting *m)
{
    l->m = m;
    l->port_fd = l->agent_fd = -1;
    l->n_guests = 2 * m->n_nodes + STRANGERS;
    TX_TRY(tx_alloc(&l->guest, (size_t)l->n_guests, sizeof *l->guest, "connections"));
    TX_TRY(tx_alloc(&l->poll, (size_t)l->n_guests + 2 + TX_SUPERVISOR_FDS, sizeof *l->poll, "connections"));
    TX_TRY(tx_alloc(&l->place, (size_t)m->n_nodes, sizeof *l->place, "the nodes"));
    TX_TRY(tx_alloc(&l->ready, (size_t)m->n_nodes, sizeof *l->ready, "the nodes"));
    l->place[0] = m->here;
    l->ready[0] = true;
    TX_TRY(tx__listen(&l->port_fd, m->port));
    return make_folder(l);
}

static void close_lead(tx_lead *l)
{
    for (int i = 0; l->guest && i < l->n_guests; i++)
        if (l->guest[i].used) tx__link_close(&l->guest[i].link);
    if (l->port_fd >= 0) close(l->port_fd);
    if (l->agent_fd >= 0) close(l->agent_fd);
    if (*l->folder) (void)tx_remove_tree(l->folder);
    tx_free(l->guest);
    tx_free(l->poll);
    tx_free(l->place);
    tx_free(l->ready);
    tx_free(l);
}

tx_status tx__lead_open(tx_lead **out, const tx_meeting *m)
{
    tx_lead *l = NULL;
    *out = NULL;
    if (m->node_rank > 0 || (m->node_rank < 0 && !tx__is_local(m->host))) return TX_OK;
    TX_TRY(tx_alloc(&l, 1, sizeof *l, "the meeting of nodes"));
    tx_status st = open_lead(l, m);
    if (!st) {
        *out = l;
        return TX_OK;
    }
    close_lead(l);
    return st == TX_ERR_STATE && m->node_rank < 0 ? TX_OK : st; /* the port is taken: another one leads */
}

const tx_node_place *tx__lead_places(const tx_lead *l)
{
    return l->place;
}

const char *tx__lead_hostfile(const tx_lead *l)
{
    return l->hostfile;
}

const char *tx__lead_agent(const tx_lead *l)
{
    return l->agent;
}

/* ---- guests ---- */

static void forget(struct guest *g)
{
    tx__link_close(&g->link);
    *g = (struct guest){ 0 };
}

static struct guest *guest_of(const tx_lead *l, int node, bool agent)
{
    for (int i = 0; i < l->n_guests; i++)
        if (l->guest[i].used && l->guest[i].node == node && l->guest[i].agent == agent) return &l->guest[i];
    return NULL;
}

static void say_text(struct guest *g, int type, int64_t number, const char *text)
{
    tx_str s = { 0 };
    if (!tx__pack_number(&s, number) && !tx__pack_text(&s, text)) (void)tx__link_say(&g->link, type, &s);
    tx_str_free(&s);
    tx__link_flush(&g->link, 1);
}

static void accept_guests(tx_lead *l, int listener, bool agent)
{
    char peer[128];
    for (int fd; (fd = tx__accept(listener, peer, sizeof peer)) >= 0;) {
        struct guest *g = l->guest;
        while (g < l->guest + l->n_guests && g->used) g++;
        if (g == l->guest + l->n_guests ||
            tx__link_init(&g->link, fd, agent ? TX_WIRE_PLAIN : TX_WIRE_SERVER, &l->m->key, peer)) {
            close(fd);
            continue;
        }
        g->used = true;
        g->agent = agent;
        g->node = -1;
        g->since = tx_clock();
    }
}

/* A node that is gone takes its agent along, which tells mpirun. */
static void lose(tx_lead *l, struct guest *g, tx_supervisor *s)
{
    int node = g->node;
    bool agent = g->agent;
    forget(g);
    if (node < 0) return;
    struct guest *other = guest_of(l, node, !agent);
    if (agent) {
        if (other) (void)tx__link_say(&other->link, TX_SAY_KILL, NULL); /* mpirun wants its daemon ended */
        return;
    }
    if (other) forget(other);
    if (l->running && s->pid && !*l->lost) {
        strcpy(l->lost, l->place[node].host);
        tx__supervisor_end(s);
    } else if (!l->running) {
        tx_warn("node %d (%s) has left again", node, l->place[node].host);
        l->place[node] = (tx_node_place){ 0 };
    }
    l->ready[node] = false;
}

/* ---- what nodes say ---- */

static int free_node(const tx_lead *l, int wanted)
{
    if (wanted >= 0) return *l->place[wanted].host ? -1 : wanted;
    for (int i = 1; i < l->m->n_nodes; i++)
        if (!*l->place[i].host) return i;
    return -1;
}

static tx_status welcome(struct guest *g)
{
    char self[4096], folder[4096];
    tx_str s = { 0 };
    tx_status st;
    TX_GOTO(tx__self_path(self, sizeof self));
    if (!getcwd(folder, sizeof folder)) strcpy(folder, "/");
    TX_GOTO(tx__pack_number(&s, g->node));
    TX_GOTO(tx__pack_text(&s, self));
    TX_GOTO(tx__pack_text(&s, folder));
    st = tx__link_say(&g->link, TX_SAY_WELCOME, &s);
out:
    tx_str_free(&s);
    return st;
}

static tx_status find_seat(const tx_lead *l, const tx_hello *h, int *node)
{
    *node = free_node(l, (int)h->node_rank);
    if (*node > 0) return TX_OK;
    if (h->node_rank < 0)
        return TX_FAIL(TX_ERR_ARG, "a torchrun on %s came, but all %d nodes are there", h->place.host, l->m->n_nodes);
    return TX_FAIL(TX_ERR_ARG, "the torchruns on %s and %s were both given --node_rank %lld",
                   l->place[h->node_rank].host, h->place.host, (long long)h->node_rank);
}

/* A node of this job that was started in another way ends it: nobody else will take its place. */
static tx_status on_hello(tx_lead *l, struct guest *g, const tx_message *msg)
{
    tx_hello h;
    int node = -1;
    TX_TRY(tx__hello_unpack(&h, msg->bytes, msg->n));
    tx_status st = tx__hello_check(&h, l->m);
    if (!st) st = find_seat(l, &h, &node);
    if (st) {
        l->hopeless = !l->running && !strcmp(h.id, l->m->id);
        say_text(g, TX_SAY_END, 1, tx_last_error());
        return st;
    }
    g->node = node;
    l->place[node] = h.place;
    return welcome(g);
}

static tx_status on_refusal(const tx_lead *l, const struct guest *g, const tx_message *msg)
{
    char text[1024];
    tx_unpack u = { msg->bytes, msg->bytes + msg->n };
    int64_t code;
    TX_TRY(tx__unpack_number(&u, 0, 255, &code));
    TX_TRY(tx__unpack_text(&u, text, sizeof text));
    return TX_FAIL(TX_ERR_COMM, "node %d (%s): %s", g->node, l->place[g->node].host, text);
}

static tx_status on_exited(const tx_lead *l, const struct guest *g, const tx_message *msg)
{
    tx_str s = { 0 };
    struct guest *agent = guest_of(l, g->node, true);
    tx_status st = tx_str_append(&s, msg->bytes, msg->n);
    if (!st && agent) st = tx__link_say(&agent->link, TX_SAY_EXITED, &s);
    tx_str_free(&s);
    return st;
}

static tx_status on_stop(const tx_message *msg, tx_supervisor *s)
{
    tx_unpack u = { msg->bytes, msg->bytes + msg->n };
    int64_t number;
    TX_TRY(tx__unpack_number(&u, 1, 64, &number));
    tx__supervisor_stop(s, (int)number);
    return TX_OK;
}

static tx_status on_node(tx_lead *l, struct guest *g, const tx_message *msg, tx_supervisor *s)
{
    if (g->node < 0)
        return msg->type == TX_SAY_HELLO ? on_hello(l, g, msg) : TX_FAIL(TX_ERR_FORMAT, "says something before HELLO");
    switch (msg->type) {
    case TX_SAY_READY:
        l->ready[g->node] = true;
        return TX_OK;
    case TX_SAY_REFUSE:
        return on_refusal(l, g, msg);
    case TX_SAY_EXITED:
        return on_exited(l, g, msg);
    case TX_SAY_STOP:
        return on_stop(msg, s);
    default:
        return TX_FAIL(TX_ERR_FORMAT, "says what only node 0 says");
    }
}

/* ---- what mpirun's agents say ---- */

static int node_named(const tx_lead *l, const char *name)
{
    for (int i = 1; i < l->m->n_nodes; i++)
        if (!strcmp(l->place[i].name, name)) return i;
    return -1;
}

static tx_status hand_over(tx_lead *l, struct guest *g, const char *name, const tx_words *words)
{
    tx_str s = { 0 };
    tx_status st = tx__orted_check(words->word, words->n);
    int node = node_named(l, name);
    struct guest *to = node > 0 && !guest_of(l, node, true) ? guest_of(l, node, false) : NULL;
    if (!st && !to) st = TX_FAIL(TX_ERR_COMM, "mpirun wants a daemon on %.80s, where no torchrun waits", name);
    if (!st) st = tx__pack_number(&s, strcmp(l->place[node].name, l->place[node].host) != 0);
    if (!st) st = tx__pack_words(&s, words->word, words->n);
    if (!st) st = tx__link_say(&to->link, TX_SAY_RUN, &s);
    if (!st) g->node = node;
    tx_str_free(&s);
    return st;
}

static tx_status on_agent(tx_lead *l, struct guest *g, const tx_message *msg)
{
    tx_unpack u = { msg->bytes, msg->bytes + msg->n };
    tx_words raw = { 0 }, words = { 0 };
    char name[TX_HOST_NAME];
    tx_status st;
    if (msg->type != TX_SAY_RUN || g->node >= 0) return TX_FAIL(TX_ERR_FORMAT, "says what no agent says");
    TX_GOTO(tx__unpack_text(&u, name, sizeof name));
    TX_GOTO(tx__unpack_words(&u, &raw, MAX_WORDS));
    TX_GOTO(tx__unpack_end(&u));
    TX_GOTO(tx__orted_clean(&words, raw.word, raw.n));
    st = hand_over(l, g, name, &words);
out:
    tx__words_free(&raw);
    tx__words_free(&words);
    return st;
}

/* ---- one turn ---- */

/* TX_OK whatever a stranger does; a failure of a node's or an agent's ends the job. */
static tx_status serve(tx_lead *l, struct guest *g, tx_supervisor *s)
{
    tx_message msg;
    tx_status st = tx__link_pump(&g->link);
    while (!st) {
        st = tx__link_next(&g->link, &msg);
        if (st || !msg.type) break;
        st = g->agent ? on_agent(l, g, &msg) : on_node(l, g, &msg, s);
    }
    if (st && g->node < 0 && !g->agent && !l->hopeless) {
        tx_warn("a connection from %s is refused: %s", g->link.peer, tx_last_error());
        forget(g);
        return TX_OK;
    }
    if (!st && g->link.ended) lose(l, g, s);
    return st;
}

static tx_status turn(tx_lead *l, tx_supervisor *s, double seconds)
{
    struct pollfd *p = l->poll + TX_SUPERVISOR_FDS;
    p[0] = (struct pollfd){ .fd = l->port_fd, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = l->agents_may_come ? l->agent_fd : -1, .events = POLLIN };
    for (int i = 0; i < l->n_guests; i++)
        p[2 + i] = l->guest[i].used ? tx__link_poll(&l->guest[i].link) : (struct pollfd){ .fd = -1 };
    TX_TRY(tx__supervisor_wait(s, l->poll, 2 + l->n_guests, seconds));
    for (int i = 0; i < l->n_guests; i++) {
        struct guest *g = &l->guest[i];
        if (g->used && p[2 + i].revents) TX_TRY(serve(l, g, s));
        if (g->used && !g->agent && g->node < 0 && tx_clock() - g->since > PROOF_SECONDS) forget(g);
    }
    if (p[0].revents) accept_guests(l, l->port_fd, false);
    if (p[1].revents) accept_guests(l, l->agent_fd, true);
    return TX_OK;
}

/* ---- gathering ---- */

static int n_missing(const tx_lead *l)
{
    int n = 0;
    for (int i = 0; i < l->m->n_nodes; i++) n += !l->ready[i];
    return n;
}

/* "nodes 1, 2 and 5 more" */
static void name_missing(const tx_lead *l, char *buf, size_t cap)
{
    int n = n_missing(l), shown = 0;
    size_t at = (size_t)snprintf(buf, cap, "node%s ", n == 1 ? "" : "s");
    for (int i = 0; i < l->m->n_nodes && shown < 8; i++) {
        if (l->ready[i]) continue;
        at += (size_t)snprintf(buf + at, cap - at, "%s%d", shown++ ? ", " : "", i);
    }
    if (n > shown) snprintf(buf + at, cap - at, " and %d more", n - shown);
}

static tx_status fail_missing(const tx_lead *l)
{
    char names[128];
    name_missing(l, names, sizeof names);
    return TX_FAIL(TX_ERR_COMM,
                   "%s of %d did not come to %s:%d within %.0f s; start triax torchrun there, with the same "
                   "--nnodes, --master_addr and --master_port, and a --node_rank of its own",
                   names, l->m->n_nodes, l->m->host, l->m->port, l->m->timeout);
}

tx_status tx__lead_gather(tx_lead *l, tx_supervisor *s)
{
    double start = tx_clock(), tell = start + 5;
    tx_str hosts = { 0 };
    l->running = false;
    while (n_missing(l)) {
        char names[128];
        double now = tx_clock();
        if (now > start + l->m->timeout) return fail_missing(l);
        if (now > tell) {
            name_missing(l, names, sizeof names);
            tx_info("waiting at %s:%d for %s of %d", l->m->host, l->m->port, names, l->m->n_nodes);
            tell = now + 30;
        }
        TX_TRY(turn(l, s, 0.5));
        if (s->n_stops) return TX_FAIL(TX_ERR_STATE, "stopped while nodes were waited for");
    }
    tx__places_name(l->place, l->m->n_nodes);
    tx_status st = tx__mpirun_hostfile(&hosts, l->place, l->m->n_nodes);
    if (!st) st = tx_file_publish(l->hostfile, hosts.data, hosts.len);
    tx_str_free(&hosts);
    return st;
}

/* ---- running ---- */

/* Agents of a run that is over. */
static void forget_agents(tx_lead *l)
{
    for (int i = 0; i < l->n_guests; i++) {
        struct guest *g = &l->guest[i];
        if (!g->used || !g->agent) continue;
        struct guest *node = g->node < 0 ? NULL : guest_of(l, g->node, false);
        if (node) (void)tx__link_say(&node->link, TX_SAY_KILL, NULL);
        forget(g);
    }
}

tx_status tx__lead_run(tx_lead *l, tx_supervisor *s, const tx_launch_command *mpirun)
{
    s->start_within = START_SECONDS;
    tx_status st = tx__supervisor_start(s, mpirun, true);
    char why[1024];
    l->running = l->agents_may_come = true;
    *l->lost = 0;
    while (!st && s->pid) st = turn(l, s, -1);
    if (st) {
        snprintf(why, sizeof why, "%s", tx_last_error());
        tx__supervisor_finish(s);
        st = TX_FAIL(st, "%s", why);
    }
    forget_agents(l);
    l->agents_may_come = l->running = false;
    if (!st && *l->lost && s->code)
        st = TX_FAIL(TX_ERR_COMM,
                     "the torchrun on %s does not answer any more: it was ended or the link is down; the job was "
                     "ended on all nodes",
                     l->lost);
    return st;
}

void tx__lead_close(tx_lead *l, int code, const char *why)
{
    if (!l) return;
    for (int i = 0; i < l->n_guests; i++)
        if (l->guest[i].used && !l->guest[i].agent && l->guest[i].link.wire.open)
            say_text(&l->guest[i], TX_SAY_END, code, why);
    close_lead(l);
}
