/* rng.c - uniforms and normals from Philox words. */
#include "base/rng.h"

#include <math.h>

double tx_rng_uniform(const tx_rng *r, uint64_t i)
{
    return tx_rng_uniform_at(r, i);
}

void tx_rng_normal_pair(const tx_rng *r, uint64_t k, double out[2])
{
    uint32_t w[4];
    tx_rng_u32x4(r, k, w);
    double radius = sqrt(-2.0 * log(1.0 - tx_rng_u53(w[0], w[1]))); /* 1-u is in (0,1] */
    double angle = 6.283185307179586476925 * tx_rng_u53(w[2], w[3]);
    sincos(angle, &out[1], &out[0]);
    out[0] *= radius;
    out[1] *= radius;
}

double tx_rng_normal(const tx_rng *r, uint64_t i)
{
    double pair[2];
    tx_rng_normal_pair(r, i >> 1, pair);
    return pair[i & 1];
}

uint32_t tx_rng_stream(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}
