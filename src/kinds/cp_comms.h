/* cp_comms.h - how attention sees all positions of a sample that ranks divide: --cp-comm-type, in Megatron Core's
 * words. A row is X(constant, word). */
#ifndef TX_KINDS_CP_COMMS_H
#define TX_KINDS_CP_COMMS_H

#include "kinds/kind.h"

#define TX_CP_COMMS(X)                   \
    X(TX_CP_COMM_P2P, "p2p")             \
    X(TX_CP_COMM_A2A, "a2a")             \
    X(TX_CP_COMM_ALLGATHER, "allgather") \
    X(TX_CP_COMM_A2A_P2P, "a2a+p2p")

TX_KIND(cp_comm, TX_CP_COMMS)

#endif
