/* preprocess_data.c - triax preprocess-data: text in, .bin and .idx out. */
#include "cmd.h"
#include "triax/data.h"

tx_status cmd_preprocess_data(tx_config *cfg)
{
    return tx_preprocess_data(cfg);
}
