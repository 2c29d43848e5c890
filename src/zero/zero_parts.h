/* zero_parts.h - the training state that a rank keeps, as a list of named parts: for checkpoints, which need not know
 * how ZeRO divides it, and for comparing the ranks. */
#ifndef TX_ZERO_ZERO_PARTS_H
#define TX_ZERO_ZERO_PARTS_H

#include "nn/replicas.h"
#include "zero/zero.h"

/* Part 0 is the master weights, the others are the optimizer's buffers. */
enum { TX_ZERO_MAX_PARTS = 1 + TX_OPTIM_MAX_STATE };
typedef struct tx_zero_part {
    const char *name;      /* the optimizer's for it; NULL: the weights */
    bool kept;             /* false: there are no masters, as in an evaluation with bf16 values (tx_zero_set_weights) */
    float *flat;           /* the numbers where the host sees them; NULL: only tx_zero_part_move reaches them */
    bool whole;            /* flat has all of the table, and not only this rank's fragments */
    const tx_params *rows; /* the rows that it has, and what this rank keeps of these; NULL: those of the model */
    const tx_fragments *of_rows;
} tx_zero_part;

/* Returns how many there are; without `with_optim` the weights only. */
int tx_zero_parts(const tx_zero *z, bool with_optim, tx_zero_part part[TX_ZERO_MAX_PARTS]);

/* Elements [first, first + n) of what this rank keeps of a part: into x, or with `store` out of it. After stores:
 * tx_zero_publish.   @x [n]   TX_ERR_IO */
tx_status tx_zero_part_move(tx_zero *z, int part, int64_t first, int64_t n, float *x, bool store);

/* The fragments of the model's table that this rank keeps; NULL: all of it, as every data-parallel rank. */
const tx_fragments *tx_zero_kept(const tx_zero *z);

/* The ranks whose parts together are a checkpoint; NULL: this rank's are not among them, because another one keeps the
 * same. */
tx_comm *tx_zero_savers(const tx_zero *z);

/* Hashes of the numbers that other ranks have as well, a row for each of the table's, for tx_replicas_compare: of the
 * masters that this rank keeps, and of the values that every data-parallel rank has (none with ZeRO-3). TX_ERR_NOMEM,
 * TX_ERR_IO */
tx_status tx_zero_hash_masters(tx_zero *z, tx_replica *row);
tx_status tx_zero_hash_values(const tx_zero *z, tx_replica *row);

#endif
