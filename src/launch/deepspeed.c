/* deepspeed.c - triax deepspeed: hosts out of a hostfile, a Slurm allocation or this one, and who starts ranks there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/deepspeed_env.h"
#include "launch/job.h"
#include "launch/link.h"
#include "launch/script.h"
#include "launch/short_run.h"
#include "launch/slots.h"
#include "launch/ssh_agent.h"
#include "triax/launch.h"

enum { MAX_HOSTFILE = 16 << 20 };

struct job {
    tx_config *cfg;
    tx_words program, env; /* env: NAME=VALUE for the ranks */
    tx_hosts hosts;        /* none: this host, or what Slurm has given */
    tx_node_place *place;  /* of the hosts, or this one */
    int n_places;
    bool chosen;  /* slots were chosen by number ... */
    tx_str slots; /* ... these, slots.h */
    bool srun;
    char folder[64], hostfile[96]; /* for mpirun */
    tx_str agent;
    tx_supervisor s;
};

/* ---- which hosts ---- */

static tx_status read_hostfile(struct job *j)
{
    const tx_config *c = j->cfg;
    tx_str text = { 0 };
    if (!c->given.hostfile && !tx_path_exists(c->hostfile)) return TX_OK;
    tx_status st = tx_file_read(c->hostfile, MAX_HOSTFILE, &text);
    if (!st) st = tx__hostfile_parse(&j->hosts, c->hostfile, text.data ? text.data : "", text.len);
    tx_str_free(&text);
    return st;
}

static tx_status check_filters(const tx_config *c)
{
    bool filters = c->launch_include || c->launch_exclude, numbers = c->num_nodes > 0 || c->num_gpus > 0;
    if (c->launch_include && c->launch_exclude)
        return TX_FAIL(TX_ERR_ARG, "--include and --exclude cannot both be given");
    if (filters && numbers)
        return TX_FAIL(TX_ERR_ARG, "--num_nodes and --num_gpus cannot be given with --include or --exclude");
    if (c->given.num_gpus && !c->num_gpus)
        return TX_FAIL(TX_ERR_ARG,
                       "--num_gpus 0 leaves no rank; it is how many ranks a host has, on processors too: "
                       "for ranks without GPUs give --num_gpus N and, among the ranks' own flags, --device cpu");
    if (c->given.num_nodes && !c->num_nodes)
        return TX_FAIL(TX_ERR_ARG, "--num_nodes 0 leaves no host; leave it out for all hosts of the hostfile");
    return TX_OK;
}

/* Filters without a hostfile speak of localhost, with one slot a core. */
static tx_status local_hosts(struct job *j)
{
    char line[64];
    tx_node_place here;
    TX_TRY(tx__place_here(&here, 1));
    int gpus = tx__gpus_here(), n = snprintf(line, sizeof line, "localhost slots=%d", gpus ? gpus : here.n_cores);
    return tx__hostfile_parse(&j->hosts, "this host", line, (size_t)n);
}

/* Without a hostfile and flags that choose, CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES is an --include of this host,
 * as it is to DeepSpeed; a list that has no numbers (of UUIDs) stays, and there is a rank for each. */
static tx_status choose_visible(struct job *j)
{
    const tx_config *c = j->cfg;
    const char *list, *name = tx__gpus_chosen(&list);
    int slot[TX_MAX_SLOTS], gpus = tx__gpus_here();
    if (!name || !gpus || !*list) return TX_OK;
    if (c->launch_include || c->launch_exclude || c->num_gpus > 0 || c->num_nodes > 1) {
        tx_warn("%s=%.80s is not looked at where slots are chosen by flags: they are numbers of all GPUs of this host; "
                "--include localhost:%.80s chooses those",
                name, list, list);
        return TX_OK;
    }
    int n = tx__slots_parse(list, strlen(list), slot, TX_MAX_SLOTS);
    if (n < 1) {
        if (strncmp(list, "GPU-", 4) && strncmp(list, "MIG-", 4)) return TX_OK; /* -1, NoDevFiles: none is shown */
        n = tx__list_entries(list);
        return tx__hosts_limit(&j->hosts, 0, n < gpus ? n : gpus);
    }
    tx_str text = { 0 };
    tx_status st = tx_str_printf(&text, "localhost:%s", list);
    if (!st) st = tx__hosts_filter(&j->hosts, text.data, true);
    if (st)
        st = TX_FAIL(st, "%s=%.80s: this host has %d GPU%s, 0 to %d", name, list, gpus, gpus == 1 ? "" : "s", gpus - 1);
    if (!st) j->chosen = true;
    tx_str_free(&text);
    return st;
}

static tx_status filter_hosts(struct job *j)
{
    const tx_config *c = j->cfg;
    j->chosen = j->chosen || c->launch_include || c->launch_exclude || c->num_gpus > 0;
    if (c->launch_include) return tx__hosts_filter(&j->hosts, c->launch_include, true);
    if (c->launch_exclude) return tx__hosts_filter(&j->hosts, c->launch_exclude, false);
    return tx__hosts_limit(&j->hosts, c->num_nodes, c->num_gpus);
}

/* Whether the launcher is srun; *built: ranks can be started so. */
static bool is_srun(enum tx_launcher launcher, bool *built)
{
    *built = true;
    switch (launcher) {
    case TX_LAUNCHER_SRUN:
    case TX_LAUNCHER_SLURM:
        return true;
    case TX_LAUNCHER_MPIRUN:
    case TX_LAUNCHER_OPENMPI:
    case TX_LAUNCHER_PDSH:
        return false;
    case TX_LAUNCHER_MPICH:
    case TX_LAUNCHER_IMPI:
    case TX_LAUNCHER_MVAPICH:
        *built = false;
    }
    return false;
}

/* Under Slurm a hostfile that is asked for goes by srun only on demand: its hosts may be others. */
static tx_status choose_starter(struct job *j)
{
    const char *l = tx_launcher_word(j->cfg->launcher), *job = getenv("SLURM_JOB_ID");
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    bool built, asked = is_srun(j->cfg->launcher, &built);
    if (!built)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "--launcher %s: ranks are started by Open MPI's mpirun (openmpi) or by srun (slurm)", l);
    if (asked && !job)
        return TX_FAIL(TX_ERR_ARG, "--launcher %s: this is no Slurm allocation; sbatch and salloc make one", l);
    j->srun = asked || (!l && job && !j->hosts.n);
    if (!j->srun && (j->cfg->srun_account || j->cfg->srun_comment))
        tx_warn("--%s is for srun, and the ranks are started by mpirun", j->cfg->srun_account ? "account" : "comment");
    if (j->srun && tasks && atoi(tasks) > 1)
        return TX_FAIL(
            TX_ERR_ARG,
            "srun has started triax deepspeed %s times; start it once, in the batch script: it calls srun itself. "
            "Once per node is for triax torchrun",
            tasks);
    return TX_OK;
}

static tx_status find_hosts(struct job *j)
{
    const tx_config *c = j->cfg;
    TX_TRY(check_filters(c));
    TX_TRY(read_hostfile(j));
    TX_TRY(choose_starter(j));
    if (!j->hosts.n && j->srun && (c->launch_include || c->launch_exclude))
        return TX_FAIL(TX_ERR_ARG,
                       "--%s chooses from a hostfile; of Slurm's allocation --num_nodes and --num_gpus choose, or "
                       "--launcher_args \"--nodelist=HOSTS\"",
                       c->launch_include ? "include" : "exclude");
    if (!j->hosts.n && !j->srun) {
        TX_TRY(local_hosts(j));
        TX_TRY(choose_visible(j));
    }
    if (j->hosts.n) TX_TRY(filter_hosts(j));
    return j->hosts.n && j->chosen ? tx__slots_text(&j->slots, &j->hosts) : TX_OK;
}

/* ---- places ---- */

static bool is_here(const char *name)
{
    tx_node_place here;
    return !strcmp(name, "localhost") || (!tx__place_here(&here, 1) && !strcmp(here.host, name)) || tx__is_local(name);
}

static tx_status find_places(struct job *j)
{
    TX_TRY(tx_alloc(&j->place, (size_t)j->hosts.n, sizeof *j->place, "the hosts"));
    j->n_places = j->hosts.n;
    for (int i = 0; i < j->hosts.n; i++) {
        const tx_host *h = &j->hosts.host[i];
        if (is_here(h->name))
            TX_TRY(j->chosen ? tx__place_of_slots(&j->place[i], h) : tx__place_here(&j->place[i], h->n_slots));
        else
            snprintf(j->place[i].host, sizeof j->place[i].host, "%s", h->name);
        j->place[i].n_ranks = h->n_slots;
        snprintf(j->place[i].name, sizeof j->place[i].name, "%s", h->name); /* ssh knows it by this name */
    }
    return TX_OK;
}

static bool several(const struct job *j)
{
    return j->n_places > 1 || !*j->place[0].cores;
}

/* ---- commands ---- */

/* Takes "--mca plm_rsh_agent X" out of the user's flags for mpirun: X is called through our agent. */
static tx_status take_shell(tx_str *shell, tx_str *args, const char *given)
{
    tx_words w = { 0 };
    tx_status st = tx__words_add_cut(&w, given);
    for (int i = 0; !st && i < w.n; i++) {
        bool mca = i + 2 < w.n && (!strcmp(w.word[i], "--mca") || !strcmp(w.word[i], "-mca"));
        if (mca && !strcmp(w.word[i + 1], "plm_rsh_agent")) {
            shell->len = 0;
            st = tx_str_puts(shell, w.word[i + 2]);
            i += 2;
        } else {
            st = tx_str_printf(args, "%s%s", args->len ? " " : "", w.word[i]);
        }
    }
    tx__words_free(&w);
    return st;
}

static tx_status find_shell(tx_str *shell, tx_str *args, const tx_config *c)
{
    const char *set = getenv("OMPI_MCA_plm_rsh_agent");
    if (set && *set)
        TX_TRY(tx_str_puts(shell, set));
    else
        TX_TRY(tx_str_printf(shell, "ssh -x -o BatchMode=yes -o ConnectTimeout=%d", (int)c->start_timeout));
    if (!set && c->ssh_port) TX_TRY(tx_str_printf(shell, " -p %d", (int)c->ssh_port));
    return c->launcher_args ? take_shell(shell, args, c->launcher_args) : TX_OK;
}

static tx_status write_hostfile(struct job *j)
{
    tx_str text = { 0 };
    strcpy(j->folder, "/tmp/triax-XXXXXX");
    if (!mkdtemp(j->folder)) {
        *j->folder = 0;
        return TX_FAIL(TX_ERR_IO, "cannot make a folder in /tmp");
    }
    snprintf(j->hostfile, sizeof j->hostfile, "%s/hosts", j->folder);
    tx_status st = tx__mpirun_hostfile(&text, j->place, j->n_places);
    if (!st) st = tx_file_publish(j->hostfile, text.data, text.len);
    tx_str_free(&text);
    return st;
}

/* The variables go to every host as "-x NAME". */
static tx_status hand_on(tx_str *args, tx_launch_command *start, const tx_words *env)
{
    tx_words names = { 0 };
    tx_status st = tx__environment_to_hand_on(&names);
    for (int i = 0; !st && i < env->n; i++) {
        size_t n = strcspn(env->word[i], "=");
        bool there = false;
        for (int k = 0; k < names.n; k++)
            there = there || (strlen(names.word[k]) == n && !strncmp(names.word[k], env->word[i], n));
        if (!there) st = tx__words_add_n(&names, env->word[i], n);
        if (!st) st = tx__words_add(&start->env, env->word[i]);
    }
    for (int i = 0; !st && i < names.n; i++) st = tx_str_printf(args, "%s-x %s", args->len ? " " : "", names.word[i]);
    tx__words_free(&names);
    return st;
}

static tx_status build_several(tx_launch_command *out, struct job *j)
{
    const tx_config *c = j->cfg;
    tx_str shell = { 0 }, args = { 0 };
    tx_status st;
    if (c->no_ssh) {
        st = TX_FAIL(TX_ERR_ARG,
                     "--no_ssh: other hosts are reached by ssh; triax torchrun, started on each of them, needs none");
        goto out;
    }
    TX_GOTO(find_shell(&shell, &args, c));
    TX_GOTO(hand_on(&args, out, &j->env));
    TX_GOTO(tx__ssh_agent_command(&j->agent, shell.data, (int)c->start_timeout));
    tx_mpirun m = { .place = j->place,
                    .n_places = j->n_places,
                    .hostfile = *j->hostfile ? j->hostfile : "HOSTS",
                    .agent = j->agent.data,
                    .args = args.len ? args.data : NULL,
                    .slots = j->slots.data };
    st = tx__start_mpirun(out, &m, &j->program);
out:
    tx_str_free(&shell);
    tx_str_free(&args);
    return st;
}

static tx_status build_here(tx_launch_command *out, const struct job *j)
{
    tx_mpirun m = { .place = j->place, .n_places = 1, .args = j->cfg->launcher_args, .slots = j->slots.data };
    TX_TRY(tx__words_add_all(&out->env, (const char *const *)j->env.word));
    return j->place->n_ranks == 1 ? tx__start_direct(out, j->slots.data, &j->program)
                                  : tx__start_mpirun(out, &m, &j->program);
}

/* The tasks of a node of the allocation, "4" or "4(x2)"; 0: not the same on all. */
static int slurm_tasks(void)
{
    const char *per_node = getenv("SLURM_NTASKS_PER_NODE"), *all = getenv("SLURM_TASKS_PER_NODE");
    if (per_node && atoi(per_node) > 0) return atoi(per_node);
    return all && !strchr(all, ',') ? atoi(all) : 0;
}

/* How many nodes of the allocation, and ranks on each. */
static tx_status size_srun(tx_srun *s, const struct job *j)
{
    const tx_config *c = j->cfg;
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    s->n_nodes = nodes ? atoi(nodes) : 0;
    s->n_per_node = c->num_gpus > 0 ? (int)c->num_gpus : slurm_tasks();
    if (c->num_nodes > s->n_nodes)
        return TX_FAIL(TX_ERR_ARG, "--num_nodes %lld: the allocation has %d", (long long)c->num_nodes, s->n_nodes);
    if (c->num_nodes > 0) s->n_nodes = (int)c->num_nodes;
    if (j->hosts.n) {
        s->n_nodes = j->hosts.n;
        s->n_per_node = j->hosts.host[0].n_slots;
    }
    if (s->n_nodes < 1 || s->n_per_node < 1)
        return TX_FAIL(TX_ERR_ARG,
                       "Slurm does not say how many tasks a node is to have; give --num_gpus, ranks on each node");
    return TX_OK;
}

static tx_status build_srun(tx_launch_command *out, const struct job *j)
{
    const tx_config *c = j->cfg;
    tx_srun s = { .account = c->srun_account, .comment = c->srun_comment, .args = c->launcher_args };
    tx_str list = { 0 };
    tx_status st;
    TX_GOTO(size_srun(&s, j));
    for (int i = 0; i < j->hosts.n; i++) {
        const tx_host *h = &j->hosts.host[i];
        TX_GOTO(tx_str_printf(&list, "%s%s", i ? "," : "", h->name));
        if (h->n_slots == j->hosts.host[0].n_slots) continue;
        st = TX_FAIL(TX_ERR_ARG,
                     "srun starts as many ranks on each host, but of %s there are %d slots and of %s %d; give "
                     "--launcher openmpi",
                     j->hosts.host[0].name, j->hosts.host[0].n_slots, h->name, h->n_slots);
        goto out;
    }
    if (j->hosts.n) {
        s.slots = j->slots.data;
        s.nodes = list.data;
    }
    TX_GOTO(tx__words_add_all(&out->env, (const char *const *)j->env.word));
    tx_info("%d ranks on %d nodes of Slurm's job %s, %d on each", s.n_nodes * s.n_per_node, s.n_nodes,
            getenv("SLURM_JOB_ID"), s.n_per_node);
    st = tx__start_srun(out, &s, &j->program);
out:
    tx_str_free(&list);
    return st;
}

static tx_status build(tx_launch_command *out, struct job *j)
{
    if (j->srun) return build_srun(out, j);
    TX_TRY(find_places(j));
    if (several(j) && !j->cfg->dry_run) TX_TRY(write_hostfile(j));
    if (j->cfg->dry_run || j->n_places > 1 || j->place->n_ranks > 1) tx__places_show(j->place, j->n_places);
    return several(j) ? build_several(out, j) : build_here(out, j);
}

/* ---- the whole ---- */

static tx_status run(struct job *j, const tx_launch_command *start, int *code)
{
    bool read = j->srun || several(j) || j->place->n_ranks > 1;
    TX_TRY(tx__supervisor_open(&j->s, (double)j->cfg->grace));
    if (!j->srun && several(j)) j->s.start_within = 2 * (double)j->cfg->start_timeout; /* ssh has the first half */
    TX_TRY(tx__supervisor_run(&j->s, start, read));
    tx__supervisor_tell(&j->s);
    *code = tx__supervisor_code(&j->s);
    return TX_OK;
}

static void free_job(struct job *j)
{
    tx__supervisor_close(&j->s);
    if (*j->folder) (void)tx_remove_tree(j->folder);
    tx__words_free(&j->program);
    tx__words_free(&j->env);
    tx__hosts_free(&j->hosts);
    tx_str_free(&j->agent);
    tx_str_free(&j->slots);
    tx_free(j->place);
    tx_config_free(j->cfg);
}

static tx_status count_ranks(tx_deepspeed_line *out, const struct job *j)
{
    tx_srun s = { 0 };
    if (j->srun) {
        TX_TRY(size_srun(&s, j));
        out->n_hosts = s.n_nodes;
        out->n_ranks = s.n_nodes * s.n_per_node;
        return TX_OK;
    }
    out->n_hosts = j->hosts.n;
    for (int i = 0; i < j->hosts.n; i++) out->n_ranks += j->hosts.host[i].n_slots;
    return TX_OK;
}

tx_status tx_deepspeed_line_read(tx_deepspeed_line *out, int argc, char *const *argv)
{
    struct job j = { 0 };
    tx_status st;
    *out = (tx_deepspeed_line){ 0 };
    TX_GOTO(tx__launch_parse(&j.cfg, &j.program, "deepspeed", argc, argv));
    if (j.cfg->autotuning) {
        TX_GOTO(find_hosts(&j));
        TX_GOTO(count_ranks(out, &j));
    }
    out->cfg = j.cfg;
    out->program = j.program.word;
    out->n_program = j.program.n;
    j.cfg = NULL;
    j.program = (tx_words){ 0 };
out:
    free_job(&j);
    return st;
}

void tx_deepspeed_line_free(tx_deepspeed_line *l)
{
    tx_words program = { .word = l->program, .n = l->n_program };
    tx__words_free(&program);
    tx_config_free(l->cfg);
    *l = (tx_deepspeed_line){ 0 };
}

tx_status tx_deepspeed(int argc, char *const *argv, int *code)
{
    struct job j = { 0 };
    tx_launch_command start = { 0 };
    tx_status st;
    *code = 0;
    TX_GOTO(tx__launch_parse(&j.cfg, &j.program, "deepspeed", argc, argv));
    if (j.cfg->autotuning) {
        st = TX_FAIL(TX_ERR_ARG, "--autotuning is a job of its own: tx_autotune does it");
        goto out;
    }
    TX_GOTO(find_hosts(&j));
    TX_GOTO(tx__deepspeed_env_read(&j.env));
    TX_GOTO(build(&start, &j));
    st = j.cfg->dry_run ? tx__start_show(&start) : run(&j, &start, code);
out:
    free_job(&j);
    tx__start_free(&start);
    return st;
}
