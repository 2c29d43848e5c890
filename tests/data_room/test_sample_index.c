/* labels: unit golden */
#include "data/sample_index.h"
#include "support.h"

static const int32_t sizes[5] = { 5, 3, 7, 4, 6 };

static const tx_sample_index_opts five_documents = {
    .sizes = { sizes, 5, TX_INT_I32 }, .seq_length = 4, .seed = 1234, .rule = TX_EPOCH_MICROSOFT
};

static void assert_index(const tx_sample_index *x, const int32_t *doc, const int64_t (*cut)[2], const int64_t *shuffle)
{
    assert_int_equal(x->n_epochs, 3);
    assert_int_equal(x->doc_idx.n, 15);
    assert_int_equal(x->n_samples, 18);
    for (int k = 0; k < 15; k++) assert_int_equal(tx_ints_at(&x->doc_idx, k), doc[k]);
    for (int k = 0; k < 19; k++) {
        assert_int_equal(tx_ints_at(&x->sample_idx, 2 * k), cut[k][0]);
        assert_int_equal(tx_ints_at(&x->sample_idx, 2 * k + 1), cut[k][1]);
    }
    for (int k = 0; k < 18; k++) assert_int_equal(tx_ints_at(&x->shuffle_idx, k), shuffle[k]);
}

static void last_epoch_apart(void **state)
{
    (void)state;
    static const int32_t doc[] = { 2, 2, 4, 1, 0, 3, 4, 0, 1, 3, 0, 4, 3, 2, 1 };
    static const int64_t cut[][2] = { { 0, 0 },  { 0, 4 },  { 1, 1 },  { 1, 5 },  { 2, 2 }, { 3, 0 }, { 4, 1 },
                                      { 5, 0 },  { 6, 0 },  { 6, 4 },  { 7, 2 },  { 8, 1 }, { 9, 2 }, { 10, 2 },
                                      { 11, 1 }, { 11, 5 }, { 12, 3 }, { 13, 3 }, { 14, 0 } };
    static const int64_t shuffle[] = { 7, 11, 2, 3, 1, 9, 5, 4, 0, 8, 6, 10, 17, 13, 16, 15, 12, 14 };
    tx_sample_index x;
    tx_sample_index_opts o = five_documents;
    o.n_samples = 14;
    log_begin();
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_true(x.last_epoch_apart);
    assert_index(&x, doc, cut, shuffle);
    ASSERT_CONTAINS(
        logged, "\n > last epoch number of samples (2) is smaller than 80% of number of samples per epoch (6), setting "
                "separate_last_epoch to True\n");
    ASSERT_CONTAINS(logged, "\n    total number of samples: 19\n    total number of epochs: 3\n");
    log_end();
    tx_sample_index_free(&x);
}

static void last_epoch_among_the_others(void **state)
{
    (void)state;
    static const int32_t doc[] = { 3, 1, 0, 2, 4, 2, 0, 2, 1, 4, 3, 4, 0, 1, 3 };
    static const int64_t cut[][2] = { { 0, 0 },  { 1, 0 },  { 2, 1 },  { 3, 0 },  { 3, 4 }, { 4, 1 }, { 4, 5 },
                                      { 5, 3 },  { 6, 0 },  { 6, 4 },  { 7, 3 },  { 8, 0 }, { 9, 1 }, { 9, 5 },
                                      { 10, 3 }, { 11, 3 }, { 12, 1 }, { 13, 0 }, { 14, 1 } };
    static const int64_t shuffle[] = { 7, 10, 4, 1, 11, 8, 3, 14, 13, 12, 17, 15, 2, 6, 9, 0, 5, 16 };
    tx_sample_index x;
    tx_sample_index_opts o = five_documents;
    o.n_samples = 17;
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_false(x.last_epoch_apart);
    assert_index(&x, doc, cut, shuffle);
    tx_sample_index_free(&x);

    /* 5 of 6 samples are needed of the last epoch: more than int(0.80 * 6) = 4, and not fewer than int(0.95 * 6) = 5 */
    o.rule = TX_EPOCH_BIGSCIENCE;
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_false(x.last_epoch_apart);
    tx_sample_index_free(&x);
    o.n_samples = 16; /* 4 of 6: where the two rules differ */
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_true(x.last_epoch_apart);
    tx_sample_index_free(&x);
    o.rule = TX_EPOCH_MICROSOFT;
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_false(x.last_epoch_apart);
    tx_sample_index_free(&x);
}

static void epochs_are_as_many_as_needed(void **state)
{
    (void)state;
    tx_sample_index_opts o = five_documents;
    for (int64_t n = 0; n < 100; n++) {
        tx_sample_index x;
        int64_t e = 1;
        while ((e * 25 - 1) / 4 < n) e++;
        o.n_samples = n;
        ASSERT_OK(tx_sample_index_build(&x, &o));
        assert_int_equal(x.n_epochs, e);
        assert_int_equal(x.n_samples, (e * 25 - 1) / 4);
        tx_sample_index_free(&x);
    }
}

static void empty_documents_are_stepped_over(void **state)
{
    (void)state;
    static const int32_t with_empty[6] = { 0, 9, 0, 0, 4, 0 };
    tx_sample_index_opts o = five_documents;
    tx_sample_index x;
    o.sizes = (tx_ints){ with_empty, 6, TX_INT_I32 };
    o.first_doc = 100;
    o.n_samples = 3;
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_int_equal(x.n_samples, 3);
    for (int64_t k = 1; k <= x.n_samples; k++)
        assert_in_range(tx_ints_at(&x.sample_idx, 2 * k + 1), 0,
                        with_empty[tx_ints_at(&x.doc_idx, tx_ints_at(&x.sample_idx, 2 * k)) - 100] - 1);
    tx_sample_index_free(&x);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const int32_t nothing[2] = { 0, 0 };
    tx_sample_index x = { 0 };
    tx_sample_index_opts o = five_documents;
    o.n_samples = INT64_MAX / 3;
    ASSERT_FAILS(tx_sample_index_build(&x, &o), TX_ERR_ARG, "more than can be counted");
    o = five_documents;
    o.sizes = (tx_ints){ nothing, 2, TX_INT_I32 };
    ASSERT_FAILS(tx_sample_index_build(&x, &o), TX_ERR_ARG, "none of the 2 documents has a token");
}

static void epochs_can_be_told(void **state)
{
    (void)state;
    tx_sample_index_opts o = five_documents;
    tx_sample_index x, same;
    o.n_samples = 14;
    ASSERT_OK(tx_sample_index_build(&same, &o));
    o.exact_epochs = 3; /* what 14 samples need anyway */
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_int_equal(x.n_samples, same.n_samples);
    assert_memory_equal(x.shuffle_idx.data, same.shuffle_idx.data, 18 * 4);
    tx_sample_index_free(&x);
    tx_sample_index_free(&same);
    o.n_samples = 1000; /* one epoch is never divided: upstream asks nothing of the number of samples */
    o.exact_epochs = 1;
    ASSERT_OK(tx_sample_index_build(&x, &o));
    assert_int_equal(x.n_samples, 6);
    tx_sample_index_free(&x);
    o.exact_epochs = 3; /* 12 samples before the last epoch, 6 + 1 in it */
    for (o.n_samples = 0; o.n_samples < 30; o.n_samples++) {
        x = (tx_sample_index){ 0 };
        if (o.n_samples >= 12 && o.n_samples <= 19)
            ASSERT_OK(tx_sample_index_build(&x, &o));
        else
            ASSERT_FAILS(tx_sample_index_build(&x, &o), TX_ERR_ARG, "--train-data-exact-num-epochs 3");
        tx_sample_index_free(&x);
    }
}

/* ---- the three files ---- */

/* One row (columns 1) or pairs, as NumPy saves it. */
static const char *write_npy(const char *name, const char *type, const void *data, size_t rows, int columns)
{
    char shape[64], header[128];
    unsigned char file[4096] = "\x93NUMPY\x01";
    snprintf(shape, sizeof shape, columns == 1 ? "(%zu,)" : "(%zu, %d)", rows, columns);
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    size_t n_data = rows * (size_t)columns * (size_t)(type[2] - '0');
    memset(file + 10, ' ', 118);
    memcpy(file + 10, header, (size_t)n);
    file[8] = 118;
    file[127] = '\n';
    memcpy(file + 128, data, n_data);
    return write_file(in_scratch("%s", name), file, 128 + n_data);
}

static void files_are_read_as_built(void **state)
{
    (void)state;
    tx_sample_index built, x;
    tx_sample_index_opts o = five_documents;
    int64_t wide[38];
    o.n_samples = 14;
    ASSERT_OK(tx_sample_index_build(&built, &o));
    for (int k = 0; k < 38; k++) wide[k] = tx_ints_at(&built.sample_idx, k);
    const char *path[3] = { write_npy("doc", "<i4", built.doc_idx.data, 15, 1),
                            write_npy("sample", "<i8", wide, 19, 2), /* microsoft's type */
                            write_npy("shuffle", "<u4", built.shuffle_idx.data, 18, 1) };
    log_begin();
    ASSERT_OK(tx_sample_index_open(&x, &o, path));
    ASSERT_CONTAINS(logged, " > loading doc-idx mapping from ");
    ASSERT_CONTAINS(logged, "\n    total number of samples: 19\n    total number of epochs: 3\n");
    log_end();
    assert_int_equal(x.n_samples, 18);
    for (int k = 0; k < 38; k++) assert_int_equal(tx_ints_at(&x.sample_idx, k), wide[k]);
    for (int k = 0; k < 18; k++) assert_int_equal(tx_ints_at(&x.shuffle_idx, k), tx_ints_at(&built.shuffle_idx, k));
    tx_sample_index_free(&x);

    o.n_samples = 19; /* more than they hold */
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_ARG, "has 18 samples, the run needs 19");
    o.n_samples = 14;
    o.seq_length = 5;
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "row 1 is (0, 4), but the documents");
    o = five_documents;
    o.sizes.n = 4; /* a split without the last document */
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "is document 4, the split holds 0 to 3");
    o = five_documents;
    int32_t bad[19] = { 0 };
    memcpy(bad, built.shuffle_idx.data, 18 * 4);
    bad[7] = 18;
    path[2] = write_npy("bad", "<u4", bad, 18, 1);
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "entry 7 is sample 18, there are 18");
    bad[7] = -1;
    path[2] = write_npy("bad", "<i4", bad, 18, 1);
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "entry 7 is sample -1");
    path[2] = write_npy("bad", "<i4", bad, 17, 1);
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "do not belong together");
    path[1] = write_npy("flat", "<i8", wide, 38, 1);
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "two columns");
    path[1] = write_npy("sample", "<i8", wide, 19, 2);
    path[2] = write_npy("shuffle", "<u4", built.shuffle_idx.data, 18, 1);
    path[0] = write_npy("short", "<i4", built.doc_idx.data, 14, 1);
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_FORMAT, "behind the last document");
    path[0] = in_scratch("nothere");
    ASSERT_FAILS(tx_sample_index_open(&x, &o, path), TX_ERR_NOTFOUND, "nothere");
    tx_sample_index_free(&built);
}

/* ---- each allocation failing in turn ---- */

static void survives_out_of_memory(void **state)
{
    (void)state;
    tx_sample_index_opts o = five_documents;
    o.n_samples = 14;
    int failures = 0;
    for (int k = 0;; k++) {
        tx_sample_index x = { 0 };
        allocation_fails_at(k);
        tx_status st = tx_sample_index_build(&x, &o);
        if (!st) tx_sample_index_free(&x);
        allocations_succeed();
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        failures++;
    }
    assert_int_equal(failures, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_epoch_apart),
        cmocka_unit_test(last_epoch_among_the_others),
        cmocka_unit_test(epochs_are_as_many_as_needed),
        cmocka_unit_test(empty_documents_are_stepped_over),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(epochs_can_be_told),
        SCRATCH_TEST(files_are_read_as_built),
        cmocka_unit_test(survives_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
