/* pretrain.c - triax pretrain-gpt and pretrain-bert. */
#include "cmd.h"
#include "triax/jobs.h"

tx_status cmd_pretrain(tx_config *cfg)
{
    return tx_pretrain(cfg);
}
