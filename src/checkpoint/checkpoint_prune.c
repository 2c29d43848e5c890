/* checkpoint_prune.c - --keep-last and --overwrite-run: removes checkpoints that newer ones replace.
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

/* The checkpoints of a kind in a folder. */
typedef struct steps {
    const char *dir;
    tx_ckpt_kind kind;
} steps;

/* Whether the iteration that DIR is read at is known, so that it can stay. Those of other programs' formats are named
 * by the save that prunes, and are before none that is looked at. */
static bool find_named(const steps *s, int64_t *iteration)
{
    tx__found_checkpoint place;
    *iteration = -1;
    if (s->kind != TX_CKPT_NATIVE) return true;
    if (tx__checkpoint_find(s->dir, &place)) return false;
    *iteration = place.iteration;
    return place.iteration >= 0;
}

static tx_status remove_one(const char *dir, const char *name)
{
    char path[TX__PATH_CAP], tmp[TX__PATH_CAP], tmp_name[TX__ITER_CAP + 32];
    snprintf(tmp_name, sizeof tmp_name, TX__TMP_PREFIX "%s-%ld", name + (strncmp(name, "iter_", 5) ? 0 : 5),
             (long)getpid());
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

/* Those before `iteration`, the newest first. */
static tx_status list_before(int64_t **out, size_t *n, const steps *s, int64_t iteration)
{
    tx_names names = { 0 };
    int64_t *list = NULL;
    *n = 0;
    TX_TRY(tx_dir_list(s->dir, &names));
    tx_status st = tx_alloc(&list, names.n + 1, sizeof *list, "a list of checkpoints");
    for (size_t i = 0; !st && i < names.n; i++) {
        char path[TX__PATH_CAP];
        int64_t at;
        if (tx__step_parse(s->kind, names.name[i], &at) && at < iteration &&
            tx__is_step(s->kind, s->dir, names.name[i], path))
            list[(*n)++] = at;
    }
    tx_names_free(&names);
    if (!st && *n) qsort(list, *n, sizeof *list, newest_first);
    *out = list;
    return st;
}

/* But not `spare`, a path or NULL. */
static tx_status remove_iteration(const steps *s, int64_t iteration, const char *spare)
{
    char name[TX__ITER_CAP], path[TX__PATH_CAP];
    tx__step_name(name, s->kind, iteration);
    TX_TRY(tx_path_join(path, sizeof path, s->dir, name));
    if (spare && tx_path_is_same(path, spare)) return TX_OK;
    TX_TRY(remove_one(s->dir, name));
    tx_info("  removed checkpoint of iteration %7lld from %s", (long long)iteration, s->dir);
    return TX_OK;
}

tx_status tx_checkpoint_count(const char *dir, tx_ckpt_kind kind, int64_t iteration, const char *spare, int64_t *n)
{
    const steps s = { dir, kind };
    int64_t *list;
    size_t n_list;
    *n = 0;
    TX_TRY(list_before(&list, &n_list, &s, iteration));
    for (size_t i = 0; i < n_list; i++) {
        char path[TX__PATH_CAP];
        *n += !spare || tx_checkpoint_path_of(path, sizeof path, dir, kind, list[i], NULL) ||
              !tx_path_is_same(path, spare);
    }
    tx_free(list);
    return TX_OK;
}

tx_status tx_checkpoint_prune(const char *dir, tx_ckpt_kind kind, int64_t iteration, int64_t keep, const char *spare)
{
    const steps s = { dir, kind };
    int64_t *list, named;
    size_t n;
    bool known = find_named(&s, &named);
    TX_TRY(list_before(&list, &n, &s, iteration));
    tx_status st = TX_OK;
    for (size_t i = keep > 1 ? (size_t)keep - 1 : 0; known && i < n && !st; i++)
        if (list[i] != named) st = remove_iteration(&s, list[i], spare);
    tx_free(list);
    return st;
}

tx_status tx_checkpoint_newest(const char *dir, tx_ckpt_kind kind, int64_t *iteration)
{
    int64_t *list;
    size_t n;
    TX_TRY(list_before(&list, &n, &(steps){ dir, kind }, INT64_MAX));
    *iteration = n ? list[0] : -1;
    tx_free(list);
    return TX_OK;
}

tx_status tx_checkpoint_remove_others(const char *dir, tx_ckpt_kind kind, int64_t iteration, const char *spare)
{
    const steps s = { dir, kind };
    int64_t *list;
    size_t n;
    TX_TRY(list_before(&list, &n, &s, INT64_MAX));
    tx_status st = TX_OK;
    for (size_t i = 0; i < n && !st; i++) {
        if (list[i] == iteration) continue;
        st = remove_iteration(&s, list[i], spare);
    }
    tx_free(list);
    return st;
}
