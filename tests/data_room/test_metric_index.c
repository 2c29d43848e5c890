/* labels: unit fault */
/* Files of a metric: what is written is read again, of every type; damaged ones are refused. That they are DeepSpeed's
 * is tests/cli/test_analyze_data.sh. */
#include "support.h"

#include "data/metric_files.h"
#include "data/metric_index.h"

typedef struct numbers {
    const int64_t *x;
} numbers;

static int64_t number_at(const void *user, int64_t i)
{
    return ((const numbers *)user)->x[i];
}

static int64_t two_or_one(const void *user, int64_t row)
{
    (void)user;
    return row ? 1 : 2;
}

static void every_type_is_read_again(void **state)
{
    (void)state;
    static const struct {
        int64_t x[3];
        int dtype;
    } cases[] = {
        { { 0, 255, 7 }, 1 },
        { { -128, 127, 0 }, 2 },
        { { -129, 32767, 1 }, 3 },
        { { -1, 32768, 3 }, 4 },
        { { -1, 1LL << 31, 3 }, 5 },
        { { 256, 0, 65535 }, 6 },
        { { 65536, 0, UINT32_MAX }, 7 },
        { { 1LL << 32, 0, 1 }, 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const numbers n = { cases[i].x };
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        for (int k = 0; k < 3; k++) {
            if (n.x[k] < lo) lo = n.x[k];
            if (n.x[k] > hi) hi = n.x[k];
        }
        assert_int_equal(tx_metric_index_type(lo, hi), cases[i].dtype);
        const tx_metric_rows rows = { cases[i].dtype, 2, two_or_one, number_at, &n, i % 2 };
        tx_metric_index ix;
        ASSERT_OK(tx_metric_index_write(in_scratch("x"), &rows));
        ASSERT_OK(tx_metric_index_open(&ix, in_scratch("x")));
        assert_int_equal(ix.n_rows, 2);
        assert_int_equal(ix.n_values, 3);
        assert_int_equal(tx_metric_index_row(&ix, 0), 2);
        for (int k = 0; k < 3; k++) assert_true(tx_metric_index_at(&ix, k) == n.x[k]);
        tx_metric_index_close(&ix);
    }
}

/* Of 1000 samples with values 0, -3, 6, ...: rising, and the samples of each. */
static int64_t thirds(const void *user, int64_t i)
{
    (void)user;
    return (i % 2 ? -3 : 3) * (i % 300);
}

static void samples_are_sorted_by_value(void **state)
{
    (void)state;
    const tx_metric_values values = { 1000, thirds, NULL };
    tx_metric_index samples, metric, merged, of_sample;
    ASSERT_OK(tx_metric_files_write(in_scratch("m"), &values));
    ASSERT_OK(tx_metric_index_open(&samples, in_scratch("m_index_to_sample")));
    ASSERT_OK(tx_metric_index_open(&metric, in_scratch("m_index_to_metric")));
    ASSERT_OK(tx_metric_index_open(&merged, in_scratch("m_index_to_sample_percentile_merged")));
    ASSERT_OK(tx_metric_index_open(&of_sample, in_scratch("m_sample_to_metric")));
    assert_int_equal(metric.n_rows, 300);
    assert_int_equal(samples.n_rows, 300);
    assert_int_equal(merged.n_rows, 100);
    int64_t k = 0;
    for (int64_t row = 0; row < 300; row++) {
        if (row) assert_true(tx_metric_index_at(&metric, row) > tx_metric_index_at(&metric, row - 1));
        for (int64_t n = tx_metric_index_row(&samples, row), before = -1; n; n--, k++) {
            int64_t i = tx_metric_index_at(&samples, k);
            assert_true(i > before);
            assert_int_equal(thirds(NULL, i), tx_metric_index_at(&metric, row));
            assert_int_equal(tx_metric_index_at(&merged, k), i);
            before = i;
        }
    }
    assert_int_equal(k, 1000);
    for (int64_t i = 0; i < 1000; i++) assert_int_equal(tx_metric_index_at(&of_sample, i), thirds(NULL, i));
    tx_metric_index_close(&samples);
    tx_metric_index_close(&metric);
    tx_metric_index_close(&merged);
    tx_metric_index_close(&of_sample);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    const tx_metric_values values = { 40, thirds, NULL };
    tx_metric_index ix;
    ASSERT_OK(tx_metric_files_write(in_scratch("m"), &values));
    tx_str idx = read_file(in_scratch("m_index_to_sample.idx"));
    static const struct {
        size_t at; /* of the byte that is another one */
        const char *message;
    } cases[] = { { 0, "is no index of a metric" },
                  { 9, "has a version or type unknown here" },
                  { 17, "has a version or type unknown here" },
                  { 18, "is incomplete" },
                  { 26, "is incomplete" },
                  { 34 + 40 * 4, "has rows that do not lie one after the other" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        idx.data[cases[i].at] ^= 64;
        write_file(in_scratch("m_index_to_sample.idx"), idx.data, idx.len);
        ASSERT_FAILS(tx_metric_index_open(&ix, in_scratch("m_index_to_sample")), TX_ERR_FORMAT, cases[i].message);
        idx.data[cases[i].at] ^= 64;
    }
    write_file(in_scratch("m_index_to_sample.idx"), idx.data, idx.len);
    write_file(in_scratch("m_index_to_sample.bin"), idx.data, 39);
    ASSERT_FAILS(tx_metric_index_open(&ix, in_scratch("m_index_to_sample")), TX_ERR_FORMAT,
                 "m_index_to_sample.bin: has 39 bytes, and its .idx is of another size; copy both files again");
    tx_str_free(&idx);
    ASSERT_FAILS(tx_metric_index_open(&ix, in_scratch("none")), TX_ERR_NOTFOUND, "none.idx: no such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(every_type_is_read_again),
        SCRATCH_TEST(samples_are_sorted_by_value),
        SCRATCH_TEST(damaged_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
