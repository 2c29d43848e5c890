/* cores.c - the machine as hwloc knows it, and what OpenMP's runtime says of its threads. */
#include "base/cores.h"

#include <hwloc.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/control_group.h"
#include "base/launched.h"

/* ---- launchers ---- */

tx_local_rank tx_local_rank_find(void)
{
    tx_launched l = tx_launched_find();
    return (tx_local_rank){ l.local_rank, l.n_local };
}

/* ---- the machine ---- */

static tx_status open_machine(hwloc_topology_t *out)
{
    if (hwloc_topology_init(out)) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the machine's topology");
    if (!hwloc_topology_load(*out)) return TX_OK;
    hwloc_topology_destroy(*out);
    return TX_FAIL(TX_ERR_NOTFOUND, "hwloc cannot tell which cores this machine has");
}

/* Takes the allowed processors of each core, in hwloc's order, which goes through a package before the next. */
static tx_status list_cores(tx_cores *out, hwloc_topology_t machine, hwloc_const_cpuset_t allowed)
{
    int n = hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_CORE);
    hwloc_obj_type_t type = n > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU; /* some virtual machines tell of no cores */
    n = hwloc_get_nbobjs_by_type(machine, type);
    TX_TRY(tx_alloc(&out->core, n > 0 ? (size_t)n : 1, sizeof *out->core, "the list of cores"));
    for (int i = 0; i < n; i++) {
        hwloc_const_cpuset_t all = hwloc_get_obj_by_type(machine, type, (unsigned)i)->cpuset;
        tx_core *c = &out->core[out->n];
        for (int p = hwloc_bitmap_first(all); p >= 0; p = hwloc_bitmap_next(all, p))
            if (hwloc_bitmap_isset(allowed, (unsigned)p) && c->n_processors < TX_CORE_PROCESSORS)
                c->processor[c->n_processors++] = p;
        out->n += c->n_processors > 0;
    }
    return out->n ? TX_OK : TX_FAIL(TX_ERR_NOTFOUND, "hwloc finds no core that this process may use");
}

void tx_cores_share(int *lo, int *hi, int n_cores, tx_local_rank local)
{
    *lo = (int)((int64_t)n_cores * local.rank / local.n);
    *hi = (int)((int64_t)n_cores * (local.rank + 1) / local.n);
    if (*hi == *lo) ++*hi;
}

/* This process's part of cores that several have. */
static void divide(tx_cores *c, tx_local_rank local)
{
    int lo, hi;
    tx_cores_share(&lo, &hi, c->n, local);
    c->shared = c->n >= local.n;
    c->crowded = !c->shared;
    for (int i = lo; i < hi; i++) c->core[i - lo] = c->core[i];
    c->n = hi - lo;
}

/* Whether that mask is the launcher's own, which it has left to all its processes. */
static bool is_launchers(hwloc_const_bitmap_t allowed)
{
    const char *told = getenv("TX_LAUNCHER_CPUS");
    hwloc_bitmap_t launchers = told && *told ? hwloc_bitmap_alloc() : NULL;
    bool same = launchers && !hwloc_bitmap_list_sscanf(launchers, told) && hwloc_bitmap_isequal(launchers, allowed);
    hwloc_bitmap_free(launchers);
    return same;
}

tx_status tx_cores_mask(tx_str *out)
{
    hwloc_topology_t machine;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    char *list = NULL;
    if (!allowed) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for an affinity mask");
    tx_status st = open_machine(&machine);
    if (!st) {
        if (!hwloc_get_cpubind(machine, allowed, HWLOC_CPUBIND_PROCESS) &&
            !hwloc_bitmap_isincluded(hwloc_topology_get_topology_cpuset(machine), allowed) &&
            hwloc_bitmap_list_asprintf(&list, allowed) >= 0)
            st = tx_str_puts(out, list);
        hwloc_topology_destroy(machine);
    }
    free(list);
    hwloc_bitmap_free(allowed);
    return st;
}

tx_status tx_cores_find(tx_cores *out, const char *mask, tx_local_rank local, const char *cgroup_root)
{
    tx_cores c = { 0 };
    hwloc_topology_t machine;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (!allowed) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for an affinity mask");
    tx_status st = open_machine(&machine);
    if (st) {
        hwloc_bitmap_free(allowed);
        return st;
    }
    hwloc_const_cpuset_t all = hwloc_topology_get_topology_cpuset(machine); /* what the control group's cpuset leaves */
    bool unknown =
        mask ? hwloc_bitmap_list_sscanf(allowed, mask) : hwloc_get_cpubind(machine, allowed, HWLOC_CPUBIND_PROCESS);
    if (unknown) hwloc_bitmap_copy(allowed, all);
    TX_GOTO(list_cores(&c, machine, allowed));
    if (local.n > 1 && (hwloc_bitmap_isincluded(all, allowed) || is_launchers(allowed)))
        divide(&c, local); /* else the launcher has done so */
    size_t quota = tx_cgroup_processors(cgroup_root) / (size_t)local.n, threads = (quota + 999) / 1000;
    c.n_threads = threads && threads < (size_t)c.n ? (int)threads : c.n;
    *out = c;
out:
    if (st) tx_cores_free(&c);
    hwloc_topology_destroy(machine);
    hwloc_bitmap_free(allowed);
    return st;
}

void tx_cores_free(tx_cores *c)
{
    tx_free(c->core);
    *c = (tx_cores){ 0 };
}

bool tx_cores_bind(const tx_cores *c, int n_threads)
{
    return !c->crowded && (n_threads == c->n || (c->shared && n_threads < c->n));
}

tx_status tx_cores_places(tx_str *out, const tx_cores *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < c->core[i].n_processors; k++)
            TX_TRY(tx_str_printf(out, "%s%d%s",
                                 k   ? ","
                                 : i ? ",{"
                                     : "{",
                                 c->core[i].processor[k], k == c->core[i].n_processors - 1 ? "}" : ""));
    return TX_OK;
}

/* ---- the threads ---- */

/* Looked up once: it takes ten milliseconds, and what a process may use rarely changes. */
tx_status tx_default_threads(int *out)
{
    static _Atomic int found;
    *out = omp_get_max_threads();
    if (getenv("OMP_NUM_THREADS") || omp_get_proc_bind() != omp_proc_bind_false) return TX_OK;
    if (!found) {
        tx_cores c;
        tx_status st = tx_cores_find(&c, NULL, tx_local_rank_find(), "");
        if (st) return st == TX_ERR_NOMEM ? st : TX_OK; /* a machine that hwloc does not know: OpenMP's own count */
        found = c.n_threads;
        tx_cores_free(&c);
    }
    if (found < *out) *out = found;
    return TX_OK;
}

/* The first processor of the i-th thread's place; -1: unknown. */
static int first_processor(int i)
{
    int n = omp_get_num_places(), place = n > 0 ? i % n : 0, id[1024];
    int n_ids = n > 0 ? omp_get_place_num_procs(place) : 0;
    if (n_ids < 1 || n_ids > 1024) return -1;
    omp_get_place_proc_ids(place, id);
    return id[0];
}

void tx_thread_stand_back(void)
{
    cpu_set_t all;
    int id[1024];
    CPU_ZERO(&all);
    for (int n = omp_get_num_places(), i = 0; i < n; i++) {
        int n_ids = omp_get_place_num_procs(i);
        if (n_ids < 1 || n_ids > 1024) continue;
        omp_get_place_proc_ids(i, id);
        for (int k = 0; k < n_ids; k++)
            if (id[k] >= 0 && id[k] < CPU_SETSIZE) CPU_SET((size_t)id[k], &all);
    }
    if (CPU_COUNT(&all)) sched_setaffinity(0, sizeof all, &all);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10); /* of Linux this is the thread's alone */
}

static void bind_to(const tx_core *core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < core->n_processors; i++)
        if (core->processor[i] < CPU_SETSIZE) CPU_SET((size_t)core->processor[i], &set);
    sched_setaffinity(0, sizeof set, &set); /* where it may not: free to move */
}

tx_status tx_cores_bind_team(tx_local_rank local, int n_threads)
{
    tx_cores c;
    int lo, hi;
    if (omp_get_proc_bind() != omp_proc_bind_false) return TX_OK;
    tx_status st = tx_cores_find(&c, NULL, (tx_local_rank){ 0, 1 }, "");
    if (st) return st == TX_ERR_NOMEM ? st : TX_OK;
    tx_cores_share(&lo, &hi, c.n, local);
    if (local.n * n_threads <= c.n && n_threads <= hi - lo) {
#pragma omp parallel num_threads(n_threads)
        bind_to(&c.core[lo + omp_get_thread_num()]);
    }
    tx_cores_free(&c);
    return TX_OK;
}

/* " on cores 0-1, node 0" of the places, behind what buf holds already. */
static void describe_places(char *buf, size_t cap, int n_threads)
{
    hwloc_topology_t machine;
    hwloc_bitmap_t cores = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
    char core_list[256] = "", node_list[64] = "";
    for (int i = 0, p; cores && i < n_threads; i++)
        if ((p = first_processor(i)) >= 0) hwloc_bitmap_set(cores, (unsigned)p);
    if (cores) hwloc_bitmap_list_snprintf(core_list, sizeof core_list, cores);
    if (cores && nodes && !open_machine(&machine)) {
        hwloc_cpuset_to_nodeset(machine, cores, nodes);
        hwloc_bitmap_list_snprintf(node_list, sizeof node_list, nodes);
        hwloc_topology_destroy(machine);
    }
    snprintf(buf, cap, " on core%s %s%s%s", n_threads > 1 ? "s" : "", core_list, *node_list ? ", node " : "",
             node_list);
    hwloc_bitmap_free(cores);
    hwloc_bitmap_free(nodes);
}

void tx_threads_describe(char *buf, size_t cap, int n_threads)
{
    int n = snprintf(buf, cap, "%d thread%s", n_threads, n_threads == 1 ? "" : "s");
    if (n < 0 || (size_t)n >= cap) return;
    if (omp_get_proc_bind() != omp_proc_bind_false && first_processor(0) >= 0)
        describe_places(buf + n, cap - (size_t)n, n_threads);
    else
        snprintf(buf + n, cap - (size_t)n, ", free to move among %d processors", omp_get_num_procs());
}
