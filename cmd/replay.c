/* replay.c - triax replay: runs the iteration again at which numbers went bad. */
#include "cmd.h"
#include "triax/jobs.h"

tx_status cmd_replay(tx_config *cfg)
{
    return tx_replay(cfg);
}
