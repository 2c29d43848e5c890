/* system_memory.h - how much memory this process can use. */
#ifndef TX_BASE_SYSTEM_MEMORY_H
#define TX_BASE_SYSTEM_MEMORY_H

#include <stddef.h>

/* The most memory that this process can have, in bytes: the smallest of the machine's memory, the limits of its
 * control groups (v1 and v2, including all parents), and its address space (ulimit -v). *whose is set to a word for
 * the one that limits; static. */
size_t tx_system_memory(const char **whose);

/* How much of that the process already uses: its address space if that is the limit, else its resident memory. 0:
 * unknown. */
size_t tx_system_memory_taken(void);

/* How much memory programs can allocate now without swapping; 0: unknown. */
size_t tx_system_memory_free(void);

#endif
