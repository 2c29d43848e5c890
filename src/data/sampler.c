/* sampler.c - the samplers `single` and `cyclic`. */
#include "data/sampler.h"

#include "base/alloc.h"
#include "data/numpy_rng.h"

/* torch.randperm(n, generator seeded with `seed`): its generator is MT19937 too. */
static void torch_randperm(int32_t *order, int64_t n, uint32_t seed)
{
    tx_np_rng rng;
    tx_np_rng_seed(&rng, seed);
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t j = i + tx_np_rng_u32(&rng) % (n - i);
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

tx_status tx_order_open(tx_order *s)
{
    TX_ASSERT(s->micro_batch > 0 && s->n_samples > 0 && s->rank >= 0 && s->rank < s->n_ranks);
    int64_t all = s->micro_batch * s->n_ranks;
    s->epoch = -1;
    if (!s->cyclic) return TX_OK;
    if (s->n_samples < all)
        return TX_FAIL(TX_ERR_ARG, "--dataloader-type cyclic: %lld samples are fewer than one micro-batch of %lld",
                       (long long)s->n_samples, (long long)all);
    s->n_order = s->sharded ? s->n_samples / all * s->micro_batch : s->n_samples / s->micro_batch * s->micro_batch;
    if (s->n_order >= UINT32_MAX / 20)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--dataloader-type cyclic: %lld samples are more than %lu; use single",
                       (long long)s->n_order, (unsigned long)(UINT32_MAX / 20 - 1));
    return tx_alloc(&s->order, (size_t)s->n_order, sizeof *s->order, "the order of an epoch");
}

void tx_order_close(tx_order *s)
{
    tx_free(s->order);
    *s = (tx_order){ 0 };
}

tx_status tx_order_get(tx_order *s, int64_t *sample, int64_t consumed)
{
    int64_t b = s->micro_batch, all = b * s->n_ranks;
    TX_ASSERT(consumed >= 0);
    if (!s->cyclic) {
        for (int64_t j = 0; j < b; j++) sample[j] = (consumed + s->rank * b + j) % s->n_samples;
        return TX_OK;
    }
    int64_t per_epoch = s->n_samples / all * all, epoch = consumed / per_epoch, at = consumed % per_epoch;
    if (at % all)
        return TX_FAIL(TX_ERR_ARG,
                       "--dataloader-type cyclic cannot go on after %lld samples of an epoch, no multiple of the "
                       "micro-batch of %lld: keep --micro-batch-size and the dataset",
                       (long long)at, (long long)all);
    if (epoch != s->epoch) torch_randperm(s->order, s->n_order, (uint32_t)epoch);
    s->epoch = epoch;
    for (int64_t j = 0; j < b; j++)
        sample[j] =
            s->sharded ? s->rank * s->n_order + s->order[at / s->n_ranks + j] : s->order[at + s->rank + j * s->n_ranks];
    return TX_OK;
}
