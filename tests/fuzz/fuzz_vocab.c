/* fuzz_vocab.c - a hostile vocab.json next to a merges.txt without merges. What opens can encode every byte. */
#include "fuzz.h"
#include "triax/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char merges[] = "#version: 0.2\nt h\nth e\n";
    tx_tokenizer *t;
    const char *vocab_file = fuzz_file("vocab.json", data, size);
    const char *merge_file = fuzz_file("merges.txt", merges, size % 2 ? sizeof merges - 1 : 14); /* with or without */
    if (!fuzz_ok(tx_tokenizer_open_gpt2(&t, vocab_file, merge_file))) return 0;
    char every[256];
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    for (int b = 0; b < 256; b++) every[b] = (char)b;
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, every, sizeof every, &ids)));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, ids.id, ids.n, &back)));
    FUZZ_CHECK(back.n == sizeof every && !memcmp(back.data, every, sizeof every));
    FUZZ_CHECK(tx_tokenizer_eod(t) < tx_tokenizer_vocab_size(t));
    tx_bytes_free(&back);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return 0;
}
