/* checkpoint_save.c - writing a checkpoint so that a crash leaves the old one or the new one.
 *
 *      .tmp-iter_0000010-<pid>/shard_00000.safetensors, manifest.json      each fsynced, then the folder
 *      -> iter_0000010                                                     rename, or exchange with the old one
 *      fsync DIR
 *      latest                                                              published
 *
 *  At every moment before the last step `latest` names what it named, and that folder is whole. Where the file system
 *  cannot exchange two names (NFS, some cluster file systems) a replaced folder is set aside as .old-iter_0000010 for
 * the time between two renames; loading looks there, and the next save puts it back. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/safetensors.h"

#define SHARD_FILE "shard_00000.safetensors"

/* What is saved for every parameter: a flat buffer and the first part of its names. */
typedef struct group {
    const char *name;
    const float *flat;
} group;

typedef struct job {
    const char *dir;
    const tx_params *ps;
    group group[1 + TX_CKPT_MAX_PARTS];
    int n_groups;
    char (*key)[TX__KEY_CAP]; /* owned; group by group, in table order */
    tx_st_spec *spec;         /* owned; the same */
    size_t n;
    char name[TX__ITER_CAP], tmp[TX__PATH_CAP], final[TX__PATH_CAP], old[TX__PATH_CAP];
} job;

static tx_status sys_fail(const char *path, const char *doing)
{
    return TX_FAIL(TX_ERR_IO, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* ---- before writing ---- */

/* ".tmp-iter_<i>-<pid>", or "latest.tmp-<pid>", of a process that is gone, or of this one (an earlier save failed). */
static bool is_stale_temporary(const char *name)
{
    static const char latest_tmp[] = TX__LATEST ".tmp-";
    if (strncmp(name, TX__TMP_PREFIX, sizeof TX__TMP_PREFIX - 1) && strncmp(name, latest_tmp, sizeof latest_tmp - 1))
        return false;
    char *end;
    long pid = strtol(strrchr(name, '-') + 1, &end, 10);
    if (*end || pid <= 0) return false; /* not a name of ours */
    return pid == (long)getpid() || (kill((pid_t)pid, 0) && errno == ESRCH);
}

/* A crash between two renames left ".old-iter_<i>": back to its name if that is free, else it has been replaced. */
static tx_status settle_old(const char *dir, const char *old_name, const char *old_path)
{
    char path[TX__PATH_CAP];
    if (tx__has_manifest(dir, old_name + sizeof TX__OLD_PREFIX - 1, path)) return tx_remove_tree(old_path);
    return rename(old_path, path) ? sys_fail(old_path, "rename to the name it was set aside from") : TX_OK;
}

static tx_status clean_up(const char *dir)
{
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(dir, &names));
    tx_status st = TX_OK;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.name[i];
        char path[TX__PATH_CAP];
        int64_t iteration;
        TX_GOTO(tx_path_join(path, sizeof path, dir, name));
        if (is_stale_temporary(name)) {
            tx_info("%s: removing what an unfinished save left", path);
            TX_GOTO(tx_remove_tree(path));
        } else if (!strncmp(name, TX__OLD_PREFIX, sizeof TX__OLD_PREFIX - 1) &&
                   tx__iter_parse(name + sizeof TX__OLD_PREFIX - 1, &iteration)) {
            TX_GOTO(settle_old(dir, name, path));
        }
    }
out:
    tx_names_free(&names);
    return st;
}

static tx_status check_space(const job *j)
{
    struct statvfs v;
    uint64_t need = (uint64_t)1 << 20, bytes; /* folders, and a little to spare */
    for (size_t i = 0; i < j->n; i++) {
        TX_TRY(tx_st_spec_bytes(&j->spec[i], &bytes));
        need += bytes + bytes / TX__BLOCK_BYTES * 20 + 1024; /* its checksums; its entries in header and manifest */
    }
    if (statvfs(j->dir, &v)) return sys_fail(j->dir, "ask for free space");
    uint64_t have = (uint64_t)v.f_bavail * v.f_frsize;
    if (have < need)
        return TX_FAIL(TX_ERR_IO,
                       "%s: iteration %s needs %.1f MB and %.1f MB are free; make room or save somewhere else", j->dir,
                       j->name + 5, (double)need / 1e6, (double)have / 1e6);
    return TX_OK;
}

static tx_status list_tensors(job *j)
{
    size_t n = (size_t)j->n_groups * (size_t)j->ps->n;
    TX_TRY(tx_alloc(&j->key, n, sizeof *j->key, "names of tensors"));
    TX_TRY(tx_alloc(&j->spec, n, sizeof *j->spec, "a list of tensors"));
    for (int g = 0; g < j->n_groups; g++)
        for (int i = 0; i < j->ps->n; i++, j->n++) {
            const tx_param *p = &j->ps->param[i];
            snprintf(j->key[j->n], TX__KEY_CAP, "%s.%s", j->group[g].name, p->name);
            j->spec[j->n] = (tx_st_spec){ j->key[j->n], TX_ST_F32, p->n_dims, { p->rows_logical, p->dim[1] } };
        }
    return TX_OK;
}

static tx_status prepare(job *j, int64_t iteration)
{
    char name[TX__ITER_CAP + 32], path[TX__PATH_CAP];
    tx__iter_name(j->name, iteration);
    TX_TRY(tx_path_join(j->final, sizeof j->final, j->dir, j->name));
    snprintf(name, sizeof name, TX__OLD_PREFIX "%s", j->name);
    TX_TRY(tx_path_join(j->old, sizeof j->old, j->dir, name));
    snprintf(name, sizeof name, TX__TMP_PREFIX "%s-%ld", j->name + 5, (long)getpid());
    TX_TRY(tx_path_join(j->tmp, sizeof j->tmp, j->dir, name));
    TX_TRY(list_tensors(j));
    TX_TRY(tx_make_dirs(j->dir));
    TX_TRY(tx_path_join(path, sizeof path, j->dir, ".."));
    TX_TRY(tx_dir_sync(path)); /* DIR may be new: its own name has to last too */
    TX_TRY(clean_up(j->dir));
    return check_space(j);
}

/* ---- writing ---- */

/* Real rows come first in a parameter, so each is one stretch of its buffer. */
static tx_status put_tensors(const job *j, tx_st_writer *w)
{
    for (int g = 0; g < j->n_groups; g++)
        for (int i = 0; i < j->ps->n; i++) {
            const tx_param *p = &j->ps->param[i];
            size_t n = (size_t)(p->numel / p->dim[0] * p->rows_logical);
            TX_TRY(tx_st_writer_put_f32(w, j->group[g].flat + p->offset, n, TX_ST_F32));
        }
    tx_st_writer_end(w);
    return TX_OK;
}

static tx_status write_shard(const job *j, tx__blocks *blocks)
{
    char path[TX__PATH_CAP];
    tx_writer file;
    tx_st_writer w;
    TX_TRY(tx_path_join(path, sizeof path, j->tmp, SHARD_FILE));
    TX_TRY(tx_writer_open(&file, path));
    tx_status st = tx_st_writer_begin(&w, &file, j->spec, j->n, tx__blocks_update, blocks);
    if (!st) st = put_tensors(j, &w);
    if (!st) return tx_writer_commit(&file);
    tx_writer_abort(&file);
    return st;
}

static tx_status write_manifest(const job *j, json_t *m, tx__blocks *blocks)
{
    char path[TX__PATH_CAP];
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx_path_join(path, sizeof path, j->tmp, TX__MANIFEST_FILE));
    TX_GOTO(tx__manifest_add_shard(m, SHARD_FILE, blocks));
    for (size_t i = 0; i < j->n; i++)
        TX_GOTO(tx__manifest_add_whole(m, j->key[i], j->spec[i].dim, j->spec[i].n_dims, SHARD_FILE));
    TX_GOTO(tx__manifest_text(m, &text));
    TX_GOTO(tx_file_publish(path, text.data, text.len));
out:
    tx_str_free(&text);
    return st;
}

static tx_status write_folder(const job *j, const tx_ckpt_state *state, const json_t *config)
{
    tx__blocks *blocks = NULL;
    json_t *m = tx__manifest_begin(state, config);
    tx_status st = m ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a checkpoint's manifest");
    if (st) goto out;
    if (mkdir(j->tmp, 0777)) {
        st = sys_fail(j->tmp, "create");
        goto out;
    }
    TX_GOTO(tx__blocks_create(&blocks));
    TX_GOTO(write_shard(j, blocks));
    TX_GOTO(write_manifest(j, m, blocks));
    TX_GOTO(tx_dir_sync(j->tmp));
out:
    tx__blocks_destroy(blocks);
    json_decref(m);
    return st;
}

/* Gives the finished folder its name. What had the name before lies in tmp afterwards, or in old. */
static tx_status publish_folder(const job *j)
{
    if (!tx_path_exists(j->final)) {
        if (rename(j->tmp, j->final)) return sys_fail(j->final, "rename a temporary to it");
    } else if (renameat2(AT_FDCWD, j->tmp, AT_FDCWD, j->final, RENAME_EXCHANGE)) {
        if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
            return sys_fail(j->final, "exchange it with a temporary");
        if (rename(j->final, j->old)) return sys_fail(j->final, "set it aside");
        if (rename(j->tmp, j->final)) {
            tx_status st = sys_fail(j->final, "rename a temporary to it");
            if (rename(j->old, j->final))
                tx_warn("%s: cannot rename back to %s: %s", j->old, j->final, strerror(errno));
            return st;
        }
    }
    return tx_dir_sync(j->dir);
}

static tx_status publish_latest(const job *j)
{
    char path[TX__PATH_CAP], line[TX__ITER_CAP + 1];
    TX_TRY(tx_path_join(path, sizeof path, j->dir, TX__LATEST));
    int n = snprintf(line, sizeof line, "%s\n", j->name);
    return tx_file_publish(path, line, (size_t)n);
}

/* Removes what is no longer needed; that it could not be is worth a line, not a failure: the next save tries again. The
 * sentence of an error on its way to the caller is kept. */
static void remove_quietly(const char *path, tx_status st)
{
    char first[1024];
    snprintf(first, sizeof first, "%s", tx_last_error());
    if (!tx_remove_tree(path)) return;
    tx_warn("%s", tx_last_error());
    if (st) (void)TX_FAIL(st, "%s", first);
}

tx_status tx_checkpoint_save(const char *dir, const tx_ckpt_state *state, const json_t *config, const tx_params *ps,
                             const float *value, const tx_ckpt_part *part, int n_parts)
{
    TX_ASSERT(state->iteration >= 0 && json_is_object(config) && value && n_parts <= TX_CKPT_MAX_PARTS);
    job *j;
    TX_TRY(tx_alloc(&j, 1, sizeof *j, "saving a checkpoint"));
    j->dir = dir;
    j->ps = ps;
    j->group[0] = (group){ TX__MODEL, value };
    for (int i = 0; i < n_parts; i++) j->group[1 + i] = (group){ part[i].name, part[i].flat };
    j->n_groups = 1 + n_parts;
    tx_status st;
    TX_GOTO(prepare(j, state->iteration));
    st = write_folder(j, state, config);
    if (!st) st = publish_folder(j);
    if (!st) st = publish_latest(j);
    remove_quietly(j->tmp, st);
    if (!st) remove_quietly(j->old, st);
out:
    tx_free(j->key);
    tx_free(j->spec);
    tx_free(j);
    return st;
}
