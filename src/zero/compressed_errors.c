/* compressed_errors.c - what compression leaves out, to checkpoints and from there. */
#include <string.h>

#include "base/alloc.h"
#include "zero/compressed.h"

static const char what[] = "what compression leaves out";

static tx_comm *ranks_of(const tx_zero *z)
{
    return tx_grid_group(z->grid, TX_GROUP_DATA);
}

int tx_zero_error_parts(const tx_zero *z)
{
    int ranks = z->compressed.on ? tx_comm_size(ranks_of(z)) : 1;
    return ranks > 1 && ranks <= TX_ERRORS_MAX_RANKS ? ranks + 1 : 0;
}

/* Server r's errors side by side, to where their elements are in the table or from there. */
static void place_served(const tx_zero *z, int r, float *served, float *table, bool back)
{
    for (int i = 0; i < z->n_ranges; i++) {
        int64_t n = z->range[i].n_real, first, of = tx__compressed_run(z, n, r, &first);
        float *there = table + z->ps->param[z->fragment[i].row].offset + first;
        memcpy(back ? served : there, back ? there : served, (size_t)of * sizeof *served);
        served += tx__compressed_part(z, n);
    }
}

/* This rank's in the host's memory.   @room [kept + served] */
static tx_status read_own(const tx_zero *z, float *room)
{
    const tx_compressed *m = &z->compressed;
    size_t kept = (size_t)z->flat.kept.numel;
    TX_TRY(tx_device_read(z->c->device, room, m->worker, kept * sizeof *room));
    return tx_device_read(z->c->device, room + kept, m->server, (size_t)m->served * sizeof *room);
}

/* Rank r's, side by side in `room`, into their places in z->compressed.errors. */
static void place(const tx_zero *z, int r, float *room)
{
    int64_t numel = z->flat.kept.numel;
    memcpy(z->compressed.errors + r * numel, room, (size_t)numel * sizeof *room);
    place_served(z, r, room + numel, z->compressed.errors + tx_comm_size(ranks_of(z)) * numel, false);
}

tx_status tx_zero_gather_errors(tx_zero *z, float **errors)
{
    tx_compressed *m = &z->compressed;
    tx_comm *g = ranks_of(z);
    int ranks = tx_comm_size(g), rank = tx_comm_rank(g);
    int64_t n = z->flat.kept.numel + m->served;
    float *room = NULL;
    tx_status st = tx_alloc(&room, (size_t)n, sizeof *room, what);
    if (!st && !rank && !m->errors)
        st = tx_alloc(&m->errors, (size_t)(ranks + 1) * (size_t)z->flat.kept.numel, sizeof *m->errors, what);
    TX_GOTO(tx_comm_agree(g, st ? st : read_own(z, room)));
    tx_request sent = { 0 };
    if (rank) TX_GOTO(tx_send_start(z->c, g, tx_tensor1(room, TX_F32, n), 0, 0, &sent));
    if (rank) TX_GOTO(tx_wait(z->c, &sent));
    for (int r = 0; r < ranks && !rank; r++) {
        if (r) TX_GOTO(tx_recv(z->c, g, tx_tensor1(room, TX_F32, n), r, 0));
        place(z, r, room);
    }
    *errors = m->errors;
out:
    tx_free(room);
    return st;
}

tx_status tx_zero_set_errors(tx_zero *z, const float *worker, const float *server)
{
    const tx_compressed *m = &z->compressed;
    float *room;
    TX_TRY(tx_alloc(&room, (size_t)z->flat.kept.numel + (size_t)m->served, sizeof *room, what));
    size_t kept = (size_t)z->flat.kept.numel;
    if (worker) memcpy(room, worker, kept * sizeof *room);
    if (server) place_served(z, tx_comm_rank(ranks_of(z)), room + kept, (float *)server, true);
    tx_status st = tx_device_write(z->c->device, m->worker, room, kept * sizeof *room);
    if (!st) st = tx_device_write(z->c->device, m->server, room + kept, (size_t)m->served * sizeof *room);
    tx_free(room);
    return st;
}
