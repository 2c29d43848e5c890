/* clock.c - time. */
#include "base/clock.h"

#include <time.h>

double tx_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tx_clock_date(char buf[20])
{
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(buf, 20, "%Y-%m-%d %H:%M:%S", &tm);
}
