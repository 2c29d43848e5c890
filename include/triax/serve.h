/* serve.h - a trained model over HTTP. */
#ifndef TRIAX_SERVE_H
#define TRIAX_SERVE_H

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Serves the checkpoint of `cfg` (command "serve") until the process gets SIGTERM, SIGINT or SIGUSR1, and comes back
 * when the requests that ran then are finished: Megatron's /api, OpenAI's /v1/completions, a web page. The address is
 * told to the log. As one of several ranks it is collective: the first one serves, the others compute with it.
 * Errors: those of reading the checkpoint; TX_ERR_IO: the address cannot be listened at. */
TX_API tx_status tx_serve(tx_config *cfg);

#ifdef __cplusplus
}
#endif
#endif
