/* control_group.c - walks from the process's groups up to the root and takes the least limit. */
#include "base/control_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *tx_read_small(char *buf, size_t cap, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, cap - 1) : 0;
    if (fd >= 0) close(fd);
    buf[n > 0 ? n : 0] = 0;
    return buf;
}

/* A controller: its name, and the limit that a group's folder states in either version; 0: none. */
typedef struct controller {
    const char *name;
    size_t (*v1)(const char *dir);
    size_t (*v2)(const char *dir);
} controller;

/* What a group's file says, as far as it fits into buf. */
static const char *file_of(char *buf, size_t cap, const char *dir, const char *file)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s", dir, file);
    buf[0] = 0;
    return len > 0 && (size_t)len < sizeof path ? tx_read_small(buf, cap, path) : buf;
}

/* The number at the beginning; 0 when there is none, as in "max" and "-1". */
static size_t number_in(const char *text, char **end)
{
    errno = 0;
    unsigned long long v = strtoull(text, end, 10);
    return errno || text[0] == '-' ? 0 : (size_t)v;
}

static size_t memory_v1(const char *dir)
{
    char text[64];
    return number_in(file_of(text, sizeof text, dir, "memory.limit_in_bytes"), NULL);
}

static size_t memory_v2(const char *dir)
{
    char text[64];
    return number_in(file_of(text, sizeof text, dir, "memory.max"), NULL);
}

/* Thousandths of a processor: the time that may be used in each period, over the period. */
static size_t share(size_t quota, size_t period)
{
    if (!quota || !period || quota > SIZE_MAX / 1000) return 0;
    size_t thousandths = quota * 1000 / period;
    return thousandths ? thousandths : 1;
}

static size_t cpu_v1(const char *dir)
{
    char quota[64], period[64];
    return share(number_in(file_of(quota, sizeof quota, dir, "cpu.cfs_quota_us"), NULL),
                 number_in(file_of(period, sizeof period, dir, "cpu.cfs_period_us"), NULL));
}

static size_t cpu_v2(const char *dir)
{
    char text[64], *period;
    size_t quota = number_in(file_of(text, sizeof text, dir, "cpu.max"), &period);
    return share(quota, number_in(period, NULL));
}

static const controller memory = { "memory", memory_v1, memory_v2 }, cpu = { "cpu", cpu_v1, cpu_v2 };

/* Of two limits, where 0 is none. */
static size_t least(size_t a, size_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* A group's limit, and those of the groups that it is in. In a container the path is the host's and often is not there:
 * then it ends at the mount's own root, which is the container's group. */
static size_t limit_upwards(const char *mount, const char *group, size_t (*limit_of)(const char *dir))
{
    char path[4096];
    size_t limit = 0;
    for (size_t n = strlen(group);; n--) {
        if (n && group[n - 1] == '/') continue;
        if (n && group[n] && group[n] != '/') continue;
        int len = snprintf(path, sizeof path, "%s%.*s", mount, (int)n, group);
        if (len > 0 && (size_t)len < sizeof path) limit = least(limit, limit_of(path));
        if (!n) return limit;
    }
}

/* Whether "cpu,memory" holds "memory". */
static bool has(const char *controllers, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strstr(controllers, name); at; at = strstr(at + n, name))
        if ((at == controllers || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

static size_t least_limit(const char *root, const controller *which)
{
    char text[8192], path[1024], v1[1024];
    size_t limit = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    tx_read_small(text, sizeof text, path);
    snprintf(path, sizeof path, "%s/sys/fs/cgroup", root);
    snprintf(v1, sizeof v1, "%s/sys/fs/cgroup/%s", root, which->name);
    char *rest = NULL; /* lines are "0::/group" of v2, "4:memory:/group" of v1 */
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        if (!*controllers)
            limit = least(limit, limit_upwards(path, group, which->v2));
        else if (has(controllers, which->name))
            limit = least(limit, limit_upwards(v1, group, which->v1));
    }
    return limit;
}

size_t tx_cgroup_memory(const char *root)
{
    return least_limit(root, &memory);
}

size_t tx_cgroup_processors(const char *root)
{
    return least_limit(root, &cpu);
}
