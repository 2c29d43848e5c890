/* random_tracker.c - numbers drawn one after the other, by name. */
#include <string.h>

#include "base/status.h"
#include "triax/random.h"

static tx_random_state *find(tx_random_tracker *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->state[i].name, name)) return &t->state[i];
    return NULL;
}

tx_status tx_random_add(tx_random_tracker *t, const char *name, uint64_t seed)
{
    size_t len = strlen(name);
    if (!len || len >= TX_RANDOM_NAME_MAX)
        return TX_FAIL(TX_ERR_ARG, "the random state's name \"%.64s\" has to have 1 to %d characters", name,
                       TX_RANDOM_NAME_MAX - 1);
    if (find(t, name)) return TX_FAIL(TX_ERR_ARG, "there is a random state %s already", name);
    if (t->n == TX_RANDOM_MAX_STATES)
        return TX_FAIL(TX_ERR_ARG, "there are %d random states, as many as there can be", TX_RANDOM_MAX_STATES);
    tx_random_state *s = &t->state[t->n++];
    *s = (tx_random_state){ .seed = seed };
    memcpy(s->name, name, len);
    return TX_OK;
}

tx_status tx_random_take(tx_random_tracker *t, const char *name, uint64_t n, tx_rng *r, uint64_t *first)
{
    tx_random_state *s = find(t, name);
    if (!s) return TX_FAIL(TX_ERR_NOTFOUND, "there is no random state %.64s", name);
    *r = (tx_rng){ .seed = s->seed, .stream = tx_rng_stream(name) };
    *first = s->drawn;
    s->drawn += n;
    return TX_OK;
}

void tx_model_parallel_seed(tx_random_tracker *t, uint64_t seed, int tensor_rank)
{
    *t = (tx_random_tracker){ .n = 2,
                              .state = {
                                  { .name = "default-rng", .seed = seed },
                                  { .name = "model-parallel-rng", .seed = seed + 2718 + (uint64_t)tensor_rank } } };
}
