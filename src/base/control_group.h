/* control_group.h - the limits of this process's Linux control groups (v1 and v2, including all parents). */
#ifndef TX_BASE_CONTROL_GROUP_H
#define TX_BASE_CONTROL_GROUP_H

#include <stddef.h>

/* The smallest limit of the groups that <root>/proc/self/cgroup names, under <root>/sys/fs/cgroup; 0: there is none.
 * Root is "" except in tests. Memory is in bytes, processor time in thousandths of a processor. */
size_t tx_cgroup_memory(const char *root);
size_t tx_cgroup_processors(const char *root);

/* Reads the beginning of a small kernel file as text into buf, "" if it cannot be read. Uses no heap, since memory may
 * be short. Returns buf. */
const char *tx_read_small(char *buf, size_t cap, const char *path);

#endif
