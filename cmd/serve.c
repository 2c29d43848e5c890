/* serve.c - triax serve. */
#include "triax/serve.h"

#include "cmd.h"

tx_status cmd_serve(tx_config *cfg)
{
    return tx_serve(cfg);
}
