/* pretrain_gpt.c - triax pretrain-gpt. */
#include "cmd.h"
#include "triax/run.h"

tx_status cmd_pretrain_gpt(tx_config *cfg)
{
    return tx_pretrain(cfg);
}
