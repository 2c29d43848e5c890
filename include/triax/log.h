/* log.h - where the library's messages go.
 *
 *  The library prints nothing by itself. A program that wants to see messages installs one sink; it is called with
 *  one complete line at a time (no newline at the end), from any thread, one call at a time. */
#ifndef TRIAX_LOG_H
#define TRIAX_LOG_H

#include <stdbool.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tx_log_level {
    TX_LOG_ERROR,
    TX_LOG_WARN,
    TX_LOG_INFO,
    TX_LOG_DEBUG,
    TX_LOG_TRACE,
    TX_LOG_PROGRESS /* a line that the next one replaces: only for a terminal; not filtered by level */
} tx_log_level;

typedef void tx_log_sink(void *user, tx_log_level level, const char *line);

/* Installs the sink for the whole process (NULL: none) and the most verbose level that reaches it. */
TX_API void tx_log_set(tx_log_sink *sink, void *user, tx_log_level level);

/* Whether TX_LOG_PROGRESS lines reach the sink, as they do at first. Where they do, preprocess-data leaves its lines
 * "Processed N documents" out, unless --log-interval asks for them. */
TX_API void tx_log_set_live(bool live);

#ifdef __cplusplus
}
#endif
#endif
