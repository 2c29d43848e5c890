/* mpi_plugin.c - MPI as a transport: the only file that knows MPI. MPI-3.1, of any make. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

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

const tx__transport *tx_transport_open(char *why, size_t cap)
{
    int up = 0, given = 0, e = MPI_Initialized(&up);
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    if (table.size) return &table;
    ours = !up;
    if (!e && !up) e = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    if (!e) e = open_channels();
    if (!e) e = MPI_Get_library_version(version, &given);
    version[strcspn(version, ",\n")] = 0;
    snprintf(table.name, sizeof table.name, "%.*s", (int)sizeof table.name - 1, version);
    if (!e) return &table;
    explain(e, why, cap);
    return NULL;
}
