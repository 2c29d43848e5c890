/* signals.h - noticing a signal without dying of it: the training loop asks between steps. */
#ifndef TX_BASE_SIGNALS_H
#define TX_BASE_SIGNALS_H

#include <stdbool.h>

/* From now on SIGTERM only sets a flag. Process-wide. */
void tx_signals_watch(void);

bool tx_signals_seen(void);

#endif
