/* upstream_folder.c - the folder of a checkpoint for Megatron or DeepSpeed: written beside its place, and published
 * whole. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "convert/upstream_write.h"

tx_status tx__folder_begin(tx__folder *d, const char *out, const char *name)
{
    char hidden[256];
    *d = (tx__folder){ 0 };
    snprintf(hidden, sizeof hidden, ".tmp-%s-%ld", name, (long)getpid());
    if ((size_t)snprintf(d->parent, sizeof d->parent, "%s", out) >= sizeof d->parent)
        return TX_FAIL(TX_ERR_ARG, "%.60s...: the path is too long", out);
    TX_TRY(tx_path_join(d->path, sizeof d->path, out, name));
    TX_TRY(tx_path_join(d->tmp, sizeof d->tmp, out, hidden));
    if (tx_path_exists(d->path))
        return TX_FAIL(TX_ERR_STATE, "%s: is there already; remove it, or name another folder", d->path);
    d->made_parent = !tx_path_exists(out);
    d->begun = true;
    TX_TRY(tx_make_dirs(out));
    TX_TRY(tx_remove_tree(d->tmp)); /* of an earlier process with this number */
    return tx_make_dirs(d->tmp);
}

tx_status tx__folder_publish(tx__folder *d)
{
    TX_TRY(tx_dir_sync(d->tmp));
    if (rename(d->tmp, d->path))
        return TX_FAIL(TX_ERR_IO, "cannot rename %s to %s: %s", d->tmp, d->path, strerror(errno));
    d->published = true;
    return tx_dir_sync(d->parent);
}

tx_status tx__folder_track(tx__folder *d, const char *name, const char *text)
{
    char path[TX__PATH_CAP];
    TX_ASSERT(d->published && d->n_trackers < TX__MAX_TRACKERS);
    TX_TRY(tx_path_join(path, sizeof path, d->parent, name));
    TX_TRY(tx_file_publish(path, text, strlen(text)));
    d->tracker[d->n_trackers++] = name;
    return TX_OK;
}

void tx__folder_end(tx__folder *d, tx_status st)
{
    char path[TX__PATH_CAP];
    if (!st || !d->begun) return;
    for (int i = 0; i < d->n_trackers; i++)
        if (!tx_path_join(path, sizeof path, d->parent, d->tracker[i])) (void)unlink(path);
    (void)tx_remove_tree(d->published ? d->path : d->tmp);
    if (d->made_parent) (void)rmdir(d->parent);
}
