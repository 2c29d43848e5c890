/* analyze_data.c - triax analyze-data: how difficult training samples are, as files. */
#include "cmd.h"
#include "triax/data.h"
#include "triax/jobs.h"

tx_status cmd_analyze_data(tx_config *cfg)
{
    tx_status st = tx_train_data_prepare(cfg);
    return st ? st : tx_analyze_data(cfg);
}
