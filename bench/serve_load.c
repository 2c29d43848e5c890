/* serve_load.c - many clients at a server of this machine: requests, errors, latencies, tokens/s, the server's memory.
 *
 *   serve_load [PORT, 5000] [CLIENTS, 64] [SECONDS, 60] [TOKENS, 32] [stream]
 *
 *  Each client keeps one connection to 127.0.0.1 and asks again as soon as it has been answered: POST /v1/completions
 *  with a prompt of its own, min_tokens = max_tokens, another seed every time. An answer that is not 200 with as many
 *  tokens as asked for is an error. With `stream` the tokens come as events, and the time to the first one is told
 *  too. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_CLIENTS = 1024, ANSWER = 1 << 20 };

static int port = 5000, n_clients = 64, seconds = 60, n_tokens = 32;
static bool stream;
static atomic_bool stop;

typedef struct client {
    pthread_t thread;
    int number;
    long n, errors;
    double *latency, *first; /* [n] */
    char *answer;
    char last_error[160];
} client;

static int dial(void)
{
    const struct sockaddr_in a = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* One answer with its head into buf; *first: when its body began. False: the connection ended before it was whole. */
static bool read_answer(int fd, char *buf, double *first)
{
    size_t n = 0;
    *first = 0;
    for (;;) {
        ssize_t k = n < ANSWER - 1 ? recv(fd, buf + n, ANSWER - 1 - n, 0) : 0;
        if (k <= 0) return false;
        n += (size_t)k;
        buf[n] = 0;
        char *body = strstr(buf, "\r\n\r\n");
        if (!body) continue;
        if (*first == 0 && body[4]) *first = tx_clock();
        const char *length = strcasestr(buf, "\r\nContent-Length:");
        if (length && length < body) {
            if ((size_t)(buf + n - body - 4) >= strtoul(length + 17, NULL, 10)) return true;
        } else if (n > 5 && !memcmp(buf + n - 5, "0\r\n\r\n", 5)) {
            return true; /* the last chunk */
        }
    }
}

static long count(const char *text, const char *part)
{
    long n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) n++;
    return n;
}

/* Whether an answer is what was asked for. */
static bool sound(const char *answer)
{
    char expected[64];
    snprintf(expected, sizeof expected, "\"completion_tokens\":%d,", n_tokens);
    return !strncmp(answer, "HTTP/1.1 200", 12) && count(answer, expected) == 1;
}

static bool ask(client *c, int fd, double *first)
{
    char body[512], head[256];
    int n = snprintf(body, sizeof body,
                     "{\"prompt\":\"Client %d asks for the %ldth time:\",\"max_tokens\":%d,\"min_tokens\":%d,"
                     "\"seed\":%ld%s}",
                     c->number, c->n, n_tokens, n_tokens, c->number * 1000000L + c->n,
                     stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    int m = snprintf(head, sizeof head,
                     "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n",
                     n);
    return send_all(fd, head, (size_t)m) && send_all(fd, body, (size_t)n) && read_answer(fd, c->answer, first);
}

static void *run_client(void *user)
{
    client *c = user;
    int fd = -1;
    size_t cap = 0;
    while (!atomic_load(&stop)) {
        if (fd < 0) fd = dial();
        double begin = tx_clock(), first = begin;
        bool came = fd >= 0 && ask(c, fd, &first);
        if ((size_t)c->n == cap) {
            cap = cap ? 2 * cap : 1024;
            c->latency = realloc(c->latency, cap * sizeof *c->latency);
            c->first = realloc(c->first, cap * sizeof *c->first);
            if (!c->latency || !c->first) abort();
        }
        c->latency[c->n] = tx_clock() - begin;
        c->first[c->n++] = first - begin;
        if (came && sound(c->answer)) continue;
        c->errors++;
        snprintf(c->last_error, sizeof c->last_error, "%s", came ? c->answer : "no whole answer");
        if (fd >= 0) close(fd);
        fd = -1;
        usleep(100000);
    }
    if (fd >= 0) close(fd);
    return NULL;
}

/* MB that the server says it has, 0: it does not answer. */
static double server_memory(void)
{
    static char answer[ANSWER];
    static const char head[] = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    static const char name[] = "\nprocess_resident_memory_bytes ";
    double first, bytes = 0;
    int fd = dial();
    if (fd < 0) return 0;
    if (send_all(fd, head, strlen(head)) && read_answer(fd, answer, &first)) {
        const char *at = strstr(answer, name);
        if (at) bytes = strtod(at + strlen(name), NULL);
    }
    close(fd);
    return bytes / (1 << 20);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(const char *what, client *all, long total, bool first)
{
    double *v = malloc((size_t)(total ? total : 1) * sizeof *v);
    long n = 0;
    if (!v) abort();
    for (int i = 0; i < n_clients; i++) {
        memcpy(v + n, first ? all[i].first : all[i].latency, (size_t)all[i].n * sizeof *v);
        n += all[i].n;
    }
    qsort(v, (size_t)n, sizeof *v, by_size);
    if (n)
        printf("%s: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, most %.1f ms\n", what, 1e3 * v[n / 2], 1e3 * v[n * 9 / 10],
               1e3 * v[n * 99 / 100], 1e3 * v[n - 1]);
    free(v);
}

static void settings(int argc, char **argv)
{
    int *number[] = { &port, &n_clients, &seconds, &n_tokens };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "stream"))
            stream = true;
        else if (i <= 4)
            *number[i - 1] = atoi(argv[i]);
    }
    if (n_clients < 1 || n_clients > MAX_CLIENTS || seconds < 1 || seconds > 3600 || n_tokens < 1) {
        fprintf(stderr, "serve_load [PORT] [CLIENTS up to %d] [SECONDS up to 3600] [TOKENS] [stream]\n", MAX_CLIENTS);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static client all[MAX_CLIENTS];
    double memory[3], begin;
    long total = 0, errors = 0;
    settings(argc, argv);
    memory[0] = server_memory();
    if (memory[0] <= 0) {
        fprintf(stderr, "no triax serve answers at 127.0.0.1:%d/metrics\n", port);
        return 1;
    }
    begin = tx_clock();
    for (int i = 0; i < n_clients; i++) {
        all[i] = (client){ .number = i, .answer = malloc(ANSWER) };
        if (!all[i].answer || pthread_create(&all[i].thread, NULL, run_client, &all[i])) abort();
    }
    usleep((useconds_t)seconds * 500000u);
    memory[1] = server_memory();
    usleep((useconds_t)seconds * 500000u);
    atomic_store(&stop, true);
    for (int i = 0; i < n_clients; i++) {
        pthread_join(all[i].thread, NULL);
        total += all[i].n;
        errors += all[i].errors;
        if (all[i].errors) printf("an error of client %d: %.100s\n", i, all[i].last_error);
    }
    double took = tx_clock() - begin;
    memory[2] = server_memory();
    printf("%d clients, %.1f s, %d tokens a request%s\n", n_clients, took, n_tokens, stream ? ", as a stream" : "");
    printf("%ld requests, %ld errors, %.1f requests/s, %.0f tokens/s\n", total, errors, (double)total / took,
           (double)(total - errors) * n_tokens / took);
    show("latency", all, total, false);
    if (stream) show("first token", all, total, true);
    printf("server's memory at the start, in the middle, at the end: %.1f, %.1f, %.1f MB\n", memory[0], memory[1],
           memory[2]);
    return errors || memory[2] <= 0;
}
