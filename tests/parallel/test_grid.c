/* labels: unit */
/* Places of ranks and the groups along the axes, as threads and in a dry run. */
#include "support.h"

#include "parallel/cp.h"

static void places_of_the_drawing(void **state)
{
    (void)state;
    tx_grid g = { 0 };
    for (int rank = 0; rank < 16; rank++) {
        tx_grid_place(&g, rank,
                      &(tx_layout){ .size = { [TX_AXIS_TENSOR] = 2, [TX_AXIS_PIPELINE] = 4, [TX_AXIS_DATA] = 2 } });
        assert_int_equal(g.rank, rank);
        assert_int_equal(g.size, 16);
        assert_int_equal(tx_grid_rank(&g, TX_AXIS_TENSOR), rank & 1);
        assert_int_equal(tx_grid_rank(&g, TX_AXIS_DATA), rank >> 1 & 1);
        assert_int_equal(tx_grid_rank(&g, TX_AXIS_PIPELINE), rank >> 2);
        assert_true(tx_grid_size(&g, TX_AXIS_TENSOR) == 2 && tx_grid_size(&g, TX_AXIS_DATA) == 2 &&
                    tx_grid_size(&g, TX_AXIS_PIPELINE) == 4);
    }
}

/* ---------------------------------------------------------------- groups */

typedef struct layout {
    int n, tp, pp;
} layout;

/* The members of a group are the ranks whose places agree with this rank's but along the group's axes, in order. */
static tx_status check_members(const tx_grid *g, tx_comm *group, bool tp, bool pp, bool dp, bool ends)
{
    int n = 0, all[64];
    TX_TRY(tx_comm_gather(group, all, &g->rank, sizeof g->rank));
    for (int rank = 0; rank < g->size; rank++) {
        tx_grid o = { 0 };
        tx_grid_place(&o, rank,
                      &(tx_layout){ .size = { [TX_AXIS_TENSOR] = tx_grid_size(g, TX_AXIS_TENSOR),
                                              [TX_AXIS_PIPELINE] = tx_grid_size(g, TX_AXIS_PIPELINE),
                                              [TX_AXIS_DATA] = tx_grid_size(g, TX_AXIS_DATA) } });
        bool in = (tp || tx_grid_rank(&o, TX_AXIS_TENSOR) == tx_grid_rank(g, TX_AXIS_TENSOR)) &&
                  (pp || tx_grid_rank(&o, TX_AXIS_PIPELINE) == tx_grid_rank(g, TX_AXIS_PIPELINE)) &&
                  (dp || tx_grid_rank(&o, TX_AXIS_DATA) == tx_grid_rank(g, TX_AXIS_DATA));
        bool inner = ends &&
                     (tx_grid_rank(&o, TX_AXIS_PIPELINE) % (tx_grid_size(g, TX_AXIS_PIPELINE) - 1) ||
                      tx_grid_rank(g, TX_AXIS_PIPELINE) % (tx_grid_size(g, TX_AXIS_PIPELINE) - 1)) &&
                     rank != g->rank;
        if (!in || inner) continue;
        if (n >= tx_comm_size(group) || all[n] != rank)
            return TX_FAIL(TX_ERR_STATE, "rank %d, %s: member %d is not %d", g->rank, tx_comm_name(group), n, rank);
        if (rank == g->rank && tx_comm_rank(group) != n)
            return TX_FAIL(TX_ERR_STATE, "rank %d, %s: its own place", g->rank, tx_comm_name(group));
        n++;
    }
    if (n == tx_comm_size(group)) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "rank %d, %s: %d members, not %d", g->rank, tx_comm_name(group), n,
                   tx_comm_size(group));
}

static tx_status one_rank(tx_world *world, void *user)
{
    const layout *l = user;
    tx_grid g;
    tx_status st;
    TX_TRY(tx_grid_open(
        &g, world, &(tx_layout){ .size = { [TX_AXIS_TENSOR] = l->tp, [TX_AXIS_PIPELINE] = l->pp }, .sequence = true },
        NULL));
    TX_GOTO(g.sequence == (l->tp > 1) ? TX_OK : TX_FAIL(TX_ERR_STATE, "sequence parallelism is %d", g.sequence));
    TX_GOTO(check_members(&g, tx_grid_group(&g, TX_GROUP_WORLD), true, true, true, false));
    TX_GOTO(check_members(&g, tx_grid_group(&g, TX_GROUP_TENSOR), true, false, false, false));
    TX_GOTO(check_members(&g, tx_grid_group(&g, TX_GROUP_PIPELINE), false, true, false, false));
    TX_GOTO(check_members(&g, tx_grid_group(&g, TX_GROUP_DATA), false, false, true, false));
    TX_GOTO(check_members(&g, tx_grid_group(&g, TX_GROUP_MODEL), true, true, false, false));
    TX_GOTO(check_members(&g, tx_grid_group(&g, TX_GROUP_ENDS), false, true, false, l->pp > 1));
out:
    tx_grid_close(&g);
    return st;
}

static void groups_of_threads(void **state)
{
    (void)state;
    static const layout all[] = { { 1, 1, 1 }, { 2, 2, 1 }, { 2, 1, 2 }, { 2, 1, 1 },
                                  { 8, 2, 2 }, { 8, 1, 4 }, { 8, 4, 1 }, { 16, 2, 4 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        layout l = all[i];
        if (tx_world_threads(l.n, one_rank, &l))
            fail_msg("%d ranks, tp %d, pp %d: %s", l.n, l.tp, l.pp, tx_last_error());
    }
}

/* 16 ranks, t = 2, p = 2, r = 4, rows of 2. */
static void near_and_far(void **state)
{
    (void)state;
    for (int copy = 0; copy < 2; copy++)
        for (int rank = 0; rank < 16; rank++) {
            tx_layout l = { .size = { [TX_AXIS_TENSOR] = 2, [TX_AXIS_PIPELINE] = 2, [TX_AXIS_DATA] = 4 },
                            .near = 2,
                            .copy = copy ? 2 : 0 };
            tx_grid g;
            ASSERT_OK(tx_grid_plan(&g, rank, &l));
            tx_comm *near = tx_grid_group(&g, TX_GROUP_NEAR), *far = tx_grid_group(&g, TX_GROUP_FAR),
                    *all = tx_grid_group(&g, TX_GROUP_COPY);
            int data = rank / 2 % 4;
            assert_true(tx_comm_size(near) == 2 && tx_comm_rank(near) == data % 2);
            assert_true(tx_comm_size(far) == 2 && tx_comm_rank(far) == data / 2);
            assert_int_equal(tx_comm_size(all), copy ? 8 : 1);
            assert_int_equal(tx_comm_rank(all), copy ? rank % 2 + 2 * (data % 2) + 4 * (rank / 8) : 0);
            tx_grid_close(&g);
        }
}

/* The world's ranks of this rank's group are these.   @of bits */
static tx_status has_members(const tx_grid *g, int kind, unsigned of)
{
    int all[8], mine = g->rank, n = tx_comm_size(tx_grid_group(g, kind));
    unsigned found = 0;
    TX_TRY(tx_comm_gather(tx_grid_group(g, kind), all, &mine, sizeof mine));
    for (int i = 0; i < n; i++) found |= 1u << all[i];
    return found == of ? TX_OK : TX_FAIL(TX_ERR_STATE, "rank %d: %x in %s", mine, found, tx_group_names[kind]);
}

static tx_status one_of_rows(tx_world *world, void *user)
{
    tx_grid g;
    tx_status st;
    (void)user;
    TX_TRY(tx_grid_open(&g, world, &(tx_layout){ .size = { [TX_AXIS_TENSOR] = 2 }, .near = 2, .copy = 2 }, NULL));
    TX_GOTO(has_members(&g, TX_GROUP_COPY, g.rank < 4 ? 0x0f : 0xf0));
    TX_GOTO(has_members(&g, TX_GROUP_FAR, 0x11u << g.rank % 4));
out:
    tx_grid_close(&g);
    return st;
}

static void rows_of_threads(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(8, one_of_rows, NULL));
}

/* 8 ranks, t = 2, c = 2, r = 2: those of a sample and those of other samples have the same parameters. */
static tx_status one_of_contexts(tx_world *world, void *user)
{
    tx_grid g;
    tx_status st;
    char text[TX_PLACE_TEXT], place[64];
    (void)user;
    TX_TRY(tx_grid_open(&g, world,
                        &(tx_layout){ .size = { [TX_AXIS_TENSOR] = 2, [TX_AXIS_CONTEXT] = 2 }, .near = 2, .copy = 2 },
                        NULL));
    unsigned tensor = (unsigned)g.rank % 2, data = (unsigned)g.rank / 4;
    TX_GOTO(has_members(&g, TX_GROUP_TENSOR, 3u << (g.rank & ~1)));
    TX_GOTO(has_members(&g, TX_GROUP_CONTEXT, 0x5u << tensor << 4 * data));
    TX_GOTO(has_members(&g, TX_GROUP_DATA, 0x55u << tensor));
    TX_GOTO(has_members(&g, TX_GROUP_NEAR, 0x5u << tensor << 4 * data));
    TX_GOTO(has_members(&g, TX_GROUP_FAR, 0x11u << g.rank % 4));
    TX_GOTO(has_members(&g, TX_GROUP_COPY, g.rank < 4 ? 0x0f : 0xf0));
    TX_GOTO(has_members(&g, TX_GROUP_MODEL, 3u << (g.rank & ~1)));
    snprintf(place, sizeof place, "tensor %u, pipeline 0, data %u, context %d", tensor, data, g.rank / 2 % 2);
    if (strcmp(tx_grid_text(text, &g), place)) st = TX_FAIL(TX_ERR_STATE, "%s is %s", place, text);
    if (tx_grid_sharers(&g) != 4) st = TX_FAIL(TX_ERR_STATE, "%d have the same parameters", tx_grid_sharers(&g));
out:
    tx_grid_close(&g);
    return st;
}

static void ranks_of_a_sample(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(8, one_of_contexts, NULL));
}

/* All positions of a sample once, in runs of neighbours: one, two, or one in each chunk. */
static void positions_of_ranks(void **state)
{
    (void)state;
    static const int64_t halves[3][2][4] = { { { 0, 1, 2, 3 }, { 4, 5, 6, 7 } },
                                             { { 0, 1, 6, 7 }, { 2, 3, 4, 5 } },
                                             { { 0, 2, 4, 6 }, { 1, 3, 5, 7 } } };
    for (int n = 1; n <= 4; n *= 2)
        for (int how = 0; how < 3; how++) {
            int64_t s = 16, rows = s / n, seen = 0;
            for (int rank = 0; rank < n; rank++) {
                tx_grid g;
                const tx_layout l = { .size = { [TX_AXIS_CONTEXT] = n },
                                      .zigzag = how == 1,
                                      .chunk = how == 2 ? 4 : 0 };
                tx_grid_place(&g, rank, &l);
                assert_int_equal(tx_cp_rows(&g, s), rows);
                const tx_position_runs at = tx_cp_positions(&g, s);
                for (int64_t i = 0; i < rows; i++) {
                    int64_t p = tx_position_of(&at, i);
                    const tx_position_runs rest = tx_positions_from(&at, i);
                    seen |= 1 << p;
                    assert_int_equal(tx_position_row(&at, rows, p), i);
                    assert_int_equal(tx_position_of(&rest, 0), p);
                    assert_int_equal(tx_position_of(&rest, rows - 1 - i), tx_position_of(&at, rows - 1));
                    if (n == 2) assert_int_equal(p / 2, halves[how][rank][i / 2]);
                    int64_t next = tx_positions_next(&at, i, rows);
                    assert_true(next > 0 && i + next <= rows);
                    assert_int_equal(tx_position_of(&at, i + next - 1), p + next - 1);
                    for (int other = 0; other < n; other++) {
                        const tx_position_runs its = tx_cp_positions_of(&g, s, other);
                        if (other != rank) assert_int_equal(tx_position_row(&its, rows, p), -1);
                    }
                }
            }
            assert_int_equal(seen, 0xffff);
        }
}

static tx_status opens_nothing(tx_world *world, void *user)
{
    tx_grid g;
    (void)user;
    return tx_grid_open(&g, world, &(tx_layout){ .size = { [TX_AXIS_TENSOR] = 2 } }, NULL);
}

static void sizes_that_do_not_divide(void **state)
{
    (void)state;
    ASSERT_FAILS(tx_world_threads(3, opens_nothing, NULL), TX_ERR_ARG,
                 "world size (3) is not divisible by tensor model parallel size (2)");
}

static void a_job_that_does_not_exist(void **state)
{
    (void)state;
    tx_grid g;
    for (int rank = 0; rank < 4096; rank += 17) {
        ASSERT_OK(
            tx_grid_plan(&g, rank,
                         &(tx_layout){ .size = { [TX_AXIS_TENSOR] = 8, [TX_AXIS_PIPELINE] = 16, [TX_AXIS_DATA] = 32 },
                                       .sequence = true }));
        assert_int_equal(tx_comm_size(tx_grid_group(&g, TX_GROUP_WORLD)), 4096);
        assert_int_equal(tx_comm_rank(tx_grid_group(&g, TX_GROUP_WORLD)), rank);
        assert_true(tx_comm_size(tx_grid_group(&g, TX_GROUP_TENSOR)) == 8 &&
                    tx_comm_rank(tx_grid_group(&g, TX_GROUP_TENSOR)) == rank % 8);
        assert_true(tx_comm_size(tx_grid_group(&g, TX_GROUP_DATA)) == 32 &&
                    tx_comm_rank(tx_grid_group(&g, TX_GROUP_DATA)) == rank / 8 % 32);
        assert_true(tx_comm_size(tx_grid_group(&g, TX_GROUP_PIPELINE)) == 16 &&
                    tx_comm_rank(tx_grid_group(&g, TX_GROUP_PIPELINE)) == rank / 256);
        assert_true(tx_comm_size(tx_grid_group(&g, TX_GROUP_MODEL)) == 128 &&
                    tx_comm_rank(tx_grid_group(&g, TX_GROUP_MODEL)) == rank % 8 + 8 * (rank / 256));
        bool end = rank / 256 == 0 || rank / 256 == 15;
        assert_int_equal(tx_comm_size(tx_grid_group(&g, TX_GROUP_ENDS)), end ? 2 : 1);
        assert_int_equal(tx_comm_rank(tx_grid_group(&g, TX_GROUP_ENDS)), rank / 256 == 15);
        assert_true(g.sequence);
        tx_grid_close(&g);
        assert_null(tx_grid_group(&g, TX_GROUP_WORLD));
    }
}

/* ---------------------------------------------------------------- experts */

/* 16 ranks, t = 2, r = 4, p = 2, e = 4: the drawing of grid.h is of stage 0. */
typedef struct expert_case {
    bool split;
    int expert[16], same[16]; /* the first rank of each rank's groups */
} expert_case;

static const expert_case expert_cases[] = {
    { .split = true,
      .expert = { 0, 1, 0, 1, 0, 1, 0, 1, 8, 9, 8, 9, 8, 9, 8, 9 },
      .same = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } },
    { .split = false,
      .expert = { 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12 },
      .same = { 0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11 } },
};

static tx_status is_in(const tx_grid *g, int kind, const int *first)
{
    tx_comm *group = tx_grid_group(g, kind);
    int all[16], n = 0;
    TX_TRY(tx_comm_gather(group, all, &g->rank, sizeof g->rank));
    for (int rank = 0; rank < 16; rank++) {
        if (first[rank] != first[g->rank]) continue;
        if (n >= tx_comm_size(group) || all[n++] != rank)
            return TX_FAIL(TX_ERR_STATE, "rank %d, %s: rank %d is not member %d", g->rank, tx_comm_name(group), rank,
                           n - 1);
    }
    return n == tx_comm_size(group) ? TX_OK : TX_FAIL(TX_ERR_STATE, "%s: %d ranks", tx_comm_name(group), n);
}

static tx_status one_rank_of_experts(tx_world *world, void *user)
{
    const expert_case *c = user;
    tx_grid g, plan;
    tx_status st;
    const tx_layout l = { .size = { [TX_AXIS_TENSOR] = 2, [TX_AXIS_PIPELINE] = 2, [TX_AXIS_DATA] = 4 },
                          .expert = 4,
                          .expert_tensor = c->split };
    TX_TRY(tx_grid_open(&g, world, &l, NULL));
    TX_GOTO(is_in(&g, TX_GROUP_EXPERT, c->expert));
    TX_GOTO(is_in(&g, TX_GROUP_EXPERT_DATA, c->same));
    TX_GOTO(tx_grid_plan(&plan, g.rank, &l));
    for (int k = 0; k < TX_N_GROUPS && !st; k++)
        if (tx_comm_size(g.group[k]) != tx_comm_size(plan.group[k]) ||
            tx_comm_rank(g.group[k]) != tx_comm_rank(plan.group[k]))
            st = TX_FAIL(TX_ERR_STATE, "rank %d, %s: planned otherwise", g.rank, tx_group_names[k]);
    if (!st && tx_grid_token_parts(&g).size != (c->split ? 1 : 2)) st = TX_FAIL(TX_ERR_STATE, "parts of the tokens");
    tx_grid_close(&plan);
out:
    tx_grid_close(&g);
    return st;
}

static void experts_of_the_drawing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expert_cases / sizeof *expert_cases; i++)
        ASSERT_OK(tx_world_threads(16, one_rank_of_experts, (void *)(uintptr_t)&expert_cases[i]));
}

static void experts_that_do_not_divide(void **state)
{
    (void)state;
    tx_grid g;
    tx_layout l = { .size = { [TX_AXIS_TENSOR] = 2, [TX_AXIS_DATA] = 3 }, .expert = 2, .expert_tensor = true };
    ASSERT_FAILS(tx_grid_plan(&g, 0, &l), TX_ERR_ARG,
                 "--moe-expert-parallel-size 2 does not divide the 3 data-parallel ranks of a stage: experts are split "
                 "over tensor-parallel ones");
    l.expert_tensor = false;
    ASSERT_OK(tx_grid_plan(&g, 0, &l));
    tx_grid_close(&g);
    l.expert = 4;
    ASSERT_FAILS(tx_grid_plan(&g, 0, &l), TX_ERR_ARG,
                 "--moe-expert-parallel-size 4 does not divide the 6 tensor- and data-parallel ranks of a stage");
}

static void memory_that_is_not_there(void **state)
{
    (void)state;
    tx_status st = TX_ERR_NOMEM;
    int64_t n = 0;
    for (; st == TX_ERR_NOMEM && n < 100; n++) {
        tx_grid g;
        allocation_fails_at(n);
        st = tx_grid_plan(&g, 5,
                          &(tx_layout){ .size = { [TX_AXIS_TENSOR] = 2, [TX_AXIS_PIPELINE] = 2, [TX_AXIS_DATA] = 2 } });
        tx_grid_close(&g);
        allocations_succeed();
    }
    ASSERT_OK(st);
    assert_true(n > 6);
}

static void alone(void **state)
{
    (void)state;
    tx_ctx c = { 0 };
    const tx_grid *g = tx_grid_of(&c);
    assert_true(tx_grid_size(g, TX_AXIS_TENSOR) == 1 && tx_grid_size(g, TX_AXIS_PIPELINE) == 1 &&
                tx_grid_size(g, TX_AXIS_DATA) == 1 && g->rank == 0 && g->size == 1);
    assert_ptr_equal(tx_grid_group(g, TX_GROUP_TENSOR), &tx_comm_self);
    assert_int_equal(tx_comm_size(tx_grid_group(g, TX_GROUP_WORLD)), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_of_the_drawing),
        cmocka_unit_test(groups_of_threads),
        cmocka_unit_test(near_and_far),
        cmocka_unit_test(rows_of_threads),
        cmocka_unit_test(ranks_of_a_sample),
        cmocka_unit_test(positions_of_ranks),
        cmocka_unit_test(sizes_that_do_not_divide),
        cmocka_unit_test(a_job_that_does_not_exist),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(experts_of_the_drawing),
        cmocka_unit_test(experts_that_do_not_divide),
        cmocka_unit_test(alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
