/* orthogonal.h - the matrix that is nearly orthogonal and nearest to another: for M = U S Vᵀ nearly U Vᵀ.
 *
 *      X = M / |M|    k times:  A = X Xᵀ,  X <- a X + (b A + c A²) X      the singular values go to about 1
 *
 *  A is of the rows, or with `of_columns` of the columns, A = XᵀX and X <- a X + X (b A + c A²): an odd polynomial of
 * the singular values either way, and the shorter side is less work. Where ranks have parts of the longer side, A is
 * the sum of theirs, and nothing else is exchanged. With bf16 two steps of a long matrix are made in one
 * (orthogonal.c). It is composed of ops. Products are in `type`, sums of fp32 or better; the norm is exact, as that of
 * all gradients. Source: K. Jordan, kellerjordan.github.io/posts/muon; NVIDIA's emerging_optimizers
 * (muon_utils.py). */
#ifndef TX_OPTIM_ORTHOGONAL_H
#define TX_OPTIM_ORTHOGONAL_H

#include "backend/ops.h"
#include "comm/comm.h"
#include "kinds/ns_coefficients.h"

enum { TX_NS_GRAMS = 3 };

typedef struct tx_newton_schulz {
    enum tx_ns_coefficients coefficients;
    int steps;
    tx_dtype type;               /* of products: fp32 or bf16 */
    int64_t most, side;          /* elements of a matrix, and of its side that A is of, at most */
    int ranks;                   /* that have parts, at most */
    void *base;                  /* owned; all that follows */
    size_t bytes;                /* of it */
    void *x[2];                  /* [most] */
    void *gram[TX_NS_GRAMS];     /* [side, side] */
    double *sums, *norm, *norms; /* [blocks of most], [3], [ranks] */
    int64_t *squares;            /* [TX_EXACT_WORDS] */
} tx_newton_schulz;

/* Its memory: `bytes`, and addresses that a dry run computes with; then the memory. TX_ERR_NOMEM. */
void tx_newton_schulz_plan(tx_newton_schulz *n);
tx_status tx_newton_schulz_take(tx_newton_schulz *n, tx_device *d);
void tx_newton_schulz_give(tx_newton_schulz *n, tx_device *d);

typedef struct tx_orthogonal {
    tx_tensor m;     /* [rows, columns] fp32, in and out: here a part, if ranks have parts */
    bool of_columns; /* which side A is of; ranks have parts of the other one */
    tx_comm *parts;  /* they are these; NULL: m is whole */
    double scale;    /* of the result */
} tx_orthogonal;

/* The a, b, c of step i, from 0. */
const double *tx_newton_schulz_coefficients(enum tx_ns_coefficients kind, int i);

/* How often A is made of X, and with parts summed: of a matrix whose sides, of A and the other one, are as long. */
int tx_newton_schulz_sums(const tx_newton_schulz *n, int64_t side, int64_t other);

tx_status tx_newton_schulz_run(tx_ctx *c, const tx_newton_schulz *n, const tx_orthogonal *o);

#endif
