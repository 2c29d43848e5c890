/* labels: unit threads. Which GPU a rank takes. */
#include "support.h"

#include "comm/deal_gpus.h"

typedef struct dealing {
    int n_ranks, n_gpus;
    int rank_node[8], gpu_node[8], expect[8];
} dealing;

static void test_ranks_get_what_is_near(void **state)
{
    (void)state;
    static const dealing cases[] = {
        /* nothing is known: the plain rule, and modulo where there are more ranks */
        { 4, 4, { -1, -1, -1, -1 }, { 0, 0, 1, 1 }, { 0, 1, 2, 3 } },
        { 5, 2, { -1, -1, -1, -1, -1 }, { -1, -1 }, { 0, 1, 0, 1, 0 } },
        { 2, 8, { -1, -1 }, { 0, 0, 0, 0, 1, 1, 1, 1 }, { 0, 1 } },
        /* each has its node's, wherever they stand */
        { 4, 4, { 0, 0, 1, 1 }, { 1, 0, 1, 0 }, { 1, 3, 0, 2 } },
        { 2, 4, { 0, 1 }, { 0, 0, 1, 1 }, { 0, 2 } },
        { 4, 2, { 1, 0, 1, 0 }, { 0, 1 }, { 1, 0, 1, 0 } },
        /* more ranks than GPUs on a node: some go to the other's */
        { 4, 4, { 0, 0, 0, 1 }, { 0, 0, 1, 1 }, { 0, 1, 3, 2 } },
        /* who is bound nowhere leaves the others theirs */
        { 3, 3, { -1, 0, 1 }, { 0, 1, 1 }, { 2, 0, 1 } },
        /* a node without a GPU; GPUs that tell none */
        { 2, 2, { 3, 3 }, { 0, 1 }, { 0, 1 } },
        { 2, 2, { 0, 1 }, { -1, -1 }, { 0, 1 } },
        { 3, 1, { 0, 1, -1 }, { 0 }, { 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const dealing *d = &cases[i];
        int out[8];
        tx_deal_gpus(out, d->rank_node, d->n_ranks, d->gpu_node, d->n_gpus);
        for (int r = 0; r < d->n_ranks; r++)
            if (out[r] != d->expect[r])
                fail_msg("case %d, rank %d: GPU %d, expected %d", (int)i, r, out[r], d->expect[r]);
    }
}

/* Ranks 0 to 2 of one host; how many they see, and whether each sees others. */
static tx_status chooses(tx_world *w, void *user)
{
    const int *how = user;
    tx_gpu_info gpus[4] = { 0 };
    int rank = tx_world_rank(w), number = -1, shared = -1;
    for (int i = 0; i < how[0]; i++)
        snprintf(gpus[i].bus, sizeof gpus[i].bus, "0000:%02x:00.0",
                 (unsigned char)(0xc0 + i + (how[1] ? 4 * rank : 0)));
    TX_TRY(tx_world_choose_gpu(w, gpus, how[0], &number, &shared));
    int expect = rank % how[0], expect_shared = how[1] || how[0] >= 3 ? 1 : how[0] == 1 ? 3 : rank == 1 ? 1 : 2;
    if (number == expect && shared == expect_shared) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "rank %d takes %d of %d, shared by %d", rank, number, how[0], shared);
}

static void test_ranks_of_a_world_choose(void **state)
{
    (void)state;
    static const int how[][2] = { { 1, 0 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 1, 1 }, { 4, 1 } };
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++)
        ASSERT_OK(tx_world_threads(3, chooses, (void *)(uintptr_t)how[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_get_what_is_near),
        cmocka_unit_test(test_ranks_of_a_world_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
