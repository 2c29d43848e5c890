/* convert.c - triax convert, and upstream's converters under their own names and flags. */
#include "cmd.h"
#include "triax/jobs.h"

tx_status cmd_convert(tx_config *cfg)
{
    return tx_convert(cfg);
}
