/* http.c - handles HTTP requests: routes, limits, answers. Runs on libmicrohttpd's threads.
 *
 *      tx__http_request is called     once with the head        begin: route, method, token, length
 *                                     for pieces of the body    taken, or dropped where it has been refused
 *                                     when the body is whole    answer, or a generation; its connection is suspended
 *                                     when it is resumed        the generation's answer */
#include <netdb.h>
#include <nettle/memops.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "serve/answers.h"
#include "serve/server_state.h"
#include "serve/web_page.h"

/* So much of a body that has been refused is read, so that the client reads the answer; more closes the connection. */
#define DRAINED ((size_t)64 << 20)

#define JSON "application/json"

typedef struct exchange exchange;

typedef struct route {
    const char *path;
    bool get, post, put;
    bool open; /* also without the token */
    enum MHD_Result (*answer)(exchange *x);
} route;

struct exchange {
    tx__server *server;
    struct MHD_Connection *connection;
    tx__connection *link;
    const route *route;
    char method[8];
    tx_str body;
    size_t dropped;
    unsigned refused; /* the code, or 0 */
    char why[160];
    tx__generation *generation; /* NULL: the path has none, or not yet */
    bool suspended;             /* with the generation's lock */
    tx__answer_head head;
    tx_str out; /* of a stream, from `sent` on not yet given */
    size_t sent;
    bool over;
    unsigned code; /* that it was answered with */
    double began;
};

/* ---------------------------------------------------------------- answers */

static enum MHD_Result respond(exchange *x, unsigned code, const char *type, const tx_str *body)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(body->len, body->data ? body->data : "", MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (code == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (code == 503) MHD_add_response_header(r, "Retry-After", "1");
    if (code == 405) {
        bool put = x->route->put;
        MHD_add_response_header(r, "Allow", x->route->get ? "GET, HEAD" : put ? "PUT, POST" : "POST");
    }
    if (atomic_load(&x->server->closing)) MHD_add_response_header(r, "Connection", "close");
    x->code = code;
    enum MHD_Result result = MHD_queue_response(x->connection, code, r);
    MHD_destroy_response(r);
    return result;
}

/* Answers with what st says of its making: text, or an error. */
static enum MHD_Result respond_made(exchange *x, tx_status st, tx_str *text, const char *type)
{
    enum MHD_Result result = MHD_NO; /* no memory even for an error: the connection is closed */
    if (!st) result = respond(x, 200, type, text);
    tx_str_free(text);
    return result;
}

static enum MHD_Result refuse(exchange *x, unsigned code, const char *why)
{
    tx_str text = { 0 };
    bool megatron = x->route && x->route->put;
    enum MHD_Result result = MHD_NO;
    if (!tx__answer_error(&text, megatron, code, why)) result = respond(x, code, JSON, &text);
    tx_str_free(&text);
    return result;
}

static unsigned code_of(tx_status st)
{
    return st == TX_ERR_ARG || st == TX_ERR_FORMAT ? 400 : st == TX_ERR_STATE ? 503 : 500;
}

/* ---------------------------------------------------------------- generations */

static void wake(void *user)
{
    exchange *x = user;
    if (!x->suspended) return;
    x->suspended = false;
    MHD_resume_connection(x->connection);
}

static tx_status text_answer(exchange *x, tx_str *out)
{
    return x->generation->is_megatron ? tx__answer_megatron(out, x->generation, x->server->o->tok)
                                      : tx__answer_completion(out, x->generation, &x->head);
}

/* The generation is over, or the connection is suspended until it is. */
static enum MHD_Result answer_texts(exchange *x)
{
    tx_str text = { 0 };
    pthread_mutex_lock(&x->generation->lock);
    tx__end end = x->generation->end;
    if (end == TX__GOES_ON) {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->generation->lock);
    switch (end) {
    case TX__GOES_ON:
        return MHD_YES;
    case TX__COMPLETE:
        return respond_made(x, text_answer(x, &text), &text, JSON);
    case TX__TIMED_OUT:
        return refuse(x, 504, "the request took longer than --request-timeout");
    case TX__CANCELLED:
        return refuse(x, 503, "the server has ended");
    case TX__FAILED:
        break;
    }
    return refuse(x, 500, "the request failed; the server's log says why");
}

/* The next bytes of a stream, or a suspended connection. */
static ssize_t stream_read(void *user, uint64_t at, char *buf, size_t max)
{
    exchange *x = user;
    tx_status st = TX_OK;
    (void)at;
    if (x->sent == x->out.len && x->over) return MHD_CONTENT_READER_END_OF_STREAM;
    if (x->sent == x->out.len) {
        x->sent = x->out.len = 0;
        pthread_mutex_lock(&x->generation->lock);
        st = tx__answer_events(&x->out, x->generation, &x->head, &x->over);
        if (!st && !x->out.len) {
            x->suspended = true;
            MHD_suspend_connection(x->connection);
        }
        pthread_mutex_unlock(&x->generation->lock);
    }
    if (st) return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t n = x->out.len - x->sent < max ? x->out.len - x->sent : max;
    if (n) memcpy(buf, x->out.data + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

static enum MHD_Result stream_texts(exchange *x)
{
    enum { BLOCK = 16384 };
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, x, NULL);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", "text/event-stream; charset=utf-8");
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    x->code = 200;
    enum MHD_Result result = MHD_queue_response(x->connection, 200, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result submit(exchange *x, tx_text_request *request, bool is_megatron)
{
    tx__server *s = x->server;
    tx__generation *g;
    tx_status st = tx__generation_create(&g, request, is_megatron, &s->model);
    if (st) return refuse(x, code_of(st), tx_last_error());
    g->deadline = g->created + s->o->request_seconds;
    g->wake = wake;
    g->user = x;
    x->generation = g;
    tx__connection_answered(&s->connections, x->link, g);
    st = tx__scheduler_submit(s->scheduler, g);
    if (st) {
        tx__connection_answered(&s->connections, x->link, NULL);
        x->generation = NULL;
        tx__generation_release(g);
        return refuse(x, code_of(st), tx_last_error());
    }
    snprintf(x->head.id, sizeof x->head.id, "cmpl-%lld", (long long)atomic_fetch_add(&s->number, 1) + 1);
    x->head.created = (long long)tx_clock_unix();
    x->head.model = s->o->model_name;
    x->head.tok = s->o->tok;
    return g->request.stream ? stream_texts(x) : answer_texts(x);
}

static tx_text_request_limits limits_of(const tx__server *s)
{
    return (tx_text_request_limits){ .max_new = s->o->max_tokens, .vocab_size = tx_tokenizer_vocab_size(s->o->tok) };
}

/* ---------------------------------------------------------------- routes */

static enum MHD_Result answer_api(exchange *x)
{
    if (x->generation) return answer_texts(x);
    tx_text_request request;
    const tx_text_request_limits limits = limits_of(x->server);
    tx_status st = tx_text_request_megatron(&request, x->body.data, x->body.len, &limits);
    enum MHD_Result result = st ? refuse(x, code_of(st), tx_last_error()) : submit(x, &request, true);
    tx_text_request_free(&request);
    return result;
}

static enum MHD_Result answer_completions(exchange *x)
{
    if (x->generation) return answer_texts(x);
    tx_text_request request;
    char why[256];
    const char *model = x->server->o->model_name;
    const tx_text_request_limits limits = limits_of(x->server);
    tx_status st = tx_text_request_completion(&request, x->body.data, x->body.len, &limits);
    enum MHD_Result result;
    if (st) {
        result = refuse(x, code_of(st), tx_last_error());
    } else if (request.model && strcmp(request.model, model)) {
        snprintf(why, sizeof why, "there is no model %.80s, this server has %.80s", request.model, model);
        result = refuse(x, 404, why);
    } else {
        result = submit(x, &request, false);
    }
    tx_text_request_free(&request);
    return result;
}

static enum MHD_Result answer_models(exchange *x)
{
    const tx__server *s = x->server;
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx_str_puts(&text, "{\"object\":\"list\",\"data\":[{\"id\":"));
    TX_GOTO(tx__answer_string(&text, s->o->model_name, strlen(s->o->model_name)));
    TX_GOTO(tx_str_printf(&text,
                          ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"triax\",\"max_model_len\":%lld,"
                          "\"max_tokens\":%lld}]}\n",
                          s->started, (long long)s->model.max_len, (long long)s->o->max_tokens));
out:
    return respond_made(x, st, &text, JSON);
}

static enum MHD_Result answer_health(exchange *x)
{
    if (atomic_load(&x->server->closing)) return refuse(x, 503, "the server is about to end");
    tx_str text = { 0 };
    return respond_made(x, tx_str_puts(&text, "{\"status\":\"ok\"}\n"), &text, JSON);
}

static enum MHD_Result answer_metrics(exchange *x)
{
    tx_str text = { 0 };
    return respond_made(x, tx__counters_text(&x->server->counters, &text), &text, "text/plain; version=0.0.4");
}

static enum MHD_Result answer_page(exchange *x)
{
    const char *html = (const char *)tx__web_page_html;
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(html), (void *)html, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", "text/html; charset=utf-8");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy",
                            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                            "connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'");
    x->code = 200;
    enum MHD_Result result = MHD_queue_response(x->connection, 200, r);
    MHD_destroy_response(r);
    return result;
}

static const route routes[] = {
    { "/api", .put = true, .post = true, .answer = answer_api },
    { "/v1/completions", .post = true, .answer = answer_completions },
    { "/v1/models", .get = true, .answer = answer_models },
    { "/metrics", .get = true, .answer = answer_metrics },
    { "/healthz", .get = true, .open = true, .answer = answer_health },
    { "/", .get = true, .open = true, .answer = answer_page },
};

/* ---------------------------------------------------------------- a request's way */

/* Takes as long for any wrong token of the right length. */
static bool has_token(struct MHD_Connection *connection, const char *token)
{
    static const char scheme[] = "Bearer ";
    size_t n = strlen(scheme);
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (!given || strncasecmp(given, scheme, n)) return false;
    return strlen(given + n) == strlen(token) && memeql_sec(given + n, token, strlen(token));
}

static void refuse_later(exchange *x, unsigned code, const char *why)
{
    if (x->refused) return;
    x->refused = code;
    snprintf(x->why, sizeof x->why, "%s", why);
}

static void check_head(exchange *x, const char *url, const char *method)
{
    const tx_server_opts *o = x->server->o;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(url, routes[i].path)) x->route = &routes[i];
    const route *r = x->route;
    bool get = !strcmp(method, "GET") || !strcmp(method, "HEAD");
    if (o->auth_token && !(r && r->open) && !has_token(x->connection, o->auth_token))
        refuse_later(x, 401, "this server wants the header \"Authorization: Bearer TOKEN\" with its token");
    else if (!r)
        refuse_later(x, 404,
                     "there is nothing here; there are /api, /v1/completions, /v1/models, /healthz, /metrics and /");
    else if (!(r->get && get) && !(r->post && !strcmp(method, "POST")) && !(r->put && !strcmp(method, "PUT")))
        refuse_later(x, 405, "this path has no such method");
}

static enum MHD_Result begin(tx__server *s, struct MHD_Connection *connection, const char *url, const char *method,
                             void **out)
{
    exchange *x;
    const union MHD_ConnectionInfo *link = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (!link || !link->socket_context || tx_alloc(&x, 1, sizeof *x, "a request")) return MHD_NO;
    x->server = s;
    x->connection = connection;
    x->link = link->socket_context;
    x->began = tx_clock();
    snprintf(x->method, sizeof x->method, "%s", method);
    *out = x;
    atomic_fetch_add(&s->open, 1);
    tx__connection_has_head(&s->connections, x->link);
    check_head(x, url, method);
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    const char *expect = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Expect");
    unsigned long long n = length ? strtoull(length, NULL, 10) : 0;
    if (n > s->o->max_body) refuse_later(x, 413, "the body is larger than --max-body");
    /* a client that would rather not send it all for nothing, or would send more than anybody wants to drop */
    if (x->refused && (n > DRAINED || (expect && n))) return refuse(x, x->refused, x->why);
    return MHD_YES;
}

static enum MHD_Result take(exchange *x, const char *bytes, size_t n)
{
    if (!x->refused && n > x->server->o->max_body - x->body.len)
        refuse_later(x, 413, "the body is larger than --max-body");
    if (!x->refused && tx_str_append(&x->body, bytes, n)) refuse_later(x, 500, "no memory for the body");
    if (!x->refused) return MHD_YES;
    tx_str_free(&x->body);
    x->dropped += n;
    return x->dropped > DRAINED ? MHD_NO : MHD_YES;
}

enum MHD_Result tx__http_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *n_bytes, void **state)
{
    (void)version;
    if (!*state) return begin(user, connection, url, method, state);
    exchange *x = *state;
    if (*n_bytes) {
        size_t n = *n_bytes;
        *n_bytes = 0;
        return take(x, bytes, n);
    }
    if (!x->generation) tx__connection_answered(&x->server->connections, x->link, NULL);
    return x->refused ? refuse(x, x->refused, x->why) : x->route->answer(x);
}

/* ---------------------------------------------------------------- its end */

static void log_line(const exchange *x)
{
    char host[64] = "?";
    const union MHD_ConnectionInfo *peer = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = peer ? peer->client_addr : NULL;
    if (address)
        (void)getnameinfo(address,
                          address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                          host, sizeof host, NULL, 0, NI_NUMERICHOST);
    const char *path = x->route ? x->route->path : "(no such path)";
    double seconds = tx_clock() - x->began;
    if (x->generation)
        tx_info("%s %s %s %u, %lld + %lld tokens, %.3f s", host, x->method, path, x->code,
                (long long)tx__generation_prompt_tokens(x->generation),
                (long long)tx__generation_new_tokens(x->generation), seconds);
    else if (x->code)
        tx_info("%s %s %s %u, %.3f s", host, x->method, path, x->code, seconds);
    else
        tx_info("%s %s %s broken off, %.3f s", host, x->method, path, seconds);
}

void tx__http_completed(void *user, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code)
{
    tx__server *s = user;
    exchange *x = *state;
    (void)connection;
    if (!x) return;
    if (x->generation) {
        pthread_mutex_lock(&x->generation->lock);
        x->generation->wake = NULL;
        bool goes_on = x->generation->end == TX__GOES_ON;
        pthread_mutex_unlock(&x->generation->lock);
        if (goes_on) tx__scheduler_cancel(s->scheduler, x->generation);
        if (goes_on) x->code = 499; /* nginx's number for a client that went away */
    }
    tx__connection_next(&s->connections, x->link);
    if (x->code && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        tx__counters_answered(&s->counters, x->route ? x->route->path : "other", x->code);
    bool quiet = x->route && x->route->get && x->code == 200; /* monitoring asks every few seconds */
    if (!(x->generation && x->generation->request.no_log) && !quiet) log_line(x);
    tx__generation_release(x->generation);
    tx_str_free(&x->body);
    tx_str_free(&x->out);
    tx_free(x);
    *state = NULL;
    atomic_fetch_sub(&s->open, 1);
}

void tx__http_connection(void *user, struct MHD_Connection *connection, void **link,
                         enum MHD_ConnectionNotificationCode code)
{
    tx__server *s = user;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *link = tx__connection_opened(&s->connections, fd->connect_fd);
    } else if (*link) {
        tx__connection_closed(&s->connections, *link);
        *link = NULL;
    }
}
