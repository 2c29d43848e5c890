/* control_group.h - what Linux' control groups (v1 and v2, all the way up) allow this process. */
#ifndef TX_BASE_CONTROL_GROUP_H
#define TX_BASE_CONTROL_GROUP_H

#include <stddef.h>

/* The least limit of the groups that <root>/proc/self/cgroup names, under <root>/sys/fs/cgroup; 0: none. Root is "" but
 * in tests. Memory in bytes; processor time in thousandths of a processor. */
size_t tx_cgroup_memory(const char *root);
size_t tx_cgroup_processors(const char *root);

/* The beginning of a small file of the kernel's as text, "" when it cannot be read. Without the heap: there may be
 * little of it. Returns buf. */
const char *tx_read_small(char *buf, size_t cap, const char *path);

#endif
