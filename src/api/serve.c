/* serve.c - the whole of `triax serve`. */
#include "triax/serve.h"

#include <string.h>
#include <unistd.h>

#include "api/inference.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/signals.h"
#include "serve/server.h"

#define TOKEN_FILE_MAX ((size_t)64 << 10)

/* --auth-token, or the first line of --auth-token-file. *out is owned; NULL: none is asked for. */
static tx_status read_token(const tx_config *cfg, char **out)
{
    tx_str file = { 0 };
    if (cfg->auth_token) return tx_memdup0(out, cfg->auth_token, strlen(cfg->auth_token), "the token");
    if (!cfg->auth_token_file) return TX_OK;
    TX_TRY(tx_file_read(cfg->auth_token_file, TOKEN_FILE_MAX, &file));
    size_t n = 0;
    while (n < file.len && file.data[n] > ' ' && file.data[n] < 0x7F) n++;
    bool alone = n && (n == file.len || file.data[n] == '\n' || file.data[n] == '\r');
    tx_status st = alone ? tx_memdup0(out, file.data, n, "the token")
                         : TX_FAIL(TX_ERR_FORMAT,
                                   "--auth-token-file %s: its first line is to be a token of visible ASCII characters",
                                   cfg->auth_token_file);
    tx_str_free(&file);
    return st;
}

/* "models/gpt2-small/" -> "gpt2-small". *out is owned. */
static tx_status name_of(const tx_config *cfg, char **out)
{
    const char *path = cfg->served_model_name ? cfg->served_model_name : cfg->load;
    size_t end = strlen(path);
    if (cfg->served_model_name) return tx_memdup0(out, path, end, "the model's name");
    while (end > 1 && path[end - 1] == '/') end--;
    size_t from = end;
    while (from && path[from - 1] != '/') from--;
    return tx_memdup0(out, path + from, end - from, "the model's name");
}

typedef struct plan {
    tx_server_opts opts;
    char *token, *name, *url;
    int64_t max_len;
    int fd; /* -1: none */
} plan;

static void plan_free(plan *p)
{
    if (p->fd >= 0) close(p->fd);
    tx_free(p->token);
    tx_free(p->name);
    tx_free(p->url);
}

/* Flags that upstream's script takes and does not use either. */
static void tell_unused(const tx_config *c)
{
    const tx_config_given *g = &c->given;
    if (g->temperature || g->top_k || g->top_p || g->greedy || g->out_seq_length)
        tx_info("--temperature, --top_k, --top_p, --greedy, --out-seq-length: each request brings its own");
}

/* Everything that can be wrong before memory is taken; the leader's. */
static tx_status make_plan(plan *p, const tx_inference *f)
{
    const tx_config *c = f->cfg;
    int64_t positions = f->model->max_positions;
    p->max_len = c->max_context ? c->max_context : positions;
    if (p->max_len > positions)
        return TX_FAIL(TX_ERR_ARG, "--max-context %lld: the model has %lld positions", (long long)p->max_len,
                       (long long)positions);
    tell_unused(c);
    TX_TRY(read_token(c, &p->token));
    TX_TRY(name_of(c, &p->name));
    p->opts = (tx_server_opts){ .host = c->host,
                                .port = (int)c->port,
                                .model_name = p->name,
                                .tok = f->tok,
                                .max_queue = c->max_queue,
                                .max_tokens = c->max_tokens ? c->max_tokens : p->max_len,
                                .request_seconds = c->request_timeout,
                                .read_seconds = c->read_timeout,
                                .shutdown_seconds = c->shutdown_timeout,
                                .auth_token = p->token };
    if (!tx_size_parse(c->max_body, &p->opts.max_body)) return TX_FAIL(TX_ERR_ARG, "--max-body %s", c->max_body);
    TX_TRY(tx_server_listen(&p->fd, &p->url, &p->opts));
    bool here = strstr(p->url, "//127.") || strstr(p->url, "//[::1]");
    if (!here && !p->token)
        tx_warn("--host %s can be reached from other machines, and without --auth-token-file anybody may use it",
                c->host);
    return TX_OK;
}

tx_status tx_serve(tx_config *cfg)
{
    tx_inference f = { 0 };
    plan p = { .fd = -1 };
    tx_status st = tx_inference_open(&f, cfg, TX_USE_CONTINUES);
    if (!st) {
        st = f.leads ? make_plan(&p, &f) : TX_OK;
        tx_signals_hold(true); /* all ranks: launchers tell every one of them, by SIGUSR1 */
        st = tx_inference_start(&f, st, cfg->max_batch, p.max_len);
    }
    if (!st && f.leads) {
        int fd = p.fd;
        p.fd = -1;
        st = tx_server_run(&p.opts, f.decoder, fd, p.url);
    }
    tx_signals_release();
    plan_free(&p);
    return tx_inference_close(&f, st);
}
