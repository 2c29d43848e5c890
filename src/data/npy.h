/* npy.h - NumPy's .npy files, read in place: one array of integers of 4 or 8 bytes.
 *
 *      93 'N' 'U' 'M' 'P' 'Y'   version 1.0: u16, 2.0 or 3.0: u32 length of the text that follows
 *      {'descr': '<i4', 'fortran_order': False, 'shape': (5, 2), }        a Python literal, blanks, a line end
 *      the numbers, row after row
 *
 *  Source: numpy/lib/format.py. */
#ifndef TX_DATA_NPY_H
#define TX_DATA_NPY_H

#include "base/file.h"
#include "data/ints.h"

typedef struct tx_npy {
    tx_map map;
    int64_t dim[2]; /* of a vector {n, 1} */
    int n_dims;     /* 1 or 2 */
    tx_ints ints;   /* all dim[0] * dim[1] of them, in the mapped file */
} tx_npy;

/* Errors: TX_ERR_NOTFOUND, TX_ERR_IO; TX_ERR_FORMAT for what is no .npy file or is not as long as its header says;
 * TX_ERR_UNSUPPORTED for other types than integers of 32 and 64 bits (uint64 is taken for
 * int64), Fortran order and more than two dimensions. */
tx_status tx_npy_open(tx_npy *out, const char *path);
void tx_npy_close(tx_npy *a); /* a zeroed one is fine */

#endif
