/* clock.c - time, and what the process has used. */
#include "base/clock.h"

#include <stdio.h>
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

const char *tx_duration_text(char buf[32], double seconds)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    const double most = 99999. * DAY;
    long long s = seconds < most ? (long long)(seconds > 0 ? seconds + 0.5 : 0) : (long long)most; /* NaN is the most */
    int minutes = (int)((s + MINUTE / 2) / MINUTE), hours = (int)((s + HOUR / 2) / HOUR);
    if (s < MINUTE)
        snprintf(buf, 32, "%d s", (int)s);
    else if (minutes < HOUR / MINUTE)
        snprintf(buf, 32, "%d min", minutes);
    else if (minutes < DAY / MINUTE)
        snprintf(buf, 32, "%d h %d min", minutes / 60, minutes % 60);
    else
        snprintf(buf, 32, "%d d %d h", hours / 24, hours % 24);
    return buf;
}

void tx_clock_date(char buf[20])
{
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(buf, 20, "%Y-%m-%d %H:%M:%S", &tm);
}
