/* log.h - where the library's messages go.
 *
 * The library prints nothing by itself. A program that wants to see messages installs one sink. The sink receives one
 * complete line per call, without a newline at the end. Calls come from any thread, but never two at a time. */
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
    TX_LOG_PROGRESS /* a line that the next one replaces, for terminals only; not filtered by level */
} tx_log_level;

typedef void tx_log_sink(void *user, tx_log_level level, const char *line);

/* Installs the sink for the whole process (NULL: none) and the most verbose level that reaches it. */
TX_API void tx_log_set(tx_log_sink *sink, void *user, tx_log_level level);

/* Whether TX_LOG_PROGRESS lines reach the sink; at first they do. While they do, preprocess-data omits its lines
 * "Processed N documents", unless --log-interval is given. */
TX_API void tx_log_set_live(bool live);

#ifdef __cplusplus
}
#endif
#endif
