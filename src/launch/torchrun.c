/* torchrun.c - triax torchrun: its flags, one node or several, starting again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/job.h"
#include "launch/rendezvous.h"
#include "launch/script.h"
#include "triax/launch.h"

struct job {
    tx_config *cfg;
    tx_words program;
    tx_meeting m;
    tx_supervisor s;
    tx_lead *lead; /* of several nodes, on node 0 */
};

/* ---- flags ---- */

/* A number alone, in [1, max]. */
static bool count_parse(const char *text, int max, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || *end || v < 1 || v > max) return false;
    *out = (int)v;
    return true;
}

static tx_status take_nnodes(struct job *j)
{
    const char *text = j->cfg->nnodes, *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (j->cfg->standalone) text = "1";
    if (colon && strlen(colon + 1) == n && !strncmp(text, colon + 1, n)) text = colon + 1; /* 2:2 is 2 */
    if (count_parse(text, TX_MAX_NODES, &j->m.n_nodes)) return TX_OK;
    if (colon)
        return TX_FAIL(TX_ERR_ARG,
                       "--nnodes %.40s: a run does not change its number of nodes; give one number, and start again "
                       "with another: a checkpoint loads with any number of ranks",
                       text);
    return TX_FAIL(TX_ERR_ARG, "--nnodes %.40s: a number from 1 to %d is needed", text, TX_MAX_NODES);
}

static tx_status take_nproc(struct job *j)
{
    const char *text = j->cfg->nproc_per_node;
    const char *list;
    int n, gpus = tx__gpus_here();
    if (tx__gpus_chosen(&list) && tx__list_entries(list) < gpus) gpus = tx__list_entries(list);
    bool is_auto = !strcmp(text, "auto");
    TX_TRY(tx__place_here(&j->m.here, 1));
    if (!strcmp(text, "gpu") && !gpus)
        return TX_FAIL(TX_ERR_NOTFOUND, "--nproc_per_node gpu: there is no GPU here; give a number, or cpu");
    if (!strcmp(text, "gpu") || (is_auto && gpus))
        n = gpus;
    else if (!strcmp(text, "cpu") || is_auto)
        n = j->m.here.n_cores;
    else if (!count_parse(text, TX_MAX_SLOTS, &n))
        return TX_FAIL(TX_ERR_ARG, "--nproc_per_node %.40s: a number from 1 to %d is needed, or auto, cpu, gpu", text,
                       TX_MAX_SLOTS);
    return tx__place_here(&j->m.here, n);
}

/* HOST[:PORT]; an IPv6 address stands in brackets. */
static tx_status take_endpoint(tx_meeting *m, const char *text, const char *flag)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    if (*text == '[' && n > 2 && text[n - 1] == ']') host++, n -= 2;
    if (*text != '[' && colon && memchr(text, ':', n)) colon = NULL, n = strlen(text); /* a bare IPv6 address */
    if (!tx__is_host_name(host, n) || (colon && !count_parse(colon + 1, 65535, &m->port)))
        return TX_FAIL(TX_ERR_ARG, "--%s %.80s: a host's name or address is needed, HOST or HOST:PORT", flag, text);
    snprintf(m->host, sizeof m->host, "%.*s", (int)n, host);
    return TX_OK;
}

static tx_status take_place_to_meet(struct job *j)
{
    const tx_config *c = j->cfg;
    j->m.port = (int)c->master_port;
    if (c->rdzv_endpoint && !c->standalone) return take_endpoint(&j->m, c->rdzv_endpoint, "rdzv_endpoint");
    if (c->master_addr && !tx__is_host_name(c->master_addr, strlen(c->master_addr)))
        return TX_FAIL(TX_ERR_ARG, "--master_addr %.80s: a host's name or address is needed", c->master_addr);
    if (!c->master_addr && j->m.n_nodes > 1)
        return TX_FAIL(TX_ERR_ARG, "--nnodes %d needs --master_addr HOST, the host of node 0", j->m.n_nodes);
    snprintf(j->m.host, sizeof j->m.host, "%s", c->master_addr ? c->master_addr : "localhost");
    return TX_OK;
}

static tx_status take_node_rank(struct job *j)
{
    const tx_config *c = j->cfg;
    const char *slurm = getenv("SLURM_NODEID");
    bool numbered = c->rdzv_backend == TX_RDZV_STATIC,
         as_they_come = !numbered && (c->rdzv_backend || c->rdzv_endpoint);
    if (j->m.n_nodes == 1)
        j->m.node_rank = 0;
    else if (c->given.torchrun_node_rank)
        j->m.node_rank = (int)c->torchrun_node_rank;
    else if (as_they_come)
        j->m.node_rank = -1;
    else if (slurm && *slurm)
        j->m.node_rank = atoi(slurm);
    else
        return TX_FAIL(TX_ERR_ARG, "--nnodes %d needs --node_rank, this node's number from 0 to %d", j->m.n_nodes,
                       j->m.n_nodes - 1);
    if (j->m.node_rank < j->m.n_nodes) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "--node_rank %d: with --nnodes %d it is 0 to %d", j->m.node_rank, j->m.n_nodes,
                   j->m.n_nodes - 1);
}

static tx_status take_timeout(struct job *j)
{
    static const char *const keys[] = { "join_timeout=", "timeout=" };
    j->m.timeout = 300;
    for (const char *at = j->cfg->rdzv_conf; at && *at; at += strcspn(at, ","), at += *at == ',') {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            char number[16];
            size_t n = strlen(keys[i]), length = strcspn(at, ",");
            int seconds;
            if (strncmp(at, keys[i], n)) continue;
            snprintf(number, sizeof number, "%.*s", (int)(length - n < 15 ? length - n : 15), at + n);
            if (!count_parse(number, 86400, &seconds))
                return TX_FAIL(TX_ERR_ARG, "--rdzv_conf %.*s: seconds from 1 to 86400 are needed",
                               (int)(length < 60 ? length : 60), at);
            j->m.timeout = seconds;
        }
    }
    return TX_OK;
}

static tx_status take_flags(struct job *j)
{
    TX_TRY(take_nnodes(j));
    TX_TRY(take_nproc(j));
    TX_TRY(take_place_to_meet(j));
    TX_TRY(take_node_rank(j));
    TX_TRY(take_timeout(j));
    j->m.id = j->cfg->rdzv_id && !j->cfg->standalone ? j->cfg->rdzv_id : "";
    if (strlen(j->m.id) > 100) return TX_FAIL(TX_ERR_ARG, "--rdzv_id %.40s...: at most 100 bytes", j->m.id);
    j->m.program = &j->program;
    return TX_OK;
}

/* ---- one start ---- */

static tx_status build(tx_launch_command *out, const struct job *j)
{
    tx_mpirun m = { .place = &j->m.here, .n_places = 1 };
    if (j->m.n_nodes == 1 && j->m.here.n_ranks == 1) return tx__start_direct(out, NULL, &j->program);
    if (j->lead)
        m = (tx_mpirun){ .place = tx__lead_places(j->lead),
                         .n_places = j->m.n_nodes,
                         .hostfile = tx__lead_hostfile(j->lead),
                         .agent = tx__lead_agent(j->lead),
                         .attached = true };
    return tx__start_mpirun(out, &m, &j->program);
}

static tx_status start_once(struct job *j)
{
    tx_launch_command start = { 0 };
    tx_status st;
    if (j->lead) TX_TRY(tx__lead_gather(j->lead, &j->s));
    TX_GOTO(build(&start, j));
    if (j->lead)
        tx__places_show(tx__lead_places(j->lead), j->m.n_nodes);
    else if (j->m.here.n_ranks > 1)
        tx__places_show(&j->m.here, 1);
    if (j->lead)
        TX_GOTO(tx__lead_run(j->lead, &j->s, &start));
    else
        TX_GOTO(tx__supervisor_run(&j->s, &start, j->m.here.n_ranks > 1));
    tx__supervisor_tell(&j->s);
out:
    tx__start_free(&start);
    return st;
}

/* ---- starting again ---- */

/* The value of --NAME among the ranks' flags; NULL: not there. */
static const char *program_flag(const tx_words *program, const char *name)
{
    size_t n = strlen(name);
    for (int i = 1; i < program->n; i++) {
        const char *word = program->word[i];
        if (strncmp(word, "--", 2) || strncmp(word + 2, name, n)) continue;
        if (word[2 + n] == '=') return word + 3 + n;
        if (!word[2 + n] && i + 1 < program->n) return program->word[i + 1];
    }
    return NULL;
}

/* What --save's folder calls its newest checkpoint; empty: none, or nobody saves. */
static void newest_checkpoint(tx_str *out, const tx_words *program)
{
    char path[4096];
    const char *save = program_flag(program, "save");
    out->len = 0;
    if (save && !tx_path_join(path, sizeof path, save, "latest") && tx_path_exists(path))
        (void)tx_file_read(path, 4096, out);
}

static bool same(const tx_str *a, const tx_str *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

static tx_status pause_before_restart(struct job *j, int restarts)
{
    struct pollfd fds[TX_SUPERVISOR_FDS];
    double until = tx_clock() + (restarts < 5 ? 1 << restarts : 30);
    while (!j->s.n_stops && tx_clock() < until) TX_TRY(tx__supervisor_wait(&j->s, fds, 0, until - tx_clock()));
    return TX_OK;
}

/* Flags that are wrong (2) stay so, and a run that was told to stop has done so. */
static bool may_restart(const struct job *j, int restarts)
{
    return j->s.code && j->s.code != 2 && !j->s.n_stops && restarts < j->cfg->max_restarts;
}

static tx_status run(struct job *j)
{
    tx_str before = { 0 }, after = { 0 };
    tx_status st;
    if (j->cfg->max_restarts && !program_flag(&j->program, "load"))
        tx_warn("--max_restarts: without --load behind the script a restart begins anew");
    for (int restarts = 0, idle = 0;; restarts++) {
        newest_checkpoint(&before, &j->program);
        TX_GOTO(start_once(j));
        if (!may_restart(j, restarts)) break;
        newest_checkpoint(&after, &j->program);
        idle = same(&before, &after) ? idle + 1 : 0;
        if (idle == 2) {
            tx_log(TX_LOG_ERROR, "not started again: two starts in a row have saved nothing new");
            break;
        }
        tx_warn("the ranks ended with code %d; starting again (%d of %lld)", j->s.code, restarts + 1,
                (long long)j->cfg->max_restarts);
        TX_GOTO(pause_before_restart(j, restarts));
        if (j->s.n_stops) break;
    }
    st = TX_OK;
out:
    tx_str_free(&before);
    tx_str_free(&after);
    return st;
}

/* ---- the whole ---- */

static tx_status run_several(struct job *j, int *code)
{
    char why[1024] = "";
    TX_TRY(tx__key_open(&j->m.key, j->m.key_path, sizeof j->m.key_path));
    TX_TRY(tx__lead_open(&j->lead, &j->m));
    if (!j->lead) return tx__join(&j->m, &j->s, code);
    tx_status st = run(j);
    *code = st ? 1 : tx__supervisor_code(&j->s);
    if (st) snprintf(why, sizeof why, "%s", tx_last_error());
    tx__lead_close(j->lead, *code, why);
    j->lead = NULL;
    return st ? TX_FAIL(st, "%s", why) : TX_OK;
}

static tx_status run_one(struct job *j, int *code)
{
    TX_TRY(run(j));
    *code = tx__supervisor_code(&j->s);
    return TX_OK;
}

/* The other nodes' names and cores are theirs to tell: they are taken to have as many ranks. */
static tx_status dry_run(const struct job *j)
{
    tx_node_place *place = NULL;
    tx_launch_command start = { 0 };
    int n = j->m.n_nodes, at = j->m.node_rank > 0 ? j->m.node_rank : 0;
    tx_status st;
    TX_GOTO(tx__places_guess(&place, n, at, &j->m.here));
    tx_mpirun m = { .place = place, .n_places = n, .hostfile = "HOSTS", .agent = "AGENT", .attached = true };
    TX_GOTO(n > 1 ? tx__start_mpirun(&start, &m, &j->program) : build(&start, j));
    tx__places_show(place, n);
    if (n > 1)
        tx_info("node 0 is at %s:%d; there, with HOSTS and AGENT made when all nodes have come, is run:", j->m.host,
                j->m.port);
    st = tx__start_show(&start);
out:
    tx__places_free(place);
    tx__start_free(&start);
    return st;
}

tx_status tx_torchrun(int argc, char *const *argv, int *code)
{
    struct job j = { 0 };
    tx_status st;
    *code = 0;
    TX_GOTO(tx__launch_parse(&j.cfg, &j.program, "torchrun", argc, argv));
    TX_GOTO(take_flags(&j));
    if (j.cfg->dry_run) {
        st = dry_run(&j);
        goto out;
    }
    TX_GOTO(tx__supervisor_open(&j.s, (double)j.cfg->grace));
    st = j.m.n_nodes > 1 ? run_several(&j, code) : run_one(&j, code);
out:
    tx__supervisor_close(&j.s);
    tx__words_free(&j.program);
    tx_config_free(j.cfg);
    return st;
}
