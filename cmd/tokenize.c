/* tokenize.c - triax tokenize and triax detokenize: standard input to standard output. */
#include "cmd.h"
#include "triax/data.h"

tx_status cmd_tokenize(tx_config *cfg)
{
    return tx_tokenize_stream(cfg);
}

tx_status cmd_detokenize(tx_config *cfg)
{
    return tx_detokenize_stream(cfg);
}
