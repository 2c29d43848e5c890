/* lora.c - low-rank adapters, forward and backward. */
#include "nn/lora.h"

#include <stdio.h>
#include <string.h>

#include "parallel/grid.h"

/* clang-format off */
#define A_ROW(constant, name, of_a, of_b) \
    { name ".lora_A.weight", of_a, TX_INIT_KAIMING, TX_DECAY, TX_SETS, offsetof(tx_lora, a), 0 },
#define B_ROW(constant, name, of_a, of_b) \
    { name ".lora_B.weight", of_b, TX_INIT_ZERO,    TX_DECAY, TX_SETS, offsetof(tx_lora, b), 0 },
/* clang-format on */
static const tx_param_decl a_row[TX_N_LORA_TARGETS] = { TX_LORA_TARGETS(A_ROW) },
                           b_row[TX_N_LORA_TARGETS] = { TX_LORA_TARGETS(B_ROW) };

tx_status tx_lora_declare(tx_params *ps, const char *prefix, tx_lora *lora, const tx_dims *dims)
{
    for (int k = 0; k < TX_N_LORA_TARGETS; k++) {
        if (!lora[k].on) continue;
        TX_TRY(tx_params_declare(ps, prefix, &a_row[k], 1, &lora[k], dims));
        TX_TRY(tx_params_declare(ps, prefix, &b_row[k], 1, &lora[k], dims));
    }
    return TX_OK;
}

int tx_lora_target_of(const char *name, int *layer)
{
    int at = 0;
    if (sscanf(name, "encoder.layers.%d.%n", layer, &at) != 1 || !at) return -1;
    for (int k = 0; k < TX_N_LORA_TARGETS; k++)
        if (!strcmp(name + at, a_row[k].name) || !strcmp(name + at, b_row[k].name)) return k;
    return -1;
}

void tx_lora_beside(char name[TX_PARAM_NAME_MAX], int target, int layer)
{
    size_t n = strlen(a_row[target].name) - strlen(".lora_A.weight");
    const unsigned parts = TX_LORA_BIT(TX_LORA_Q) | TX_LORA_BIT(TX_LORA_K) | TX_LORA_BIT(TX_LORA_V) |
                           TX_LORA_BIT(TX_LORA_GATE) | TX_LORA_BIT(TX_LORA_UP);
    while (TX_LORA_BIT(target) & parts && a_row[target].name[--n] != '.') continue;
    snprintf(name, TX_PARAM_NAME_MAX, "encoder.layers.%d.%.*s.weight", layer, (int)n, a_row[target].name);
}

/* ---- what an adapter reads, and what it adds to ---- */

/* Its columns of y: as one matrix where they lie side by side, else [rows, groups, width]. */
static tx_tensor columns_of(const tx_lora *l, tx_tensor y)
{
    int64_t ld = y.stride[0];
    if (!l->wide) return y;
    tx_tensor x = { .data = (char *)y.data + (size_t)l->begin * tx_dtype_size(y.dtype), .dtype = y.dtype };
    if (l->groups == 1) {
        x.n_dims = 2;
        x.dim[0] = y.dim[0], x.dim[1] = l->width;
        x.stride[0] = ld, x.stride[1] = 1;
        return x;
    }
    x.n_dims = 3;
    x.dim[0] = y.dim[0], x.dim[1] = l->groups, x.dim[2] = l->width;
    x.stride[0] = ld, x.stride[1] = l->wide, x.stride[2] = 1;
    return x;
}

/* Contiguous room for columns of several groups, and the same in their shape. */
static tx_tensor side_by_side(tx_ctx *c, tx_tensor columns)
{
    return tx_push2(&c->scratch, columns.dtype, columns.dim[0], columns.dim[1] * columns.dim[2]);
}

static tx_tensor grouped(tx_tensor rows, tx_tensor columns)
{
    return tx_tensor3(rows.data, rows.dtype, columns.dim[0], columns.dim[1], columns.dim[2]);
}

static tx_dropout mask_of(const tx_lora *l, const tx_dropout_key *key)
{
    if (!key || l->p_drop == 0) return (tx_dropout){ .drop = 0 };
    tx_dropout_key whole = *key;
    whole.at = key->whole; /* x has the peers' positions, too */
    tx_dropout m = tx_dropout_at(&whole, l->p_drop, l->layer, l->site);
    m.columns = l->columns;
    m.first_column = l->first;
    return m;
}

/* Rows of all positions as [s, b, columns]. */
static tx_tensor as_samples(tx_tensor rows, const tx_dropout_key *key)
{
    return tx_tensor3(rows.data, rows.dtype, rows.dim[0] / key->b, key->b, rows.dim[1]);
}

/* What a call has of an adapter, in scratch memory: drop(x), and z = scale drop(x) Aᵀ. */
typedef struct low_rank {
    tx_tensor x, z;
    tx_dropout mask;
} low_rank;

static tx_status read(tx_ctx *c, const tx_lora *l, low_rank *to, tx_tensor x, const tx_dropout_key *key)
{
    to->mask = mask_of(l, key);
    to->x = x;
    if (to->mask.drop) {
        to->x = tx_push2(&c->scratch, x.dtype, x.dim[0], x.dim[1]);
        TX_RUN(c, dropout_add_fwd, .y = as_samples(to->x, key), .x = as_samples(x, key), .mask = to->mask);
    }
    to->z = tx_push2(&c->scratch, x.dtype, x.dim[0], l->a.value.dim[0]);
    TX_RUN(c, gemm, .c = to->z, .a = to->x, .b = l->a.value, .trans_b = true);
    TX_RUN(c, blend, .y = to->z, .x = to->z, .alpha = l->scale);
    return TX_OK;
}

/* ---- forward ---- */

static tx_status add_to(tx_ctx *c, const tx_lora *l, tx_tensor y, tx_tensor x, const tx_dropout_key *key)
{
    low_rank k;
    tx_tensor columns = columns_of(l, y);
    /* 1  z = scale drop(x) Aᵀ */
    TX_TRY(read(c, l, &k, x, key));
    /* 2  y += z Bᵀ */
    if (columns.n_dims == 2) {
        TX_RUN(c, gemm, .c = columns, .a = k.z, .b = l->b.value, .trans_b = true, .accumulate = true);
        return TX_OK;
    }
    tx_tensor side = side_by_side(c, columns);
    TX_RUN(c, copy, .y = grouped(side, columns), .x = columns);
    TX_RUN(c, gemm, .c = side, .a = k.z, .b = l->b.value, .trans_b = true, .accumulate = true);
    TX_RUN(c, copy, .y = columns, .x = grouped(side, columns));
    return TX_OK;
}

tx_status tx_lora_fwd(tx_ctx *c, tx_loras l, tx_tensor y, tx_tensor x, const tx_dropout_key *key)
{
    for (int i = 0; i < l.n; i++) {
        size_t mark = tx_arena_mark(&c->scratch);
        if (l.lora[i].on) TX_TRY(add_to(c, &l.lora[i], y, x, key));
        tx_arena_pop(&c->scratch, mark);
    }
    return TX_OK;
}

/* ---- backward ---- */

static tx_status add_to_bwd(tx_ctx *c, const tx_lora *l, tx_tensor dx, tx_tensor dy, tx_tensor x,
                            const tx_dropout_key *key)
{
    low_rank k;
    tx_tensor d = columns_of(l, dy);
    if (d.n_dims == 3) {
        tx_tensor side = side_by_side(c, d);
        TX_RUN(c, copy, .y = grouped(side, d), .x = d);
        d = side;
    }
    TX_TRY(read(c, l, &k, x, key)); /* 1 */
    tx_tensor dz = tx_push2(&c->scratch, x.dtype, k.z.dim[0], k.z.dim[1]);
    /* 2  dB += dyᵀ z,  dz = scale dy B */
    TX_RUN(c, gemm, .c = l->b.grad, .a = d, .b = k.z, .trans_a = true, .accumulate = !l->b.fresh);
    TX_RUN(c, gemm, .c = dz, .a = d, .b = l->b.value);
    TX_RUN(c, blend, .y = dz, .x = dz, .alpha = l->scale);
    /* 1  dA += dzᵀ drop(x),  dx += drop'(dz A) */
    TX_RUN(c, gemm, .c = l->a.grad, .a = dz, .b = k.x, .trans_a = true, .accumulate = !l->a.fresh);
    if (!k.mask.drop) {
        TX_RUN(c, gemm, .c = dx, .a = dz, .b = l->a.value, .accumulate = true);
        return TX_OK;
    }
    TX_RUN(c, gemm, .c = k.x, .a = dz, .b = l->a.value);
    TX_RUN(c, dropout_add_fwd, .y = as_samples(dx, key), .x = as_samples(k.x, key), .residual = as_samples(dx, key),
           .mask = k.mask);
    return TX_OK;
}

tx_status tx_lora_bwd(tx_ctx *c, tx_loras l, tx_tensor dx, tx_tensor dy, tx_tensor x, const tx_dropout_key *key)
{
    for (int i = 0; i < l.n; i++) {
        size_t mark = tx_arena_mark(&c->scratch);
        if (l.lora[i].on) TX_TRY(add_to_bwd(c, &l.lora[i], dx, dy, x, key));
        tx_arena_pop(&c->scratch, mark);
    }
    return TX_OK;
}
