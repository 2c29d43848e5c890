/* compressed_errors.c - what compression leaves out, and what else a rank has of its own, to checkpoints and from
 * there. */
#include <string.h>

#include "base/alloc.h"
#include "zero/compressed.h"

static const char what[] = "what compression leaves out";

static int most_kinds(const tx_zero *z)
{
    return 1 + z->optim.type->n_alone;
}

int tx_zero_error_kinds(const tx_zero *z, const tx_optim_signs *next)
{
    int workers = z->compressed.on ? tx_zero_n_workers(z) : 1;
    if (workers == 1 || workers > TX_ERRORS_MAX_RANKS || !next->left_out) return 0;
    return next->apart ? most_kinds(z) : 1;
}

int tx_zero_error_parts(const tx_zero *z)
{
    int workers = z->compressed.on ? tx_zero_n_workers(z) : 1;
    return workers > 1 && workers <= TX_ERRORS_MAX_RANKS ? most_kinds(z) * workers + 1 : 0;
}

/* Server r's errors side by side, to where their elements are in the table or from there. */
static void place_served(const tx_zero *z, int r, float *served, float *table, bool back)
{
    for (int i = 0; i < z->n_ranges; i++) {
        int64_t n = z->range[i].n_real, first, at = 0;
        int64_t of =
            z->compressed.together ? tx__together_run(z, i, r, &first, &at) : tx__compressed_run(z, n, r, &first);
        float *there = table + z->ps->param[z->fragment[i].row].offset + first, *here = served + at;
        memcpy(back ? here : there, back ? there : here, (size_t)of * sizeof *served);
        if (!z->compressed.together) served += tx__compressed_part(z, n);
    }
}

/* What this rank has of a kind. */
static float *own_of(const tx_zero *z, int kind)
{
    return kind ? z->state[z->optim.type->alone[kind - 1]] : z->compressed.worker;
}

/* This worker's in the host's memory.   @room [kinds * kept + served] */
static tx_status read_own(const tx_zero *z, int kinds, float *room)
{
    const tx_compressed *m = &z->compressed;
    size_t kept = (size_t)z->flat.kept.numel;
    for (int k = 0; k < kinds; k++, room += kept)
        TX_TRY(tx_device_read(z->c->device, room, own_of(z, k), kept * sizeof *room));
    return tx_device_read(z->c->device, room, m->server, (size_t)m->served * sizeof *room);
}

/* Worker r's, side by side in `room`, into their places in z->compressed.parts. */
static void place(const tx_zero *z, int kinds, int r, float *room)
{
    int workers = tx_zero_n_workers(z);
    int64_t numel = z->flat.kept.numel;
    for (int k = 0; k < kinds; k++, room += numel)
        memcpy(z->compressed.parts + (k * workers + r) * numel, room, (size_t)numel * sizeof *room);
    place_served(z, r, room, z->compressed.parts + kinds * workers * numel, false);
}

tx_status tx_zero_gather_errors(tx_zero *z, int kinds, float **parts)
{
    tx_compressed *m = &z->compressed;
    tx_comm *g = tx__compressed_workers(z);
    int workers = tx_comm_size(g), rank = tx_comm_rank(g);
    int64_t n = kinds * z->flat.kept.numel + m->served;
    size_t all = (size_t)tx_zero_error_parts(z) * (size_t)z->flat.kept.numel;
    float *room = NULL;
    *parts = NULL;
    if (tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_NEAR)))
        return TX_OK; /* as the first rank of the worker has them */
    tx_status st = tx_alloc(&room, (size_t)n, sizeof *room, what);
    if (!st && !rank && !m->parts) st = tx_alloc(&m->parts, all, sizeof *m->parts, what);
    TX_GOTO(tx_comm_agree(g, st ? st : read_own(z, kinds, room)));
    tx_request sent = { 0 };
    if (rank) TX_GOTO(tx_send_start(z->c, g, tx_tensor1(room, TX_F32, n), 0, 0, &sent));
    if (rank) TX_GOTO(tx_wait(z->c, &sent));
    for (int r = 0; r < workers && !rank; r++) {
        if (r) TX_GOTO(tx_recv(z->c, g, tx_tensor1(room, TX_F32, n), r, 0));
        place(z, kinds, r, room);
    }
    *parts = m->parts;
out:
    tx_free(room);
    return st;
}

tx_status tx_zero_set_errors(tx_zero *z, int kinds, const float *own, const float *server)
{
    const tx_compressed *m = &z->compressed;
    size_t kept = (size_t)z->flat.kept.numel;
    float *served;
    for (int k = 0; k < kinds; k++, own += kept)
        TX_TRY(tx_device_write(z->c->device, own_of(z, k), own, kept * sizeof *own));
    for (int i = 0; i < z->n_ranges && kinds > 1; i++) TX_TRY(z->optim.type->place(z->c, &z->range[i]));
    TX_TRY(tx_alloc(&served, (size_t)m->served, sizeof *served, what));
    place_served(z, tx_zero_worker(z), served, (float *)server, true);
    tx_status st = tx_device_write(z->c->device, m->server, served, (size_t)m->served * sizeof *served);
    tx_free(served);
    return st;
}
