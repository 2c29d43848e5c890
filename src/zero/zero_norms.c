/* zero_norms.c - norms of whole tensors, of which every rank has some fragments.
 *
 *      a rank's ranges      squares of its fragments, into the tensor's sums
 *      with stages from 1   added up over the ranks that a bucket is divided over
 *      split tensors        and over the tensor-parallel ranks
 *
 *  Then every rank has the norms of all tensors that it keeps a fragment of. Sums are of whole numbers (base/exact.h),
 * so each rank has the same ones, and they do not depend on the stage, on buckets or on the number of data-parallel
 * ranks. Both ends of a pipeline have a tied matrix, and each comes to the same norm by itself. */
#include "base/alloc.h"
#include "zero/zero.h"

static bool is_split(const tx_param *p)
{
    return p->n_tp > 1;
}

/* The rows of a group that are split, or those that are not, get the next numbers. */
static int number_rows(tx_zero *z, int group, bool split, int next)
{
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (p->reduce_group == group && is_split(p) == split) z->norms.of_row[row] = next++;
    }
    return next;
}

tx_status tx__zero_norms_open(tx_zero *z)
{
    tx_zero_norms *n = &z->norms;
    int next = 0;
    TX_TRY(tx_alloc(&n->of_row, (size_t)z->ps->n + 1, sizeof *n->of_row, "the tensors' norms"));
    for (int g = 0; g < TX_N_GROUPS; g++) {
        n->group[g].first = next;
        n->group[g].whole = next = number_rows(z, g, true, next);
        n->group[g].end = next = number_rows(z, g, false, next);
    }
    TX_ASSERT(next == z->ps->n);
    return TX_OK;
}

void tx__zero_norms_close(tx_zero *z)
{
    tx_free(z->norms.of_row);
    z->norms = (tx_zero_norms){ .of_row = NULL };
}

/* Adds the sums of tensors [first, end) of the members of a group. */
static tx_status add_up(tx_zero *z, int group, tx_tensor sums, int first, int end)
{
    tx_comm *ranks = tx_grid_group(z->grid, group);
    int64_t each = 2 * TX_EXACT_WORDS;
    if (first == end || tx_comm_size(ranks) == 1) return TX_OK;
    tx_tensor flat = tx_tensor1(sums.data, TX_I64, sums.dim[0] * each);
    return tx_all_reduce(z->c, ranks, tx_slice1(flat, first * each, (end - first) * each), TX_SUM);
}

tx_status tx__zero_add_norms(tx_zero *z, tx_tensor sums)
{
    for (int g = 0; g < TX_N_GROUPS; g++) {
        if (z->stage) TX_TRY(add_up(z, tx__sharers(z, g), sums, z->norms.group[g].first, z->norms.group[g].end));
        TX_TRY(add_up(z, TX_GROUP_TENSOR, sums, z->norms.group[g].first, z->norms.group[g].whole));
    }
    return TX_OK;
}

/* Of tensors that are split the largest of all parts. */
static tx_status find_most(tx_zero *z)
{
    tx_comm *ranks = tx_grid_group(z->grid, TX_GROUP_TENSOR);
    tx_tensor most = tx_optim_measure_most(&z->optim);
    if (!most.data || !z->compressed.step.own || tx_comm_size(ranks) == 1) return TX_OK;
    TX_ASSERT(!z->stage);
    for (int g = 0; g < TX_N_GROUPS; g++) {
        int first = z->norms.group[g].first, n = z->norms.group[g].whole - first;
        if (n) TX_TRY(tx_all_reduce(z->c, ranks, tx_slice1(most, first, n), TX_MAX));
    }
    return TX_OK;
}

tx_status tx__zero_measure(tx_zero *z, const tx_optim_step *s)
{
    tx_tensor sums;
    TX_TRY(tx_optim_measure_begin(z->c, &z->optim));
    for (int k = 0; k < z->flat.n_trained; k++) {
        int first = z->first_range[k], end = z->first_range[k + 1];
        TX_TRY(z->offload.bounce ? tx__bounce_measure_some(z, s, first, end)
                                 : tx_optim_measure_some(z->c, &z->optim, s, first, end));
        TX_TRY(tx_zero_flush(z));
    }
    TX_TRY(tx_optim_measure_sums(z->c, &z->optim, &sums));
    TX_TRY(tx__zero_add_norms(z, sums));
    TX_TRY(find_most(z));
    return tx_optim_measure_end(z->c, &z->optim);
}
