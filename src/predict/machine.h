/* machine.h - what a machine can do, as numbers: read from a JSON file (docs/formats/machine.md) or one of those that
 * come with triax (machines/, in the program itself). */
#ifndef TX_PREDICT_MACHINE_H
#define TX_PREDICT_MACHINE_H

#include <stdio.h>

#include "backend/tensor.h"
#include "base/status.h"

/* A product that was measured: [m, k] times [k, n], on all threads of a rank. */
typedef struct tx_measured_product {
    tx_dtype dtype;
    double m, n, k, flops_per_s;
    double ranks; /* that did it at the same time on the node, each with its share of the cores */
} tx_measured_product;

/* An op that was measured, on tensors of so many bytes in all (of attention: at a head dimension and a length). */
typedef struct tx_measured_op {
    char op[32]; /* "layernorm_fwd"; of a call on a group "all-reduce" */
    tx_dtype dtype;
    double size;  /* bytes that it reads and writes; of attention the number of positions */
    double head;  /* of attention the head dimension; of others 0 */
    double per_s; /* bytes a second; of attention FLOP/s */
    int ranks;    /* that did it at the same time on the node, each with its share of the cores */
} tx_measured_op;

typedef struct tx_machine {
    char name[64];
#define NUMBER(member, path, unit, lo, hi, otherwise, meaning) double member;
#include "predict/machine.def"
    tx_measured_product *product; /* owned; in place of the formulas where there are any of the type */
    tx_measured_op *op;           /* owned, likewise */
    char **source;                /* owned, as are the texts: where the numbers are from, for people */
    int n_products, n_ops, n_sources;
} tx_machine;

/* Reads the machine called `name`, one that comes with triax, or else the file of that path. TX_ERR_NOTFOUND lists the
 * names that there are; TX_ERR_FORMAT names file, key, what it is and what is allowed: missing, unknown, no number, out
 * of bounds. The caller frees it, also after a failure. */
tx_status tx_machine_read(tx_machine *out, const char *name);
void tx_machine_free(tx_machine *m); /* a zeroed one is fine */

/* What of a rank's memory a run can have: a driver's context, the libraries' buffers and what lies between two
 * allocations take the rest, some 3 GiB of 80. */
static inline size_t tx_machine_room(const tx_machine *m)
{
    return (size_t)(0.96 * m->memory);
}

/* Whether ranks compute in a memory of their own, and not in the host's. */
static inline bool tx_machine_is_gpu(const tx_machine *m)
{
    return m->cores == 0;
}

/* Publishes it as a file, of which tx_machine_read makes the same numbers, to the last bit where they were read from a
 * file.   @source one more sentence for "sources"; NULL: none */
tx_status tx_machine_write(const tx_machine *m, const char *path, const char *source);

/* The numbers by their paths, for programs that fit them. Returns NULL if there is no such path. */
double *tx_machine_number(tx_machine *m, const char *path);

/* Names of those that come with triax, ended by NULL. */
extern const char *const tx_machine_names[];

#endif
