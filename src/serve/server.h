/* server.h - `triax serve`: a model over HTTP.
 *
 *      libmicrohttpd's threads     parse, check, answer; a connection that waits for tokens is suspended
 *      the caller's thread         owns the decoder: batches requests, makes a token of each (scheduler.h)
 *      a watching thread           signals, slow clients, closed connections (connections.h)
 *
 *  Paths: PUT and POST /api (Megatron's server), POST /v1/completions and GET /v1/models (OpenAI's), GET /healthz,
 *  GET /metrics, GET / (a page to try the model with). docs/howto/serve.md describes them. */
#ifndef TX_SERVE_SERVER_H
#define TX_SERVE_SERVER_H

#include "infer/decoder.h"
#include "serve/server_opts.h"

/* Opens a socket that listens at host and port. *url is its address; the caller frees it with tx_free. TX_ERR_ARG and
 * TX_ERR_IO name the flag. */
tx_status tx_server_listen(int *fd, char **url, const tx_server_opts *o);

/* Serves until a signal is seen (base/signals.h), which the caller catches; then finishes the running requests. Takes
 * the socket.   @decoder the leader's; only this thread calls it */
tx_status tx_server_run(const tx_server_opts *o, tx_decoder *decoder, int fd, const char *url);

#endif
