/* route.c - the choices of tokens whose positions several ranks divide. */
#include "nn/route.h"

#include "parallel/cp.h"

int tx_route_parts(const tx_ctx *c)
{
    return tx_grid_size(tx_grid_of(c), TX_AXIS_CONTEXT);
}

/* Rows that lie one after the other both with the rank that has them and among all. */
typedef struct run_of_rows {
    int64_t own, all, n;
} run_of_rows;

/* Those of rank `rank`, which has `rows` rows, b of each position; returns how many runs: 1 or 2. */
static int runs_of(const tx_ctx *c, int rank, int64_t rows, int64_t b, run_of_rows run[2])
{
    int64_t n = rows / b, whole = n * tx_route_parts(c);
    const tx_position_runs at = tx_cp_positions_of(tx_grid_of(c), whole, rank);
    if (!at.turn || at.turn >= n) {
        run[0] = (run_of_rows){ .own = 0, .all = tx_position_of(&at, 0) * b, .n = rows };
        return 1;
    }
    run[0] = (run_of_rows){ .own = 0, .all = at.first * b, .n = at.turn * b };
    run[1] = (run_of_rows){ .own = at.turn * b, .all = tx_position_of(&at, at.turn) * b, .n = rows - at.turn * b };
    return 2;
}

/* A rank's rows to where they are among all, or from there. */
static tx_status move(tx_ctx *c, int rank, int64_t b, tx_tensor own, tx_tensor all, bool back)
{
    run_of_rows run[2];
    int n = runs_of(c, rank, own.dim[0], b, run);
    for (int i = 0; i < n; i++) {
        tx_tensor one = tx_slice_rows(own, run[i].own, run[i].n), of_all = tx_slice_rows(all, run[i].all, run[i].n);
        TX_RUN(c, copy, .y = back ? one : of_all, .x = back ? of_all : one);
    }
    return TX_OK;
}

/* All ranks' rows, in the order of positions. */
static tx_status gather(tx_ctx *c, tx_tensor all, tx_tensor own, int64_t b)
{
    size_t mark = tx_arena_mark(&c->scratch);
    const tx_grid *g = tx_grid_of(c);
    int64_t rows = own.dim[0];
    tx_tensor by_rank = tx_push2(&c->scratch, own.dtype, all.dim[0], own.dim[1]);
    TX_TRY(tx_all_gather(c, tx_grid_group(g, TX_GROUP_CONTEXT), by_rank, own));
    for (int r = 0; r < tx_route_parts(c); r++)
        TX_TRY(move(c, r, b, tx_slice_rows(by_rank, r * rows, rows), all, false));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* The choices of all tokens, of which this rank keeps its own. */
static tx_status choose_for_all(tx_ctx *c, const tx_route_fwd_args *a)
{
    size_t mark = tx_arena_mark(&c->scratch);
    const tx_grid *g = tx_grid_of(c);
    int64_t rows = a->logits.dim[0] * tx_route_parts(c), n = a->logits.dim[1], k = a->router.k;
    int64_t b = a->router.b ? a->router.b : 1;
    int rank = tx_grid_rank(g, TX_AXIS_CONTEXT);
    tx_route_fwd_args all = *a;
    all.router.random.at = (tx_position_runs){ .first = 0 };
    all.logits = tx_push2(&c->scratch, a->logits.dtype, rows, n);
    all.probs = tx_push2(&c->scratch, a->probs.dtype, rows, n);
    all.weight = tx_push2(&c->scratch, a->weight.dtype, rows, k);
    all.choice = tx_push2(&c->scratch, TX_I32, rows, k);
    TX_TRY(gather(c, all.logits, a->logits, b));
    TX_TRY(tx_op_route_fwd(c, &all));
    TX_TRY(move(c, rank, b, a->probs, all.probs, true));
    TX_TRY(move(c, rank, b, a->weight, all.weight, true));
    TX_TRY(move(c, rank, b, a->choice, all.choice, true));
    if (rank) TX_RUN(c, fill, .x = a->stats); /* the first one's have all */
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx_route_fwd(tx_ctx *c, const tx_route_fwd_args *a)
{
    if (tx_route_parts(c) == 1) return tx_op_route_fwd(c, a);
    if (a->router.capacity) return choose_for_all(c, a);
    TX_TRY(tx_op_route_fwd(c, a));
    return tx_all_reduce(c, tx_grid_group(tx_grid_of(c), TX_GROUP_CONTEXT), a->chosen, TX_SUM);
}
