/* fuzz_gpt2.c - any bytes through GPT-2's tokenizer and back: decode(encode(x)) == x. */
#include "fuzz.h"
#include "token/unicode_split.h"
#include "triax/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tx_tokenizer *t;
    if (!t)
        FUZZ_CHECK(!tx_tokenizer_open_gpt2(&t, fuzz_data("token/gpt2-vocab.json"), fuzz_data("token/gpt2-merges.txt")));
    tx_ids ids = { 0 }, rest = { 0 };
    tx_bytes back = { 0 }, shown = { 0 };
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, (const char *)data, size, &ids)));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_decode(t, ids.id, ids.n, &back)));
    FUZZ_CHECK(back.n == size && (!size || !memcmp(back.data, data, size)));

    /* a text is its first piece and a text: the ids of the rest end the ids of the whole */
    size_t first = size ? tx__split_next(data, size) : 0;
    FUZZ_CHECK(first <= size && (first || !size));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, (const char *)data + first, size - first, &rest)));
    FUZZ_CHECK(rest.n <= ids.n);
    FUZZ_CHECK(!rest.n || !memcmp(rest.id, ids.id + (ids.n - rest.n), rest.n * sizeof *ids.id));

    /* and it is its pieces, each cut off by itself */
    rest.n = 0;
    for (size_t at = 0, n; at < size; at += n) {
        tx_ids piece = { 0 };
        n = tx__split_next(data + at, size - at);
        FUZZ_CHECK(fuzz_ok(tx_tokenizer_encode(t, (const char *)data + at, n, &piece)));
        FUZZ_CHECK(piece.n <= ids.n - rest.n && !memcmp(piece.id, ids.id + rest.n, piece.n * sizeof *ids.id));
        rest.n += piece.n;
        tx_ids_free(&piece);
    }
    FUZZ_CHECK(rest.n == ids.n);

    FUZZ_CHECK(fuzz_ok(tx_text_replace_invalid((const char *)data, size, &shown)));
    fuzz_check_utf8(shown.data ? shown.data : "", shown.n);
    tx_bytes_free(&shown);
    tx_bytes_free(&back);
    tx_ids_free(&rest);
    tx_ids_free(&ids);
    return 0;
}
