/* fuzz_null.c - the null tokenizer's text. Accepted ids come back as text that is the same ids. */
#include "fuzz.h"
#include "triax/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tx_tokenizer *t[2];
    for (int i = 0; i < 2; i++) {
        tx_ids ids = { 0 }, again = { 0 };
        tx_bytes text = { 0 };
        if (!t[i]) FUZZ_CHECK(!tx_tokenizer_open_null(&t[i], i ? INT32_MAX - 1 : 1));
        if (fuzz_ok(tx_tokenizer_encode(t[i], (const char *)data, size, &ids))) {
            FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t[i], ids.id, ids.n, &text)));
            FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t[i], text.data ? text.data : "", text.n, &again)));
            FUZZ_CHECK(ids.n == again.n && (!ids.n || !memcmp(ids.id, again.id, ids.n * sizeof *ids.id)));
        } else {
            FUZZ_CHECK(ids.n == 0);
        }
        tx_bytes_free(&text);
        tx_ids_free(&again);
        tx_ids_free(&ids);
    }
    return 0;
}
