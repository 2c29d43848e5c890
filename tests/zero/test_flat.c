/* labels: unit */
/* How buckets divide a table: every element is kept by one rank, parts are even, and whole blocks of the norm. */
#include "support.h"

#include "zero/flat.h"

enum { LAYERS = 5 };

static const tx_param_decl words[] = { { "words", "V,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 } };
static const tx_param_decl layer[] = {
    { "norm", "h", TX_INIT_ONE, TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "up", "f,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 },
    { "bias", "f", TX_INIT_ZERO, TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "down", "h,f", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 },
};

/* Words, five layers in two chunks, and a head; 50 x 24 and 24 x 90 elements. */
static tx_params table(void)
{
    const tx_dims d = { .h = 24, .f = 90, .V = 50, .v_logical = 47 };
    tx_params ps = { 0 };
    ASSERT_OK(tx_params_begin_unit(&ps, TX_UNIT_WORDS, 0));
    ASSERT_OK(tx_params_declare(&ps, "", words, 1, NULL, &d));
    for (int i = 0; i < LAYERS; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "%d.", i);
        ASSERT_OK(tx_params_begin_unit(&ps, TX_UNIT_LAYER, i > 2));
        ASSERT_OK(tx_params_declare(&ps, prefix, layer, 4, NULL, &d));
    }
    ASSERT_OK(tx_params_begin_unit(&ps, TX_UNIT_HEAD, 1));
    ASSERT_OK(tx_params_declare(&ps, "head.", words, 1, NULL, &d));
    return ps;
}

/* Which group each row is in. */
typedef int group_of(const tx_param *p);

static int all_in_data(const tx_param *p)
{
    (void)p;
    return TX_GROUP_DATA;
}

/* As experts will have it: a layer's matrices are shared with fewer ranks than the rest. */
static int matrices_apart(const tx_param *p)
{
    return p->n_dims == 2 && !strstr(p->name, "words") ? TX_GROUP_MODEL : TX_GROUP_DATA;
}

/* Fragments of all ranks of a bucket's group, in the order of the ranks within a bucket, cover every parameter once.
 * @n [2] ranks of the groups DATA and MODEL */
static void assert_divided(const tx_flat_spec *spec, group_of *group, const int *n)
{
    int64_t next[2 + 4 * LAYERS] = { 0 };
    int most = n[0] > n[1] ? n[0] : n[1];
    tx_params ps = table();
    for (int row = 0; row < ps.n; row++) ps.param[row].reduce_group = group(&ps.param[row]);
    for (int rank = 0; rank < most; rank++) {
        tx_flat f;
        tx_flat_spec s = *spec;
        int64_t kept = 0;
        s.ranks[TX_GROUP_DATA] = (tx_flat_ranks){ .n = n[0], .rank = rank % n[0] };
        s.ranks[TX_GROUP_MODEL] = (tx_flat_ranks){ .n = n[1], .rank = rank % n[1] };
        ASSERT_OK(tx_flat_open(&f, &ps, &s));
        for (int k = 0; k < f.n_buckets; k++) {
            const tx_bucket *b = &f.bucket[k];
            int n_ranks = n[b->group == TX_GROUP_MODEL];
            assert_true(b->numel % (n_ranks * spec->align) == 0 && b->offset % spec->align == 0);
            assert_int_equal(b->at, kept);
            kept += tx_bucket_part(&f, b);
            for (int i = b->first; i < b->end; i++) {
                const tx_fragment *q = &f.kept.fragment[i];
                const tx_param *p = &ps.param[q->row];
                assert_int_equal(f.of_row[q->row], k);
                assert_int_equal(p->reduce_group, b->group);
                assert_int_equal(q->first % TX_PARAM_ALIGN, 0);
                assert_int_equal(q->at - b->at, p->offset + q->first - tx_bucket_own(&f, b));
                assert_true(q->at + q->numel <= b->at + tx_bucket_part(&f, b));
                if (rank >= n_ranks) continue; /* it has the same as rank % n_ranks */
                assert_int_equal(q->first, next[q->row]);
                next[q->row] += q->numel;
            }
        }
        assert_int_equal(f.kept.numel, kept);
        assert_true(kept > 0);
        tx_flat_close(&f);
    }
    for (int row = 0; row < ps.n; row++) assert_int_equal(next[row], ps.param[row].numel);
    tx_params_deinit(&ps);
}

static void every_element_is_kept_once(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n++)
        for (int64_t size = 1; size <= 100000; size *= 10)
            for (int each = 0; each < 2; each++) {
                tx_flat_spec s = { .bucket_size = size, .align = TX_PARAM_ALIGN, .each = each };
                s.small = each ? size / 10 : 0;
                s.small_all = 500;
                for (int align = TX_PARAM_ALIGN; align <= 2048; align += 2048 - TX_PARAM_ALIGN) {
                    s.align = align;
                    assert_divided(&s, all_in_data, (const int[]){ n, 1 });
                    assert_divided(&s, matrices_apart, (const int[]){ n, 1 });
                    assert_divided(&s, matrices_apart, (const int[]){ n, 3 });
                }
            }
}

/* Rows of two groups share no bucket, and layers of two groups no pool buffer. */
static void buckets_are_of_one_group(void **state)
{
    (void)state;
    tx_params ps = table();
    tx_flat f;
    tx_flat_spec s = { .bucket_size = 1 << 30, .align = TX_PARAM_ALIGN };
    for (int row = 0; row < ps.n; row++) ps.param[row].reduce_group = matrices_apart(&ps.param[row]);
    ASSERT_OK(tx_flat_open(&f, &ps, &s));
    assert_int_equal(f.n_buckets, 2 + 2 + 2); /* words and head; of either group the layers of two chunks */
    for (int row = 0; row < ps.n; row++) assert_int_equal(f.bucket[f.of_row[row]].group, ps.param[row].reduce_group);
    int up = f.of_row[2], norm = f.of_row[1];
    assert_int_equal(ps.param[2].reduce_group, TX_GROUP_MODEL);
    assert_int_not_equal(f.bucket[up].kind, f.bucket[norm].kind);
    assert_int_equal(f.bucket[up].n_units, 3);
    assert_int_equal(f.bucket[norm].n_units, 3);
    tx_flat_close(&f);
    tx_params_deinit(&ps);
}

static int n_buckets(tx_flat_spec s, int *n_stay)
{
    tx_params ps = table();
    tx_flat f;
    ASSERT_OK(tx_flat_open(&f, &ps, &s));
    int n = f.n_buckets;
    *n_stay = 0;
    for (int k = 0; k < n; k++) *n_stay += f.bucket[k].persistent;
    tx_flat_close(&f);
    tx_params_deinit(&ps);
    return n;
}

static void buckets_are_runs_of_a_chunks_layers(void **state)
{
    (void)state;
    int stay;
    tx_flat_spec s = { .bucket_size = 1, .align = TX_PARAM_ALIGN, .small_all = 1 << 30 };
    s.ranks[TX_GROUP_DATA].n = 2;
    assert_int_equal(n_buckets(s, &stay), 2 + LAYERS); /* a layer at least */
    s.bucket_size = 9000;                              /* two of 4434 */
    assert_int_equal(n_buckets(s, &stay), 2 + 2 + 1);
    s.bucket_size = 1 << 30; /* the model: but chunks, words and head are apart */
    assert_int_equal(n_buckets(s, &stay), 2 + 2);
    s.each = true;
    s.small = 100; /* norms and biases */
    assert_int_equal(n_buckets(s, &stay), 2 + LAYERS + 2);
    assert_int_equal(stay, 2);
    s.small_all = 24; /* one norm */
    assert_int_equal(n_buckets(s, &stay), 2 + LAYERS + 1);
    s.small = 1 << 30;
    s.small_all = 1 << 30;
    assert_int_equal(n_buckets(s, &stay), 4);
    assert_int_equal(stay, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_kept_once),
        cmocka_unit_test(buckets_are_of_one_group),
        cmocka_unit_test(buckets_are_runs_of_a_chunks_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
