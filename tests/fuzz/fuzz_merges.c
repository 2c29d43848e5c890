/* fuzz_merges.c - a hostile merges.txt next to a good vocab.json. What opens gives every text back, short words (an
 * array of symbols) and long ones (a heap) alike. */
#include "fuzz.h"
#include "triax/token.h"

static void round_trip(const tx_tokenizer *t, const char *text, size_t n)
{
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, text, n, &ids)));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, ids.id, ids.n, &back)));
    FUZZ_CHECK(back.n == n && (!n || !memcmp(back.data, text, n)));
    tx_bytes_free(&back);
    tx_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "the theatre, nothing; thethethethethethethethethethethethethethethethethethetheinginging";
    tx_tokenizer *t;
    const char *merge_file = fuzz_file("merges.txt", data, size);
    if (!fuzz_ok(tx_tokenizer_open_gpt2(&t, fuzz_data("tiny/tiny-vocab.json"), merge_file))) return 0;
    round_trip(t, text, sizeof text);
    round_trip(t, (const char *)data, size);
    tx_tokenizer_close(t);
    return 0;
}
