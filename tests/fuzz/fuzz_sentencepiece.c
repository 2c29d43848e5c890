/* fuzz_sentencepiece.c - a hostile SentencePiece model; what opens can encode the file itself, and every id has a text.
 */
#include "fuzz.h"
#include "triax/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_tokenizer *t;
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    tx_sentencepiece_use use = size ? (tx_sentencepiece_use)(data[size - 1] % 3) : TX_SENTENCEPIECE_GPT;
    if (!fuzz_ok(tx_tokenizer_open_sentencepiece(&t, fuzz_file("m.model", data, size), use, 3))) return 0;
    for (int pass = 0; pass < 2; pass++) { /* the second finds words in the cache */
        ids.n = back.n = 0;
        FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, (const char *)data, size, &ids)));
        for (size_t i = 0; i < ids.n; i++) FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] < tx_tokenizer_vocab_size(t));
        FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, ids.id, ids.n, &back)));
    }
    for (int32_t id = 0; id < tx_tokenizer_vocab_size(t); id++)
        FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, &id, 1, &back)));
    FUZZ_CHECK(tx_tokenizer_eod(t) < tx_tokenizer_vocab_size(t));
    tx_bytes_free(&back);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return 0;
}
