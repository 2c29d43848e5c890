/* replicas.h - whether numbers that several ranks hold are still the same on all of them. They are computed by each,
 * from the same numbers in the same order, so they differ only when memory, a network or a program has failed; and a
 * run whose ranks have drifted apart must not go on, or be saved as if it were one model. */
#ifndef TX_NN_REPLICAS_H
#define TX_NN_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "nn/param.h"

/* What the ranks of a group have in common. */
typedef enum tx_in_common {
    TX_UNSPLIT, /* tensor-parallel ranks: parameters that are not split */
    TX_BY_NAME  /* data-parallel ranks: all; first and last stage: the parameters that both have */
} tx_in_common;

/* What a rank has of a row of the table. */
typedef struct tx_replica {
    bool has;      /* false: nothing */
    uint64_t hash; /* of its bytes */
} tx_replica;

/* Compares what members of the group have in common, bit for bit. Collective over the group. TX_ERR_NUMERIC, on all of
 * them, names the first tensor that differs, two ranks and the number of others; ranks of other groups do not know
 * before they agree.   @row [ps->n] */
tx_status tx_replicas_compare(const tx_params *ps, const tx_replica *row, tx_comm *group, tx_in_common what);

#endif
