/* plugin.c - the module that knows MPI: libtriax_mpi.so. */
#include "comm/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE "libtriax_mpi.so"

/* The folder of a file, with the slash; "" if it has none. */
static void folder_of(char *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    memcpy(out, path, n);
    out[n] = 0;
}

static void program_folder(char out[PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    folder_of(out, path);
}

/* Of the library that this code is in (libtriax.so in somebody's program). */
static void library_folder(char out[PATH_MAX])
{
    Dl_info info;
    char path[PATH_MAX] = "";
    union {
        tx_status (*function)(const tx__transport **);
        void *data;
    } here = { .function = tx__plugin_open };
    if (dladdr(here.data, &info) && info.dli_fname) snprintf(path, sizeof path, "%s", info.dli_fname);
    folder_of(out, path);
}

static bool find(char *out, size_t cap)
{
    char program[PATH_MAX], library[PATH_MAX];
    program_folder(program);
    library_folder(library);
    const char *const places[][2] = {
        { program, "" }, { library, "" }, { library, "triax/" }, { TX_PLUGIN_DIR "/", "" }
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(out, cap, "%s%s%s", places[i][0], places[i][1], MODULE);
        if (places[i][0][0] && n > 0 && (size_t)n < cap && !access(out, R_OK)) return true;
    }
    return false;
}

tx_status tx__plugin_open(const tx__transport **out)
{
    char path[PATH_MAX + 64], why[512] = "";
    const char *told = getenv("TX_MPI_PLUGIN");
    if (told && *told)
        snprintf(path, sizeof path, "%s", told);
    else if (!find(path, sizeof path))
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
