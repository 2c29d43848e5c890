/* norms.c - norms of whole tensors, for optimizers whose update depends on them (TX_OPTIMIZER_NORMS). */
#include <string.h>

#include "optim/optim.h"

/* For tx_at_part. */
#define STEP "optimizer.step"

enum { WORDS_OF_ONE = 2 * (int)TX_EXACT_WORDS };

static size_t sums_bytes(const tx_optim *o)
{
    return (size_t)o->norms.n * WORDS_OF_ONE * sizeof(int64_t);
}

static size_t ratio_bytes(const tx_optim *o)
{
    return (size_t)o->norms.n * sizeof(double);
}

tx_status tx__optim_norms_open(tx_optim *o, int n_tensors)
{
    static const char what[] = "the tensors' norms";
    tx_optim_norms *n = &o->norms;
    n->n = n_tensors;
    TX_TRY(tx_device_take(o->device, &n->sums, sums_bytes(o), false, what));
    TX_TRY(tx_device_take(o->device, &n->ratio, ratio_bytes(o), false, what));
    if (o->type->finds_most) TX_TRY(tx_device_take(o->device, &n->most, ratio_bytes(o), false, what));
    TX_TRY(tx_device_take_host(o->device, &n->host_sums, sums_bytes(o), what));
    TX_TRY(tx_device_take_host(o->device, &n->seen_sums, sums_bytes(o), what));
    return tx_device_take_host(o->device, &n->host_ratio, ratio_bytes(o), what);
}

void tx__optim_norms_close(tx_optim *o)
{
    tx_device_give(o->device, o->norms.sums);
    tx_device_give(o->device, o->norms.ratio);
    tx_device_give(o->device, o->norms.most);
    tx_device_give_host(o->device, o->norms.host_sums);
    tx_device_give_host(o->device, o->norms.seen_sums);
    tx_device_give_host(o->device, o->norms.host_ratio);
}

tx_optim_norm tx_optim_norm_of(const tx_optim *o, const tx_optim_range *r)
{
    const tx_optim_norms *n = &o->norms;
    bool here = o->host && r->host_updates;
    if (!o->type->measure) return (tx_optim_norm){ 0 };
    int64_t *sums = (here ? n->host_sums : n->sums) + (size_t)r->tensor * WORDS_OF_ONE;
    double *ratio = (here ? n->host_ratio : n->ratio) + r->tensor;
    TX_ASSERT(r->tensor < n->n);
    return (tx_optim_norm){ .sum = { tx_tensor1(sums, TX_I64, TX_EXACT_WORDS),
                                     tx_tensor1(sums + TX_EXACT_WORDS, TX_I64, TX_EXACT_WORDS) },
                            .ratio = tx_tensor1(ratio, TX_F64, 1),
                            .most = tx_tensor1(n->most ? n->most + r->tensor : NULL, TX_F64, 1),
                            .blocks = here ? o->seen : o->block_sums };
}

unsigned tx_optim_step_changes(const tx_optim *o)
{
    return o->type->measure ? TX_FETCH_VALUE | TX_FETCH_MASTER : TX_FETCH_ALL;
}

unsigned tx_optim_step_needs(const tx_optim_range *r)
{
    return r->direction ? TX_FETCH_VALUE | TX_FETCH_MASTER : TX_FETCH_ALL;
}

tx_status tx_optim_measure_begin(tx_ctx *c, tx_optim *o)
{
    if (c->dry) return TX_OK;
    memset(o->norms.host_sums, 0, sums_bytes(o)); /* also zeros for the largest ones */
    if (o->norms.most)
        TX_TRY(tx_device_copy(o->device, TX_STREAM_COMPUTE, o->norms.most, o->norms.host_sums, ratio_bytes(o)));
    return tx_device_copy(o->device, TX_STREAM_COMPUTE, o->norms.sums, o->norms.host_sums, sums_bytes(o));
}

tx_status tx_optim_measure_some(tx_ctx *c, const tx_optim *o, const tx_optim_step *s, int first, int end)
{
    tx_at_part(c, STEP);
    for (int i = first; i < end; i++) {
        tx_optim_step one = tx_optim_step_of(s, &o->range[i]);
        tx_optim_norm norm = tx_optim_norm_of(o, &o->range[i]);
        one.norm = &norm;
        if (o->fetch) TX_TRY(o->fetch(o->fetch_user, i, TX_FETCH_MASTER | TX_FETCH_STATE, TX_FETCH_STATE));
        TX_TRY(o->type->measure(c, o, &o->range[i], &one));
    }
    return TX_OK;
}

tx_status tx_optim_measure_sums(tx_ctx *c, tx_optim *o, tx_tensor *sums)
{
    tx_optim_norms *n = &o->norms;
    *sums = tx_tensor3(n->sums, TX_I64, n->n, 2, TX_EXACT_WORDS);
    if (c->dry || !o->host) return TX_OK;
    TX_TRY(tx_device_read(o->device, n->seen_sums, n->sums, sums_bytes(o)));
    for (size_t i = 0; i < (size_t)n->n * WORDS_OF_ONE; i++) n->host_sums[i] += n->seen_sums[i];
    return tx_device_write(o->device, n->sums, n->host_sums, sums_bytes(o));
}

tx_tensor tx_optim_measure_most(const tx_optim *o)
{
    return tx_tensor1(o->norms.most, TX_F64, o->norms.most ? o->norms.n : 0);
}

tx_status tx_optim_measure_end(tx_ctx *c, tx_optim *o)
{
    tx_optim_norms *n = &o->norms;
    tx_tensor sums = tx_tensor3(n->sums, TX_I64, n->n, 2, TX_EXACT_WORDS);
    tx_at_part(c, STEP);
    TX_TRY(o->type->rate(c, o, tx_tensor1(n->ratio, TX_F64, n->n), sums));
    if (c->dry || !o->host) return TX_OK;
    return tx_device_read(o->device, n->host_ratio, n->ratio, ratio_bytes(o));
}
