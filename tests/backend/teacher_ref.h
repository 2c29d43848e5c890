/* teacher_ref.h - test_ops_ref.c's test of what a head learns from a teacher's, behind its context, check_grad and the
 * exchange of two parts. */
enum { TAUGHT = 6, TAUGHT_H = 4, TAUGHT_V = 10, TAUGHT_VALID = 8, TAUGHT_HALF = TAUGHT_V / 2 };

typedef struct taught_case {
    tx_tensor loss, z_loss, dx, dw, x, w, y, weight;
    tx_teacher_head teacher;
} taught_case;

static double taught_loss(void *user)
{
    taught_case *k = user;
    double sum = 0;
    RUN(&ctx, head_loss, .loss = k->loss, .dx = k->dx, .dw = k->dw, .x = k->x, .w = k->w, .y = k->y,
        .weight = k->weight, .n_valid = TAUGHT_VALID, .smoothing = 0.1, .z_weight = head_z, .z_loss = k->z_loss,
        .teacher = k->teacher);
    for (int64_t i = 0; i < TAUGHT; i++) sum += k->teacher.scale * tx__ref_load(k->teacher.loss, i);
    return sum + weighted(k->loss, k->weight) + weighted(k->z_loss, k->weight);
}

/* A part's statistics of the teacher, of the other part. */
static tx_tensor other_taught;

static tx_status exchange_taught(tx_ctx *c, tx_tensor all, tx_tensor mine)
{
    if (mine.dim[1] == 4) return exchange_of_two(c, all, mine);
    tx_tensor stats = other_stats;
    other_stats = other_taught;
    tx_status st = exchange_of_two(c, all, mine);
    other_stats = stats;
    return st;
}

/* What the other part makes of its columns. */
static void make_other(const taught_case *k, int64_t other)
{
    const tx_dtype t = TX_F64;
    int64_t first = other * TAUGHT_HALF, n = other ? TAUGHT_VALID - TAUGHT_HALF : TAUGHT_HALF;
    tx_tensor z = ZEROS(t, TAUGHT, TAUGHT_HALF), of_teacher = ZEROS(t, TAUGHT, TAUGHT_HALF);
    other_stats = ZEROS(t, TAUGHT, 4);
    other_taught = ZEROS(t, TAUGHT, 5);
    RUN(&ctx, gemm, .c = z, .a = k->x, .b = tx_slice_rows(k->w, first, TAUGHT_HALF), .trans_b = true);
    RUN(&ctx, gemm, .c = of_teacher, .a = k->teacher.x, .b = tx_slice_rows(k->teacher.w, first, TAUGHT_HALF),
        .trans_b = true);
    RUN(&ctx, distill_part, .stats = other_taught, .t = of_teacher, .z = z, .n_here = n,
        .temperature = k->teacher.temperature);
    RUN(&ctx, cross_entropy_part, .stats = other_stats, .z = z, .y = k->y, .classes = { first, n, TAUGHT_VALID });
}

/* Rows without a label learn, too; a teacher that is the student's equal teaches nothing; and the vocabulary may be in
 * two parts. */
static void test_teacher(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    taught_case k = { .loss = ZEROS(t, TAUGHT),
                      .z_loss = ZEROS(t, TAUGHT),
                      .dx = ZEROS(t, TAUGHT, TAUGHT_H),
                      .dw = ZEROS(t, TAUGHT_V, TAUGHT_H),
                      .x = RAND(t, TAUGHT, TAUGHT_H),
                      .w = RAND(t, TAUGHT_V, TAUGHT_H),
                      .y = indices(ZEROS(TX_I32, TAUGHT), 0, TAUGHT_VALID),
                      .weight = RAND(t, TAUGHT),
                      .teacher = { .loss = ZEROS(t, TAUGHT),
                                   .x = RAND(t, TAUGHT, 7),
                                   .w = RAND(t, TAUGHT_V, 7),
                                   .temperature = 1.7,
                                   .factor = 0.6,
                                   .scale = 0.4 } };
    tx_tensor dx = ZEROS(t, TAUGHT, TAUGHT_H), dw = ZEROS(t, TAUGHT_V, TAUGHT_H), of_parts = ZEROS(t, TAUGHT, TAUGHT_H);
    ((int32_t *)k.y.data)[2] = -1;
    (void)taught_loss(&k);
    memcpy(dx.data, k.dx.data, sizeof(double) * TAUGHT * TAUGHT_H);
    memcpy(dw.data, k.dw.data, sizeof(double) * TAUGHT_V * TAUGHT_H);
    assert_true(tx__ref_load(dx, 2 * TAUGHT_H) != 0 && tx__ref_load(k.teacher.loss, 2) > 0);
    check_grad("dx", k.x, dx, taught_loss, &k);
    check_grad("dw", k.w, dw, taught_loss, &k);
    for (int64_t i = TAUGHT_VALID * TAUGHT_H; i < TAUGHT_V * TAUGHT_H; i++) assert_true(tx__ref_load(dw, i) == 0);

    taught_case half = k;
    half.loss = ZEROS(t, TAUGHT), half.z_loss = ZEROS(t, TAUGHT), half.teacher.loss = ZEROS(t, TAUGHT);
    half.dx = ZEROS(t, TAUGHT, TAUGHT_H), half.dw = ZEROS(t, TAUGHT_HALF, TAUGHT_H);
    for (int part = 0; part < 2; part++) {
        make_other(&k, 1 - part);
        own_part = part;
        half.teacher.w = tx_slice_rows(k.teacher.w, part * TAUGHT_HALF, TAUGHT_HALF);
        RUN(&ctx, head_loss, .loss = half.loss, .dx = half.dx, .dw = half.dw, .x = k.x,
            .w = tx_slice_rows(k.w, part * TAUGHT_HALF, TAUGHT_HALF), .y = k.y, .weight = k.weight,
            .n_valid = TAUGHT_VALID, .smoothing = 0.1, .n_parts = 2, .part = part, .exchange = exchange_taught,
            .z_weight = head_z, .z_loss = half.z_loss, .teacher = half.teacher);
        for (int64_t i = 0; i < TAUGHT; i++)
            ASSERT_NEAR(tx__ref_load(half.teacher.loss, i), tx__ref_load(k.teacher.loss, i), 1e-12, "taught whole");
        for (int64_t i = 0; i < TAUGHT_HALF * TAUGHT_H; i++)
            ASSERT_NEAR(tx__ref_load(half.dw, i), tx__ref_load(dw, part * TAUGHT_HALF * TAUGHT_H + i), 1e-12, "dw");
        RUN(&ctx, add, .y = of_parts, .a = of_parts, .b = half.dx);
    }
    for (int64_t i = 0; i < TAUGHT * TAUGHT_H; i++)
        ASSERT_NEAR(tx__ref_load(of_parts, i), tx__ref_load(dx, i), 1e-12, "dx of both parts");

    k.teacher.x = k.x, k.teacher.w = k.w;
    (void)taught_loss(&k);
    for (int64_t i = 0; i < TAUGHT; i++) ASSERT_NEAR(tx__ref_load(k.teacher.loss, i), 0, 1e-14, "of an equal");
    tx_head_loss_args a = {
        .loss = k.loss, .x = k.x, .w = k.w, .y = k.y, .n_valid = TAUGHT_VALID, .teacher = k.teacher
    };
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_SHAPE, "with weight");
    a.weight = k.weight, a.dx = k.dx, a.dw = k.dw, a.teacher.temperature = 0;
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_ARG, "temperature 0");
    a.teacher.temperature = 1, a.teacher.w = tx_slice_rows(k.w, 0, 9);
    ASSERT_FAILS(tx_op_head_loss(&ctx, &a), TX_ERR_SHAPE, "a teacher's x");
    pool_free();
}
