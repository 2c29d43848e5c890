/* report.c - triax report. */
#include "cmd.h"
#include "triax/jobs.h"

tx_status cmd_report(tx_config *cfg)
{
    return tx_report(cfg);
}
