/* gpu_module.c - finds and opens the module that knows a GPU. */
#include "backend/gpu_module.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/module_path.h"

static tx_status fail_with(tx_status code, const char *text)
{
    return tx__fail(code, "%s", text);
}

static const tx_gpu_host host = {
    .size = sizeof(tx_gpu_host),
    .ctx_size = sizeof(tx_ctx),
    .ops_size = sizeof(tx_ops),
    .tensor_size = sizeof(tx_tensor),
    .backend_size = sizeof(tx_backend),
    .version = TX_VERSION,
    .fail = fail_with,
    .last_error = tx_last_error,
    .alloc = tx_alloc,
    .realloc = tx_realloc,
    .free = tx_free,
};

static tx_status open_file(const char *path, const tx_gpu_module **out)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) return TX_FAIL(TX_ERR_NOTFOUND, "%s cannot be loaded: %s", path, dlerror());
    union {
        void *data;
        tx_gpu_module_entry *open;
    } entry = { .data = dlsym(file, TX_GPU_MODULE_SYMBOL) };
    if (!entry.data) return TX_FAIL(TX_ERR_NOTFOUND, "%s is not triax's module for GPUs: %s", path, dlerror());
    *out = entry.open(&host);
    if (*out && (*out)->size == sizeof(tx_gpu_module)) return TX_OK;
    return TX_FAIL(TX_ERR_NOTFOUND, "%s is of another version of triax: install the one that was built with it", path);
}

/* One that can be used: that has a GPU. */
static tx_status try_file(const char *path, const tx_gpu_module **out)
{
    tx_gpu_info info[TX_GPU_MAX];
    int n;
    TX_TRY(open_file(path, out));
    return (*out)->list(info, &n);
}

static tx_status find(const tx_gpu_module **out)
{
    static const char *const names[] = { "libtriax_cuda.so", "libtriax_hip.so" };
    const char *told = getenv("TX_GPU_MODULE");
    char path[PATH_MAX + 64], trouble[2048];
    size_t n = 0;
    if (told && *told) return try_file(told, out);
    for (size_t i = 0; i < sizeof names / sizeof *names && n < sizeof trouble; i++) {
        if (!tx_module_path(path, sizeof path, names[i])) continue;
        if (!try_file(path, out)) return TX_OK;
        n += (size_t)snprintf(trouble + n, sizeof trouble - n, "%s%s", n ? "; " : "", tx_last_error());
    }
    if (n) return TX_FAIL(TX_ERR_NOTFOUND, "%s", trouble);
    return TX_FAIL(TX_ERR_NOTFOUND,
                   "this triax was built without support for GPUs: there is no %s or %s beside the program or in "
                   "%s; build it where nvcc or hipcc is (cmake --preset cuda, cmake --preset hip)",
                   names[0], names[1], TX_PLUGIN_DIR);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What was found, or why nothing was: no GPU comes while a process runs, and a search for layouts asks again and again.
 */
tx_status tx_gpu_module_get(const tx_gpu_module **out)
{
    static const tx_gpu_module *found;
    static char where[PATH_MAX], why[2048]; /* TX_GPU_MODULE when nothing was found in it, and the words */
    const char *told = getenv("TX_GPU_MODULE");
    if (!told) told = "";
    pthread_mutex_lock(&lock);
    tx_status st = TX_OK;
    if (!found && *why && !strcmp(told, where))
        st = TX_FAIL(TX_ERR_NOTFOUND, "%s", why);
    else if (!found && (st = find(&found))) {
        found = NULL;
        snprintf(where, sizeof where, "%s", told);
        snprintf(why, sizeof why, "%s", tx_last_error());
    }
    *out = found;
    pthread_mutex_unlock(&lock);
    return st;
}
