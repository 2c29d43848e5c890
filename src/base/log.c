/* log.c - hands finished lines to the sink, one at a time. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tx_log_sink *sink;
static void *sink_user;
static tx_log_level sink_level = TX_LOG_INFO;
static bool sink_is_live = true;

void tx_log_set(tx_log_sink *new_sink, void *user, tx_log_level level)
{
    pthread_mutex_lock(&lock);
    sink = new_sink;
    sink_user = user;
    sink_level = level;
    pthread_mutex_unlock(&lock);
}

void tx_log_set_live(bool live)
{
    pthread_mutex_lock(&lock);
    sink_is_live = live;
    pthread_mutex_unlock(&lock);
}

int tx_log_wants(tx_log_level level)
{
    return sink && (level == TX_LOG_PROGRESS ? sink_is_live : level <= sink_level);
}

void tx_log(tx_log_level level, const char *fmt, ...)
{
    if (!tx_log_wants(level)) return;
    char line[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    tx_printable(line);
    pthread_mutex_lock(&lock);
    if (sink) sink(sink_user, level, line);
    pthread_mutex_unlock(&lock);
}
