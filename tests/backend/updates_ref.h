/* updates_ref.h - test_ops_ref.c's tests of the optimizers' rules, behind its context. */
#ifndef TX_TESTS_BACKEND_UPDATES_REF_H
#define TX_TESTS_BACKEND_UPDATES_REF_H

/* Three steps of the rules of torch.optim.AdamW and of its Adam, whose decay is part of the gradient, written out for
 * one parameter. */
static void three_steps_of_adam(bool coupled)
{
    const double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, wd = 0.1;
    tx_tensor p = ZEROS(TX_F64, 1), m = ZEROS(TX_F64, 1), v = ZEROS(TX_F64, 1), g = ZEROS(TX_F64, 1);
    double theta = 0.7, em = 0, ev = 0;
    tx__ref_store(p, 0, theta);
    for (int64_t t = 1; t <= 3; t++) {
        double grad = 0.3 * (double)t - 0.5;
        tx__ref_store(g, 0, grad * 4);
        RUN(&ctx, adam, .p = p, .m = m, .v = v, .g = g, .lr = lr, .beta1 = b1, .beta2 = b2, .eps = eps,
            .weight_decay = wd, .grad_scale = 0.25, .t = t, .coupled = coupled);
        if (coupled) grad += wd * theta;
        if (!coupled) theta -= lr * wd * theta;
        em += (1 - b1) * (grad - em);
        ev = b2 * ev + (1 - b2) * grad * grad;
        theta -= lr / (1 - pow(b1, (double)t)) * em / (sqrt(ev) / sqrt(1 - pow(b2, (double)t)) + eps);
        ASSERT_NEAR(tx__ref_load(p, 0), theta, 1e-13, "theta");
    }
    pool_free();
}

static void test_adam(void **state)
{
    (void)state;
    three_steps_of_adam(false);
    three_steps_of_adam(true);
}

/* torch.optim.SGD's rule with momentum and weight decay, written out: three steps, the first with an empty buffer. */
static void three_steps_of_sgd(double dampening, bool nesterov)
{
    const double lr = 0.1, momentum = 0.9, wd = 0.05;
    tx_tensor p = ZEROS(TX_F64, 1), m = ZEROS(TX_F64, 1), g = ZEROS(TX_F64, 1);
    double theta = 0.7, buffer = 0;
    tx__ref_store(p, 0, theta);
    for (int t = 1; t <= 3; t++) {
        double grad = 0.3 * t - 0.5;
        tx__ref_store(g, 0, grad * 2);
        RUN(&ctx, sgd, .p = p, .m = m, .g = g, .lr = lr, .momentum = momentum, .weight_decay = wd, .grad_scale = 0.5,
            .dampening = t == 1 ? 0 : dampening, .nesterov = nesterov);
        double d = grad + wd * theta;
        buffer = t == 1 ? d : momentum * buffer + (1 - dampening) * d;
        theta -= lr * (nesterov ? d + momentum * buffer : buffer);
        ASSERT_NEAR(tx__ref_load(p, 0), theta, 1e-14, "theta");
        ASSERT_NEAR(tx__ref_load(m, 0), buffer, 1e-14, "momentum_buffer");
    }
    pool_free();
}

static void test_sgd(void **state)
{
    (void)state;
    three_steps_of_sgd(0, false);
    three_steps_of_sgd(0, true);
    three_steps_of_sgd(0.25, false);
}

/* The rule of the paper's algorithm 2, written out; at last an average of 0, which moves nothing. */
static void test_lion(void **state)
{
    (void)state;
    const double lr = 0.01, b1 = 0.9, b2 = 0.99, wd = 0.1;
    tx_tensor p = ZEROS(TX_F64, 1), m = ZEROS(TX_F64, 1), g = ZEROS(TX_F64, 1);
    double theta = 0.7, mean = 0;
    tx__ref_store(p, 0, theta);
    for (int t = 1; t <= 4; t++) {
        double grad = t < 4 ? 0.3 * t - 0.5 : 0;
        if (t == 4) tx__ref_store(m, 0, mean = 0);
        tx__ref_store(g, 0, grad * 4);
        RUN(&ctx, lion, .p = p, .m = m, .g = g, .lr = lr, .beta1 = b1, .beta2 = b2, .weight_decay = wd,
            .grad_scale = 0.25);
        double of = b1 * mean + (1 - b1) * grad;
        theta *= 1 - lr * wd;
        if (of != 0) theta -= copysign(lr, of);
        mean = b2 * mean + (1 - b2) * grad;
        ASSERT_NEAR(tx__ref_load(p, 0), theta, 1e-14, "theta");
        ASSERT_NEAR(tx__ref_load(m, 0), mean, 1e-14, "exp_avg");
    }
    pool_free();
}

/* torch.optim.Adagrad's rule with weight decay, written out. */
static void test_adagrad(void **state)
{
    (void)state;
    const double lr = 0.1, eps = 1e-3, wd = 0.05;
    tx_tensor p = ZEROS(TX_F64, 1), v = ZEROS(TX_F64, 1), g = ZEROS(TX_F64, 1);
    double theta = 0.7, sum = 0;
    tx__ref_store(p, 0, theta);
    for (int t = 1; t <= 3; t++) {
        double grad = 0.3 * t - 0.5;
        tx__ref_store(g, 0, grad * 2);
        RUN(&ctx, adagrad, .p = p, .v = v, .g = g, .lr = lr, .eps = eps, .weight_decay = wd, .grad_scale = 0.5);
        grad += wd * theta;
        sum += grad * grad;
        theta -= lr * grad / (sqrt(sum) + eps);
        ASSERT_NEAR(tx__ref_load(p, 0), theta, 1e-14, "theta");
        ASSERT_NEAR(tx__ref_load(v, 0), sum, 1e-14, "sum");
    }
    pool_free();
}

/* DeepSpeed's rule, written out: three steps of two tensors, one of which is 0 at first; with each correction. */
static void lamb_steps(bool inside, bool moments)
{
    const double lr = 0.1, b1 = 0.9, b2 = 0.95, eps = 1e-3, wd = 0.05, start[2][2] = { { 0.7, -0.4 }, { 0, 0 } };
    for (int k = 0; k < 2; k++) {
        tx_tensor p = ZEROS(TX_F64, 2), m = ZEROS(TX_F64, 2), v = ZEROS(TX_F64, 2), g = ZEROS(TX_F64, 2);
        tx_tensor sums = ZEROS(TX_F64, 2, 1), exact = ZEROS(TX_I64, 1, 2, TX_EXACT_WORDS), ratio = ZEROS(TX_F64, 1);
        double theta[2], em[2] = { 0 }, ev[2] = { 0 };
        for (int i = 0; i < 2; i++) tx__ref_store(p, i, theta[i] = start[k][i]);
        for (int t = 1; t <= 3; t++) {
            double c1 = 1 - pow(b1, t), c2 = 1 - pow(b2, t), u[2], of_w = 0, of_u = 0;
            for (int i = 0; i < 2; i++) {
                double grad = 0.3 * t - 0.5 + i;
                tx__ref_store(g, i, grad * 2);
                em[i] = b1 * em[i] + (1 - b1) * grad;
                ev[i] = b2 * ev[i] + (1 - b2) * grad * grad;
                double first = moments ? em[i] / c1 : em[i], second = moments ? ev[i] / c2 : ev[i];
                u[i] = first / (inside ? sqrt(second + eps) : sqrt(second) + eps) + wd * theta[i];
                of_w += theta[i] * theta[i];
                of_u += u[i] * u[i];
            }
            double trust = of_w > 0 ? fmin(fmax(sqrt(of_w) / sqrt(of_u), 0.5), 0.6) : 1;
            double rate = moments ? lr : lr * sqrt(c2) / c1;
            const tx_lamb_rule rule = { b1, b2, eps, wd, moments ? c1 : 1, moments ? c2 : 1, inside };
            RUN(&ctx, lamb_moments, .m = m, .v = v, .p = p, .g = g, .sums = sums, .rule = rule, .grad_scale = 0.5);
            memset(exact.data, 0, 2 * sizeof(tx_exact));
            for (int i = 0; i < 2; i++) {
                tx_tensor one = tx_tensor1((tx_exact *)exact.data + i, TX_I64, TX_EXACT_WORDS);
                RUN(&ctx, exact_add, .sum = one, .x = tx_tensor1((double *)sums.data + i, TX_F64, 1));
            }
            RUN(&ctx, lamb_ratio, .out = ratio, .sums = exact, .least = 0.5, .most = 0.6);
            ASSERT_NEAR(tx__ref_load(ratio, 0), trust, 1e-12, "ratio");
            RUN(&ctx, lamb_update, .p = p, .m = m, .v = v, .ratio = ratio, .rule = rule, .lr = rate);
            for (int i = 0; i < 2; i++) {
                theta[i] -= rate * trust * u[i];
                ASSERT_NEAR(tx__ref_load(p, i), theta[i], 1e-13, "theta");
            }
        }
    }
    pool_free();
}

static void test_lamb(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) lamb_steps(i & 1, i & 2);
}

/* DeepSpeed's rule, written out, of two elements; and its coefficients before the freeze and after it. */
static void test_onebit_lamb(void **state)
{
    (void)state;
    const double b1 = 0.9, b2 = 0.95, eps = 1e-3, wd = 0.05, em[] = { 0.3, -0.2 }, ev[] = { 0.04, 0.09 },
                 w[] = { 0.7, -0.4 };
    tx_tensor p = ZEROS(TX_F64, 2), m = ZEROS(TX_F64, 2), v = ZEROS(TX_F64, 2), x = ZEROS(TX_F64, 2),
              fresh = ZEROS(TX_F64, 2);
    tx_tensor sums = ZEROS(TX_F64, 2, 1), most = ZEROS(TX_F64, 1), ratio = ZEROS(TX_F64, 1), average = ZEROS(TX_F32, 1);
    tx_tensor last = ZEROS(TX_F32, 1);
    double of_w = 0, of_u = 0, largest = 0;
    for (int i = 0; i < 2; i++) {
        double next = 0.5 - 0.3 * i, g = (next - b1 * em[i]) / (1 - b1), of = b2 * ev[i] + (1 - b2) * g * g;
        double root = sqrt(ev[i]) + eps, u = next / root + wd * w[i];
        tx__ref_store(p, i, w[i]);
        tx__ref_store(m, i, em[i]);
        tx__ref_store(v, i, ev[i]);
        tx__ref_store(fresh, i, ev[i]);
        tx__ref_store(x, i, next);
        of_w += next / root * (next / root);
        of_u += u * u;
        largest = fmax(largest, root / (sqrt(of) + eps));
    }
    const tx_lamb_rule rule = { .beta1 = b1, .beta2 = b2, .eps = eps, .weight_decay = wd };
    RUN(&ctx, lamb_fresh, .m = m, .fresh = fresh, .x = x, .v = v, .p = p, .sums = sums, .most = most, .rule = rule);
    ASSERT_NEAR(tx__ref_load(m, 0), 0.5, 0, "momentum");
    ASSERT_NEAR(tx__ref_load(sums, 0), of_w, 1e-12, "of directions");
    ASSERT_NEAR(tx__ref_load(sums, 1), of_u, 1e-12, "with decay");
    ASSERT_NEAR(tx__ref_load(most, 0), largest, 1e-13, "quotient");
    tx__ref_store(ratio, 0, 0.5);
    RUN(&ctx, lamb_coeff, .ratio = ratio, .average = average, .beta = 0.75);
    ASSERT_NEAR(tx__ref_load(average, 0), 0.125, 0, "average");
    tx__ref_store(ratio, 0, 1);
    RUN(&ctx, lamb_coeff, .ratio = ratio, .average = average, .beta = 0.75);
    ASSERT_NEAR(tx__ref_load(average, 0), 0.125, 0, "a ratio of 1 does not count");
    tx__ref_store(ratio, 0, 0.5);
    tx__ref_store(most, 0, 3);
    tx__ref_store(last, 0, 1);
    RUN(&ctx, lamb_coeff, .ratio = ratio, .average = average, .most = most, .last = last, .least = 0.5, .largest = 4,
        .threshold = 0.25);
    ASSERT_NEAR(tx__ref_load(last, 0), 1.25, 0, "2, as far as it may go");
    ASSERT_NEAR(tx__ref_load(ratio, 0), 0.125 * 1.25, 0, "coefficient");
    pool_free();
}

/* By hand. */
static void test_root_mul(void **state)
{
    (void)state;
    tx_tensor x = ZEROS(TX_F32, 3), v = ZEROS(TX_F32, 3);
    for (int i = 0; i < 3; i++) tx__ref_store(x, i, i - 4);
    for (int i = 0; i < 3; i++) tx__ref_store(v, i, i * i);
    RUN(&ctx, root_mul, .y = x, .x = x, .v = v, .eps = 0.5);
    for (int i = 0; i < 3; i++) ASSERT_NEAR(tx__ref_load(x, i), (i - 4) * (i + 0.5), 0, "product");
    pool_free();
}

/* What is packed and what is left out; and sums of two rows, by hand: 0 is positive. */
static void test_signs(void **state)
{
    (void)state;
    enum { N = 40 };
    tx_tensor x = ZEROS(TX_F32, N), y = ZEROS(TX_F32, N), mask = ZEROS(TX_F32, N), bits = ZEROS(TX_I32, 2, 2);
    tx_tensor scale = ZEROS(TX_F64, 2, 1);
    for (int i = 0; i < N; i++) tx__ref_store(x, i, i % 3 - 1);
    for (int i = 0; i < N; i++) tx__ref_store(mask, i, i != 5);
    tx__ref_store(scale, 0, 0.5);
    tx__ref_store(scale, 1, 2);
    for (int r = 0; r < 2; r++)
        RUN(&ctx, sign_pack, .bits = tx_tensor1((int32_t *)bits.data + 2 * r, TX_I32, 2), .x = x,
            .scale = tx_tensor1((double *)scale.data + r, TX_F64, 1));
    assert_int_equal(((uint32_t *)bits.data)[0], 0xB6DB6DB6); /* - 0 +, from the lowest bit on */
    assert_int_equal(((uint32_t *)bits.data)[1], 0x6D);
    const double left[3] = { -1 + 0.5 + 2, 0 - 0.5 + 2, 1 - 0.5 - 2 };
    for (int i = 0; i < N; i++) ASSERT_NEAR(tx__ref_load(x, i), left[i % 3], 0, "left out");
    for (int i = 0; i < N; i++) tx__ref_store(y, i, 1);
    RUN(&ctx, sign_sum, .y = y, .bits = bits, .scale = scale, .mask = mask, .factor = 0.5, .accumulate = true);
    const double sum[3] = { 1 + (-0.5 - 2) / 2, 1 + (0.5 - 2) / 2, 1 + (0.5 + 2) / 2 };
    for (int i = 0; i < N; i++) ASSERT_NEAR(tx__ref_load(y, i), i == 5 ? 0 : sum[i % 3], 0, "sum");
    pool_free();
}

/* By hand: 600 elements in two blocks, of 8 bits and of 4; rounded to even ones; and added. */
static void test_quantized(void **state)
{
    (void)state;
    enum { N = 600 };
    for (int bits = 4; bits <= 8; bits += 4) {
        const double limit = bits == 8 ? 127 : 7, scale[2] = { 0.5, 0.25 };
        int64_t n_words = tx_quantized_words(N, bits);
        assert_int_equal(n_words, bits == 8 ? 2 * 129 : 2 * 65);
        tx_tensor x = ZEROS(TX_F32, N), y = ZEROS(TX_F32, N), words = ZEROS(TX_I32, 2, n_words);
        const double by_scale[8] = { limit, -limit, 2.5, 3.5, -2.5, 0, 1.25, -0.75 };
        const int q[8] = { (int)limit, -(int)limit, 2, 4, -2, 0, 1, -1 };
        for (int i = 0; i < N; i++) tx__ref_store(x, i, scale[i / 512] * by_scale[i % 8]);
        for (int r = 0; r < 2; r++)
            RUN(&ctx, quantize, .words = tx_tensor1((int32_t *)words.data + r * n_words, TX_I32, n_words), .x = x,
                .bits = bits);
        const uint32_t *word = words.data;
        uint32_t first = 0;
        for (int i = 0; i < 32 / bits; i++) first |= ((uint32_t)q[i] & ((1u << bits) - 1)) << bits * i;
        assert_memory_equal(word, &(float){ 0.5F }, 4);
        assert_int_equal(word[1], first);
        assert_memory_equal(word + n_words / 2, &(float){ 0.25F }, 4);
        assert_int_equal(word[n_words - 1], 0);
        for (int i = 0; i < N; i++) tx__ref_store(y, i, 3);
        RUN(&ctx, dequantize_sum, .y = y, .words = words, .bits = bits, .accumulate = true);
        for (int i = 0; i < N; i++) ASSERT_NEAR(tx__ref_load(y, i), 3 + 2 * scale[i / 512] * q[i % 8], 0, "sum");
    }
    pool_free();
}

/* Its gate, the root that it divides by, and the least one. */
static void test_blend(void **state)
{
    (void)state;
    tx_tensor y = ZEROS(TX_F64, 1), x = ZEROS(TX_F64, 1), norm = ZEROS(TX_F64, 2), gate = ZEROS(TX_F64, 3);
    tx__ref_store(x, 0, 3);
    tx__ref_store(y, 0, 5);
    RUN(&ctx, blend, .y = y, .x = x, .z = y, .gate = gate, .alpha = 2, .beta = 7);
    ASSERT_NEAR(tx__ref_load(y, 0), 5, 0, "behind a closed gate");
    tx__ref_store(gate, 1, 0.25);
    tx__ref_store(gate, 2, 1);
    RUN(&ctx, blend, .y = y, .x = x, .z = y, .gate = gate, .alpha = 2, .beta = 7);
    ASSERT_NEAR(tx__ref_load(y, 0), 36.5, 0, "with the gate's factor");
    RUN(&ctx, blend, .y = y, .x = x, .gate = gate, .alpha = 2, .only_go = true);
    ASSERT_NEAR(tx__ref_load(y, 0), 6, 0, "without it");
    tx__ref_store(norm, 0, 3);
    tx__ref_store(norm, 1, 4);
    RUN(&ctx, blend, .y = y, .x = x, .norm = norm, .alpha = 2);
    ASSERT_NEAR(tx__ref_load(y, 0), 1.2, 1e-15, "divided");
    tx__ref_store(norm, 0, 0);
    tx__ref_store(norm, 1, 0);
    RUN(&ctx, blend, .y = y, .x = x, .norm = norm, .alpha = 2);
    ASSERT_NEAR(tx__ref_load(y, 0), 6 / TX_BLEND_LEAST, 1, "by the least");
    pool_free();
}

#endif
