/* head_loss_ref.h - test_ops_ref.c's tests of the head's loss, behind its context and check_grad. */
typedef struct head_case {
    tx_tensor loss, x, w, y, weight, bias, z_loss;
    int64_t n_valid;
} head_case;
static const double head_z = 0.3;

static double head_loss(void *user)
{
    head_case *k = user;
    RUN(&ctx, head_loss, .loss = k->loss, .x = k->x, .w = k->w, .bias = k->bias, .y = k->y, .n_valid = k->n_valid,
        .z_weight = head_z, .z_loss = k->z_loss);
    return weighted(k->loss, k->weight) + weighted(k->z_loss, k->weight);
}

static void test_head_loss(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    head_case k = { ZEROS(t, 6), RAND(t, 6, 4), RAND(t, 9, 4), indices(ZEROS(TX_I32, 6), 0, 7),
                    RAND(t, 6),  { 0 },         ZEROS(t, 6),   7 };
    ((int32_t *)k.y.data)[2] = -1;
    tx_tensor dx = ZEROS(t, 6, 4), dw = ZEROS(t, 9, 4);
    RUN(&ctx, head_loss, .loss = k.loss, .dx = dx, .dw = dw, .x = k.x, .w = k.w, .y = k.y, .weight = k.weight,
        .n_valid = 7, .z_weight = head_z);
    check_grad("dx", k.x, dx, head_loss, &k);
    check_grad("dw", k.w, dw, head_loss, &k);
    assert_true(tx__ref_load(k.loss, 2) == 0);
    for (int64_t i = 0; i < 4; i++) assert_true(tx__ref_load(dx, 2 * 4 + i) == 0);
    for (int64_t i = 7 * 4; i < 9 * 4; i++) assert_true(tx__ref_load(dw, i) == 0); /* rows that pad are never trained */
    pool_free();
}

typedef struct formed_case {
    head_case head;
    tx_logit_form form;
    tx_teacher_head teacher;
    tx_tensor dx; /* nobody reads it */
} formed_case;

/* With weight, as a teacher needs it; what it writes beside losses goes nowhere. */
static double formed_loss(void *user)
{
    formed_case *k = user;
    const head_case *h = &k->head;
    RUN(&ctx, head_loss, .loss = h->loss, .dx = k->dx, .x = h->x, .w = h->w, .bias = h->bias, .y = h->y,
        .weight = h->weight, .n_valid = h->n_valid, .z_weight = head_z, .z_loss = h->z_loss, .teacher = k->teacher,
        .form = k->form);
    double sum = weighted(h->loss, h->weight) + weighted(h->z_loss, h->weight);
    for (int64_t i = 0; k->teacher.loss.data && i < h->x.dim[0]; i++)
        sum += k->teacher.scale * tx__ref_load(k->teacher.loss, i);
    return sum;
}

/* A part's statistics, of the other part, too: two contexts would be two threads, so the parts take turns. */
static tx_tensor other_stats;
static int64_t own_part;

static tx_status exchange_of_two(tx_ctx *c, tx_tensor all, tx_tensor mine)
{
    (void)c;
    size_t size = (size_t)tx_numel(mine) * tx_dtype_size(mine.dtype);
    memcpy((char *)all.data + (size_t)own_part * size, mine.data, size);
    memcpy((char *)all.data + (size_t)(1 - own_part) * size, other_stats.data, size);
    return TX_OK;
}

/* The bias: its gradient accumulates; and with the vocabulary in two parts it is what it is whole. */
static void test_head_loss_bias(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    enum { ROWS = 6, H = 4, V = 10, VALID = 8, HALF = V / 2 };
    head_case k = { ZEROS(t, ROWS), RAND(t, ROWS, H), RAND(t, V, H),  indices(ZEROS(TX_I32, ROWS), 0, VALID),
                    RAND(t, ROWS),  RAND(t, V),       ZEROS(t, ROWS), VALID };
    ((int32_t *)k.y.data)[2] = -1;
    tx_tensor dx = ZEROS(t, ROWS, H), dw = ZEROS(t, V, H), dbias = ZEROS(t, V), twice = ZEROS(t, V);
    for (int i = 0; i < 2; i++)
        RUN(&ctx, head_loss, .loss = k.loss, .dx = dx, .dw = dw, .x = k.x, .w = k.w, .bias = k.bias,
            .dbias = i ? twice : dbias, .y = k.y, .weight = k.weight, .n_valid = VALID, .z_weight = head_z);
    check_grad("dx", k.x, dx, head_loss, &k);
    check_grad("dw", k.w, dw, head_loss, &k);
    check_grad("dbias", k.bias, dbias, head_loss, &k);
    assert_true(tx__ref_load(dbias, VALID) == 0);
    RUN(&ctx, head_loss, .loss = k.loss, .dx = dx, .dw = dw, .x = k.x, .w = k.w, .bias = k.bias, .dbias = twice,
        .y = k.y, .weight = k.weight, .n_valid = VALID, .z_weight = head_z, .z_loss = k.z_loss);
    for (int64_t i = 0; i < V; i++)
        ASSERT_NEAR(tx__ref_load(twice, i), 2 * tx__ref_load(dbias, i), 1e-13, "accumulated dbias");

    tx_tensor loss = ZEROS(t, ROWS), z_loss = ZEROS(t, ROWS), part_dx = ZEROS(t, ROWS, H), part_dw = ZEROS(t, HALF, H);
    for (int part = 0; part < 2; part++) {
        tx_tensor stats = ZEROS(t, ROWS, 4), z = ZEROS(t, ROWS, HALF), part_dbias = ZEROS(t, HALF);
        int64_t other = 1 - part;
        RUN(&ctx, gemm, .c = z, .a = k.x, .b = tx_slice_rows(k.w, other * HALF, HALF),
            .bias = tx_slice1(k.bias, other * HALF, HALF), .trans_b = true);
        RUN(&ctx, cross_entropy_part, .stats = stats, .z = z, .y = k.y,
            .classes = { other * HALF, other ? VALID - HALF : HALF, VALID });
        other_stats = stats;
        own_part = part;
        RUN(&ctx, head_loss, .loss = loss, .dx = part_dx, .dw = part_dw, .x = k.x,
            .w = tx_slice_rows(k.w, part * HALF, HALF), .bias = tx_slice1(k.bias, part * HALF, HALF),
            .dbias = part_dbias, .y = k.y, .weight = k.weight, .n_valid = VALID, .n_parts = 2, .part = part,
            .exchange = exchange_of_two, .z_weight = head_z, .z_loss = z_loss);
        for (int64_t i = 0; i < ROWS; i++)
            ASSERT_NEAR(tx__ref_load(z_loss, i), tx__ref_load(k.z_loss, i), 1e-12, "z-loss of the whole");
        for (int64_t i = 0; i < ROWS; i++)
            ASSERT_NEAR(tx__ref_load(loss, i), tx__ref_load(k.loss, i), 1e-12, "loss of the whole");
        for (int64_t i = 0; i < HALF; i++)
            ASSERT_NEAR(tx__ref_load(part_dbias, i), tx__ref_load(dbias, part * HALF + i), 1e-12, "dbias of a part");
    }

    tx_head_loss_args a = { .loss = loss,
                            .dx = dx,
                            .dw = dw,
                            .x = k.x,
                            .w = k.w,
                            .bias = k.bias,
                            .y = k.y,
                            .weight = k.weight,
                            .n_valid = VALID };
    tx_tensor frozen = ZEROS(t, ROWS, H); /* neither dw nor dbias */
    a.dx = frozen, a.dw.data = NULL, a.z_weight = head_z;
    ASSERT_OK(tx_op_head_loss(&ctx, &a));
    for (int64_t i = 0; i < ROWS * H; i++) assert_true(tx__ref_load(frozen, i) == tx__ref_load(dx, i));
    a.dbias = tx_slice1(dbias, 0, HALF);
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_SHAPE, "dbias as bias");
    a.dbias = dbias;
    a.bias = tx_slice1(k.bias, 0, HALF);
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_SHAPE, "bias [v]");
    a.bias.data = NULL;
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_SHAPE, "bias=absent");
    pool_free();
}

/* Capped and scaled logits, with all that may come together: bias, z-loss, a teacher whose own are capped otherwise;
 * and the vocabulary in two parts. */
static void test_head_loss_formed(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    enum { ROWS = 5, H = 4, V = 8, VALID = 7 };
    const tx_logit_form forms[] = { { .cap = 1.5 }, { .scale = 0.7 }, { .scale = 0.5, .cap = 2 } };
    for (int i = 0; i < 6; i++) {
        formed_case k = { .head = { ZEROS(t, ROWS), RAND(t, ROWS, H), RAND(t, V, H),
                                    indices(ZEROS(TX_I32, ROWS), 0, VALID), RAND(t, ROWS), RAND(t, V), ZEROS(t, ROWS),
                                    VALID },
                          .form = forms[i % 3],
                          .dx = ZEROS(t, ROWS, H) };
        tx_tensor dx = ZEROS(t, ROWS, H), dw = ZEROS(t, V, H), dbias = ZEROS(t, V), dx2 = ZEROS(t, ROWS, H);
        if (i >= 3)
            k.teacher = (tx_teacher_head){ .loss = ZEROS(t, ROWS),
                                           .x = RAND(t, ROWS, 3),
                                           .w = RAND(t, V, 3),
                                           .bias = RAND(t, V),
                                           .temperature = 2,
                                           .factor = 0.5,
                                           .scale = 1,
                                           .form = { .scale = 2, .cap = 1 } };
        RUN(&ctx, head_loss, .loss = k.head.loss, .dx = dx, .dw = dw, .x = k.head.x, .w = k.head.w, .bias = k.head.bias,
            .dbias = dbias, .y = k.head.y, .weight = k.head.weight, .n_valid = VALID, .z_weight = head_z,
            .teacher = k.teacher, .form = k.form);
        check_grad("dx", k.head.x, dx, formed_loss, &k);
        check_grad("dw", k.head.w, dw, formed_loss, &k);
        check_grad("dbias", k.head.bias, dbias, formed_loss, &k);
        if (k.teacher.loss.data) continue;
        for (int part = 0; part < 2; part++) {
            enum { HALF = V / 2 };
            tx_tensor stats = ZEROS(t, ROWS, 4), z = ZEROS(t, ROWS, HALF), none = { 0 };
            int64_t other = 1 - part;
            RUN(&ctx, gemm, .c = z, .a = k.head.x, .b = tx_slice_rows(k.head.w, other * HALF, HALF),
                .bias = tx_slice1(k.head.bias, other * HALF, HALF), .trans_b = true);
            RUN(&ctx, softcap_fwd, .y = z, .x = z, .form = k.form);
            RUN(&ctx, cross_entropy_part, .stats = stats, .z = z, .y = k.head.y,
                .classes = { other * HALF, other ? VALID - HALF : HALF, VALID });
            other_stats = stats, own_part = part;
            tx_tensor part_dx = ZEROS(t, ROWS, H);
            RUN(&ctx, head_loss, .loss = k.head.loss, .dx = part_dx, .dw = none, .x = k.head.x,
                .w = tx_slice_rows(k.head.w, part * HALF, HALF), .bias = tx_slice1(k.head.bias, part * HALF, HALF),
                .y = k.head.y, .weight = k.head.weight, .n_valid = VALID, .n_parts = 2, .part = part,
                .exchange = exchange_of_two, .z_weight = head_z, .form = k.form);
            RUN(&ctx, add, .y = dx2, .a = dx2, .b = part_dx);
        }
        for (int64_t j = 0; j < ROWS * H; j++)
            ASSERT_NEAR(tx__ref_load(dx2, j), tx__ref_load(dx, j), 1e-12, "dx of both parts");
    }
    head_case k = { ZEROS(t, 2), RAND(t, 2, 3), RAND(t, 4, 3), ZEROS(TX_I32, 2), { 0 }, { 0 }, { 0 }, 4 };
    tx_head_loss_args a = { .loss = k.loss, .x = k.x, .w = k.w, .y = k.y, .n_valid = 4, .form.cap = -1 };
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_ARG, "cap -1 of logits");
    pool_free();
}
