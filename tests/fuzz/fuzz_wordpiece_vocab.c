/* fuzz_wordpiece_vocab.c - a hostile vocab.txt; what opens can encode the file itself and put its ids together again.
 */
#include "fuzz.h"
#include "triax/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_tokenizer *t;
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    if (!fuzz_ok(tx_tokenizer_open_wordpiece(&t, fuzz_file("vocab.txt", data, size), size % 2))) return 0;
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, (const char *)data, size, &ids)));
    for (size_t i = 0; i < ids.n; i++) FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] < tx_tokenizer_vocab_size(t));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, ids.id, ids.n, &back)));
    FUZZ_CHECK(tx_tokenizer_eod(t) == tx_tokenizer_special(t, "[EOS]"));
    tx_bytes_free(&back);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return 0;
}
