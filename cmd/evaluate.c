/* evaluate.c - triax evaluate: how well a checkpoint predicts; the results on standard output. */
#include <stdio.h>

#include "cmd.h"
#include "triax/jobs.h"

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

tx_status cmd_evaluate(tx_config *cfg)
{
    tx_status st = tx_evaluate(cfg, print_line, NULL);
    fflush(stdout); /* the message of a failure stands behind the results */
    return st;
}
