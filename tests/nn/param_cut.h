/* param_cut.h - the shard of a parameter by its pieces, row by row: what a rank's numbers are compared with. */
#ifndef TX_TESTS_NN_PARAM_CUT_H
#define TX_TESTS_NN_PARAM_CUT_H

#include "nn/param.h"

#include <string.h>

/* @shard [dim], rows that pad it zeroed   @whole [whole_logical, whole[1]] */
static inline void param_cut(const tx_param *p, float *shard, const float *whole)
{
    tx_param_piece piece[TX_PARAM_MAX_PIECES];
    int64_t width = p->n_dims == 2 ? p->dim[1] : 1, whole_width = p->n_dims == 2 ? p->whole[1] : 1;
    memset(shard, 0, (size_t)p->numel * sizeof *shard);
    for (int n = tx_param_pieces(p, piece), i = 0; i < n; i++)
        for (int64_t r = 0; r < piece[i].size[0]; r++)
            memcpy(shard + (piece[i].at[0] + r) * width + piece[i].at[1],
                   whole + (piece[i].start[0] + r) * whole_width + piece[i].start[1],
                   (size_t)piece[i].size[1] * sizeof *shard);
}

#endif
