/* meant_folder.c - finds the folder that a published command means by another name. */
#include "convert/meant_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

enum { PATH_CAP = 4096 };

/* The number of a name like PREFIX and digits. */
static bool number_of(const char *name, const char *prefix, int64_t *n)
{
    size_t k = strlen(prefix);
    if (strncmp(name, prefix, k) || !name[k] || strspn(name + k, "0123456789") != strlen(name + k)) return false;
    *n = strtoll(name + k, NULL, 10);
    return true;
}

tx_status tx__meant_step(char *buf, size_t cap, const char *path)
{
    char dir[PATH_CAP];
    int64_t n;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--;
    if ((size_t)snprintf(buf, cap, "%s", path) >= cap || len >= sizeof dir)
        return TX_FAIL(TX_ERR_ARG, "%.60s...: the path is too long", path);
    if (tx_path_exists(path)) return TX_OK;
    memcpy(dir, path, len);
    dir[len] = 0;
    char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    bool deepspeed = number_of(name, "global_step", &n);
    if (!deepspeed && !number_of(name, "iter_", &n)) return TX_OK;
    if (slash) *slash = 0;
    const char *in = !slash ? "." : slash == dir ? "/" : dir;
    TX_TRY(tx_checkpoint_path_of(buf, cap, in, deepspeed ? TX_CKPT_NATIVE : TX_CKPT_DEEPSPEED, n, NULL));
    if (tx_path_is_dir(buf))
        tx_info("%s is not there: taking %s, the same iteration of this run", path, buf);
    else
        snprintf(buf, cap, "%s", path);
    return TX_OK;
}

void tx__steps_beside(char *buf, size_t cap, const char *path)
{
    char dir[PATH_CAP];
    tx_names names = { 0 };
    int64_t n;
    size_t at = 0;
    *buf = 0;
    if (tx_path_exists(path) || (size_t)snprintf(dir, sizeof dir, "%s", path) >= sizeof dir) return;
    char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    if (!number_of(name, "global_step", &n) && !number_of(name, "iter_", &n)) return;
    if (slash) *slash = 0;
    if (tx_dir_list(slash ? dir : ".", &names)) return;
    for (size_t i = 0; i < names.n && at + 64 < cap; i++)
        if (number_of(names.name[i], "global_step", &n) || number_of(names.name[i], "iter_", &n))
            at += (size_t)snprintf(buf + at, cap - at, "%s%.40s", at ? ", " : "; there are ", names.name[i]);
    tx_names_free(&names);
}

bool tx__meant_run(char *buf, size_t cap, const char *path)
{
    char one[PATH_CAP], detail[512];
    tx_names names = { 0 };
    int n_found = 0;
    if (!tx_path_is_dir(path) || tx_dir_list(path, &names)) return false;
    for (size_t i = 0; i < names.n; i++) {
        tx_ckpt_kind kind;
        if (tx_path_join(one, sizeof one, path, names.name[i]) || !tx_path_is_dir(one)) continue;
        if (tx_checkpoint_probe(one, &kind, detail, sizeof detail)) continue;
        if (kind == TX_CKPT_NONE || kind == TX_CKPT_UNKNOWN || n_found++) continue;
        if ((size_t)snprintf(buf, cap, "%s", one) >= cap) n_found = 2;
    }
    tx_names_free(&names);
    return n_found == 1;
}
