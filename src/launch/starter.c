/* starter.c - mpirun's and srun's flags.
 *
 *  mpirun's parameters are left out where the user has set them (OMPI_MCA_...). No network interface is chosen: Open
 * MPI leaves loopback and docker out by itself, and the user may say more in OMPI_MCA_btl_tcp_if_include. Ranks are not
 *  bound by MPI: they divide the cores themselves (base/cores.h). */
#include "launch/starter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cores.h"

void tx__start_free(tx_launch_command *s)
{
    tx__words_free(&s->words);
    tx__words_free(&s->env);
}

tx_status tx__self_path(char *path, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", path, cap - 1);
    if (n < 0 || (size_t)n >= cap - 1)
        return TX_FAIL(TX_ERR_IO, "cannot find out where this program lies: /proc/self/exe");
    path[n] = 0;
    return TX_OK;
}

tx_status tx__rank_words(tx_words *out, const char *slots, const tx_words *program)
{
    const char *other = getenv("TX_LAUNCH_PROGRAM");
    char self[4096];
    TX_TRY(tx__self_path(self, sizeof self));
    if (slots) TX_TRY(tx__words_add_all(out, (const char *const[]){ self, "launch-agent", "--slots", slots, NULL }));
    TX_TRY(tx__words_add(out, other && *other ? other : self));
    return tx__words_add_all(out, (const char *const *)program->word);
}

tx_status tx__forget_outer_launcher(tx_words *env)
{
    static const char *const names[] = { "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "SLURM_NTASKS",
                                         "SLURM_NPROCS",
                                         "SLURM_STEP_NUM_TASKS",
                                         "SLURM_STEP_TASKS_PER_NODE",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "PMI_FD",
                                         "PMIX_RANK",
                                         "PMIX_NAMESPACE",
                                         "PMIX_SERVER_URI",
                                         "PMIX_SERVER_URI2",
                                         "PMIX_SERVER_URI21",
                                         "PMIX_SERVER_URI3",
                                         "PMIX_SERVER_URI4",
                                         "PMIX_SERVER_URI41",
                                         "PMIX_GDS_MODULE",
                                         "PMIX_SECURITY_MODE",
                                         "PMIX_SERVER_TMPDIR",
                                         "PMIX_HOSTNAME",
                                         "PMIX_VERSION",
                                         "PMIX_MCA_psec",
                                         "RANK",
                                         "LOCAL_RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_WORLD_SIZE",
                                         NULL };
    return tx__words_add_all(env, names);
}

tx_status tx__share_cores(tx_words *env)
{
    tx_str mask = { 0 };
    tx_status st = tx_cores_mask(&mask);
    if (!st)
        st = mask.len ? tx__words_addf(env, "TX_LAUNCHER_CPUS=%s", mask.data) : tx__words_add(env, "TX_LAUNCHER_CPUS");
    tx_str_free(&mask);
    return st == TX_ERR_NOTFOUND ? TX_OK : st; /* a machine that hwloc does not know */
}

tx_status tx__start_direct(tx_launch_command *out, const char *slots, const tx_words *program)
{
    out->command = program->word[0];
    TX_TRY(tx__forget_outer_launcher(&out->env));
    return tx__rank_words(&out->words, slots, program);
}

/* ---- mpirun ---- */

/* First line of `mpirun --version`; "" when there is none. */
static void ask_version(char *line, size_t cap, const char *mpirun)
{
    char command[128];
    snprintf(command, sizeof command, "%s --version 2>&1", mpirun);
    FILE *f = popen(command, "re"); // NOLINT: a constant command
    *line = 0;
    if (!f) return;
    if (!fgets(line, (int)cap, f)) *line = 0;
    pclose(f);
}

/* Debian calls it by its full name where MPICH is there, too. */
static tx_status find_mpirun(const char **out, bool several_hosts)
{
    static const char *const names[] = { "mpirun.openmpi", "mpirun" };
    char line[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ask_version(line, sizeof line, names[i]);
        const char *version = strchr(line, ')');
        if (!version || !(strstr(line, "(Open MPI)") || strstr(line, "(OpenRTE)"))) continue;
        *out = names[i];
        if (!several_hosts || !strncmp(version, ") 4.", 4)) return TX_OK;
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%.*s: ranks on several hosts are started with Open MPI 4.x; with this one start "
                       "them yourself: mpirun ... triax pretrain-gpt ...",
                       (int)strcspn(line, "\n"), line);
    }
    return TX_FAIL(TX_ERR_NOTFOUND,
                   "several ranks are started with Open MPI's mpirun, and there is none in PATH; Debian has "
                   "it in openmpi-bin; MPICH's ranks start as mpiexec -n N triax pretrain-gpt ...");
}

static tx_status add_mca(tx_words *w, const char *name, const char *value)
{
    char variable[128];
    const char *const words[] = { "--mca", name, value, NULL };
    snprintf(variable, sizeof variable, "OMPI_MCA_%s", name);
    return getenv(variable) ? TX_OK : tx__words_add_all(w, words);
}

/* A dead link is noticed after 5 + 3 * 3 seconds; by default it takes Open MPI eight minutes. */
static tx_status add_several_hosts(tx_launch_command *out, const tx_mpirun *m)
{
    TX_TRY(tx__words_add(&out->words, "--hostfile"));
    TX_TRY(tx__words_add(&out->words, m->hostfile));
    TX_TRY(tx__words_add(&out->words, "--noprefix"));
    if (m->attached) TX_TRY(tx__words_add(&out->words, "--leave-session-attached"));
    TX_TRY(add_mca(&out->words, "oob_tcp_keepalive_time", "5"));
    TX_TRY(add_mca(&out->words, "oob_tcp_keepalive_intvl", "3"));
    TX_TRY(add_mca(&out->words, "oob_tcp_keepalive_probes", "3"));
    TX_TRY(add_mca(&out->words, "orte_report_launch_progress", "1")); /* mpi_output.h reads it */
    TX_TRY(tx__words_add(&out->env, "OMPI_MCA_plm=rsh"));
    TX_TRY(tx__words_add(&out->env, "OMPI_MCA_plm_rsh_no_tree_spawn=1"));
    if (m->attached) TX_TRY(tx__words_addf(&out->env, "OMPI_MCA_plm_rsh_num_concurrent=%d", m->n_places));
    return tx__words_addf(&out->env, "OMPI_MCA_plm_rsh_agent=%s", m->agent);
}

static tx_status add_flags(tx_launch_command *out, const tx_mpirun *m)
{
    static const char *const always[] = { "--map-by", "slot", "--bind-to", "none", NULL };
    if (!geteuid()) TX_TRY(tx__words_add(&out->words, "--allow-run-as-root"));
    TX_TRY(tx__words_add(&out->words, "-np"));
    TX_TRY(tx__words_addf(&out->words, "%d", tx__places_ranks(m->place, m->n_places)));
    if (m->hostfile)
        TX_TRY(add_several_hosts(out, m));
    else
        TX_TRY(tx__words_add(&out->words, "--oversubscribe"));
    TX_TRY(tx__words_add_all(&out->words, always));
    if (tx__places_crowded(m->place, m->n_places)) TX_TRY(add_mca(&out->words, "mpi_yield_when_idle", "1"));
    return m->args ? tx__words_add_cut(&out->words, m->args) : TX_OK;
}

tx_status tx__start_mpirun(tx_launch_command *out, const tx_mpirun *m, const tx_words *program)
{
    const char *mpirun;
    out->command = program->word[0];
    out->ranks_below = true;
    TX_TRY(find_mpirun(&mpirun, m->hostfile != NULL));
    TX_TRY(tx__words_add(&out->words, mpirun));
    TX_TRY(tx__forget_outer_launcher(&out->env));
    TX_TRY(tx__share_cores(&out->env));
    TX_TRY(tx__words_add(&out->env, "OMPI_MCA_ras=^slurm,gridengine,tm,lsf,alps")); /* hosts are those that we name */
    TX_TRY(add_flags(out, m));
    return tx__rank_words(&out->words, m->slots, program);
}

tx_status tx__mpirun_hostfile(tx_str *out, const tx_node_place *place, int n)
{
    for (int i = 0; i < n; i++) TX_TRY(tx_str_printf(out, "%s slots=%d\n", place[i].name, place[i].n_ranks));
    return TX_OK;
}

/* ---- srun ----
 *
 *  --export=ALL: sbatch --export=NONE has told srun to hand on nothing. */

/* Whether ranks find each other in another way than Open MPI's: by the user's choice, or by a Cray's own. */
static bool chooses_mpi(const tx_srun *s)
{
    return getenv("SLURM_MPI_TYPE") || getenv("CRAY_MPICH_DIR") || (s->args && strstr(s->args, "--mpi"));
}

tx_status tx__start_srun(tx_launch_command *out, const tx_srun *s, const tx_words *program)
{
    static const char *const always[] = { "--export=ALL", "--kill-on-bad-exit=1", "--wait=60", NULL };
    const char *cores = getenv("SLURM_CPUS_PER_TASK"); /* srun does not take it over since 22.05 */
    out->command = program->word[0];
    TX_TRY(tx__words_add(&out->words, "srun"));
    if (!chooses_mpi(s)) TX_TRY(tx__words_add(&out->words, "--mpi=pmix"));
    TX_TRY(tx__words_add_all(&out->words, always));
    TX_TRY(tx__words_addf(&out->words, "--nodes=%d", s->n_nodes));
    TX_TRY(tx__words_addf(&out->words, "--ntasks=%d", s->n_nodes * s->n_per_node));
    TX_TRY(tx__words_addf(&out->words, "--ntasks-per-node=%d", s->n_per_node));
    if (s->account) TX_TRY(tx__words_addf(&out->words, "--account=%s", s->account));
    if (s->comment) TX_TRY(tx__words_addf(&out->words, "--comment=%s", s->comment));
    if (s->nodes) TX_TRY(tx__words_addf(&out->words, "--nodelist=%s", s->nodes));
    if (cores && *cores) TX_TRY(tx__words_addf(&out->words, "--cpus-per-task=%s", cores));
    if (s->args) TX_TRY(tx__words_add_cut(&out->words, s->args));
    return tx__rank_words(&out->words, s->slots, program);
}

tx_status tx__start_quote(tx_str *out, const tx_launch_command *s)
{
    bool any = false;
    for (int i = 0; i < s->env.n; i++) {
        if (!strchr(s->env.word[i], '=')) continue;
        TX_TRY(tx_str_puts(out, any ? " " : "env "));
        TX_TRY(tx__words_quote(out, &s->env.word[i], 1));
        any = true;
    }
    if (any) TX_TRY(tx_str_puts(out, " "));
    return tx__words_quote(out, s->words.word, s->words.n);
}
