/* plugin.c - the module that knows MPI: which one, where it lies, and the library that it wants. */
#include "comm/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module_path.h"

#define MODULE "libtriax_mpi.so" /* for the MPI that the build found first */

/* Those that are linked to no library: files that have one, by the numbers of their binary interfaces. */
static const struct make {
    const char *name, *module, *says, *library[5];
} makes[] = {
    { "openmpi", "libtriax_openmpi.so", "Open MPI", { "libmpi.so.40", NULL } },
    { "mpich",
      "libtriax_mpich.so",
      "MPICH",
      { "libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12", "libmpi_gnu.so.12", NULL } },
};
enum { N_MAKES = sizeof makes / sizeof *makes };

static const struct make *launchers_make(void)
{
    if (getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK")) return &makes[0];
    return getenv("PMI_RANK") ? &makes[1] : NULL;
}

static const struct make *make_of_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (int i = 0; i < N_MAKES; i++)
        if (!strcmp(base, makes[i].module)) return &makes[i];
    return NULL;
}

static const struct make *make_named(const char *name)
{
    for (int i = 0; i < N_MAKES; i++)
        if (!strcmp(name, makes[i].name)) return &makes[i];
    return NULL;
}

static tx_status find_module(char *path, size_t cap)
{
    const char *told = getenv("TX_MPI_PLUGIN");
    const struct make *wanted = told && *told ? make_named(told) : launchers_make();
    if (told && *told && !wanted) {
        snprintf(path, cap, "%s", told);
        return TX_OK;
    }
    if (wanted && tx_module_path(path, cap, wanted->module)) return TX_OK;
    if (told && *told && wanted == &makes[1])
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "TX_MPI_PLUGIN=%s: there is no %s beside the program or in " TX_PLUGIN_DIR
                       ": build triax where MPICH is installed (Debian: libmpich-dev)",
                       told, wanted->module);
    if (tx_module_path(path, cap, MODULE)) return TX_OK;
    return TX_FAIL(TX_ERR_NOTFOUND,
                   "several ranks need MPI, and there is no " MODULE " beside the program or in " TX_PLUGIN_DIR
                   ": build triax where MPI is installed, or name the file in TX_MPI_PLUGIN");
}

/* Open MPI's own modules look for its symbols, and ours for the library's: RTLD_GLOBAL. */
static tx_status open_library(const struct make *m)
{
    const char *told = getenv("TX_MPI_LIBRARY");
    if (told && *told)
        return dlopen(told, RTLD_NOW | RTLD_GLOBAL) ? TX_OK : TX_FAIL(TX_ERR_NOTFOUND, "TX_MPI_LIBRARY: %s", dlerror());
    for (int i = 0; m->library[i]; i++)
        if (dlopen(m->library[i], RTLD_NOW | RTLD_GLOBAL)) return TX_OK;
    return TX_FAIL(
        TX_ERR_NOTFOUND,
        "several ranks need %s's library, and the loader finds no %s: put its folder into LD_LIBRARY_PATH, or name "
        "the file in TX_MPI_LIBRARY",
        m->says, m->library[0]);
}

tx_status tx__plugin_open(const tx__transport **out)
{
    char path[PATH_MAX + 64], why[512] = "";
    TX_TRY(find_module(path, sizeof path));
    const struct make *m = make_of_file(path);
    if (m) TX_TRY(open_library(m));
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
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
