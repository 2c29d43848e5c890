/* random.h - random numbers without state: Philox4x32-10 (Salmon et al., SC 2011).
 *
 *  A number is a pure function of (seed, stream, step, index), so initial weights and dropout masks do not depend on
 * which rank or thread asks, in which order, or after which restart. `stream` says what the numbers are for (a
 * parameter's name hashed, a layer's dropout site), `step` which iteration (0: before the first), `index` which of
 * them.
 *
 *  Where code wants to draw one number after the other there is the tracker, with Megatron's and DeepSpeed's verbs: all
 * its state is how many numbers of each name have been drawn. */
#ifndef TRIAX_RANDOM_H
#define TRIAX_RANDOM_H

#include <stdint.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_rng {
    uint64_t seed;
    uint32_t stream;
    uint32_t step;
} tx_rng;

/* Element i of the stream's uniforms in [0,1), 53 bits. */
TX_API double tx_rng_uniform(const tx_rng *r, uint64_t i);

/* Element i of the stream's standard normals (Box-Muller). */
TX_API double tx_rng_normal(const tx_rng *r, uint64_t i);

/* A stream number from a name (FNV-1a). */
TX_API uint32_t tx_rng_stream(const char *name);

/* ---- the tracker ---- */

enum { TX_RANDOM_MAX_STATES = 16, TX_RANDOM_NAME_MAX = 32 };

typedef struct tx_random_state {
    char name[TX_RANDOM_NAME_MAX];
    uint64_t seed;
    uint64_t drawn; /* numbers so far */
} tx_random_state;

/* A value, all zero at first: copying it keeps the states, copying back restores them, so that a forward that is run
 * again draws the same numbers. */
typedef struct tx_random_tracker {
    tx_random_state state[TX_RANDOM_MAX_STATES];
    int n;
} tx_random_tracker;

/* A new state. TX_ERR_ARG: the name is too long or there already, or there are TX_RANDOM_MAX_STATES. */
TX_API tx_status tx_random_add(tx_random_tracker *t, const char *name, uint64_t seed);

/* The next n numbers of a state: elements *first .. *first + n - 1 of *r. TX_ERR_NOTFOUND: there is no such name. */
TX_API tx_status tx_random_take(tx_random_tracker *t, const char *name, uint64_t n, tx_rng *r, uint64_t *first);

/* Megatron's two states: "default-rng", the same on all tensor-parallel ranks, and "model-parallel-rng", another one on
 * each (seed + 2718 + tensor rank). Others are forgotten. */
TX_API void tx_model_parallel_seed(tx_random_tracker *t, uint64_t seed, int tensor_rank);

#ifdef __cplusplus
}
#endif
#endif
