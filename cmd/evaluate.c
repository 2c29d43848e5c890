/* evaluate.c - triax evaluate: loss and perplexity of a checkpoint on a dataset. */
#include "cmd.h"
#include "triax/run.h"

tx_status cmd_evaluate(tx_config *cfg)
{
    return tx_evaluate(cfg);
}
