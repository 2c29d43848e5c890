/* tokens_ref.h - test_ops_ref.c's tests of tokens that are some of all, behind its context and check_grad. */
#ifndef TX_TESTS_BACKEND_TOKENS_REF_H
#define TX_TESTS_BACKEND_TOKENS_REF_H

/* Positions that are given are those of first + i_s, or any. */
static void test_rope_positions(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F64, 3, 2, 2, 1, 6), y = ZEROS(TX_F64, 3, 2, 2, 1, 6), position = ZEROS(TX_I32, 3, 2);
    memcpy(y.data, x.data, 72 * sizeof(double));
    for (int i = 0; i < 6; i++) ((int32_t *)position.data)[i] = 3 + i / 2;
    RUN(&ctx, rope, .x = x, .n_rot = 4, .theta = 100, .position = position);
    RUN(&ctx, rope, .x = y, .n_rot = 4, .theta = 100, .first = 3);
    assert_memory_equal(x.data, y.data, 72 * sizeof(double));
    tx_rope_args bad = { .x = x, .n_rot = 4, .theta = 100, .position = ZEROS(TX_I32, 2, 3) };
    ASSERT_FAILS(tx_op_rope(&ctx, &bad), TX_ERR_SHAPE, "rope: needs position [s,b] int32 without past.n");
    pool_free();
}

/* ---- some tokens of all ---- */

typedef struct tokens_case {
    tx_tensor x, put, some, all, position, dsome, dall;
} tokens_case;

/* Of positions 2 to 6; all = x with `put` in some places. */
static double tokens_loss(void *user)
{
    tokens_case *k = user;
    RUN(&ctx, gather_tokens, .y = k->some, .x = k->x, .position = k->position, .first = 2);
    RUN(&ctx, copy, .y = k->all, .x = k->x);
    RUN(&ctx, scatter_tokens, .y = k->all, .x = k->put, .position = k->position, .first = 2);
    return weighted(k->some, k->dsome) + weighted(k->all, k->dall);
}

static void test_tokens(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    const int32_t at[] = { 0, 2, 3, 3, 6, 4, 8, 6 }; /* two of the first column are not there */
    tokens_case k = { RAND(t, 5, 2, 3),    RAND(t, 4, 2, 3), ZEROS(t, 4, 2, 3), ZEROS(t, 5, 2, 3),
                      ZEROS(TX_I32, 4, 2), RAND(t, 4, 2, 3), RAND(t, 5, 2, 3) };
    memcpy(k.position.data, at, sizeof at);
    tokens_loss(&k);
    const double *x = k.x.data, *put = k.put.data, *some = k.some.data, *all = k.all.data;
    assert_true(some[0] == 0 && some[18] == 0);
    for (int i = 0; i < 3; i++) {
        assert_true(some[3 + i] == x[3 + i]);      /* position 2 of the second sample */
        assert_true(some[12 + i] == x[4 * 6 + i]); /* 6 of the first one */
        assert_true(all[i] == x[i]);               /* 2 of the first one is not among them */
        assert_true(all[4 * 6 + i] == put[2 * 6 + i]);
    }
    tx_tensor dx = ZEROS(t, 5, 2, 3), dput = ZEROS(t, 4, 2, 3), back = ZEROS(t, 5, 2, 3), none = ZEROS(t, 4, 2, 3);
    RUN(&ctx, copy, .y = dx, .x = k.dall);
    RUN(&ctx, scatter_tokens, .y = dx, .x = none, .position = k.position, .first = 2);
    RUN(&ctx, scatter_tokens, .y = back, .x = k.dsome, .position = k.position, .first = 2);
    RUN(&ctx, add, .y = dx, .a = dx, .b = back);
    RUN(&ctx, gather_tokens, .y = dput, .x = k.dall, .position = k.position, .first = 2);
    check_grad("dx", k.x, dx, tokens_loss, &k);
    check_grad("dput", k.put, dput, tokens_loss, &k);
    tx_gather_tokens_args bad = { .y = k.some, .x = k.x, .position = ZEROS(TX_I32, 8) };
    ASSERT_FAILS(tx_op_gather_tokens(&ctx, &bad), TX_ERR_SHAPE, "gather_tokens: needs x [s,b,h] and y [r,b,h]");
    pool_free();
}

#endif
