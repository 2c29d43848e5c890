/* clock.c - time, and what the process has used. */
#include "base/clock.h"

#include <sys/resource.h>
#include <time.h>

double tx_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double tx_clock_unix(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

long long tx_peak_resident_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (long long)u.ru_maxrss * 1024; /* Linux counts in KiB */
}

void tx_clock_date(char buf[20])
{
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(buf, 20, "%Y-%m-%d %H:%M:%S", &tm);
}
