/* whole_table.h - all of a parameter table in one flat buffer, for tests. */
#ifndef TX_TESTS_WHOLE_TABLE_H
#define TX_TESTS_WHOLE_TABLE_H

#include <xxhash.h>

#include "nn/param.h"
#include "nn/replicas.h"

static inline void init_whole(const tx_params *ps, float *flat, uint64_t seed, tx_init_method method)
{
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        tx_param_init(p, flat + p->offset, 0, p->numel, seed, method);
    }
}

/* @row [ps->n] */
static inline const tx_replica *replicas_of(tx_replica *row, const tx_params *ps, const float *flat)
{
    for (int i = 0; i < ps->n; i++)
        row[i] = (tx_replica){ true, XXH3_64bits(flat + ps->param[i].offset,
                                                 (size_t)tx_param_n_real(&ps->param[i]) * sizeof(float)) };
    return row;
}

#endif
