/* logits_ref.h - test_ops_ref.c's test of the largest scores of attention, behind its context. */
#ifndef TX_TESTS_BACKEND_LOGITS_REF_H
#define TX_TESTS_BACKEND_LOGITS_REF_H

/* The formula again: what a mask hides does not count, nor what pads, and a call adds to what the one before has found.
 */
static void test_max_logits(void **state)
{
    (void)state;
    enum { S = 5, B = 2, D = 4 };
    tx_tensor q = RAND(TX_F64, S, B, 1, 2, D), k = RAND(TX_F64, S, B, 1, D), max = ZEROS(TX_F32, 1, 2);
    tx_tensor first_key = ZEROS(TX_I32, S, B), n_keys = ZEROS(TX_I32, B);
    for (int i = 6; i < S * B; i++) ((int32_t *)first_key.data)[i] = 2;
    memcpy(n_keys.data, (const int32_t[]){ S, 3 }, 8);
    for (int form = 0; form < 3; form++) { /* causal; the same in documents; with padding */
        tx_max_logits_args a = { .max = max, .q = q, .k = k, .scale = 0.5, .causal = form < 2 };
        if (form == 1) a.first_key = first_key;
        if (form == 2) a.n_keys = n_keys;
        double expect[2] = { 0 };
        for (int64_t at = 0; at < S * S * B * 2; at++) {
            int64_t i = at / 4 / S, j = at / 4 % S, i_b = at / 2 % 2, r = at % 2;
            int64_t end = form == 2 ? ((int32_t *)n_keys.data)[i_b] : S;
            double sum = 0;
            for (int64_t x = 0; x < D; x++)
                sum += tx__ref_load(q, ((i * B + i_b) * 2 + r) * D + x) * tx__ref_load(k, (j * B + i_b) * D + x);
            if (i >= end || j >= end || (form < 2 && j > i) ||
                (form == 1 && j < ((int32_t *)first_key.data)[i * B + i_b]))
                continue;
            expect[r] = fmax(expect[r], 0.5 * sum);
        }
        memset(max.data, 0, 8);
        ASSERT_OK(tx_op_max_logits(&ctx, &a));
        for (int r = 0; r < 2; r++) assert_true(((float *)max.data)[r] == (float)expect[r]);
        a.scale = 0.25; /* less than what there is */
        ASSERT_OK(tx_op_max_logits(&ctx, &a));
        for (int r = 0; r < 2; r++) assert_true(((float *)max.data)[r] == (float)expect[r]);
    }
    ASSERT_FAILS(
        tx_op_max_logits(&ctx, &(tx_max_logits_args){ .max = ZEROS(TX_F32, 2, 1), .q = q, .k = k, .scale = 1 }),
        TX_ERR_SHAPE, "max [groups,r] fp32");
    pool_free();
}

#endif
