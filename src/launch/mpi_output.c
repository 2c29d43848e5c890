/* mpi_output.c - paragraphs of Open MPI's stand between two lines of 74 dashes. */
#include "launch/mpi_output.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DASHES = 74, BLOCK_MAX = 16 << 10 };

void tx__mpi_output_free(tx_mpi_output *o)
{
    tx_str_free(&o->held);
    *o = (tx_mpi_output){ 0 };
}

static bool is_rule(const char *line, size_t n)
{
    return n == DASHES + 1 && line[DASHES] == '\n' && strspn(line, "-") == DASHES;
}

/* Whether the beginning of a line can still become a rule. */
static bool may_be_rule(const char *line, size_t n)
{
    return n <= DASHES && strspn(line, "-") == n;
}

/* "srun: error: node1: task 3: Exited with exit code 7", "...: Killed"; what follows the first is srun ending the rest.
 */
static bool take_srun(tx_mpi_output *o, const char *line)
{
    static const char *const chatter[] = { "STEP ", "_step_signal", "Force Terminated", "Job step aborted",
                                           "Waiting up to" };
    bool daemon = !strncmp(line, "slurmstepd", 10), own = !strncmp(line, "srun: ", 6);
    for (size_t i = 0; (daemon || own) && i < sizeof chatter / sizeof *chatter; i++)
        if (strstr(line, chatter[i])) return true;
    const char *task = own ? strstr(line, ": task") : NULL, *exited = strstr(line, "Exited with exit code ");
    if (!task || strncmp(line, "srun: error: ", 13)) return false;
    const char *number = strpbrk(task, "0123456789"), *how = number ? strstr(number, ": ") : NULL;
    if (!how) return false;
    if (o->code || o->signal) return true;
    if (exited) {
        o->code = atoi(exited + strlen("Exited with exit code "));
        return true;
    }
    for (int k = 1; k < 32; k++)
        if (!strncmp(how + 2, strsignal(k), strlen(strsignal(k)))) o->signal = k;
    o->rank = atoi(number);
    snprintf(o->host, sizeof o->host, "%.*s", (int)(task - line - 13), line + 13);
    return o->signal != 0;
}

/* Lines of mpirun's own that tell of help not shown, and of what our signals and our ending of daemons did to it. */
static bool is_chatter(tx_mpi_output *o, const char *line)
{
    static const char *const after_host[] = { " has sent help message ",
                                              " have sent help message ",
                                              "\"orte_base_help_aggregate\"",
                                              "oob:tcp:",
                                              "mca_oob_tcp_",
                                              "plm:rsh: Warning: setpgid" };
    int n, of;
    if (sscanf(line, "App launch reported: %d (out of %d) daemons", &n, &of) == 2) {
        o->started |= n == of;
        return true;
    }
    if (take_srun(o, line)) return true;
    o->no_start |= *line == '[' && strstr(line, "*** An error occurred in MPI_Init");
    if (!strncmp(line, "mpirun", 6) && strstr(line, ": Forwarding signal ")) return true;
    if (strstr(line, " total processes killed (some possibly by mpirun during cleanup)")) return true;
    for (size_t i = 0; *line == '[' && i < sizeof after_host / sizeof *after_host; i++)
        if (strstr(line, after_host[i])) return true;
    return false;
}

static void take_word(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%.*s", (int)strcspn(text, " .\n"), text);
}

/* Of a paragraph what happened. False: none that is known, it is shown. */
static bool understand(tx_mpi_output *o, const char *text)
{
    static const char *const known[] = { "Primary job  terminated normally, but",
                                         " noticed that process rank ", /* mpirun, or mpirun.openmpi */
                                         "processes exited with\nnon-zero status",
                                         "process returned\na non-zero exit code",
                                         "MPI_ABORT was invoked on rank ",
                                         "ORTE has lost communication with a remote daemon",
                                         "exited with non-zero status",
                                         "ORTE was unable to reliably start one or more daemons",
                                         NULL };
    bool found = false;
    for (int i = 0; known[i] && !found; i++) found = strstr(text, known[i]) != NULL;
    const char *rank = strstr(text, "noticed that process rank "), *on = strstr(text, " on node "),
               *signal = strstr(text, "exited on signal ");
    if (rank && on && signal && !o->signal) {
        o->rank = atoi(rank + strlen("noticed that process rank "));
        o->signal = atoi(signal + strlen("exited on signal "));
        take_word(o->host, sizeof o->host, on + strlen(" on node "));
    }
    if (strstr(text, "ORTE was unable to reliably start one or more daemons")) o->no_daemon = 1;
    const char *daemon = strstr(text, "Remote daemon:");
    on = daemon ? strstr(daemon, " on node ") : NULL;
    if (on) take_word(o->lost, sizeof o->lost, on + strlen(" on node "));
    return found;
}

/* The held line is whole. */
static tx_status end_line(tx_mpi_output *o, tx_str *out)
{
    const char *text = o->held.data, *line = text + o->held.len - 1;
    while (line > text && line[-1] != '\n') line--;
    bool rule = is_rule(line, (size_t)(text + o->held.len - line));
    if (rule && !o->in_block) {
        o->in_block = 1;
        return TX_OK;
    }
    if (o->in_block && !rule && o->held.len < BLOCK_MAX) return TX_OK;
    bool show = o->in_block ? !understand(o, text) : !is_chatter(o, text);
    o->in_block = 0;
    if (show) TX_TRY(tx_str_append(out, text, o->held.len));
    o->held.len = 0;
    return TX_OK;
}

/* A line that mpirun may have begun has to be seen whole; any other goes on as it comes. */
static bool must_hold(const tx_mpi_output *o)
{
    static const char *const own[] = { "mpirun", "App launch reported: ", "srun: ", "slurmstepd" };
    const char *line = o->held.data;
    size_t n = o->held.len;
    bool begins = *line == '[' || (*line >= '0' && *line <= '9');
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t length = strlen(own[i]);
        begins = begins || !strncmp(line, own[i], n < length ? n : length);
    }
    return o->in_block || may_be_rule(line, n) || (begins && n < 512);
}

tx_status tx__mpi_output_feed(tx_mpi_output *o, tx_str *out, const char *bytes, size_t n)
{
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t length = end ? (size_t)(end - bytes) + 1 : n;
        TX_TRY(tx_str_append(&o->held, bytes, length));
        bytes += length;
        n -= length;
        if (end)
            TX_TRY(end_line(o, out));
        else if (!must_hold(o))
            TX_TRY(tx__mpi_output_end(o, out));
    }
    return TX_OK;
}

tx_status tx__mpi_output_end(tx_mpi_output *o, tx_str *out)
{
    if (o->held.len) TX_TRY(tx_str_append(out, o->held.data, o->held.len));
    o->held.len = 0;
    o->in_block = 0;
    return TX_OK;
}
