/* link.h - a connection with a wire on it: reads and writes what is there, without waiting. */
#ifndef TX_LAUNCH_LINK_H
#define TX_LAUNCH_LINK_H

#include <poll.h>

#include "launch/wire.h"

typedef struct tx_link {
    int fd; /* -1: none */
    tx_wire wire;
    bool ended; /* the other side has closed, or the link is dead; messages that came before it can still be taken */
    char peer[128];
} tx_link;

/* Takes the descriptor. */
tx_status tx__link_init(tx_link *l, int fd, tx_wire_side side, const tx_key *key, const char *peer);
void tx__link_close(tx_link *l);

/* What to wait for. */
struct pollfd tx__link_poll(const tx_link *l);

/* Moves bytes in both directions as far as possible. */
tx_status tx__link_pump(tx_link *l);

/* The next message, or type 0: pump first. */
tx_status tx__link_next(tx_link *l, tx_message *out);

tx_status tx__link_say(tx_link *l, int type, const tx_str *payload); /* payload NULL: none */

/* Waits up to so many seconds until all messages are sent. */
void tx__link_flush(tx_link *l, double seconds);

/* Sockets. The names of the other side go into peer. -1: errno. */
tx_status tx__listen(int *fd, int port);
int tx__accept(int listener, char *peer, size_t cap);
bool tx__is_local(const char *host);

/* One attempt, at most `seconds`; -1 and why[cap]. */
int tx__connect(const char *host, int port, double seconds, char *why, size_t cap);
int tx__listen_local(const char *path);
int tx__connect_local(const char *path);

#endif
