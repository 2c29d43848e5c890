/* fuzz_indexed.c - a hostile .idx and .bin: 2 bytes length of the .idx (little-endian), the .idx, the .bin. All that an
 * opened pair says is there can be read. */
#include "data/indexed.h"
#include "fuzz.h"

static void read_all(const tx_indexed *ix)
{
    int32_t ids[64];
    int64_t n_tokens = 0;
    FUZZ_CHECK(ix->n_items >= 0 && ix->n_docs >= 0 && ix->n_tokens >= 0);
    for (int64_t i = 0; i < ix->n_items; i++) {
        int64_t n = tx_indexed_size(ix, i), d = ix->n_docs ? tx_indexed_doc_of(ix, i) : -1;
        if (d >= 0) FUZZ_CHECK(tx_indexed_doc_begin(ix, d) <= i && i < tx_indexed_doc_begin(ix, d + 1));
        FUZZ_CHECK(n >= 0);
        for (int64_t at = 0; at < n; at += 64) {
            int64_t k = n - at < 64 ? n - at : 64;
            if (fuzz_ok(tx_indexed_get(ix, ids, i, at, k))) fuzz_ok(tx_indexed_check_vocab(ix, ids, i, at, k, 50257));
        }
        FUZZ_CHECK(!fuzz_ok(tx_indexed_get(ix, ids, i, n, 1)));
        n_tokens += n;
    }
    FUZZ_CHECK(n_tokens == ix->n_tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    size_t n_idx = (size_t)data[0] | (size_t)data[1] << 8, rest = size - 2;
    if (n_idx > rest) n_idx = rest;
    char prefix[96];
    tx_indexed ix = { 0 };
    fuzz_file("data.bin", data + 2 + n_idx, rest - n_idx);
    snprintf(prefix, sizeof prefix, "%s", fuzz_file("data.idx", data + 2, n_idx));
    prefix[strlen(prefix) - 4] = 0;
    fuzz_log_on();
    if (fuzz_ok(tx_indexed_open(&ix, prefix))) read_all(&ix);
    tx_indexed_close(&ix);
    return 0;
}
