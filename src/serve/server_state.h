/* server_state.h - the parts of a server, shared by http.c, which answers requests, and server.c, which runs it. */
#ifndef TX_SERVE_SERVER_STATE_H
#define TX_SERVE_SERVER_STATE_H

#include <microhttpd.h>

#include "serve/connections.h"
#include "serve/counters.h"
#include "serve/scheduler.h"
#include "serve/server_opts.h"

typedef struct tx__server {
    const tx_server_opts *o;
    tx__model_facts model;
    tx_decoder *decoder;
    tx__scheduler *scheduler;
    tx__counters counters;
    tx__connections connections;
    long long started;   /* seconds since 1970 */
    atomic_llong number; /* of the last completion */
    atomic_int open;     /* requests whose answer is not complete */
    atomic_bool closing;
} tx__server;

/* libmicrohttpd's three callbacks; `user` is the tx__server. */
enum MHD_Result tx__http_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *n_bytes, void **exchange);
void tx__http_completed(void *user, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode code);
void tx__http_connection(void *user, struct MHD_Connection *connection, void **link,
                         enum MHD_ConnectionNotificationCode code);

#endif
