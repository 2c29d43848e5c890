/* machine_rows.h - machine.def as tables, for who reads, writes and documents machine files; for src/predict/ only. */
#ifndef TX_PREDICT_MACHINE_ROWS_H
#define TX_PREDICT_MACHINE_ROWS_H

#include "base/str.h"
#include "predict/machine.h"

/* A number of a file. */
typedef struct tx__machine_row {
    const char *path;    /* of a measured entry's: the key */
    size_t at;           /* offset of the double in tx_machine, tx_measured_product or tx__op_numbers */
    double unit, lo, hi; /* lo, hi: in the file's unit */
    double otherwise;    /* likewise; NAN: it has to be there */
    bool whole, fitted;
    const char *meaning;
} tx__machine_row;

/* The numbers of a tx_measured_op. */
typedef struct tx__op_numbers {
    double size, head, per_s, ranks;
} tx__op_numbers;

/* Each table ends with a row without a path. */
extern const tx__machine_row tx__machine_rows[], tx__product_rows[], tx__op_rows[];

/* The ops that a machine file may name: those of backend/ops.def. */
enum {
    TX__N_TIMED_OPS = 0
#define OP(...) +1
#include "backend/ops.def"
};
typedef struct tx__timed_op {
    const char *op;
    bool attention;
} tx__timed_op;
extern const tx__timed_op tx__timed_ops[TX__N_TIMED_OPS];

/* Whether the row of tx__op_rows is one of this op: attention has other ones than the rest. */
bool tx__op_has(const char *op, const tx__machine_row *row);

/* Where the number of a row is. @of the row's struct */
static inline double *tx__machine_number_at(void *of, const tx__machine_row *row)
{
    return (double *)((char *)of + row->at);
}

/* The files that come with triax, NUL-terminated, as tx_machine_names; made by the build from machines/. */
extern const unsigned char *const tx__machine_texts[];

/* What tx_machine_write writes, appended. */
tx_status tx__machine_text(tx_str *out, const tx_machine *m, const char *source);

/* docs/formats/machine.md, appended. */
tx_status tx__machine_markdown(tx_str *out);

#endif
