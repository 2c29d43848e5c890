/* link.c - sockets and wires. */
#include "launch/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

/* A link that is dead is noticed after 5 + 3 * 3 seconds, also while something is on its way. */
static void keep_alive(int fd)
{
    int on = 1, idle = 5, interval = 3, probes = 3, unanswered_ms = 14000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

tx_status tx__link_init(tx_link *l, int fd, tx_wire_side side, const tx_key *key, const char *peer)
{
    *l = (tx_link){ .fd = fd };
    snprintf(l->peer, sizeof l->peer, "%s", peer);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (side != TX_WIRE_PLAIN) keep_alive(fd);
    return tx__wire_init(&l->wire, side, key);
}

void tx__link_close(tx_link *l)
{
    if (l->fd >= 0) close(l->fd);
    tx__wire_deinit(&l->wire);
    *l = (tx_link){ .fd = -1 };
}

struct pollfd tx__link_poll(const tx_link *l)
{
    return (struct pollfd){ .fd = l->ended ? -1 : l->fd, .events = (short)(POLLIN | (l->wire.out.len ? POLLOUT : 0)) };
}

static bool later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

tx_status tx__link_pump(tx_link *l)
{
    char bytes[16384];
    while (!l->ended && l->wire.out.len) {
        ssize_t n = send(l->fd, l->wire.out.data, l->wire.out.len, MSG_NOSIGNAL);
        if (n < 0 && later()) break;
        if (n < 0)
            l->ended = true;
        else
            tx__wire_sent(&l->wire, (size_t)n);
    }
    if (l->ended || l->wire.in.len - l->wire.taken > TX_WIRE_MAX) return TX_OK; /* the caller takes messages first */
    ssize_t n = recv(l->fd, bytes, sizeof bytes, 0);
    if (n > 0) return tx__wire_feed(&l->wire, bytes, (size_t)n);
    if (n == 0 || !later()) l->ended = true;
    return TX_OK;
}

tx_status tx__link_next(tx_link *l, tx_message *out)
{
    return tx__wire_next(&l->wire, out);
}

tx_status tx__link_say(tx_link *l, int type, const tx_str *payload)
{
    return tx__wire_put(&l->wire, type, payload && payload->len ? payload->data : "", payload ? payload->len : 0);
}

void tx__link_flush(tx_link *l, double seconds)
{
    double until = tx_clock() + seconds;
    while (!l->ended && l->wire.out.len && tx_clock() < until) {
        struct pollfd p = { .fd = l->fd, .events = POLLOUT };
        if (poll(&p, 1, 100) > 0) (void)tx__link_pump(l);
    }
}

/* ---- sockets ---- */

tx_status tx__listen(int *out, int port)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int on = 1, off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool has_six = fd >= 0;
    if (!has_six) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return TX_FAIL(TX_ERR_IO, "cannot make a socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (has_six) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    int bad = has_six ? bind(fd, (struct sockaddr *)&six, sizeof six) : bind(fd, (struct sockaddr *)&four, sizeof four);
    if (bad || listen(fd, 128)) {
        int e = errno;
        close(fd);
        return TX_FAIL(e == EADDRINUSE ? TX_ERR_STATE : TX_ERR_IO,
                       "cannot listen on port %d: %s; choose another --master_port", port, strerror(e));
    }
    *out = fd;
    return TX_OK;
}

int tx__accept(int listener, char *peer, size_t cap)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[96];
    int fd = accept4(listener, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return -1;
    if (a.ss_family == AF_UNIX || getnameinfo((struct sockaddr *)&a, n, host, sizeof host, NULL, 0, NI_NUMERICHOST))
        strcpy(host, "this host");
    snprintf(peer, cap, "%s", strncmp(host, "::ffff:", 7) ? host : host + 7);
    return fd;
}

/* Addresses of a host; NULL and why. */
static struct addrinfo *resolve(const char *host, int port, char *why, size_t cap)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", port);
    int e = getaddrinfo(host, number, &hints, &found);
    if (e) snprintf(why, cap, "%s", gai_strerror(e));
    return e ? NULL : found;
}

bool tx__is_local(const char *host)
{
    char why[128];
    bool local = false;
    struct addrinfo *all = resolve(host, 0, why, sizeof why);
    for (struct addrinfo *a = all; a && !local; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        local =
            fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen); /* any free port: only one's own address can be bound */
        if (fd >= 0) close(fd);
    }
    if (all) freeaddrinfo(all);
    return local;
}

static int connect_to(const struct addrinfo *a, double seconds)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e = 0;
    socklen_t n = sizeof e;
    if (fd < 0) return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen)) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        e = errno;
        if (e == EINPROGRESS) {
            if (poll(&p, 1, (int)(seconds * 1000)) != 1)
                e = ETIMEDOUT;
            else
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
        }
    }
    if (!e) return fd;
    close(fd);
    errno = e;
    return -1;
}

int tx__connect(const char *host, int port, double seconds, char *why, size_t cap)
{
    struct addrinfo *all = resolve(host, port, why, cap);
    int fd = -1;
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = connect_to(a, seconds);
        if (fd < 0) snprintf(why, cap, "%s", strerror(errno));
    }
    if (all) freeaddrinfo(all);
    return fd;
}

static int local_socket(const char *path, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof a->sun_path) return -1;
    strcpy(a->sun_path, path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int tx__listen_local(const char *path)
{
    struct sockaddr_un a;
    int fd = local_socket(path, &a);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 128)) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

int tx__connect_local(const char *path)
{
    struct sockaddr_un a;
    int fd = local_socket(path, &a);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof a)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}
