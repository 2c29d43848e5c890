/* plan.c - triax plan: what a run will take, on standard output. */
#include <stdio.h>

#include "cmd.h"
#include "triax/jobs.h"

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

tx_status cmd_plan(tx_config *cfg)
{
    tx_status st = tx_plan(cfg, print_line, NULL);
    fflush(stdout); /* the message of a failure stands behind the report */
    return st;
}
