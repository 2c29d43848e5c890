/* hosts.h - which rank does what where a call goes host by host; for hosts*.c.
 *
 * A call's tensor is cut into pieces, and on each host one member, the piece's deputy, sends and receives it for all.
 * All-reduces and broadcasts have as many pieces as the host with most members has members; a reduce-scatter and an
 * all-gather have one of each member, whose deputy on its own host is that member. */
#ifndef TX_COMM_HOSTS_H
#define TX_COMM_HOSTS_H

#include "comm/comm_state.h"

enum {
    TX__PIECE = 1 << 18,       /* bytes, at most */
    TX__LEAST_PIECE = 1 << 14, /* bytes, unless that is all there is */
    TX__CHUNKS = 8             /* of a call of some size, at least: hosts work on different ones */
};

/* The members of a group by their hosts, which are numbered in the order in which ranks come to them. */
typedef struct tx__host_map {
    tx_comm_hosts all;
    int own, rank; /* this rank's host; its number in the group */
    int *host;     /* [size], owned, as all that follow are: of a member */
    int *index;    /* [size]: among the members of its host */
    int *count;    /* [hosts]: members */
    int *first;    /* [hosts]: its first one in: */
    int *member;   /* [size]: host after host */
    int *ordinal;  /* [size]: of a member's piece, among those that have the same deputy on this host */
    int n_held;    /* pieces of members whose deputy this rank is */
} tx__host_map;

tx_status tx__host_map_open(tx__host_map *m, const tx_comm *g);
void tx__host_map_close(tx__host_map *m);

int tx__n_pieces(const tx__host_map *m, const tx_request *r);
int tx__deputy(const tx__host_map *m, const tx_request *r, int piece, int host);

/* Its number among the pieces that its deputy on this host has. */
int tx__piece_ordinal(const tx__host_map *m, const tx_request *r, int piece);

/* From whom a piece's result comes to its deputy here, and to whom that one hands it on; -1: nobody. An all-gather's
 * comes from its member, who sends it to all deputies. */
int tx__piece_source(const tx__host_map *m, const tx_request *r, int piece);
int tx__piece_target(const tx__host_map *m, const tx_request *r, int piece);

#endif
