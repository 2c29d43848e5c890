/* torchrun.c - triax torchrun, and what the launchers have in common: --help, messages, the exit code. They do not
 * start themselves over: what OpenMP is to know is for each rank to find out. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "triax/launch.h"

static void show(void *user, tx_log_level level, const char *line)
{
    (void)user;
    const char *erase = isatty(STDERR_FILENO) ? "\r\033[K" : ""; /* the live line of a rank may stand there */
    if (level == TX_LOG_ERROR || level == TX_LOG_WARN)
        fprintf(stderr, "%s%s: %s\n", erase, level == TX_LOG_ERROR ? "error" : "warning", line);
    else if (level != TX_LOG_PROGRESS)
        printf("%s\n", line);
    fflush(stdout);
}

int cmd_launch(const char *name, tx_launcher_fn *run, int argc, char **argv)
{
    int code = 0;
    if (argc > 0 && cmd_asks_help(argv[0])) return cmd_help(name, argc > 1 ? argv[1] : NULL);
    tx_log_set(show, NULL, TX_LOG_INFO);
    tx_status st = run(argc, argv, &code);
    if (!st) return code;
    fprintf(stderr, "triax %s: %s\n", name, tx_last_error());
    return st == TX_ERR_ARG ? 2 : code ? code : 1;
}

int cmd_torchrun(int argc, char **argv)
{
    return cmd_launch("torchrun", tx_torchrun, argc, argv);
}
