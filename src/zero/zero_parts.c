/* zero_parts.c - names and places of what a rank keeps. */
#include "zero/zero_parts.h"

#include <xxhash.h>

#include "base/alloc.h"

/* The array (offload.h) that a part is. In fp32 the masters are the values themselves. */
static int array_of(const tx_zero *z, int part)
{
    if (part) return TX_ARRAY_STATE + part - 1;
    return z->dtype == TX_F32 ? TX_ARRAY_VALUE : TX_ARRAY_MASTER;
}

int tx_zero_parts(const tx_zero *z, bool with_optim, tx_zero_part part[TX_ZERO_MAX_PARTS])
{
    const tx_optim_type *type = z->optim.type;
    int n = 1 + (with_optim && type ? type->keeps->n : 0);
    for (int i = 0; i < n; i++) {
        float *flat = i ? z->state[i - 1] : z->master;
        bool in_place = !z->c->device && !tx__is_offloaded(z, array_of(z, i)) && (i || !tx__zero_has_low_masters(z));
        part[i] = (tx_zero_part){ .name = i ? type->keeps->state[i - 1].name : NULL,
                                  .kept = i || z->train || z->master,
                                  .flat = in_place ? flat : NULL,
                                  .whole = !i && tx_zero_whole_masters(z) };
        if (!i || z->table[i - 1].even) continue;
        part[i].rows = &z->table[i - 1].rows;
        part[i].of_rows = &z->table[i - 1].kept;
    }
    return n;
}

tx_status tx_zero_part_move(tx_zero *z, int part, int64_t first, int64_t n, float *x, bool store)
{
    return tx_zero_move(z, array_of(z, part), first, n, x, store);
}

const tx_fragments *tx_zero_kept(const tx_zero *z)
{
    return z->stage ? &z->flat.kept : NULL;
}

tx_comm *tx_zero_savers(const tx_zero *z)
{
    bool first = true; /* of those that have the same */
    if (z->counted_over == TX_GROUP_MODEL) first = tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_DATA)) == 0;
    if (z->mics) first = tx_comm_rank(tx_grid_group(z->grid, TX_GROUP_FAR)) == 0;
    return first ? tx_grid_group(z->grid, z->counted_over) : NULL;
}

/* ---- hashes ---- */

static tx_replica hashed(const tx_replica *before, const void *x, size_t bytes)
{
    return (tx_replica){ true, XXH3_64bits_withSeed(x, bytes, before->hash) };
}

/* Block by block: where a fragment is cut into ranges does not show. The two ends of a pipeline, which have the same
 * matrix and divide it alike, may offload other parts of it. */
static tx_replica hashed_blocks(tx_replica before, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += TX_PARAM_ALIGN)
        before = hashed(&before, x + i, (size_t)(n - i < TX_PARAM_ALIGN ? n - i : TX_PARAM_ALIGN) * sizeof *x);
    return before;
}

tx_status tx_zero_hash_masters(tx_zero *z, tx_replica *row)
{
    float *room = NULL;
    const float *x;
    tx_status st = TX_OK;
    if (z->c->device || tx__zero_has_low_masters(z))
        TX_TRY(tx_alloc(&room, (size_t)z->ps->numel, sizeof *room, "a copy of the device's numbers"));
    for (int i = 0; i < z->n_ranges; i++) {
        tx_replica *r = &row[z->fragment[i].row];
        TX_GOTO(tx_zero_see_master(z, i, &x, room));
        *r = hashed_blocks(*r, x, z->range[i].n_real);
    }
out:
    tx_free(room);
    return st;
}

tx_status tx_zero_hash_values(const tx_zero *z, tx_replica *row)
{
    char *room = NULL;
    tx_status st = TX_OK;
    if (z->c->device) TX_TRY(tx_alloc(&room, (size_t)z->ps->numel, sizeof(float), "a copy of the device's numbers"));
    for (int i = 0; i < z->ps->n; i++) {
        const tx_param *p = &z->ps->param[i];
        size_t bytes = (size_t)tx_param_n_real(p) * tx_dtype_size(z->dtype);
        const void *x = p->weight->value.data;
        row[i] = (tx_replica){ .has = false };
        if (!tx_zero_whole_values(z)) continue;
        if (room) TX_GOTO(tx_device_read(z->c->device, room, x, bytes));
        row[i] = hashed(&row[i], room ? room : x, bytes);
    }
out:
    tx_free(room);
    return st;
}
