/* clock.h - time, and the process's peak memory. */
#ifndef TX_BASE_CLOCK_H
#define TX_BASE_CLOCK_H

/* Seconds of a monotonic clock; only differences are meaningful. */
double tx_clock(void);

/* Seconds since 1970, UTC. */
double tx_clock_unix(void);

/* Peak resident memory of the process in bytes, including libraries and the used parts of mapped files. */
long long tx_peak_resident_bytes(void);

/* A duration in its two largest units: "45 s", "12 min", "2 h 2 min", "3 d 4 h". */
const char *tx_duration_text(char buf[32], double seconds);

/* Local date and time as "YYYY-mm-dd HH:MM:SS" into buf[20]. */
void tx_clock_date(char buf[20]);

#endif
