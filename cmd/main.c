/* main.c - `triax <command> <flags>`: finds the command, parses its flags, shows messages, reports failure.
 *
 *  Messages of the job go to standard output, as Megatron's do; warnings and errors go to standard error; the live
 *  progress line is for terminals only (terminal.c). Commands whose output is data keep standard output for it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "kinds/commands.h"
#include "triax/jobs.h"
#include "triax/log.h"

typedef struct command {
    const char *name;
    tx_cmd_fn *run;
    unsigned traits; /* enum tx_command_trait */
} command;

#define NONE(...)
#define JOB(constant, name, run, traits, ...) { name, cmd_##run, traits },
static const command commands[] = { TX_COMMANDS(JOB, NONE, NONE) };

/* Launchers take flags, a script and the script's flags; launch-agent is called by mpirun only. */
#define LAUNCHER(constant, name, run, ...) { name, cmd_##run },
static const struct launcher {
    const char *name;
    int (*run)(int argc, char **argv);
} launchers[] = { TX_COMMANDS(NONE, LAUNCHER, NONE){ "launch-agent", cmd_launch_agent } };
#define N_LAUNCHERS (sizeof launchers / sizeof launchers[0])
#define N_COMMANDS  (sizeof commands / sizeof commands[0])

static cmd_terminal terminal;

static void show(void *user, tx_log_level level, const char *line)
{
    const command *cmd = user;
    char text[4200];
    if (level == TX_LOG_PROGRESS) {
        cmd_terminal_live(&terminal, line);
        return;
    }
    const char *kind = level == TX_LOG_WARN ? "warning: " : level == TX_LOG_ERROR ? "error: " : "";
    snprintf(text, sizeof text, "%s%s", kind, line); /* a line has at most 4096 bytes and a rank's number */
    cmd_terminal_line(&terminal, *kind || (cmd->traits & TX_OUTPUT_IS_DATA) ? stderr : stdout, text);
}

static void usage(FILE *out)
{
    fprintf(out, "triax %s: GPT and BERT, from text to text\n\n  triax <command> [flags]\n\n", tx_version());
    const char *name, *summary;
    for (int i = 0; (name = tx_config_command(i, &summary)); i++) fprintf(out, "  %-16s %s\n", name, summary);
    fprintf(out, "\n  triax <command> --help       lists a command's flags\n"
                 "  triax <command> --help WORD  those that have WORD in name, group or text (triax help WORD: which "
                 "commands have such)\n");
}

/* Before anything is said. Flags that are wrong are reported by those who parse them next. */
static void start_over(const command *cmd, int argc, char **argv)
{
    tx_config *cfg = NULL;
    if (!tx_config_parse(&cfg, cmd->name, argc, argv)) cmd_start_over(cfg, cmd->traits & TX_COMPUTES, argv - 2);
    tx_config_free(cfg);
}

static int run_command(const command *cmd, int argc, char **argv)
{
    cmd_spell_out(cmd->name, argc, argv);
    for (int i = 0; i < argc; i++)
        if (cmd_asks_help(argv[i])) return cmd_help(cmd->name, i + 1 < argc ? argv[i + 1] : NULL);
    if (!cmd_started_over()) start_over(cmd, argc, argv);
    int rank = tx_launched_rank();
    terminal = cmd_terminal_find(cmd->traits & TX_OUTPUT_IS_DATA);
    tx_log_set(show, (void *)cmd, TX_LOG_INFO);
    tx_log_set_live(terminal.fd >= 0);
    tx_config *cfg = NULL;
    tx_status st = tx_config_parse(&cfg, cmd->name, argc, argv);
    if (!st && (cmd->traits & TX_ALONE)) st = tx_launched_alone();
    int usage_error = st != TX_OK;
    if (!st) tx_log_set(show, (void *)cmd, tx_config_log_level(cfg));
    if (!st) st = cmd->run(cfg);
    tx_config_free(cfg);
    cmd_terminal_end(&terminal);
    if (!st && (fflush(stdout) || ferror(stdout))) {
        fprintf(stderr, "triax %s: cannot write to standard output\n", cmd->name);
        return 1;
    }
    if (usage_error && rank > 0) sleep(5); /* as a rule all have the same flags: rank 0 says it, and the job ends */
    if (st) fprintf(stderr, "triax %s: %s\n", cmd->name, tx_last_error());
    return st ? (usage_error ? 2 : 1) : 0;
}

int main(int argc, char **argv)
{
    char buf[64];
    int skip = argc > 1 ? cmd_skip_python(argv + 1) : 0;
    if (skip < 0) return 2;
    argv[skip] = argv[0]; /* commands take what stands before their flags for main's */
    argv += skip;
    argc -= skip;
    const char *name = argc > 1 ? cmd_script_name(argv[1], buf, sizeof buf) : "--help";
    if (cmd_asks_help(name) || !strcmp(name, "help")) {
        if (argc > 2) return cmd_help(cmd_script_name(argv[2], buf, sizeof buf), argc > 3 ? argv[3] : NULL);
        usage(stdout);
        return argc > 1 ? 0 : 2;
    }
    if (!strcmp(name, "--version")) return printf("triax %s\n", tx_version()) < 0;
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return run_command(&commands[i], argc - 2, argv + 2);
    for (size_t i = 0; i < N_LAUNCHERS; i++)
        if (!strcmp(launchers[i].name, name)) return launchers[i].run(argc - 2, argv + 2);
    return cmd_unknown(name);
}
