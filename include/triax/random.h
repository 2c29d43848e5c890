/* random.h - random numbers without state: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A number is a pure function of (seed, stream, step, index). Initial weights and dropout masks therefore do not
 * depend on the rank or thread that computes them, on the order, or on restarts. `stream` is what the numbers are for
 * (the hash of a parameter's name, a layer's dropout site), `step` is the iteration (0: before the first), and `index`
 * is the number's position in the stream.
 *
 * For code that draws one number after another there is a tracker, with the verbs of Megatron's and DeepSpeed's. Its
 * whole state is a count per name of the numbers drawn so far. */
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

/* Element i of the stream as a uniform number in [0,1), with 53 random bits. */
TX_API double tx_rng_uniform(const tx_rng *r, uint64_t i);

/* Element i of the stream as a standard normal number (Box-Muller). */
TX_API double tx_rng_normal(const tx_rng *r, uint64_t i);

/* A stream number from a name (FNV-1a). */
TX_API uint32_t tx_rng_stream(const char *name);

/* ---- the tracker ---- */

enum { TX_RANDOM_MAX_STATES = 16, TX_RANDOM_NAME_MAX = 32 };

typedef struct tx_random_state {
    char name[TX_RANDOM_NAME_MAX];
    uint64_t seed;
    uint64_t drawn; /* how many numbers have been drawn */
} tx_random_state;

/* A plain value, all zero at first. Copying it saves the states, and copying it back restores them, so that
 * recomputing a forward draws the same numbers. */
typedef struct tx_random_tracker {
    tx_random_state state[TX_RANDOM_MAX_STATES];
    int n;
} tx_random_tracker;

/* Adds a state. TX_ERR_ARG: the name is too long or already in use, or there are TX_RANDOM_MAX_STATES states
 * already. */
TX_API tx_status tx_random_add(tx_random_tracker *t, const char *name, uint64_t seed);

/* Takes the next n numbers of a state: elements *first .. *first + n - 1 of *r. TX_ERR_NOTFOUND: there is no state of
 * that name. */
TX_API tx_status tx_random_take(tx_random_tracker *t, const char *name, uint64_t n, tx_rng *r, uint64_t *first);

/* Replaces all states by Megatron's two: "default-rng", the same on all tensor-parallel ranks, and
 * "model-parallel-rng", different on each (seed + 2718 + tensor rank). */
TX_API void tx_model_parallel_seed(tx_random_tracker *t, uint64_t seed, int tensor_rank);

#ifdef __cplusplus
}
#endif
#endif
