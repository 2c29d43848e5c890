/* plugin.c - the module that knows MPI: libtriax_mpi.so. */
#include "comm/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/module_path.h"

#define MODULE "libtriax_mpi.so"

tx_status tx__plugin_open(const tx__transport **out)
{
    char path[PATH_MAX + 64], why[512] = "";
    const char *told = getenv("TX_MPI_PLUGIN");
    if (told && *told)
        snprintf(path, sizeof path, "%s", told);
    else if (!tx_module_path(path, sizeof path, MODULE))
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "several ranks need MPI, and there is no " MODULE " beside the program or in " TX_PLUGIN_DIR
                       ": build triax where MPI is installed, or name the file in TX_MPI_PLUGIN");
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI's own modules look for its symbols */
    if (!module) return TX_FAIL(TX_ERR_NOTFOUND, "several ranks need MPI, and it cannot be loaded: %s", dlerror());
    union {
        void *data;
        tx__transport_open *open;
    } entry = { .data = dlsym(module, TX_TRANSPORT_SYMBOL) };
    if (!entry.data) return TX_FAIL(TX_ERR_NOTFOUND, "%s is not triax's module for MPI: %s", path, dlerror());
    const tx__transport *t = entry.open(why, sizeof why);
    if (!t) return TX_FAIL(TX_ERR_COMM, "MPI does not start: %s", why);
    if (t->version != TX_TRANSPORT_VERSION)
        return TX_FAIL(TX_ERR_NOTFOUND, "%s is of another version of triax: name this version's in TX_MPI_PLUGIN",
                       path);
    *out = t;
    return TX_OK;
}
