/* log.c - hands finished lines to the sink, one at a time. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/status.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tx_log_sink *sink;
static void *sink_user;
static tx_log_level sink_level = TX_LOG_INFO;
static bool sink_is_live = true;

/* Of this thread, when it is one of several ranks. */
static _Thread_local int own_rank = -1;
static _Thread_local FILE *own_copy;

void tx_log_rank(int rank, FILE *copy)
{
    own_rank = rank;
    own_copy = copy;
}

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
    if (level > sink_level && level != TX_LOG_PROGRESS) return 0;
    if (own_rank > 0 && (level == TX_LOG_PROGRESS || level > TX_LOG_WARN)) return own_copy && level <= sink_level;
    return sink && (level == TX_LOG_PROGRESS ? sink_is_live : level <= sink_level);
}

/* To the file of a rank: all but the live line, with the time. */
static void write_copy(tx_log_level level, const char *line)
{
    char date[20];
    if (!own_copy || level == TX_LOG_PROGRESS) return;
    tx_clock_date(date);
    fprintf(own_copy, "%s %s%s\n", date,
            level == TX_LOG_ERROR  ? "error: "
            : level == TX_LOG_WARN ? "warning: "
                                   : "",
            line);
    fflush(own_copy);
}

/* @alone: rank 0 speaks for all */
static void say(tx_log_level level, bool alone, const char *fmt, va_list ap)
{
    if (!tx_log_wants(level)) return;
    char raw[4096], text[4096], line[4096 + 24];
    vsnprintf(raw, sizeof raw, fmt, ap);
    tx_printable(text, sizeof text, raw);
    bool others = own_rank > 0, told = !others || (!alone && (level == TX_LOG_WARN || level == TX_LOG_ERROR));
    if (others)
        snprintf(line, sizeof line, "rank %d: %s", own_rank, text);
    else
        snprintf(line, sizeof line, "%s", text);
    pthread_mutex_lock(&lock);
    write_copy(level, text);
    if (sink && told) sink(sink_user, level, line);
    pthread_mutex_unlock(&lock);
}

void tx_log(tx_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(level, false, fmt, ap);
    va_end(ap);
}

void tx_log_once(tx_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(level, true, fmt, ap);
    va_end(ap);
}
