/* experts_ref.h - test_ops_ref.c's test of what routes tokens to experts, behind its context and check_grad. */
#ifndef TX_TESTS_BACKEND_EXPERTS_REF_H
#define TX_TESTS_BACKEND_EXPERTS_REF_H

typedef struct experts_case {
    tx_router how;
    tx_tensor logits, probs, choice, weight, chosen, stats, row, source, count, x, packed, y, dy;
    double aux, z;
} experts_case;

static double experts_loss(void *user)
{
    experts_case *k = user;
    RUN(&ctx, route_fwd, .probs = k->probs, .choice = k->choice, .weight = k->weight, .chosen = k->chosen,
        .stats = k->stats, .logits = k->logits, .router = k->how);
    RUN(&ctx, expert_order, .row = k->row, .source = k->source, .count = k->count, .choice = k->choice);
    RUN(&ctx, gather_rows, .y = k->packed, .x = k->x, .index = k->source, .div = k->how.k);
    RUN(&ctx, combine_fwd, .y = k->y, .z = k->packed, .row = k->row, .weight = k->weight);
    double sum = weighted(k->y, k->dy) + k->z * tx__ref_load(k->stats, k->stats.dim[0] - 1);
    for (int64_t e = 0; e < k->chosen.dim[0]; e++)
        sum += k->aux * tx__ref_load(k->stats, e) * tx__ref_load(k->chosen, e);
    return sum;
}

/* Each way to weigh, with all rows and with some dropped. */
static void test_experts(void **state)
{
    (void)state;
    enum { ROWS = 7, N = 4, K = 2, H = 3 };
    const tx_dtype t = TX_F64;
    for (int i = 0; i < 10; i++) {
        experts_case k = { .how = { .score = i / 2 % 2 ? TX_ROUTER_SIGMOID : TX_ROUTER_SOFTMAX,
                                    .k = K,
                                    .renormalise = i / 4 == 1,
                                    .softmax_after = i / 4 == 2,
                                    .capacity = i % 2 ? 2 : 0,
                                    .scale = 1.5 },
                           .logits = RAND(t, ROWS, N),
                           .probs = ZEROS(t, ROWS, N),
                           .choice = ZEROS(TX_I32, ROWS, K),
                           .weight = ZEROS(t, ROWS, K),
                           .chosen = ZEROS(TX_I32, N),
                           .stats = ZEROS(t, N + 1),
                           .row = ZEROS(TX_I32, ROWS * K),
                           .source = ZEROS(TX_I32, ROWS * K),
                           .count = ZEROS(TX_I32, N),
                           .x = RAND(t, ROWS, H),
                           .packed = ZEROS(t, ROWS * K, H),
                           .y = ZEROS(t, ROWS, H),
                           .dy = RAND(t, ROWS, H),
                           .aux = 0.3,
                           .z = 0.2 };
        tx_tensor dz = ZEROS(t, ROWS * K, H), dweight = ZEROS(t, ROWS, K), dlogits = ZEROS(t, ROWS, N);
        tx_tensor dx = ZEROS(t, ROWS, H), sums = ZEROS(TX_F32, N + 3);
        experts_loss(&k);
        int kept = 0, dropped = 0;
        for (int e = 0; e < N; e++) kept += ((int32_t *)k.count.data)[e];
        for (int p = 0; p < ROWS * K; p++) dropped += ((int32_t *)k.row.data)[p] < 0;
        assert_int_equal(kept + dropped, ROWS * K);
        assert_true(i % 2 ? dropped > 0 : !dropped);
        RUN(&ctx, combine_bwd, .dz = dz, .dweight = dweight, .dy = k.dy, .z = k.packed, .row = k.row,
            .weight = k.weight);
        RUN(&ctx, route_bwd, .dlogits = dlogits, .dweight = dweight, .logits = k.logits, .probs = k.probs,
            .choice = k.choice, .chosen = k.chosen, .aux = k.aux, .z = k.z, .router = k.how);
        RUN(&ctx, combine_fwd, .y = dx, .z = dz, .row = k.row);
        RUN(&ctx, route_sums, .sums = sums, .stats = k.stats, .chosen = k.chosen, .choice = k.choice, .aux = 1, .z = 1);
        assert_int_equal((int)tx__ref_load(sums, 2), dropped);
        check_grad("dlogits", k.logits, dlogits, experts_loss, &k);
        check_grad("dx", k.x, dx, experts_loss, &k);
        pool_free();
    }
}

#endif
