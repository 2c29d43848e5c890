/* link.h - a connection that carries a wire (wire.h): reads and writes what is available, without blocking. */
#ifndef TX_LAUNCH_LINK_H
#define TX_LAUNCH_LINK_H

#include <poll.h>

#include "launch/wire.h"

typedef struct tx_link {
    int fd; /* -1: none */
    tx_wire wire;
    bool ended; /* the other side has closed it, or the connection is lost; messages received before that can still
                 * be taken */
    char peer[128];
} tx_link;

/* Takes ownership of the descriptor. */
tx_status tx__link_init(tx_link *l, int fd, tx_wire_side side, const tx_key *key, const char *peer);
void tx__link_close(tx_link *l);

/* What to poll for. */
struct pollfd tx__link_poll(const tx_link *l);

/* Sends and receives as many bytes as possible without blocking. */
tx_status tx__link_pump(tx_link *l);

/* The next message, or type 0 if there is none. Call tx__link_pump first. */
tx_status tx__link_next(tx_link *l, tx_message *out);

tx_status tx__link_say(tx_link *l, int type, const tx_str *payload); /* payload NULL: none */

/* Waits until all messages are sent, at most this many seconds. */
void tx__link_flush(tx_link *l, double seconds);

/* Sockets. `peer` is set to the name of the other side. -1: see errno. */
tx_status tx__listen(int *fd, int port);
int tx__accept(int listener, char *peer, size_t cap);
bool tx__is_local(const char *host);

/* Tries once to connect, for at most `seconds`. On failure returns -1 and the reason in why[cap]. */
int tx__connect(const char *host, int port, double seconds, char *why, size_t cap);
int tx__listen_local(const char *path);
int tx__connect_local(const char *path);

#endif
