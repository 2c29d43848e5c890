/* plugin.h - finds and loads the MPI module. */
#ifndef TX_COMM_PLUGIN_H
#define TX_COMM_PLUGIN_H

#include "base/status.h"
#include "comm/transport.h"

/* The module for Open MPI where its mpirun or PMIx has started this process, for MPICH where a PMI has; if there is
 * none for that make libtriax_mpi.so. Each beside the program or where triax is installed. TX_MPI_PLUGIN is "openmpi"
 * or "mpich", or a file. The MPI library of a module that is linked to none is TX_MPI_LIBRARY, or what the loader
 * finds. Starts MPI. The module stays for the life of the process. TX_ERR_NOTFOUND: there is none, or it cannot be
 * loaded. TX_ERR_COMM: MPI does not start. */
tx_status tx__plugin_open(const tx__transport **out);

#endif
