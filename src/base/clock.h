/* clock.h - time. */
#ifndef TX_BASE_CLOCK_H
#define TX_BASE_CLOCK_H

/* Seconds of a clock that never jumps; only differences mean something. */
double tx_clock(void);

/* Local date and time as "YYYY-mm-dd HH:MM:SS" into buf[20]. */
void tx_clock_date(char buf[20]);

#endif
