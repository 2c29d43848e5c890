/* inspect.c - triax inspect and triax inspect-samples: reports on standard output. */
#include <stdio.h>

#include "cmd.h"
#include "triax/data.h"
#include "triax/jobs.h"

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

tx_status cmd_inspect(tx_config *cfg)
{
    return tx_inspect(cfg, print_line, NULL);
}

tx_status cmd_inspect_samples(tx_config *cfg)
{
    tx_status st = tx_train_data_prepare(cfg);
    return st ? st : tx_inspect_samples(cfg, print_line, NULL);
}
