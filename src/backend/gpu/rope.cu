/* rope.cu - rotary positions, and keys and values into the cache. */
#include "backend/gpu/gpu.h"

struct rope_numbers {
    int64_t dim[5], stride[5];
    int64_t half, first, whole, grows_from;
    double scale, grows_by;
    bool inverse, interleaved;
    const int32_t *past, *end, *position; /* or NULL */
    double frequency[TX_MAX_ROT / 2];
};

/* A thread has a pair of one position, and turns it in all heads: sine and cosine of an angle in fp64 cost more than
 * the rest. */
template <class T> __global__ void rope_kernel(T *x, rope_numbers n)
{
    int64_t heads = n.dim[2] * n.dim[3], pairs = n.dim[0] * n.dim[1] * n.half;
    for (int64_t i = grid_thread(); i < pairs; i += grid_threads()) {
        int64_t k = i % n.half, i_b = i / n.half % n.dim[1], i_s = i / n.half / n.dim[1];
        int64_t first = n.past ? n.past[i_b] : n.first;
        double at = (double)(n.position ? n.position[i_s * n.dim[1] + i_b] : first + i_s), sine, cosine;
        double angle = at * n.frequency[k];
        int64_t length = n.end ? n.end[i_b] : n.whole ? n.whole : first + n.dim[0];
        if (n.grows_by > 0 && n.half > 1 && length > n.grows_from) {
            double longer = n.grows_by * (double)length / (double)n.grows_from - n.grows_by + 1;
            angle *= pow(longer, -(double)k / (double)(n.half - 1));
        }
        sincos(angle, &sine, &cosine);
        float s = (float)(n.scale * (n.inverse ? -sine : sine)), c = (float)(n.scale * cosine);
        int64_t apart = n.interleaved ? 1 : n.half;
        T *row = x + i_s * n.stride[0] + i_b * n.stride[1] + (n.interleaved ? 2 * k : k);
        for (int64_t h = 0; h < heads; h++) {
            T *p = row + h / n.dim[3] * n.stride[2] + h % n.dim[3] * n.stride[3];
            float u = f32(p[0]), v = f32(p[apart]);
            p[0] = to<T>(u * c - v * s);
            p[apart] = to<T>(v * c + u * s);
        }
    }
}

TX_GPU_ROW tx_status tx__gpu_rope(tx_ctx *c, const tx_rope_args *a, void *scratch)
{
    (void)scratch;
    rope_numbers n;
    TX_TRY(tx__gpu_need_float("rope", a->x));
    for (int i = 0; i < 5; i++) n.dim[i] = a->x.dim[i], n.stride[i] = a->x.stride[i];
    n.half = a->n_rot / 2;
    n.first = a->first;
    n.scale = a->scale > 0 ? a->scale : 1;
    n.grows_by = a->grows_by;
    n.grows_from = a->grows_from;
    n.whole = a->length;
    n.inverse = a->inverse;
    n.interleaved = a->interleaved;
    for (int64_t i = 0; i < n.half; i++) n.frequency[i] = tx_rope_frequency(a, i, 1);
    n.past = (const int32_t *)a->past.n.data;
    n.end = n.past ? (const int32_t *)a->past.end.data : NULL;
    n.position = (const int32_t *)a->position.data;
    int64_t pairs = n.dim[0] * n.dim[1] * n.half;
    GPU_FLOAT(a->x.dtype, T,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, pairs, 128), 128, 0, rope_kernel<T>, (T *)a->x.data, n));
    return tx__gpu_launched(c, "rope");
}

/* ---- cache_append ---- */

struct append_numbers {
    int64_t dim[4];                             /* of k: s, b, groups, d */
    int64_t k[4], v[4], k_cache[4], v_cache[4]; /* strides */
    int64_t positions, slots;
    const int32_t *past, *slot;
    tx__fault *fault;
};

template <class T> __global__ void append_kernel(T *k_cache, T *v_cache, const T *k, const T *v, append_numbers n)
{
    int64_t d = n.dim[3], all = n.dim[0] * n.dim[1] * n.dim[2] * d;
    for (int64_t i = grid_thread(); i < all; i += grid_threads()) {
        int64_t j = i % d, g = i / d % n.dim[2], b = i / d / n.dim[2] % n.dim[1], s = i / d / n.dim[2] / n.dim[1];
        int64_t at = n.past[b] + s, to_slot = n.slot[b];
        if (n.past[b] < 0 || at >= n.positions || to_slot < 0 || to_slot >= n.slots) {
            bool bad_slot = to_slot < 0 || to_slot >= n.slots;
            tx__gpu_fault(n.fault, TX__FAULT_KEYS, b, bad_slot ? to_slot : at, bad_slot ? n.slots : n.positions);
            continue;
        }
        k_cache[at * n.k_cache[0] + to_slot * n.k_cache[1] + g * n.k_cache[2] + j] =
            k[s * n.k[0] + b * n.k[1] + g * n.k[2] + j];
        v_cache[at * n.v_cache[0] + to_slot * n.v_cache[1] + g * n.v_cache[2] + j] =
            v[s * n.v[0] + b * n.v[1] + g * n.v[2] + j];
    }
}

TX_GPU_ROW tx_status tx__gpu_cache_append(tx_ctx *c, const tx_cache_append_args *a, void *scratch)
{
    (void)scratch;
    append_numbers n;
    TX_TRY(tx__gpu_need_float("cache_append", a->k));
    for (int i = 0; i < 4; i++) {
        n.dim[i] = a->k.dim[i];
        n.k[i] = a->k.stride[i];
        n.v[i] = a->v.stride[i];
        n.k_cache[i] = a->k_cache.stride[i];
        n.v_cache[i] = a->v_cache.stride[i];
    }
    n.positions = a->k_cache.dim[0];
    n.slots = a->k_cache.dim[1];
    n.past = (const int32_t *)a->past.n.data;
    n.slot = (const int32_t *)a->past.slot.data;
    n.fault = tx__gpu_of(c)->fault;
    GPU_FLOAT(a->k.dtype, T,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, tx_numel(a->k), 256), 256, 0, append_kernel<T>,
                         (T *)a->k_cache.data, (T *)a->v_cache.data, (const T *)a->k.data, (const T *)a->v.data, n));
    return tx__gpu_launched(c, "cache_append");
}
