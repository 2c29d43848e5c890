/* server_opts.h - what a server is asked to be. */
#ifndef TX_SERVE_SERVER_OPTS_H
#define TX_SERVE_SERVER_OPTS_H

#include "triax/token.h"

typedef struct tx_server_opts {
    const char *host;
    int port; /* 0: a free one */
    const char *model_name;
    const tx_tokenizer *tok;
    int64_t max_queue;  /* requests that wait */
    int64_t max_tokens; /* that a request can ask for */
    size_t max_body;    /* bytes */
    double request_seconds, read_seconds, shutdown_seconds;
    const char *auth_token; /* NULL: none is asked for */
} tx_server_opts;

#endif
