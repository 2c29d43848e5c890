/* comm_split.c - groups out of groups. */
#include <string.h>

#include "base/alloc.h"
#include "comm/board.h"

/* What a member tells the others: those of a colour are a group, in the order of their keys. */
typedef struct offer {
    int color, key, rank;
    int64_t n_groups;
} offer;

typedef struct board_offer {
    int st; /* of who makes the board */
    tx__address at;
} board_offer;

static tx_status open_remote(tx_comm *g)
{
    TX_TRY(tx__remote_open(g, g->world->n_groups));
    return tx__hosts_open(g, g->world->n_groups);
}

/* The members of my colour. No two have the same key. */
static tx_status members(tx_comm **out, tx_comm *parent, const offer *all, const char *name)
{
    const offer *mine = &all[parent->rank];
    int n = 0, me = 0;
    for (int i = 0; i < parent->size; i++) {
        if (mine->color < 0 ? i != parent->rank : all[i].color != mine->color) continue;
        me += all[i].key < mine->key;
        n++;
    }
    TX_TRY(tx__group_new(out, parent->world, n, me, name));
    for (int i = 0; i < parent->size; i++) {
        int at = 0;
        if (mine->color < 0 ? i != parent->rank : all[i].color != mine->color) continue;
        for (int k = 0; k < parent->size && mine->color >= 0; k++)
            at += all[k].color == mine->color && all[k].key < all[i].key;
        (*out)->world_rank[at] = all[i].rank;
    }
    return TX_OK;
}

static bool same_host(const tx_comm *g)
{
    const tx_seat *seats = g->world->seats;
    for (int i = 1; i < g->size; i++)
        if (seats[g->world_rank[i]].host != seats[g->world_rank[0]].host) return false;
    return g->size <= TX__MEMBERS;
}

static tx_status offer_board(board_offer *mine, tx__board **board, tx_world *w, int n)
{
    TX_TRY(tx__board_make(board, w, n));
    bool found = tx__address_of(&mine->at, w->one_process, *board, sizeof **board);
    TX_ASSERT(found);
    return TX_OK;
}

/* The first of the new group's members makes its board; all of the parent's take part. */
static tx_status open_local(tx_comm *g, tx_comm *parent, bool local)
{
    board_offer *all = NULL, mine = { 0 };
    tx__board *board = NULL;
    tx_status st;
    TX_TRY(tx_alloc(&all, (size_t)parent->size, sizeof *all, "a group of ranks"));
    if (local && g->rank == 0) mine.st = (int)offer_board(&mine, &board, g->world, g->size);
    TX_GOTO(tx_comm_gather(parent, all, &mine, sizeof mine));
    int first = 0;
    while (local && tx_comm_world_rank(parent, first) != g->world_rank[0]) first++;
    st = (tx_status)all[first].st;
    if (local && !st && g->rank > 0) {
        void *at;
        st = tx__address_reach(&at, g->world->one_process, &all[first].at);
        if (!st) board = at;
    }
    if (local && !st) st = tx__local_open(g, board, g->world->one_process);
    st = tx_comm_agree(parent, st);
out:
    tx_free(all);
    return st;
}

tx_status tx__inside_open(tx_comm **out, tx_comm *g, const int *color)
{
    offer *all;
    tx_status st = tx_alloc(&all, (size_t)g->size, sizeof *all, "a group of ranks");
    for (int i = 0; i < g->size && !st; i++) all[i] = (offer){ .color = color[i], .key = i, .rank = g->world_rank[i] };
    if (!st) st = members(out, g, all, g->name);
    tx_free(all);
    TX_TRY(tx_comm_agree(g, st));
    tx__leave_world(*out);
    return open_local(*out, g, (*out)->size > 1);
}

static tx_status split(tx_comm **out, tx_comm *parent, int color, int key, const char *name)
{
    TX_ASSERT(parent->world);
    tx_world *w = parent->world;
    offer *all = NULL, mine = { .color = color, .key = key, .rank = w->rank, .n_groups = w->n_groups };
    tx_comm *g = NULL;
    tx_status st;
    TX_TRY(tx_alloc(&all, (size_t)parent->size, sizeof *all, "a group of ranks"));
    TX_GOTO(tx_comm_gather(parent, all, &mine, sizeof mine));
    for (int i = 0; i < parent->size; i++)
        if (all[i].n_groups > w->n_groups) w->n_groups = all[i].n_groups;
    w->n_groups++; /* larger than of any group that shares a rank with this one */
    TX_GOTO(tx_comm_agree(parent, members(&g, parent, all, name)));
    TX_GOTO(open_local(g, parent, g->size > 1 && same_host(g)));
    if (g->size > 1 && !g->kind) TX_GOTO(open_remote(g));
    if (g->size > 1 && w->team_side) TX_GOTO(tx__team_open(g));
    *out = g;
out:
    if (st) tx_comm_close(g);
    tx_free(all);
    return st;
}

tx_status tx_comm_split(tx_comm **out, tx_comm *parent, int color, const char *name)
{
    return split(out, parent, color, parent->rank, name);
}

tx_status tx_comm_reorder(tx_comm **out, tx_comm *parent, int rank, const char *name)
{
    return split(out, parent, 0, rank, name);
}
