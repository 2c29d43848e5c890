/* start_over.c - OpenMP's runtimes read their environment when they are loaded, so the program sets it and starts
 * itself over, once. Where that is not possible it goes on as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "triax/jobs.h"

#define MARK "TX_STARTED_OVER" /* = the process's number, so that programs started by this one are not meant */

bool cmd_started_over(void)
{
    const char *mark = getenv(MARK);
    return mark && atol(mark) == (long)getpid();
}

void cmd_start_over(const tx_config *cfg, bool computes, char **argv)
{
    char self[4096], mark[32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || tx_threads_environment(cfg, computes)) return;
    self[n] = 0;
    snprintf(mark, sizeof mark, "%ld", (long)getpid());
    setenv(MARK, mark, 1);
    execv(self, argv);
}
