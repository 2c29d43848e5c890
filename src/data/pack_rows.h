/* pack_rows.h - which conversations share a row: best fit, the longest first.
 *
 *  Each conversation, from the longest on and of equally long ones in their order, goes into the row that has the least
 *  room left of those that it fits into; of equally full rows into the oldest; else a new row begins. It is a function
 *  of the lengths alone. Source of the rule: TRL, trl/data_utils.py, its strategy "bfd". */
#ifndef TX_DATA_PACK_ROWS_H
#define TX_DATA_PACK_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_packed_rows {
    int64_t *item;  /* [n items] those of row 0, then those of row 1, ... */
    int64_t *begin; /* [n_rows + 1] where each row's begin in `item` */
    int64_t n_rows;
} tx_packed_rows;

/* @len [n], each 1 to `room`, which is what a row holds. @alone: one in each row, in their order.  TX_ERR_NOMEM */
tx_status tx_pack_rows(tx_packed_rows *out, const int64_t *len, int64_t n, int64_t room, bool alone);
void tx_packed_rows_free(tx_packed_rows *p); /* a zeroed one is fine */

#endif
