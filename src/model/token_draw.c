/* token_draw.c - which tokens of a micro-batch the layers of --random-ltd compute. */
#include "base/rng.h"
#include "model/model.h"

void tx_routing_shape(const tx_model *m, tx_batch *batch, int64_t r, int64_t s)
{
    int64_t b = batch->token.dim[1], n = m->most_dropping;
    void *dry = TX_DRY_ADDRESS;
    if (!n) return;
    if (r > s) r = s;
    batch->kept = tx_tensor3(dry, TX_I32, n, r, b);
    if (batch->first_key.data) batch->kept_first = batch->kept;
    if (batch->n_keys.data) batch->kept_n = tx_tensor2(dry, TX_I32, n, b);
}

/* Goes over all numbers and takes one with the probability that what is still to be taken is of what is left, so that
 * all sets are alike and no list is sorted. */
void tx_routing_sample(int32_t *at, int64_t step, int64_t r, int64_t s, const tx_rng *rng, uint64_t sample)
{
    uint64_t first = sample * (uint64_t)((s + 3) / 4);
    uint32_t w[4] = { 0 };
    int64_t n = 0;
    for (int64_t i = 0; n < r; i++) {
        if (i % 4 == 0) tx_rng_u32x4(rng, first + (uint64_t)(i / 4), w);
        if ((uint64_t)w[i % 4] * (uint64_t)(s - i) >= (uint64_t)(r - n) << 32) continue;
        at[n++ * step] = (int32_t)i;
    }
}

/* How many of the tokens of sample j, in column j of @kept [r, b], are below `position`: their positions rise. */
static int32_t count_below(const int32_t *kept, int64_t r, int64_t b, int64_t j, int32_t position)
{
    int64_t low = 0, high = r;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (kept[middle * b + j] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return (int32_t)low;
}

/* What a layer's masks are among its tokens.   @n the layer's number in the chunk's */
static void cut_masks(tx_batch *batch, int64_t n)
{
    int64_t r = batch->kept.dim[1], b = batch->kept.dim[2];
    const int32_t *kept = (const int32_t *)batch->kept.data + n * r * b, *first = batch->first_key.data;
    int32_t *kept_first = batch->kept_first.data, *kept_n = batch->kept_n.data;
    for (int64_t k = 0; k < r * b && kept_first; k++)
        kept_first[n * r * b + k] = count_below(kept, r, b, k % b, first[kept[k] * b + k % b]);
    for (int64_t j = 0; j < b && kept_n; j++) {
        int32_t real = count_below(kept, r, b, j, ((const int32_t *)batch->n_keys.data)[j]);
        kept_n[n * b + j] = real ? real : 1; /* nobody sees what comes of a sample of which all tokens pad */
    }
}

void tx_routing_draw(const tx_model *m, const tx_config *cfg, tx_batch *batch)
{
    int64_t s = batch->dropout.s_global, r = batch->kept.dim[1], b = batch->kept.dim[2], n = 0;
    const tx_pp_chunk *chunk = &m->chunk[batch->chunk];
    if (!batch->kept.data || r >= s || !batch->dropout.on) return;
    for (int64_t layer = chunk->first; layer < chunk->end; layer++) {
        if (!tx_config_drops_tokens(cfg, layer)) continue;
        const tx_rng rng = tx_dropout_at(&batch->dropout, 0, (int)layer + 1, TX_RANDOM_TOKENS).rng;
        for (int64_t j = 0; j < b; j++)
            tx_routing_sample((int32_t *)batch->kept.data + n * r * b + j, b, r, s, &rng,
                              batch->dropout.sample + (uint64_t)j);
        cut_masks(batch, n++);
    }
}
