/* board.c - where things stand on a board, and who frees it. */
#include "comm/board.h"

#include <sched.h>

#include "base/clock.h"

static size_t lines_at(void)
{
    return sizeof(tx__board);
}

static size_t slots_at(int n)
{
    return lines_at() + (size_t)n * sizeof(tx__line);
}

static size_t boxes_at(int n)
{
    return slots_at(n) + (size_t)TX__RING * (size_t)n * sizeof(tx__call_slot);
}

static size_t stages_at(int n)
{
    return boxes_at(n) + (size_t)n * (size_t)n * sizeof(tx__box);
}

size_t tx__board_bytes(int n, bool staging)
{
    return stages_at(n) + (staging ? (size_t)n * TX__STAGES * TX__CHUNK : 0);
}

tx__line *tx__board_line(tx__board *b, int rank)
{
    return (tx__line *)((unsigned char *)b + lines_at()) + rank;
}

tx__call_slot *tx__board_slot(tx__board *b, int64_t order, int rank)
{
    return (tx__call_slot *)((unsigned char *)b + slots_at(b->n)) + (order % TX__RING) * b->n + rank;
}

tx__box *tx__board_box(tx__board *b, int from, int to)
{
    return (tx__box *)((unsigned char *)b + boxes_at(b->n)) + (int64_t)from * b->n + to;
}

unsigned char *tx__board_stage(tx__board *b, int rank, int64_t chunk)
{
    return (unsigned char *)b + stages_at(b->n) +
           ((size_t)rank * TX__STAGES + (size_t)(chunk % TX__STAGES)) * TX__CHUNK;
}

/* Frees the boards of this rank's that all members have left; others may be reading theirs still. */
static void sweep(tx_world *w, bool all)
{
    for (tx__board **at = &w->boards; *at;) {
        tx__board *b = *at;
        if (!all && atomic_load(&b->n_left) < b->n) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        tx_shared_free(b);
    }
}

tx_status tx__board_make(tx__board **out, tx_world *owner, int n)
{
    tx__board *b;
    sweep(owner, false);
    TX_TRY(tx_shared_alloc(&b, tx__board_bytes(n, !owner->one_process), "a group of ranks"));
    b->n = n;
    b->next = owner->boards;
    owner->boards = b;
    *out = b;
    return TX_OK;
}

void tx__boards_free(tx_world *w, double patience)
{
    double start = tx_clock();
    sweep(w, false);
    while (w->boards && tx_clock() - start < patience) {
        sched_yield();
        sweep(w, false);
    }
    sweep(w, true);
}

bool tx__address_of(tx__address *out, bool one_process, const void *x, size_t bytes)
{
    if (!one_process) return tx_shared_find(&out->place, x, bytes);
    out->pointer = (void *)(uintptr_t)x;
    return true;
}

tx_status tx__address_reach(void **out, bool one_process, const tx__address *a)
{
    if (!one_process) return tx_shared_map(out, &a->place);
    *out = a->pointer;
    return TX_OK;
}
