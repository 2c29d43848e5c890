/* checkpoint_prune.c - --keep-last and --overwrite-run: removes checkpoints that newer ones have made superfluous.
 *
 *      iter_0000010  ->  .tmp-iter_0000010-<pid>      rename, fsync DIR: from here on it is no checkpoint
 *                        removed, file by file        a crash in between leaves a temporary, which the next save
 * removes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errno.h>

#include "base/alloc.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/place.h"

/* The iteration that `latest` names; -1: none. */
static int64_t named_by_latest(const char *dir)
{
    tx__place place;
    if (tx__place_find(dir, &place)) return -1;
    return place.iteration;
}

static tx_status remove_one(const char *dir, const char *name)
{
    char path[TX__PATH_CAP], tmp[TX__PATH_CAP], tmp_name[TX__ITER_CAP + 32];
    snprintf(tmp_name, sizeof tmp_name, TX__TMP_PREFIX "%s-%ld", name + 5, (long)getpid());
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(tx_path_join(tmp, sizeof tmp, dir, tmp_name));
    TX_TRY(tx_remove_tree(tmp));
    if (rename(path, tmp)) return TX_FAIL(TX_ERR_IO, "%s: cannot rename before removing: %s", path, strerror(errno));
    TX_TRY(tx_dir_sync(dir)); /* nothing of it is removed while it may still come back under its name */
    return tx_remove_tree(tmp);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The iterations of DIR before `iteration` that have a manifest, the newest first. */
static tx_status list_before(int64_t **out, size_t *n, const char *dir, int64_t iteration)
{
    tx_names names = { 0 };
    int64_t *list = NULL;
    *n = 0;
    TX_TRY(tx_dir_list(dir, &names));
    tx_status st = tx_alloc(&list, names.n + 1, sizeof *list, "a list of checkpoints");
    for (size_t i = 0; !st && i < names.n; i++) {
        char path[TX__PATH_CAP];
        int64_t at;
        if (tx__iter_parse(names.name[i], &at) && at < iteration && tx__has_manifest(dir, names.name[i], path))
            list[(*n)++] = at;
    }
    tx_names_free(&names);
    if (!st && *n) qsort(list, *n, sizeof *list, newest_first);
    *out = list;
    return st;
}

/* But not `spare`, a path or NULL. */
static tx_status remove_iteration(const char *dir, int64_t iteration, const char *spare)
{
    char name[TX__ITER_CAP], path[TX__PATH_CAP];
    tx__iter_name(name, iteration);
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    if (spare && tx_path_is_same(path, spare)) return TX_OK;
    TX_TRY(remove_one(dir, name));
    tx_info("  removed checkpoint of iteration %7lld from %s", (long long)iteration, dir);
    return TX_OK;
}

tx_status tx_checkpoint_count(const char *dir, int64_t iteration, const char *spare, int64_t *n)
{
    int64_t *list;
    size_t n_list;
    *n = 0;
    TX_TRY(list_before(&list, &n_list, dir, iteration));
    for (size_t i = 0; i < n_list; i++) {
        char name[TX__ITER_CAP], path[TX__PATH_CAP];
        tx__iter_name(name, list[i]);
        *n += !spare || tx_path_join(path, sizeof path, dir, name) || !tx_path_is_same(path, spare);
    }
    tx_free(list);
    return TX_OK;
}

tx_status tx_checkpoint_prune(const char *dir, int64_t iteration, int64_t keep, const char *spare)
{
    int64_t *list, named = named_by_latest(dir);
    size_t n;
    TX_TRY(list_before(&list, &n, dir, iteration));
    tx_status st = TX_OK;
    for (size_t i = keep > 1 ? (size_t)keep - 1 : 0; named >= 0 && i < n && !st; i++)
        if (list[i] != named) st = remove_iteration(dir, list[i], spare);
    tx_free(list);
    return st;
}

tx_status tx_checkpoint_newest(const char *dir, int64_t *iteration)
{
    int64_t *list;
    size_t n;
    TX_TRY(list_before(&list, &n, dir, INT64_MAX));
    *iteration = n ? list[0] : -1;
    tx_free(list);
    return TX_OK;
}

tx_status tx_checkpoint_remove_others(const char *dir, int64_t iteration, const char *spare)
{
    int64_t *list;
    size_t n;
    TX_TRY(list_before(&list, &n, dir, INT64_MAX));
    tx_status st = TX_OK;
    for (size_t i = 0; i < n && !st; i++) {
        if (list[i] == iteration) continue;
        st = remove_iteration(dir, list[i], spare);
    }
    tx_free(list);
    return st;
}
