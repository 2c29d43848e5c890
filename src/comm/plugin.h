/* plugin.h - finding and loading the module that knows MPI. */
#ifndef TX_COMM_PLUGIN_H
#define TX_COMM_PLUGIN_H

#include "base/status.h"
#include "comm/transport.h"

/* From TX_MPI_PLUGIN, else beside the program, else where triax is installed. Starts MPI. The module stays for the life
 * of the process. TX_ERR_NOTFOUND: there is none, or it cannot be loaded. TX_ERR_COMM: MPI does not start. */
tx_status tx__plugin_open(const tx__transport **out);

#endif
