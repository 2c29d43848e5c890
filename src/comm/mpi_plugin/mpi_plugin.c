/* mpi_plugin.c - MPI as a transport: the only file that knows MPI. MPI-3.1, of any make. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/transport.h"

__attribute__((visibility("default"))) tx__transport_open tx_transport_open;

static MPI_Comm channels[2]; /* MPI is a process's, not a rank's of a thread's: so is this */
static int ours;             /* we have started it and are to end it */

/* An MPI_Request is a pointer or a number, according to the make. */
static tx__move move_of(MPI_Request r)
{
    tx__move m = 0;
    memcpy(&m, &r, sizeof r);
    return m;
}

static MPI_Request request_of(tx__move m)
{
    MPI_Request r;
    memcpy(&r, &m, sizeof r);
    return r;
}

/* MPI counts in int: large messages are made of blocks and a rest. */
static int type_of(MPI_Datatype *type, size_t bytes)
{
    const size_t block = (size_t)1 << 20;
    MPI_Datatype blocks, parts[2];
    int lengths[2] = { 1, (int)(bytes % block) };
    MPI_Aint at[2] = { 0, (MPI_Aint)(bytes - bytes % block) };
    int e = MPI_Type_contiguous((int)block, MPI_BYTE, &blocks);
    if (e) return e;
    e = MPI_Type_contiguous((int)(bytes / block), blocks, &parts[0]);
    MPI_Type_free(&blocks);
    if (e) return e;
    parts[1] = MPI_BYTE;
    e = MPI_Type_create_struct(2, lengths, at, parts, type);
    MPI_Type_free(&parts[0]);
    return e ? e : MPI_Type_commit(type);
}

static int is_large(size_t bytes)
{
    return bytes > (size_t)1 << 30;
}

static int post_send(tx__move *m, const void *data, size_t bytes, int to, int channel, int tag)
{
    MPI_Datatype type = MPI_BYTE;
    MPI_Request r = MPI_REQUEST_NULL;
    int e = is_large(bytes) ? type_of(&type, bytes) : 0;
    if (!e) e = MPI_Isend(data, is_large(bytes) ? 1 : (int)bytes, type, to, tag, channels[channel], &r);
    if (type != MPI_BYTE) MPI_Type_free(&type); /* when the message has gone */
    *m = move_of(r);
    return e;
}

static int post_receive(tx__move *m, void *data, size_t bytes, int from, int channel, int tag)
{
    MPI_Datatype type = MPI_BYTE;
    MPI_Request r = MPI_REQUEST_NULL;
    int e = is_large(bytes) ? type_of(&type, bytes) : 0;
    if (!e) e = MPI_Irecv(data, is_large(bytes) ? 1 : (int)bytes, type, from, tag, channels[channel], &r);
    if (type != MPI_BYTE) MPI_Type_free(&type);
    *m = move_of(r);
    return e;
}

static int test(tx__move *m, int *done, size_t *bytes)
{
    MPI_Request r = request_of(*m);
    MPI_Status status;
    MPI_Count n = 0;
    int e = MPI_Test(&r, done, &status);
    *m = move_of(r);
    if (e || !*done) return e;
    *m = 0;
    e = MPI_Get_elements_x(&status, MPI_BYTE, &n);
    *bytes = n == MPI_UNDEFINED ? 0 : (size_t)n;
    return e;
}

static void explain(int error, char *text, size_t cap)
{
    char own[MPI_MAX_ERROR_STRING] = "";
    int n;
    MPI_Error_string(error, own, &n);
    snprintf(text, cap, "%s", own);
}

static void end_all(int exit_code)
{
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static void close_all(void)
{
    for (int i = 0; i < 2; i++) MPI_Comm_free(&channels[i]);
    if (ours) MPI_Finalize();
}

static int all_reduce(float *x, size_t n)
{
    return MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, channels[0]);
}

static tx__transport table = { .version = TX_TRANSPORT_VERSION,
                               .send = post_send,
                               .receive = post_receive,
                               .test = test,
                               .explain = explain,
                               .abort = end_all,
                               .close = close_all,
                               .all_reduce = all_reduce };

static int open_channels(void)
{
    int found, e = 0, *largest = NULL;
    for (int i = 0; i < 2 && !e; i++) {
        e = MPI_Comm_dup(MPI_COMM_WORLD, &channels[i]);
        if (!e) e = MPI_Comm_set_errhandler(channels[i], MPI_ERRORS_RETURN);
    }
    if (!e) e = MPI_Comm_rank(channels[0], &table.rank);
    if (!e) e = MPI_Comm_size(channels[0], &table.size);
    if (!e) e = MPI_Comm_get_attr(channels[0], MPI_TAG_UB, &largest, &found);
    table.largest_tag = !e && found ? *largest : 32767;
    return e;
}

/* ---- Open MPI's transports ----
 *
 *  OMPI_MCA_pml=ucx and its kin ask for a transport and nothing else, and where there is no hardware for it MPI_Init
 * does not fail: it ends the process. So what is asked for is preferred instead: Open MPI takes it if it is there, else
 * what it takes by itself, which `note` says. A name that Open MPI does not have at all is found before. */
#ifdef OPEN_MPI

static void prefer(const char *variable, const char *wanted, const char *instead, char asked[64])
{
    const char *now = getenv(variable);
    if (!now || strcmp(now, wanted)) return;
    snprintf(asked, 64, "%s=%s", variable, wanted);
    setenv(variable, instead, 1);
}

/* Whether this process has that component of Open MPI's: those that are not used have been closed again. */
static int has_component(const char *name)
{
    char line[4352], file[64];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    snprintf(file, sizeof file, "/mca_%s.so", name);
    if (!maps) return 1;
    while (!found && fgets(line, sizeof line, maps)) found = strstr(line, file) != NULL;
    fclose(maps);
    return found;
}

static const char *const choosing[] = { "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_coll", "OMPI_MCA_osc" };

/* Where the components lie, beside libmpi; "": not known, as where they are part of it. */
static void component_folder(char folder[4096])
{
    Dl_info info;
    char path[PATH_MAX], pattern[PATH_MAX + 64];
    glob_t found = { 0 };
    union {
        int (*function)(int *, char ***, int, int *);
        void *data;
    } start = { .function = MPI_Init_thread };
    *folder = 0;
    if (getenv("OMPI_MCA_mca_base_component_path") || !dladdr(start.data, &info) || !realpath(info.dli_fname, path))
        return;
    *strrchr(path, '/') = 0;
    for (int i = 0; i < 2 && !*folder; i++) { /* Debian has a folder of its own around it */
        snprintf(pattern, sizeof pattern, "%s%s/openmpi*/mca_pml_ob1.so", path, i ? "/openmpi/lib" : "");
        if (!glob(pattern, 0, NULL, &found) && strlen(found.gl_pathv[0]) < 4096) {
            strcpy(folder, found.gl_pathv[0]);
            *strrchr(folder, '/') = 0;
        }
        globfree(&found);
    }
}

/* Whether all components that variables name exist; else `why` has the first that does not. */
static int all_exist(char *why, size_t cap)
{
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    char folder[4096], path[4096 + 128];
    component_folder(folder);
    for (size_t i = 0; *folder && i < sizeof choosing / sizeof *choosing; i++) {
        const char *value = getenv(choosing[i]), *kind = choosing[i] + strlen("OMPI_MCA_");
        for (const char *at = value && *value != '^' ? value : ""; *at; at += *at == ',') {
            int n = (int)strcspn(at, ",");
            snprintf(path, sizeof path, "%s/mca_%s_%.*s.so", folder, kind, n < 64 ? n : 64, at);
            if (n && access(path, R_OK)) {
                snprintf(
                    why, cap,
                    "%s=%.80s: this host's Open MPI has no \"%.*s\" (ompi_info lists what it has); unset the variable, "
                    "and it finds out by itself what there is",
                    choosing[i], value, n < 64 ? n : 64, at);
                if (local_rank && strcmp(local_rank, "0")) sleep(5); /* rank 0 says it, and the job ends */
                return 0;
            }
            at += n;
        }
    }
    return 1;
}

/* Slurm's older PMI takes components that few builds of Open MPI have; without them it ends the process. */
static int finds_ranks(char *why, size_t cap)
{
    char folder[4096], path[4096 + 32];
    if (!getenv("SLURM_PROCID") || !getenv("PMI_RANK") || getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK"))
        return 1;
    component_folder(folder);
    snprintf(path, sizeof path, "%s/mca_pmix_s2.so", folder);
    if (!*folder || !access(path, R_OK)) return 1;
    snprintf(why, cap,
             "srun's --mpi=pmi2 is for MPICH, and this module is for Open MPI: give srun --mpi=pmix, or build triax "
             "where MPICH "
             "is installed (libtriax_mpich.so)");
    return 0;
}

static int start(int *given, char *why, size_t cap)
{
    static const char *const component[] = { "pml_ucx", "pml_cm", "btl_openib" };
    char asked[3][64] = { "", "", "" };
    prefer("OMPI_MCA_pml", "ucx", "^cm", asked[0]); /* ob1, the third, comes after both */
    prefer("OMPI_MCA_pml", "cm", "^ucx", asked[1]);
    prefer("OMPI_MCA_btl", "openib", "openib,self,vader,tcp", asked[2]);
    prefer("OMPI_MCA_btl", "openib,self", "openib,self,vader,tcp", asked[2]);
    prefer("OMPI_MCA_btl", "self,openib", "openib,self,vader,tcp", asked[2]);
    if (!finds_ranks(why, cap) || !all_exist(why, cap)) return MPI_ERR_OTHER;
    int e = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, given);
    for (int i = 0; i < 3; i++)
        if (*asked[i] && !has_component(component[i]))
            snprintf(
                table.note, sizeof table.note,
                "%s: this host has no such network, and Open MPI sends by shared memory and TCP; unset the variable to "
                "be rid of this line",
                asked[i]);
    return e;
}

#else

static int start(int *given, char *why, size_t cap)
{
    (void)why, (void)cap;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, given);
}

#endif

const tx__transport *tx_transport_open(char *why, size_t cap)
{
    int up = 0, given = 0, e = MPI_Initialized(&up);
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    if (table.size) return &table;
    ours = !up;
    *why = 0;
    if (!e && !up) e = start(&given, why, cap);
    if (*why) return NULL;
    if (!e) e = open_channels();
    if (!e) e = MPI_Get_library_version(version, &given);
    version[strcspn(version, ",\n")] = 0;
    snprintf(table.name, sizeof table.name, "%.*s", (int)sizeof table.name - 1, version);
    if (!e) return &table;
    explain(e, why, cap);
    return NULL;
}
