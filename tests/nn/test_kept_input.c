/* labels: unit threads */
/* test_kept_input.c - what is kept of a layer's input alone: in each type, on 1, 2 and 4 tensor ranks, whole or
 * divided, where it is or in the host's memory, it comes back with its bits; and what is kept is as large as it should
 * be. */
#include "support.h"

#include "numbers.h"

#include "nn/kept_input.h"

enum { S = 4, B = 3, H = 8, N = S * B * H };

typedef struct job {
    tx_recompute how;
    tx_dtype t;
} job;

static tx_status wrong(const job *j, const char *what)
{
    return TX_FAIL(TX_ERR_STATE, "%s, divided %d, in_host %d: %s", tx_dtype_name(j->t), j->how.divided, j->how.in_host,
                   what);
}

/* Keeps x on the stack, lets go of it, and fetches it. */
static tx_status keep_and_fetch(tx_ctx *c, const job *j, tx_tensor x, tx_tensor again, tx_tensor *kept)
{
    size_t mark = tx_arena_mark(&c->acts), host_mark = tx_arena_mark(&c->host);
    TX_TRY(tx_keep_input(c, &j->how, kept, x));
    if (!c->dry && tx_inputs_move(&j->how)) memset(x.data, 0xee, N * tx_dtype_size(j->t)); /* its memory is free */
    if (tx_inputs_move(&j->how)) TX_TRY(tx_fetch_input(c, &j->how, again, *kept));
    tx_arena_pop(&c->acts, mark);
    tx_arena_pop(&c->host, host_mark);
    return TX_OK;
}

static tx_status on_rank(tx_world *w, void *user)
{
    const job *j = user;
    tx_grid grid;
    tx_ctx c;
    tx_tensor kept;
    const size_t bytes = N * tx_dtype_size(j->t);
    unsigned char x_bytes[N * 4], again_bytes[N * 4], was[N * 4];
    tx_tensor x = tx_tensor3(x_bytes, j->t, S, B, H), again = tx_tensor3(again_bytes, j->t, S, B, H);
    TX_TRY(tx_grid_open(&grid, w, &(tx_layout){ .size = { [TX_AXIS_TENSOR] = tx_world_size(w) } }, NULL));
    tx_status st = tx_grid_ctx(&c, &grid, "cpu", 1, false);
    if (st) goto closed;
    fill_drawn(x, 7); /* all tensor ranks have the same */
    memcpy(was, x_bytes, bytes);
    memset(again_bytes, 0x55, bytes);
    TX_GOTO(keep_and_fetch(&c, j, x, again, &kept));
    int64_t part = j->how.divided ? N / tx_grid_size(&grid, TX_AXIS_TENSOR) : N;
    bool moves = tx_inputs_move(&j->how);
    size_t size = (size_t)part * tx_dtype_size(j->t);
    if (moves && tx_numel(kept) != part) TX_GOTO(wrong(j, "another part is kept"));
    if ((j->how.in_host ? c.host.peak : c.acts.peak) < (moves ? size : 0) ||
        (j->how.in_host ? c.acts.peak : c.host.peak) > 0)
        TX_GOTO(wrong(j, "it lies elsewhere"));
    TX_GOTO(tx_ctx_take_memory(&c));
    TX_GOTO(keep_and_fetch(&c, j, x, again, &kept));
    if (!moves && (kept.data != x.data || memcmp(was, x_bytes, bytes))) TX_GOTO(wrong(j, "it has moved"));
    if (moves && memcmp(was, again_bytes, bytes)) TX_GOTO(wrong(j, "it comes back with other bits"));
out:
    tx_ctx_deinit(&c);
closed:
    tx_grid_close(&grid);
    return st;
}

static void inputs_come_back(void **state)
{
    (void)state;
    for (int k = 0; k < N_FLOAT_TYPES; k++)
        for (int n = 1; n <= 4; n *= 2)
            for (int how = 0; how < 4; how++) {
                job j = { .how = { .n_layers = 1, .group = 1, .divided = how & 1, .in_host = how & 2 },
                          .t = float_types[k].t };
                if (tx_world_threads(n, on_rank, &j)) fail_msg("%d ranks: %s", n, tx_last_error());
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
