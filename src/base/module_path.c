/* module_path.c - where the modules are that are opened at run time. */
#include "base/module_path.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
        bool (*function)(char *, size_t, const char *);
        void *data;
    } here = { .function = tx_module_path };
    if (dladdr(here.data, &info) && info.dli_fname) snprintf(path, sizeof path, "%s", info.dli_fname);
    folder_of(out, path);
}

bool tx_module_path(char *out, size_t cap, const char *name)
{
    char program[PATH_MAX], library[PATH_MAX];
    program_folder(program);
    library_folder(library);
    const char *const places[][2] = {
        { program, "" },           { library, "" }, { library, "triax/" }, { program, TX_PLUGINS_FROM_BIN },
        { TX_PLUGIN_DIR "/", "" },
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(out, cap, "%s%s%s", places[i][0], places[i][1], name);
        if (places[i][0][0] && n > 0 && (size_t)n < cap && !access(out, R_OK)) return true;
    }
    return false;
}
