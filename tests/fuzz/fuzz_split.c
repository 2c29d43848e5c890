/* fuzz_split.c - the text of --split. What is accepted divides the documents, in order. */
#include "data/split.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t n_docs[] = { 0, 1, 2, 1000, (int64_t)1 << 40 };
    char text[256];
    if (size >= sizeof text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t i = 0; i < sizeof n_docs / sizeof *n_docs; i++) {
        int64_t bound[TX_N_SPLITS + 1];
        if (!fuzz_ok(tx_split_bounds(bound, text, n_docs[i]))) continue;
        FUZZ_CHECK(bound[0] == 0 && bound[TX_N_SPLITS] == n_docs[i]);
        for (int k = 0; k < TX_N_SPLITS; k++) FUZZ_CHECK(bound[k] <= bound[k + 1]);
    }
    return 0;
}
