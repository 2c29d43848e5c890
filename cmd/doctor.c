/* doctor.c - triax doctor: what this machine has, what triax will use, a short self-test. */
#include "cmd.h"
#include "triax/jobs.h"

tx_status cmd_doctor(tx_config *cfg)
{
    return tx_doctor(cfg);
}
