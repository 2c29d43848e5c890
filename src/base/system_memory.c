/* system_memory.c - memory as the kernel tells it: sysconf, /proc/meminfo, control groups, rlimits. */
#include "base/system_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/control_group.h"

size_t tx_system_memory(const char **whose)
{
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), group = tx_cgroup_memory("");
    struct rlimit space;
    *whose = "this machine has";
    if (group && group < machine) {
        *whose = "its control group allows";
        machine = group;
    }
    if (!getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY && space.rlim_cur < machine) {
        *whose = "ulimit -v allows";
        machine = (size_t)space.rlim_cur;
    }
    return machine;
}

size_t tx_system_memory_taken(void)
{
    char text[256], *rest;
    const char *whose;
    tx_system_memory(&whose);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t space = (size_t)strtoull(tx_read_small(text, sizeof text, "/proc/self/statm"), &rest, 10) * page;
    return strstr(whose, "ulimit") ? space : (size_t)strtoull(rest, NULL, 10) * page;
}

size_t tx_system_memory_free(void)
{
    char text[8192];
    const char *at = strstr(tx_read_small(text, sizeof text, "/proc/meminfo"), "MemAvailable:");
    return at ? (size_t)strtoull(at + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
}
