/* counters.c - counts what the server does. */
#include "serve/counters.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/generation.h"

static const double bounds[TX__BOUNDS] = { .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300 };

void tx__counters_init(tx__counters *c)
{
    *c = (tx__counters){ .started = tx_clock_unix() };
    pthread_mutex_init(&c->lock, NULL);
}

void tx__counters_deinit(tx__counters *c)
{
    pthread_mutex_destroy(&c->lock);
}

void tx__counters_set(tx__counters *c, tx__gauge gauge, int64_t value)
{
    pthread_mutex_lock(&c->lock);
    c->gauge[gauge] = value;
    pthread_mutex_unlock(&c->lock);
}

void tx__counters_answered(tx__counters *c, const char *path, unsigned code)
{
    pthread_mutex_lock(&c->lock);
    tx__answered *a = c->answered, *end = c->answered + TX__CODES;
    while (a < end && a->path && (a->code != code || strcmp(a->path, path))) a++;
    if (a < end) {
        a->path = path;
        a->code = code;
        a->n++;
    }
    pthread_mutex_unlock(&c->lock);
}

static void add(tx__histogram *h, double seconds)
{
    int i = 0;
    while (i < TX__BOUNDS && seconds > bounds[i]) i++;
    h->n[i]++;
    h->count++;
    h->sum += seconds;
}

void tx__counters_ended(tx__counters *c, const struct tx__generation *g)
{
    pthread_mutex_lock(&c->lock);
    c->prompt_tokens += (uint64_t)tx__generation_prompt_tokens(g);
    c->new_tokens += (uint64_t)tx__generation_new_tokens(g);
    if (g->end == TX__CANCELLED) c->cancelled++;
    if (g->end == TX__COMPLETE) add(&c->request, tx_clock() - g->created);
    if (g->first_token > 0) add(&c->first_token, g->first_token - g->created);
    pthread_mutex_unlock(&c->lock);
}

/* ---------------------------------------------------------------- the text */

static tx_status head(tx_str *out, const char *name, const char *type, const char *help)
{
    return tx_str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static tx_status one(tx_str *out, const char *name, const char *type, const char *help, double value)
{
    TX_TRY(head(out, name, type, help));
    return tx_str_printf(out, "%s %.15g\n", name, value);
}

static tx_status histogram(tx_str *out, const char *name, const char *help, const tx__histogram *h)
{
    uint64_t n = 0;
    TX_TRY(head(out, name, "histogram", help));
    for (int i = 0; i < TX__BOUNDS; i++) {
        n += h->n[i];
        TX_TRY(tx_str_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)n));
    }
    return tx_str_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                         (unsigned long long)h->count, name, h->sum, name, (unsigned long long)h->count);
}

static double resident_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    if (fscanf(f, "%*s %lld", &pages) != 1) pages = 0;
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static tx_status text(const tx__counters *c, tx_str *out)
{
    TX_TRY(head(out, "triax_http_requests_total", "counter", "Requests answered, by path and status code."));
    for (const tx__answered *a = c->answered; a < c->answered + TX__CODES && a->path; a++)
        TX_TRY(tx_str_printf(out, "triax_http_requests_total{path=\"%s\",code=\"%u\"} %llu\n", a->path, a->code,
                             (unsigned long long)a->n));
    TX_TRY(one(out, "triax_prompt_tokens_total", "counter", "Tokens of prompts.", (double)c->prompt_tokens));
    TX_TRY(one(out, "triax_generated_tokens_total", "counter", "Tokens made.", (double)c->new_tokens));
    TX_TRY(one(out, "triax_requests_cancelled_total", "counter",
               "Requests whose client went away or whose server ended.", (double)c->cancelled));
    TX_TRY(one(out, "triax_requests_waiting", "gauge", "Requests with a text that has not begun.",
               (double)c->gauge[TX__REQUESTS_WAITING]));
    TX_TRY(one(out, "triax_texts_running", "gauge", "Texts that are being made.", (double)c->gauge[TX__TEXTS_RUNNING]));
    TX_TRY(histogram(out, "triax_request_seconds", "From a request to its last token.", &c->request));
    TX_TRY(histogram(out, "triax_first_token_seconds", "From a request to its first token.", &c->first_token));
    TX_TRY(one(out, "process_resident_memory_bytes", "gauge", "Memory of the process.", resident_bytes()));
    return one(out, "process_start_time_seconds", "gauge", "Since 1970, UTC.", c->started);
}

tx_status tx__counters_text(tx__counters *c, tx_str *out)
{
    pthread_mutex_lock(&c->lock);
    tx_status st = text(c, out);
    pthread_mutex_unlock(&c->lock);
    return st;
}
