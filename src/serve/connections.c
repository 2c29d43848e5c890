/* connections.c - slow clients and clients that have gone. */
#include "serve/connections.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"

void tx__connections_init(tx__connections *all, double read_seconds, void (*gone)(void *, void *), void *user)
{
    *all = (tx__connections){ .read_seconds = read_seconds, .gone = gone, .user = user };
    pthread_mutex_init(&all->lock, NULL);
}

void tx__connections_deinit(tx__connections *all)
{
    pthread_mutex_destroy(&all->lock);
}

tx__connection *tx__connection_opened(tx__connections *all, int fd)
{
    tx__connection *c;
    if (tx_alloc(&c, 1, sizeof *c, "a connection")) return NULL;
    *c = (tx__connection){ .fd = fd, .sending = true, .since = tx_clock(), .at = &all->first };
    pthread_mutex_lock(&all->lock);
    c->next = all->first;
    if (c->next) c->next->at = &c->next;
    all->first = c;
    pthread_mutex_unlock(&all->lock);
    return c;
}

void tx__connection_closed(tx__connections *all, tx__connection *c)
{
    pthread_mutex_lock(&all->lock);
    *c->at = c->next;
    if (c->next) c->next->at = c->at;
    pthread_mutex_unlock(&all->lock);
    tx_free(c);
}

static void set(tx__connections *all, tx__connection *c, bool sending, bool has_head, void *waits_for)
{
    pthread_mutex_lock(&all->lock);
    if (sending && !c->sending) c->since = tx_clock();
    c->sending = sending;
    c->has_head = has_head;
    c->waits_for = waits_for;
    pthread_mutex_unlock(&all->lock);
}

void tx__connection_has_head(tx__connections *all, tx__connection *c)
{
    set(all, c, true, true, NULL);
}

void tx__connection_answered(tx__connections *all, tx__connection *c, void *waits_for)
{
    set(all, c, false, true, waits_for);
}

void tx__connection_next(tx__connections *all, tx__connection *c)
{
    set(all, c, true, false, NULL);
}

/* libmicrohttpd answers nothing before a body is complete, so this is said past it. */
static void too_slow(const tx__connection *c)
{
    static const char answer[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    if (c->has_head) (void)!send(c->fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(c->fd, SHUT_RDWR);
}

void tx__connections_sweep(tx__connections *all)
{
    pthread_mutex_lock(&all->lock);
    double now = tx_clock();
    for (tx__connection *c = all->first; c; c = c->next) {
        struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };
        if (c->sending && now - c->since > all->read_seconds) {
            too_slow(c);
            c->since = now;
        } else if (c->waits_for && poll(&p, 1, 0) == 1 && p.revents) {
            all->gone(all->user, c->waits_for);
            c->waits_for = NULL;
        }
    }
    pthread_mutex_unlock(&all->lock);
}
