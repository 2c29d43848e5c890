/* machine_rows.c - the tables. */
#include "predict/machine_rows.h"

#include <math.h>
#include <string.h>

#define NEEDED NAN
#define COUNT  0

#define ROW(type, member, path, unit, lo, hi, otherwise, fitted, meaning) \
    { path, offsetof(type, member), (unit) == COUNT ? 1 : (unit), lo, hi, otherwise, (unit) == COUNT, fitted, meaning },

const tx__machine_row tx__machine_rows[] = {
#define NUMBER(member, path, unit, lo, hi, otherwise, meaning) \
    ROW(tx_machine, member, path, unit, lo, hi, otherwise, false, meaning)
#define FITTED(member, path, unit, lo, hi, otherwise, meaning) \
    ROW(tx_machine, member, path, unit, lo, hi, otherwise, true, meaning)
#include "predict/machine.def"
    { 0 }
};
const tx__machine_row tx__product_rows[] = {
#define MEASURED_PRODUCT(member, key, unit, lo, hi, meaning) \
    ROW(tx_measured_product, member, key, unit, lo, hi, NEEDED, false, meaning)
#include "predict/machine.def"
    { 0 }
};
const tx__machine_row tx__op_rows[] = {
#define MEASURED_OP(member, key, unit, lo, hi, meaning) \
    ROW(tx__op_numbers, member, key, unit, lo, hi, NEEDED, false, meaning)
#include "predict/machine.def"
    { 0 }
};

const tx__timed_op tx__timed_ops[TX__N_TIMED_OPS] = {
#define MEMORY(...)                      false
#define PRODUCT(...)                     false
#define ATTENTION(...)                   true
#define OP(name, outputs, cost, scratch) { #name, cost },
#include "backend/ops.def"
};

bool tx__op_has(const char *op, const tx__machine_row *row)
{
    bool attention = false;
    for (int i = 0; i < TX__N_TIMED_OPS; i++)
        attention |= tx__timed_ops[i].attention && !strcmp(tx__timed_ops[i].op, op);
    bool only_attention = !strcmp(row->path, "head") || !strcmp(row->path, "tflops");
    return attention ? strcmp(row->path, "gb_per_s") != 0 : !only_attention;
}

double *tx_machine_number(tx_machine *m, const char *path)
{
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
        if (!strcmp(path, row->path)) return tx__machine_number_at(m, row);
    return NULL;
}
