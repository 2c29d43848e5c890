/* serve.h - a trained model over HTTP. */
#ifndef TRIAX_SERVE_H
#define TRIAX_SERVE_H

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Serves the checkpoint of `cfg` (command "serve") through Megatron's /api, OpenAI's /v1/completions and a web page.
 * On SIGTERM, SIGINT or SIGUSR1 it finishes the running requests and returns. The address is logged. Collective with
 * several ranks: the first rank serves, the others compute with it.
 * Errors: those of reading the checkpoint; TX_ERR_IO: the server cannot listen at the address. */
TX_API tx_status tx_serve(tx_config *cfg);

#ifdef __cplusplus
}
#endif
#endif
