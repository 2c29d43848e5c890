/* ref_backend.c - the rows of "ref". It takes every float dtype and uses one thread. */
#include "backend/ref/ref.h"

static const char *describe(void)
{
    return "plain C in fp64, one thread: the specification";
}

static void fill_ops(tx_ops *ops)
{
#define ROW(op) ops->op = (tx_##op##_row){ .run = tx__ref_##op };
#include "backend/ref/rows.def"
#define OP(op, outputs, cost, scratch) scratch
#define REF_SCRATCH(op)                ops->op.scratch = tx__ref_##op##_scratch;
#include "backend/ops.def"
}

extern const tx_backend tx_backend_ref; /* registry.c lists it */
const tx_backend tx_backend_ref = { .name = "ref", .describe = describe, .fill_ops = fill_ops };
