/* counters.h - counts what the server does, for GET /metrics in the text format of Prometheus. Thread-safe.
 * Shared inside this room. */
#ifndef TX_SERVE_COUNTERS_H
#define TX_SERVE_COUNTERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct tx__generation;

typedef enum tx__gauge { TX__REQUESTS_WAITING, TX__TEXTS_RUNNING, TX__N_GAUGES } tx__gauge;

enum { TX__CODES = 24, TX__BOUNDS = 14 };

/* Times in seconds: how many are within each bound and above the one before it, and how many above all. */
typedef struct tx__histogram {
    uint64_t n[TX__BOUNDS + 1], count;
    double sum;
} tx__histogram;

/* Requests of one path that were answered with one status code. */
typedef struct tx__answered {
    const char *path; /* static */
    unsigned code;
    uint64_t n;
} tx__answered;

typedef struct tx__counters {
    pthread_mutex_t lock;
    double started;
    int64_t gauge[TX__N_GAUGES];
    tx__answered answered[TX__CODES];
    uint64_t prompt_tokens, new_tokens, cancelled;
    tx__histogram request, first_token;
} tx__counters;

void tx__counters_init(tx__counters *c);
void tx__counters_deinit(tx__counters *c);

void tx__counters_set(tx__counters *c, tx__gauge gauge, int64_t value);
void tx__counters_answered(tx__counters *c, const char *path, unsigned code);
void tx__counters_ended(tx__counters *c, const struct tx__generation *g);

tx_status tx__counters_text(tx__counters *c, tx_str *out);

#endif
