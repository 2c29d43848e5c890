/* log.h - sends messages to the installed sink (triax/log.h). One call is one line. */
#ifndef TX_BASE_LOG_H
#define TX_BASE_LOG_H

#include <stdio.h>

#include "triax/log.h"

void tx_log(tx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For messages that are the same on all ranks: only rank 0 logs them, at any level. */
void tx_log_once(tx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define tx_warn(...)      tx_log(TX_LOG_WARN, __VA_ARGS__)
#define tx_warn_once(...) tx_log_once(TX_LOG_WARN, __VA_ARGS__)
#define tx_info(...)      tx_log(TX_LOG_INFO, __VA_ARGS__)
#define tx_debug(...)     tx_log(TX_LOG_DEBUG, __VA_ARGS__)
#define tx_trace(...)     tx_log(TX_LOG_TRACE, __VA_ARGS__)

#define TX_PROGRESS_SECONDS 0.5 /* between two live lines, TX_LOG_PROGRESS */

/* Declares this thread to be rank `rank` of several: below warnings only rank 0 logs, and other lines begin with "rank
 * 3: ". All lines also go to `copy`, an open file that the caller owns. rank < 0, NULL: ends that. */
void tx_log_rank(int rank, FILE *copy);

/* Whether a line of this level would reach a sink. Usually a single comparison, so that trace and debug lines can be
 * in the hot path. */
int tx_log_wants(tx_log_level level);

#endif
