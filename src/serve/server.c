/* server.c - starts the server's threads, runs it, and stops it. */
#include "serve/server.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "serve/server_state.h"

enum { HTTP_THREADS = 2, SPARE_CONNECTIONS = 256 };
#define SWEEP_SECONDS 0.05

typedef struct watch {
    tx__server *server;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    atomic_bool stop;
} watch;

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)(SWEEP_SECONDS * 1e9) }, NULL);
}

/* Nobody new comes in. */
static void stop_accepting(watch *w)
{
    tx__server *s = w->server;
    if (atomic_exchange(&s->closing, true)) return;
    MHD_socket fd = MHD_quiesce_daemon(w->daemon);
    if (fd != MHD_INVALID_SOCKET) close(fd);
    tx__scheduler_close(s->scheduler, s->o->shutdown_seconds);
}

static void *watching(void *user)
{
    watch *w = user;
    while (!atomic_load(&w->stop)) {
        if (tx_signals_seen() && !atomic_load(&w->server->closing)) {
            tx_info("%s: %d requests to finish", tx_signals_name(), atomic_load(&w->server->open));
            stop_accepting(w);
        }
        tx__connections_sweep(&w->server->connections);
        nap();
    }
    return NULL;
}

static void generation_is_unwanted(void *user, void *g)
{
    tx__server *s = user;
    tx__scheduler_cancel(s->scheduler, g);
}

static void mhd_says(void *user, const char *format, va_list args)
{
    char line[256];
    (void)user;
    vsnprintf(line, sizeof line, format, args);
    tx_debug("libmicrohttpd: %s", line);
}

static struct MHD_Daemon *start(tx__server *s, int fd)
{
    const tx_server_opts *o = s->o;
    unsigned seconds = (unsigned)(o->read_seconds + 1);
    unsigned connections = (unsigned)(o->max_queue + tx_decoder_slots(s->decoder) + SPARE_CONNECTIONS);
    return MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                            tx__http_request, s, MHD_OPTION_EXTERNAL_LOGGER, mhd_says, NULL, MHD_OPTION_LISTEN_SOCKET,
                            fd, MHD_OPTION_NOTIFY_COMPLETED, tx__http_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
                            tx__http_connection, s, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)HTTP_THREADS,
                            MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, seconds,
                            MHD_OPTION_END);
}

/* Answers that are under way are sent. */
static void send_rest(tx__server *s)
{
    double until = tx_clock() + s->o->read_seconds;
    while (atomic_load(&s->open) && tx_clock() < until) nap();
}

static tx_status serve(tx__server *s, int fd, const char *url)
{
    watch w = { .server = s, .daemon = start(s, fd) };
    if (!w.daemon) {
        close(fd);
        return TX_FAIL(TX_ERR_IO, "libmicrohttpd cannot start at %s", url);
    }
    tx_status st = TX_OK;
    if (pthread_create(&w.thread, NULL, watching, &w)) {
        st = TX_FAIL(TX_ERR_NOMEM, "a thread cannot be started");
        stop_accepting(&w);
        MHD_stop_daemon(w.daemon);
        return st;
    }
    tx_info("Serving %s at %s (SIGTERM or Ctrl-C: running requests finish)", s->o->model_name, url);
    st = tx__scheduler_run(s->scheduler);
    stop_accepting(&w);
    send_rest(s);
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    MHD_stop_daemon(w.daemon);
    if (!st) tx_info("All requests are finished");
    return st;
}

/* Ids that the model has and the tokenizer does not. */
static tx_status forbid(tx__model_facts *m, int32_t **id, tx_decoder *d)
{
    int32_t known = tx_tokenizer_vocab_size(m->tok);
    int64_t n = tx_decoder_vocab(d) - known;
    if (n <= 0) return TX_OK;
    TX_TRY(tx_alloc(id, (size_t)n, sizeof **id, "ids without a token"));
    for (int64_t i = 0; i < n; i++) (*id)[i] = (int32_t)(known + i);
    m->forbidden = *id;
    m->n_forbidden = n;
    return TX_OK;
}

tx_status tx_server_run(const tx_server_opts *o, tx_decoder *decoder, int fd, const char *url)
{
    tx__server s = { .o = o, .decoder = decoder, .started = (long long)tx_clock_unix() };
    int32_t *forbidden = NULL;
    s.model = (tx__model_facts){ .tok = o->tok,
                                 .max_len = tx_decoder_max_len(decoder),
                                 .beams = tx_decoder_slots(decoder) / 2 };
    tx__counters_init(&s.counters);
    tx__connections_init(&s.connections, o->read_seconds, generation_is_unwanted, &s);
    tx_status st = forbid(&s.model, &forbidden, decoder);
    if (!st) st = tx__scheduler_create(&s.scheduler, decoder, o->max_queue, &s.counters);
    if (st)
        close(fd);
    else
        st = serve(&s, fd, url);
    tx__scheduler_destroy(s.scheduler);
    tx__connections_deinit(&s.connections);
    tx__counters_deinit(&s.counters);
    tx_free(forbidden);
    return st;
}
