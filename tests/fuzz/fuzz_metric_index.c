/* fuzz_metric_index.c - hostile files of a metric: 2 bytes length of the .idx (little-endian), the .idx, the .bin. All
 * that an opened pair says is there can be read. */
#include "data/metric_index.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    size_t n_idx = (size_t)data[0] | (size_t)data[1] << 8, rest = size - 2;
    if (n_idx > rest) n_idx = rest;
    char prefix[96];
    tx_metric_index ix = { 0 };
    int64_t n = 0, sum = 0;
    fuzz_file("data.bin", data + 2 + n_idx, rest - n_idx);
    snprintf(prefix, sizeof prefix, "%s", fuzz_file("data.idx", data + 2, n_idx));
    prefix[strlen(prefix) - 4] = 0;
    fuzz_log_on();
    if (fuzz_ok(tx_metric_index_open(&ix, prefix))) {
        for (int64_t i = 0; i < ix.n_rows; i++) n += tx_metric_index_row(&ix, i);
        FUZZ_CHECK(n == ix.n_values);
        for (int64_t k = 0; k < n; k++) sum ^= tx_metric_index_at(&ix, k);
    }
    tx_metric_index_close(&ix);
    return (int)(sum & 0);
}
