/* fill_mask.c - triax fill-mask: the words for [MASK], on standard output. */
#include <stdio.h>

#include "cmd.h"
#include "triax/jobs.h"

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

tx_status cmd_fill_mask(tx_config *cfg)
{
    tx_status st = tx_fill_mask(cfg, print_line, NULL);
    fflush(stdout); /* the message of a failure stands behind the answers */
    return st;
}
