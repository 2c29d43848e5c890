/* connections.h - watches for what libmicrohttpd does not notice: a client that sends a byte now and then, and one that
 * has closed its connection while it waits for tokens. Shared inside this room.
 *
 *      opened -> SENDING (nothing, a head, a body) -> ANSWERED -> SENDING the next request ... -> closed  */
#ifndef TX_SERVE_CONNECTIONS_H
#define TX_SERVE_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct tx__connection {
    int fd;
    bool sending;    /* the server waits for bytes of the client */
    bool has_head;   /* which has sent the head of a request, so that an answer can be sent */
    double since;    /* tx_clock */
    void *waits_for; /* what is cancelled if the client closes; NULL: nothing */
    struct tx__connection *next, **at;
} tx__connection;

typedef struct tx__connections {
    pthread_mutex_t lock;
    tx__connection *first;
    double read_seconds;
    void (*gone)(void *user, void *waits_for); /* with the lock held */
    void *user;
} tx__connections;

void tx__connections_init(tx__connections *all, double read_seconds, void (*gone)(void *, void *), void *user);
void tx__connections_deinit(tx__connections *all);

/* NULL: no memory. */
tx__connection *tx__connection_opened(tx__connections *all, int fd);
void tx__connection_closed(tx__connections *all, tx__connection *c);

void tx__connection_has_head(tx__connections *all, tx__connection *c);
void tx__connection_answered(tx__connections *all, tx__connection *c, void *waits_for); /* the request is complete */
void tx__connection_next(tx__connections *all, tx__connection *c);                      /* so is the answer */

/* To be called several times a second. Clients that have been sending for too long are answered 408, if they have sent
 * a head, and their connections are shut. */
void tx__connections_sweep(tx__connections *all);

#endif
