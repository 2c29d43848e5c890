/* merge_datasets.c - triax merge-datasets: several .bin/.idx pairs to one. */
#include "cmd.h"
#include "triax/data.h"

tx_status cmd_merge_datasets(tx_config *cfg)
{
    return tx_merge_datasets(cfg);
}
