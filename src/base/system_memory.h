/* system_memory.h - how much memory there is for this process. */
#ifndef TX_BASE_SYSTEM_MEMORY_H
#define TX_BASE_SYSTEM_MEMORY_H

#include <stddef.h>

/* The most memory that this process can come to have, in bytes: the least of the machine's, of what its control groups
 * (v1 and v2, all the way up) allow and of its address space (ulimit -v). *whose becomes a word for which it is;
 * static.
 */
size_t tx_system_memory(const char **whose);

/* What the process has of that already: its address space where that is the limit, else what is in memory. 0: unknown.
 */
size_t tx_system_memory_taken(void);

/* What programs can take now without swapping; 0: unknown. */
size_t tx_system_memory_free(void);

#endif
