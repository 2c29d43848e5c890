/* ranks.c - the ranks of a job. */
#include "api/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "api/gpus.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/launched.h"
#include "base/log.h"

/* Ranks that are shown one by one; of more only the hosts. */
enum { MAX_SHOWN = 64 };

int tx_launched_rank(void)
{
    tx_launched l = tx_launched_find();
    if (l.size > 1) tx_log_rank(l.rank, NULL);
    return l.size > 1 ? l.rank : 0;
}

tx_status tx_launched_alone(void)
{
    tx_launched l = tx_launched_find();
    if (l.size <= 1) return TX_OK;
    return TX_FAIL(
        TX_ERR_ARG,
        "is done by one process, which has all threads, and %s has started %d: start it without; checkpoints "
        "of any number of ranks are read",
        l.by, l.size);
}

/* ---- the same options ---- */

/* All options that were given, sorted as the table is, one a line. */
static tx_status options_text(const tx_config *cfg, tx_str *out)
{
    json_t *flags, *flag;
    size_t i;
    TX_TRY(tx_config_to_flags(cfg, (const char *const[]){ NULL }, &flags));
    tx_status st = TX_OK;
    json_array_foreach(flags, i, flag)
    {
        if (!st) st = tx_str_printf(out, "%s\n", json_string_value(flag));
    }
    json_decref(flags);
    return st;
}

/* The first line in which two texts differ, of each. */
static void first_difference(const char *a, const char *b, int *n_a, int *n_b, const char **at_a, const char **at_b)
{
    for (;;) {
        size_t i = strcspn(a, "\n"), k = strcspn(b, "\n");
        *at_a = a, *n_a = (int)i;
        *at_b = b, *n_b = (int)k;
        if (i != k || memcmp(a, b, i) != 0 || !a[i]) return;
        a += i + 1;
        b += k + 1;
    }
}

/* Rank 0's text beside this rank's, which differs on some rank. */
static tx_status find_difference(tx_comm *world, const tx_str *mine)
{
    char *theirs;
    size_t n = mine->len;
    TX_TRY(tx_comm_spread(world, &n, sizeof n, 0));
    TX_TRY(tx_alloc(&theirs, n + 1, 1, "the options of rank 0"));
    if (tx_comm_rank(world) == 0) memcpy(theirs, mine->data, n);
    tx_status st = tx_comm_spread(world, theirs, n, 0);
    if (!st && (n != mine->len || memcmp(theirs, mine->data, n) != 0)) {
        const char *a, *b;
        int n_a, n_b;
        first_difference(theirs, mine->data, &n_a, &n_b, &a, &b);
        st = TX_FAIL(TX_ERR_ARG, "this rank was started with other options than rank 0: \"%.*s\", there \"%.*s\"", n_b,
                     b, n_a, a);
    }
    tx_free(theirs);
    return tx_comm_agree(world, st);
}

static tx_status compare_options(tx_comm *world, const tx_config *cfg)
{
    tx_str text = { 0 };
    uint64_t *all = NULL, hash;
    int n = tx_comm_size(world);
    bool same = true;
    tx_status st;
    if (n == 1) return TX_OK;
    TX_GOTO(options_text(cfg, &text));
    TX_GOTO(tx_alloc(&all, (size_t)n, sizeof *all, "the ranks' options"));
    hash = XXH3_64bits(text.data ? text.data : "", text.len);
    TX_GOTO(tx_comm_gather(world, all, &hash, sizeof hash));
    for (int i = 1; i < n; i++) same = same && all[i] == all[0];
    if (!same) st = find_difference(world, &text);
out:
    tx_str_free(&text);
    tx_free(all);
    return st;
}

/* ---- opening and ending ---- */

static tx_status open_log(tx_ranks *r, const tx_config *cfg)
{
    char name[32], path[4096];
    int rank = tx_world_rank(r->world);
    if (cfg->log_dir) {
        snprintf(name, sizeof name, "rank_%05d.log", rank);
        TX_TRY(tx_make_dirs(cfg->log_dir));
        TX_TRY(tx_path_join(path, sizeof path, cfg->log_dir, name));
        r->log = fopen(path, "ae");
        if (!r->log) return TX_FAIL(TX_ERR_IO, "--log-dir: cannot write %s: %m", path);
    }
    if (tx_world_size(r->world) > 1 || r->log) tx_log_rank(rank, r->log);
    return TX_OK;
}

static tx_status check_size(const tx_world *w, const tx_config *cfg)
{
    if (tx_world_size(w) == cfg->world_size) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "--world-size %lld, but %d ranks are running: start as many (mpirun -n %lld triax ..., or triax "
                   "torchrun), or leave the flag out",
                   (long long)cfg->world_size, tx_world_size(w), (long long)cfg->world_size);
}

tx_status tx_ranks_join(tx_ranks *r, const tx_config *cfg, tx_world *given)
{
    *r = (tx_ranks){ .world = given, .owned = !given };
    if (!given) TX_TRY(tx_world_open(&r->world, cfg->shared_memory));
    tx_world_set_timeout(r->world, tx_config_timeout(cfg));
    tx_comm *world = tx_world_comm(r->world);
    TX_TRY(tx_comm_agree(world, check_size(r->world, cfg)));
    if (!given) TX_TRY(tx_comm_agree(world, open_log(r, cfg)));
    return compare_options(world, cfg);
}

tx_status tx_ranks_open(tx_ranks *r, const tx_config *cfg, tx_world *given, const tx_rank_place *place)
{
    TX_TRY(tx_ranks_join(r, cfg, given));
    const tx_layout layout = tx_layout_of(cfg);
    TX_TRY(tx_grid_open(&r->grid, r->world, &layout, place));
    return tx_grid_choose_work(&r->grid, cfg->device);
}

static void sleep_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

/* Whoever knows the cause speaks first: the others' errors follow from it, and where all have the same, rank 0's will
 * do. */
static void fail_together(tx_ranks *r, tx_status st)
{
    char why[8192];
    int rank = tx_world_rank(r->world);
    snprintf(why, sizeof why, "%s", tx_last_error());
    sleep_ms(st == TX_ERR_COMM ? 1000 : rank ? 200 : 0);
    if (!tx_world_aborted(r->world)) {
        for (const char *line = why, *end; *line; line = *end ? end + 1 : end) { /* a table has several */
            end = line + strcspn(line, "\n");
            tx_log(TX_LOG_ERROR, "%.*s", (int)(end - line), line);
        }
        tx_world_abort(r->world, why);
    }
    sleep_ms(5000); /* the launcher ends this process */
    (void)TX_FAIL_LINES(st, "%s", why);
}

static void end_log(tx_ranks *r, int rank)
{
    if (!r->log) return;
    tx_log_rank(rank, NULL);
    fclose(r->log);
}

void tx_ranks_leave(tx_ranks *r, bool in_step)
{
    int rank = r->world ? tx_world_rank(r->world) : -1;
    if (in_step || r->owned) tx_grid_close(&r->grid); /* else with the world, when no other rank is in a call */
    if (in_step && r->owned) tx_world_close(r->world);
    end_log(r, rank);
    *r = (tx_ranks){ 0 };
}

tx_status tx_ranks_close(tx_ranks *r, tx_status st)
{
    bool alone = !r->world || tx_world_size(r->world) == 1;
    if (st && r->owned && !alone) fail_together(r, st);
    tx_ranks_leave(r, !st || alone);
    return st;
}

/* ---- where they sit ---- */

static void show_hosts(const tx_ranks *r)
{
    int n = tx_world_size(r->world);
    for (int i = 0; i < n; i++) {
        const tx_seat *s = tx_world_seat(r->world, i);
        if (s->local_rank == 0) tx_info("    host %s: %d ranks, from rank %d on", s->host_name, s->n_local, i);
    }
}

/* What each rank has: its threads, its GPU. */
static void describe_mine(char *out, size_t cap, const tx_ranks *r, const char *threads, const tx_device *d)
{
    char gpu[256];
    tx_gpu_text(gpu, sizeof gpu, d, r->grid.work.n_sharing);
    snprintf(out, cap, "%.199s%s%.250s", threads, *gpu ? " | " : "", gpu);
}

/* Rank by rank. */
static tx_status show_each(const tx_ranks *r, const char *threads, const tx_device *d)
{
    char mine[460], *all;
    int n = tx_world_size(r->world);
    const tx_layout layout = tx_grid_layout(&r->grid);
    TX_TRY(tx_alloc(&all, (size_t)n, sizeof mine, "the ranks' threads"));
    describe_mine(mine, sizeof mine, r, threads, d);
    tx_status st = tx_comm_gather(tx_world_comm(r->world), all, mine, sizeof mine);
    for (int i = 0; i < n && !st; i++) {
        tx_grid g;
        char place[TX_PLACE_TEXT];
        tx_grid_place(&g, i, &layout);
        tx_info("    rank %2d: %s | host %s, number %d | %s", i, tx_grid_text(place, &g),
                tx_world_seat(r->world, i)->host_name, tx_world_seat(r->world, i)->local_rank,
                all + (size_t)i * sizeof mine);
    }
    tx_free(all);
    return st;
}

static void show_gpus(const tx_ranks *r, const tx_device *d)
{
    char gpu[256];
    if (!d) return;
    tx_gpu_text(gpu, sizeof gpu, d, 1);
    if (tx_world_size(r->world) == 1)
        tx_info("computes on %s", gpu);
    else
        tx_gpus_show_groups(&r->grid);
    tx_gpus_environment("    ");
}

tx_status tx_ranks_show(const tx_ranks *r, const char *threads, const tx_device *d)
{
    int n = tx_world_size(r->world), n_hosts = 0;
    for (int i = 0; i < n; i++)
        if (tx_world_seat(r->world, i)->host >= n_hosts) n_hosts = tx_world_seat(r->world, i)->host + 1;
    char context[24] = "";
    if (tx_grid_size(&r->grid, TX_AXIS_CONTEXT) > 1)
        snprintf(context, sizeof context, " x %d", tx_grid_size(&r->grid, TX_AXIS_CONTEXT));
    if (n > 1)
        tx_info(" > %d ranks on %d host%s, tensor x pipeline x data%s parallel %d x %d x %d%s:", n, n_hosts,
                n_hosts == 1 ? "" : "s", *context ? " x context" : "", tx_grid_size(&r->grid, TX_AXIS_TENSOR),
                tx_grid_size(&r->grid, TX_AXIS_PIPELINE), tx_grid_size(&r->grid, TX_AXIS_DATA), context);
    if (n > MAX_SHOWN)
        show_hosts(r);
    else if (n > 1)
        TX_TRY(show_each(r, threads, d));
    show_gpus(r, d);
    return TX_OK;
}
