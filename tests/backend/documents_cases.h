/* documents_cases.h - documents in one row of attention, behind op_cases.h: they do not see each other. */
#ifndef TX_TESTS_BACKEND_DOCUMENTS_CASES_H
#define TX_TESTS_BACKEND_DOCUMENTS_CASES_H

/* Attention of a row of two samples, in groups of two heads, and its gradients. */
typedef struct row {
    tx_tensor all, grad, y, lse, dy; /* q, k and v side by side; what they get; o, log-sum-exp, what o gets */
} row;

enum { ROW_B = 2, ROW_GROUPS = 2, ROW_R = 2, ROW_HEADS = ROW_GROUPS * ROW_R };

static void attend_row(tx_ctx *c, row *x, tx_tensor first_key, int64_t window)
{
    int64_t s = x->all.dim[0], d = x->all.dim[4];
    qkv in = fused_qkv(x->all, s, ROW_B, ROW_GROUPS, ROW_R, d), g;
    x->grad = ZEROS(V, s, ROW_B, ROW_GROUPS, ROW_R + 2, d);
    x->y = ZEROS(V, s, ROW_B, ROW_GROUPS, ROW_R, d);
    x->lse = ZEROS(TX_F32, ROW_B, ROW_GROUPS, ROW_R, s);
    g = fused_qkv(x->grad, s, ROW_B, ROW_GROUPS, ROW_R, d);
    const tx_attention_kind kind = { .window = window, .off_by_one = window > 0 };
    const tx_alibi alibi = { window ? ROW_HEADS : 0, 0 };
    RUN(c, attention_fwd, .o = x->y, .lse = x->lse, .q = in.q, .k = in.k, .v = in.v, .scale = 0.3, .causal = true,
        .first_key = first_key, .alibi = alibi, .kind = kind);
    RUN(c, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = x->dy, .o = x->y, .lse = x->lse, .q = in.q, .k = in.k,
        .v = in.v, .scale = 0.3, .causal = true, .first_key = first_key, .alibi = alibi, .kind = kind);
}

/* Positions begin .. begin + n of `whole` are the n of `part`. */
static void assert_rows_are(const row *whole, const row *part, int64_t begin)
{
    int64_t n = part->y.dim[0], s = whole->y.dim[0];
    assert_same_bits(tx_slice_rows(whole->y, begin, n), part->y);
    assert_same_bits(tx_slice_rows(whole->grad, begin, n), part->grad);
    for (int64_t i = 0; i < ROW_B * ROW_HEADS * n; i++)
        assert_true(((float *)whole->lse.data)[i / n * s + begin + i % n] == ((float *)part->lse.data)[i]);
}

static tx_tensor copy_of(tx_tensor x)
{
    tx_tensor y = zeros(x.dtype, x.n_dims, x.dim);
    memcpy(y.data, x.data, (size_t)tx_numel(x) * tx_dtype_size(x.dtype));
    return y;
}

/* A document has the bits that it has in a row of its own, with NaN in all others as well. */
static void run_documents(const char *isa)
{
    static const int64_t length[] = { 5, 64, 7, 130, 65, 300, 20, 6 };
    enum { N = sizeof length / sizeof *length, S_ROW = 5 + 64 + 7 + 130 + 65 + 300 + 20 + 6 };
    tx_ctx c;
    if (!open_isa(&c, isa, 2)) return;
    for (int v = 0; v < 3; v++) {
        int64_t d = v == 1 ? 64 : 20, window = v == 2 ? 40 : 0;
        row x = { .all = RAND(V, S_ROW, ROW_B, ROW_GROUPS, ROW_R + 2, d),
                  .dy = RAND(V, S_ROW, ROW_B, ROW_GROUPS, ROW_R, d) };
        tx_tensor first_key = ZEROS(TX_I32, S_ROW, ROW_B);
        for (int64_t i = 0, begin = 0; i < N; begin += length[i++])
            for (int64_t j = 0; j < length[i] * ROW_B; j++)
                ((int32_t *)first_key.data)[begin * ROW_B + j] = (int32_t)begin;
        attend_row(&c, &x, first_key, window);
        for (int64_t i = 0, begin = 0; i < N; begin += length[i++]) {
            row alone = { .all = copy_of(tx_slice_rows(x.all, begin, length[i])),
                          .dy = copy_of(tx_slice_rows(x.dy, begin, length[i])) };
            attend_row(&c, &alone, (tx_tensor){ 0 }, window);
            assert_rows_are(&x, &alone, begin);
            if (i % 3 != 1) continue;
            row among = { .all = copy_of(x.all), .dy = x.dy };
            int64_t n = tx_numel(x.all) / S_ROW;
            for (int64_t at = 0; at < S_ROW * n; at++)
                if (at < begin * n || at >= (begin + length[i]) * n) tx__ref_store(among.all, at, NAN);
            attend_row(&c, &among, first_key, window);
            assert_rows_are(&among, &alone, begin);
        }
        pool_free();
    }
    tx_ctx_deinit(&c);
}

#endif
