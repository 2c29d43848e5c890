/* listen.c - opens the socket. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "serve/server.h"

enum { BACKLOG = 512 };

static int bound(const struct addrinfo *a)
{
    int on = 1, fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static tx_status url_of(int fd, char **url)
{
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    char host[128], port[16];
    if (getsockname(fd, (struct sockaddr *)&address, &n) ||
        getnameinfo((struct sockaddr *)&address, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return TX_FAIL(TX_ERR_IO, "the address of the server's socket cannot be read");
    tx_str text = { 0 };
    bool v6 = address.ss_family == AF_INET6;
    tx_status st = tx_str_printf(&text, "http://%s%s%s:%s/", v6 ? "[" : "", host, v6 ? "]" : "", port);
    *url = text.data;
    return st;
}

tx_status tx_server_listen(int *out, char **url, const tx_server_opts *o)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found;
    char port[16];
    snprintf(port, sizeof port, "%d", o->port);
    int code = getaddrinfo(o->host, port, &hints, &found);
    if (code) return TX_FAIL(TX_ERR_ARG, "--host %s: %s", o->host, gai_strerror(code));
    int fd = -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) fd = bound(a);
    int reason = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return TX_FAIL(TX_ERR_IO, "cannot listen at --host %s --port %d: %s%s", o->host, o->port, strerror(reason),
                       reason == EADDRINUSE ? "; give another --port, or 0 for a free one" : "");
    tx_status st = url_of(fd, url);
    if (st)
        close(fd);
    else
        *out = fd;
    return st;
}
