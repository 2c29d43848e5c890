/* fuzz_tiktoken.c - a hostile vocabulary of tiktoken, lines or a JSON list: whatever opens encodes the file itself and
 * decodes it to the same bytes. The first byte chooses pattern and number of special tokens. */
#include "fuzz.h"
#include "token/tokenizer_kinds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_tokenizer *t;
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    char hash[33];
    if (!size) return 0;
    tx_tokenizer_files f = { .model_file = fuzz_file("tiktoken", data + 1, size - 1) };
    f.tiktoken.pattern = (enum tx_tiktoken_pattern)(1 + data[0] % 8);
    f.tiktoken.n_special = data[0] / 8;
    if (!fuzz_ok(tx_tokenizer_open_type(&t, TX_TOKENIZER_TIKTOKEN, &f))) return 0;
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, (const char *)data, size, &ids)));
    for (size_t i = 0; i < ids.n; i++) FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] < tx_tokenizer_vocab_size(t));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, ids.id, ids.n, &back)));
    FUZZ_CHECK(back.n == size && !memcmp(back.data, data, size));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_hash(t, hash)));
    tx_bytes_free(&back);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return 0;
}
