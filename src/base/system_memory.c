/* system_memory.c - memory as the kernel tells it: sysconf, /proc/meminfo, control groups, rlimits. */
#include "base/system_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The beginning of a small file of the kernel's as text, "" when it cannot be read. Without the heap: there may be
 * little of it. */
static const char *read_small(char *buf, size_t cap, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, cap - 1) : 0;
    if (fd >= 0) close(fd);
    buf[n > 0 ? n : 0] = 0;
    return buf;
}

/* The number in a file; 0 when there is none, as in "max". */
static size_t number_in(const char *path)
{
    char text[64];
    errno = 0;
    unsigned long long v = strtoull(read_small(text, sizeof text, path), NULL, 10);
    return errno ? 0 : (size_t)v;
}

/* Of two limits, where 0 is none. */
static size_t least(size_t a, size_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* A group's limit, and those of the groups that it is in. In a container the path is the host's and often is not there:
 * then it ends at the mount's own root, which is the container's group. */
static size_t limit_upwards(const char *mount, const char *group, const char *file)
{
    char path[4096];
    size_t limit = 0;
    for (size_t n = strlen(group);; n--) {
        if (n && group[n - 1] == '/') continue;
        if (n && group[n] && group[n] != '/') continue;
        int len = snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)n, group, file);
        if (len > 0 && (size_t)len < sizeof path) limit = least(limit, number_in(path));
        if (!n) return limit;
    }
}

/* Whether "cpu,memory" holds "memory". */
static bool has_memory(const char *controllers)
{
    size_t n = strlen("memory");
    for (const char *at = strstr(controllers, "memory"); at; at = strstr(at + n, "memory"))
        if ((at == controllers || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

size_t tx__cgroup_limit(const char *root)
{
    char text[8192], path[1024], v1[1024];
    size_t limit = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    read_small(text, sizeof text, path);
    snprintf(path, sizeof path, "%s/sys/fs/cgroup", root);
    snprintf(v1, sizeof v1, "%s/sys/fs/cgroup/memory", root);
    char *rest = NULL; /* lines are "0::/group" of v2, "4:memory:/group" of v1 */
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        if (!*controllers)
            limit = least(limit, limit_upwards(path, group, "memory.max"));
        else if (has_memory(controllers))
            limit = least(limit, limit_upwards(v1, group, "memory.limit_in_bytes"));
    }
    return limit;
}

size_t tx_system_memory(const char **whose)
{
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), group = tx__cgroup_limit("");
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

size_t tx_system_memory_free(void)
{
    char text[8192];
    const char *at = strstr(read_small(text, sizeof text, "/proc/meminfo"), "MemAvailable:");
    return at ? (size_t)strtoull(at + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
}
