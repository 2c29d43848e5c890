/* log.h - sends messages to the installed sink (triax/log.h). One call is one line. */
#ifndef TX_BASE_LOG_H
#define TX_BASE_LOG_H

#include <stdio.h>

#include "triax/log.h"

void tx_log(tx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line that is the same on all ranks of a job: only rank 0 logs it, at any level. */
void tx_log_once(tx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define tx_warn(...)      tx_log(TX_LOG_WARN, __VA_ARGS__)
#define tx_warn_once(...) tx_log_once(TX_LOG_WARN, __VA_ARGS__)
#define tx_info(...)      tx_log(TX_LOG_INFO, __VA_ARGS__)
#define tx_debug(...)     tx_log(TX_LOG_DEBUG, __VA_ARGS__)
#define tx_trace(...)     tx_log(TX_LOG_TRACE, __VA_ARGS__)

#define TX_PROGRESS_SECONDS 0.5 /* between two live lines, TX_LOG_PROGRESS */

/* This thread is rank `rank` of several. Lines below warnings are logged by rank 0 only; other lines get the prefix
 * "rank 3: ". With `copy`, an open file of the caller's, all of its lines are written there, too. rank < 0, NULL: as
 * before. */
void tx_log_rank(int rank, FILE *copy);

/* Whether a line of this level would reach a sink. Where it would not, the test usually costs one comparison, so that
 * trace and debug lines may stand in the hot path. */
int tx_log_wants(tx_log_level level);

#endif
